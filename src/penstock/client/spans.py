"""The spans of a client, by OpenTelemetry's semantic conventions for messaging, version 1.44.

    send orders       PRODUCER   around a send; messages carry its context
    receive orders    CLIENT     around a receive that brought something; links to their contexts
    process orders    CONSUMER   around the work on one message; a child of its context
    ack orders        CLIENT     around a verdict (ack, release, reject); links to their contexts

A message carries the context it was made in as headers, `traceparent` and `tracestate` of W3C (and
whatever else the program's propagators write), so it is the same for clients of every protocol: in
Kafka they are record headers, in SQS message attributes. A message that has a `traceparent` already
keeps it. One that was sent through SQS by a program that traces with X-Ray has Amazon's own header,
`AWSTraceHeader`; it counts if there is no other.

Messages sent in one call share one context: that of the call. A receive is no child of what it
brought, because it may bring messages of many traces; it has links to them, of which the first
hundred count.

Beside them go a few numbers: see `meters`.

There is one version of these conventions here, so `OTEL_SEMCONV_STABILITY_OPT_IN` has nothing to
choose from.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter, time_ns
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TracerProvider,
    get_current_span,
    set_span_in_context,
    use_span,
)
from opentelemetry.util.types import AttributeValue

from penstock.client.message import Message, headers_of
from penstock.client.meters import Meters
from penstock.client.producer.outgoing_message import Outgoing
from penstock.client.record import Record, rows_of
from penstock.core.message import Header
from penstock.core.version import __version__

if TYPE_CHECKING:
    from penstock.client.sent_message import Sent

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
SYSTEM: Final = "penstock"
LINKS_MAX: Final = 100
PARENT: Final = "traceparent"
X_RAY: Final = "AWSTraceHeader"

Attributes = dict[str, AttributeValue]


class Spans:
    """Makes them, for one client and one provider."""

    def __init__(
        self, provider: TracerProvider, client_id: str, server: tuple[str, int] | None
    ) -> None:
        self._tracer: Tracer = provider.get_tracer(SYSTEM, __version__, schema_url=SCHEMA_URL)
        self._meters = Meters(SYSTEM, SCHEMA_URL)
        self._common: Attributes = {"messaging.system": SYSTEM}
        if client_id:
            self._common["messaging.client.id"] = client_id
        if server is not None:
            self._common |= {"server.address": server[0], "server.port": server[1]}

    # Sending.

    @contextmanager
    def sending(self, destination: str, count: int | None) -> Iterator[Span]:
        """Around a send; `count` is for one of many messages."""
        attributes = self._attributes("send", "send", destination)
        if count is not None:
            attributes["messaging.batch.message_count"] = count
        span = self._tracer.start_span(
            f"send {destination}", kind=SpanKind.PRODUCER, attributes=attributes
        )
        with self._measured(span, attributes, self._meters.operations):
            yield span
        self._meters.sent(1 if count is None else count, attributes)

    def sent(self, span: Span, sent: "Sent") -> None:
        """Record the place of a sent message."""
        if span.is_recording():
            span.set_attribute("messaging.message.id", sent.id)
            span.set_attribute("messaging.destination.partition.id", str(sent.partition))

    def carry(self, outgoing: Outgoing[Any]) -> Outgoing[Any]:
        """A message that carries the context of this moment, unless it has one."""
        headers = outgoing.headers or {}
        if PARENT in headers:
            return outgoing
        added: dict[str, str] = {}
        propagate.inject(added)
        return replace(outgoing, headers={**added, **headers}) if added else outgoing

    # Receiving.

    def now_ns(self) -> int:
        """The current time in the unit of spans."""
        return time_ns()

    def received(
        self, queue: str, group: str, messages: Sequence[Message[Any]], began_ns: int
    ) -> None:
        """A receive that began then has brought these messages."""
        attributes = self._attributes("receive", "receive", queue)
        attributes["messaging.consumer.group.name"] = group
        attributes["messaging.batch.message_count"] = len(messages)
        if len(messages) == 1:
            attributes["messaging.message.id"] = messages[0].id
            attributes["messaging.destination.partition.id"] = str(messages[0].partition)
        self._tracer.start_span(
            f"receive {queue}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=_links(messages),
            start_time=began_ns,
        ).end()
        self._received(attributes, len(messages), began_ns)

    def fetched(self, group: str | None, records: Sequence[Record[Any]], began_ns: int) -> None:
        """A fetch that began then has brought these records: a span for each topic."""
        by_topic: dict[str, list[Record[Any]]] = {}
        for record in records:
            by_topic.setdefault(record.topic, []).append(record)
        for topic, some in by_topic.items():
            attributes = self._attributes("receive", "receive", topic)
            attributes["messaging.batch.message_count"] = len(some)
            if group is not None:
                attributes["messaging.consumer.group.name"] = group
            self._tracer.start_span(
                f"receive {topic}",
                kind=SpanKind.CLIENT,
                attributes=attributes,
                links=_links(some),
                start_time=began_ns,
            ).end()
            self._received(attributes, len(some), began_ns)

    @contextmanager
    def processing(self, message: Message[Any] | Record[Any]) -> Iterator[None]:
        """Around the work on a message."""
        name = message.topic if isinstance(message, Record) else message.queue
        attributes = self._attributes("process", "process", name) | _place(message)
        made_in = creation_context(_headers(message))
        parent: Context | None = None
        if made_in is not None:
            parent = set_span_in_context(NonRecordingSpan(made_in))
        span = self._tracer.start_span(
            f"process {name}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=_surroundings(made_in),
        )
        with self._measured(span, attributes, self._meters.processing):
            yield

    # Settling.

    @contextmanager
    def settling(self, verdict: str, messages: Sequence[Message[Any]]) -> Iterator[None]:
        """Around a verdict on messages of one queue."""
        queue = messages[0].queue
        attributes = self._attributes(verdict, "settle", queue)
        if len(messages) == 1:
            attributes |= _place(messages[0])
        else:
            attributes["messaging.consumer.group.name"] = messages[0].group
            attributes["messaging.batch.message_count"] = len(messages)
        span = self._tracer.start_span(
            f"{verdict} {queue}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=_links(messages),
        )
        with self._measured(span, attributes, self._meters.operations):
            yield

    @contextmanager
    def _measured(self, span: Span, attributes: Attributes, histogram: Histogram) -> Iterator[None]:
        """Make a span the current one, and end it; how long it took, and what went wrong inside,
        is noted."""
        began = perf_counter()
        try:
            with _current(span, attributes):
                yield
        finally:
            self._meters.took(histogram, perf_counter() - began, attributes)

    def _received(self, attributes: Attributes, count: int, began_ns: int) -> None:
        seconds = max(0, time_ns() - began_ns) / 1e9
        self._meters.took(self._meters.operations, seconds, attributes)
        self._meters.consumed(count, attributes)

    def _attributes(self, name: str, kind: str, destination: str) -> Attributes:
        return {
            **self._common,
            "messaging.operation.name": name,
            "messaging.operation.type": kind,
            "messaging.destination.name": destination,
        }


# Contexts in messages.


def creation_context(headers: Sequence[Header]) -> SpanContext | None:
    """The context that a message was made in, if it says so."""
    if not headers:
        return None
    said: Mapping[str, str] = {
        name: value.decode("latin-1") for name, value in headers if value is not None
    }
    if PARENT not in said and X_RAY in said:
        return _x_ray_context(said[X_RAY])
    found = get_current_span(propagate.extract(said, Context())).get_span_context()
    return found if found.is_valid else None


def _x_ray_context(text: str) -> SpanContext | None:
    """`Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1`."""
    parts = dict(part.strip().partition("=")[::2] for part in text.split(";"))
    try:
        trace_id = int(parts.get("Root", "").removeprefix("1-").replace("-", ""), 16)
        span_id = int(parts.get("Parent", ""), 16)
    except ValueError:
        return None
    flags = TraceFlags.SAMPLED if parts.get("Sampled") == "1" else TraceFlags.DEFAULT
    found = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return found if found.is_valid else None


def _headers(message: Message[Any] | Record[Any]) -> Sequence[Header]:
    return rows_of(message) if isinstance(message, Record) else headers_of(message)


def _links(messages: Sequence[Message[Any] | Record[Any]]) -> list[Link]:
    """Messages that were sent together say the same, and it is read once."""
    found: dict[bytes | None, Link | None] = {None: None}
    for message in messages:
        headers = _headers(message)
        said = next((value for name, value in headers if name in (PARENT, X_RAY)), None)
        if said not in found:
            context = creation_context(headers)
            found[said] = None if context is None else Link(context)
            if len(found) > LINKS_MAX:
                break
    return [link for link in found.values() if link is not None]


def _surroundings(made_in: SpanContext | None) -> list[Link]:
    """Link the surrounding span, because processing belongs to the message's trace."""
    around = get_current_span().get_span_context()
    return [Link(around)] if made_in is not None and around.is_valid else []


def _place(message: Message[Any] | Record[Any]) -> Attributes:
    place: Attributes = {
        "messaging.message.id": message.id,
        "messaging.destination.partition.id": str(message.partition),
    }
    if isinstance(message, Message):
        place["messaging.consumer.group.name"] = message.group
        place["penstock.message.deliveries"] = message.deliveries
    return place


@contextmanager
def _current(span: Span, attributes: Attributes) -> Iterator[None]:
    """While a span is the current one; what goes wrong inside is noted, here and there."""
    with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except BaseException as error:
            attributes["error.type"] = type(error).__qualname__
            if span.is_recording():
                span.set_attribute("error.type", type(error).__qualname__)
                if isinstance(error, Exception):
                    span.record_exception(error)
                    span.set_status(Status(StatusCode.ERROR, str(error) or type(error).__name__))
            raise
