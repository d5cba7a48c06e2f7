"""The death of a dead letter: where, when and why, read from its headers.

The broker writes these headers when it moves a message to a dead-letter queue (see
`core.moved_message`). Any producer can write them too, so what cannot be read is left out: a letter
is never refused for what it says about itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from penstock.client.descriptions import from_milliseconds
from penstock.core import delivery_headers
from penstock.core.message import Header
from penstock.core.move_filter import read_number


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """The death of a message that now lies in a dead-letter queue."""

    queue: str
    """The queue or topic it died in."""
    partition: int
    """-1 if the letter does not say; the same for the other numbers."""
    offset: int
    group: str
    """The work group that gave it up."""
    reason: str
    deliveries: int
    first_received_at: datetime | None
    died_at: datetime | None
    sent_at: datetime | None
    """The time when it was sent to the queue it died in."""


def dead_letter_of(headers: Sequence[Header]) -> DeadLetter | None:
    """Read the dead-letter headers of a message; None if it has none."""
    queue = _text(headers, delivery_headers.DEAD_TOPIC)
    if not queue:
        return None
    return DeadLetter(
        queue=queue,
        partition=_number(headers, delivery_headers.DEAD_PARTITION),
        offset=_number(headers, delivery_headers.DEAD_OFFSET),
        group=_text(headers, delivery_headers.DEAD_GROUP),
        reason=_text(headers, delivery_headers.DEAD_REASON),
        deliveries=_number(headers, delivery_headers.DEAD_DELIVERIES),
        first_received_at=_time(headers, delivery_headers.DEAD_FIRST_MS),
        died_at=_time(headers, delivery_headers.DEAD_MS),
        sent_at=_time(headers, delivery_headers.SENT_MS),
    )


def _value(headers: Sequence[Header], name: str) -> bytes | None:
    return next((value for known, value in headers if known == name), None)


def _text(headers: Sequence[Header], name: str) -> str:
    return (_value(headers, name) or b"").decode("utf-8", "replace")


def _number(headers: Sequence[Header], name: str) -> int:
    return read_number(_value(headers, name), -1)


def _time(headers: Sequence[Header], name: str) -> datetime | None:
    time_ms = _number(headers, name)
    if time_ms < 0:
        return None
    try:
        return from_milliseconds(time_ms)
    except OverflowError:
        return None
