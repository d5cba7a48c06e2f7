"""OpenTelemetry's messaging metrics of a client.

    messaging.client.operation.duration   histogram, seconds   of send, receive, ack …
    messaging.client.sent.messages        counter              by destination
    messaging.client.consumed.messages    counter              by destination and group
    messaging.process.duration            histogram, seconds   of the work on a message

They go to whichever meter provider the program has set up, before or after; to none, if there is
none. Attributes are few, as a metric's must be: no ids, no partitions.
"""

from typing import Final

from opentelemetry.metrics import Histogram, get_meter_provider
from opentelemetry.util.types import AttributeValue

from penstock.core.version import __version__

BUCKETS_SECONDS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
)  # fmt: skip
_KEPT: Final = frozenset({
    "error.type",
    "messaging.consumer.group.name",
    "messaging.destination.name",
    "messaging.operation.name",
    "messaging.operation.type",
    "messaging.system",
    "server.address",
    "server.port",
})  # fmt: skip
_MESSAGES: Final = "{message}"

Attributes = dict[str, AttributeValue]


class Meters:
    """The instruments of one client."""

    def __init__(self, system: str, schema_url: str) -> None:
        meter = get_meter_provider().get_meter(system, __version__, schema_url)
        self.operations: Histogram = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="How long an operation took.",
            explicit_bucket_boundaries_advisory=BUCKETS_SECONDS,
        )
        self.processing: Histogram = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="How long the work on a message took.",
            explicit_bucket_boundaries_advisory=BUCKETS_SECONDS,
        )
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", _MESSAGES, "How many messages were sent."
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", _MESSAGES, "How many messages were received."
        )

    def took(self, histogram: Histogram, seconds: float, attributes: Attributes) -> None:
        """Record a duration."""
        histogram.record(seconds, kept(attributes))

    def sent(self, count: int, attributes: Attributes) -> None:
        """Count sent messages."""
        self._sent.add(count, kept(attributes))

    def consumed(self, count: int, attributes: Attributes) -> None:
        """Count received messages."""
        self._consumed.add(count, kept(attributes))


def kept(attributes: Attributes) -> Attributes:
    """Return those attributes of a span that a metric has."""
    return {name: value for name, value in attributes.items() if name in _KEPT}
