"""Messages as JSON.

A text is a text. Bytes that are none are `{"base64": "…"}`, in a body, a key and the value of a
header alike, and may be sent that way too. Headers are an object; a name that stands several times
in a message has an array. So nothing is lost on the way, in either direction.

    {"body": "hello", "key": "k", "headers": {"trace": "7", "raw": {"base64": "/w=="}}}

What a sender says about the handling of a message (`priority`, `delay_ms`, …) becomes the headers
of `core.delivery_headers`, as from every other port.
"""

from collections.abc import Iterable, Sequence

import msgspec

from penstock.core import delivery_headers
from penstock.core.errors import InvalidRequest
from penstock.core.message import Header, Message, NewMessage
from penstock.core.message_states import LEASED
from penstock.core.queue_rules import PRIORITIES
from penstock.engine.delivery.requests import BrowsedMessage, Delivery

_TIME_MS_MAX = 1 << 53
"""JSON's numbers are exact up to here."""


class Encoded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Binary data, as base64."""

    base64: bytes


Text = str | Encoded | None
HeaderValue = str | Encoded | list[str | Encoded | None] | None


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to be sent."""

    body: Text
    key: Text = None
    headers: dict[str, HeaderValue] = {}
    priority: int | None = None
    delay_ms: int | None = None
    deliver_at_ms: int | None = None
    ttl_ms: int | None = None
    expire_at_ms: int | None = None
    message_group: str | None = None
    deduplication_id: str | None = None

    @property
    def timing(self) -> list[str]:
        """The names of what it says about when it is to be delivered."""
        named = ("delay_ms", "deliver_at_ms", "ttl_ms", "expire_at_ms")
        return [name for name in named if getattr(self, name) is not None]


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a queue, whichever way one came by it."""

    partition: int
    offset: int
    state: str
    """ready, leased, delayed or dead; a message that was received is leased."""
    deliveries: int
    timestamp_ms: int
    first_received_ms: int = -1
    until_ms: int = -1
    """The time when its lease or delay ends, or when it died; -1 if there is none."""
    reason: str = ""
    receipt: str = ""
    """Of a message that was received: what it is acked by."""
    key: Text
    body: Text
    headers: dict[str, HeaderValue] = {}


def new_message(outgoing: OutgoingMessage, *, fifo: bool) -> NewMessage:
    """Build the message to be appended. The key of a FIFO queue's record is its message group."""
    key = data(outgoing.key)
    headers = [
        (name, data(one))
        for name, value in outgoing.headers.items()
        for one in (value if isinstance(value, list) else [value])
    ]
    group = outgoing.message_group
    if group is not None and fifo and key is None:
        key, group = group.encode(), None
    numbers = (
        ("priority", delivery_headers.PRIORITY, outgoing.priority, PRIORITIES - 1),
        ("delay_ms", delivery_headers.DELAY, outgoing.delay_ms, _TIME_MS_MAX),
        ("deliver_at_ms", delivery_headers.DELIVER_AT, outgoing.deliver_at_ms, _TIME_MS_MAX),
        ("ttl_ms", delivery_headers.TTL, outgoing.ttl_ms, _TIME_MS_MAX),
        ("expire_at_ms", delivery_headers.EXPIRE_AT, outgoing.expire_at_ms, _TIME_MS_MAX),
    )
    for name, header, number, most in numbers:
        if number is not None:
            if not 0 <= number <= most:
                raise InvalidRequest(f"{name} = {number} must be from 0 to {most}")
            headers.append((header, str(number).encode()))
    for header, text in (
        (delivery_headers.GROUP, group),
        (delivery_headers.DEDUP_ID, outgoing.deduplication_id),
    ):
        if text is not None:
            headers.append((header, text.encode()))
    return NewMessage(data(outgoing.body), key, tuple(headers))


def browsed(found: BrowsedMessage) -> StoredMessage:
    """A message that was looked at."""
    message = found.message
    return StoredMessage(
        partition=found.index,
        offset=message.offset,
        state=found.state,
        deliveries=found.deliveries,
        timestamp_ms=message.timestamp_ms,
        first_received_ms=found.first_received_ms,
        until_ms=found.until_ms,
        reason=found.reason,
        key=text(message.key),
        body=text(message.value),
        headers=header_texts(message.headers),
    )


def delivered(delivery: Delivery, receipt: str) -> StoredMessage:
    """Build the document of a received message."""
    message = delivery.message
    return StoredMessage(
        partition=delivery.index,
        offset=message.offset,
        state=LEASED,
        deliveries=delivery.deliveries,
        timestamp_ms=message.timestamp_ms,
        first_received_ms=delivery.first_received_ms,
        until_ms=delivery.until_ms,
        receipt=receipt,
        key=text(message.key),
        body=text(message.value),
        headers=header_texts(message.headers),
    )


def size_bytes(message: Message) -> int:
    """The approximate size of a message in an answer."""
    return len(message.value or b"") + len(message.key or b"") + 200


def data(text: Text) -> bytes | None:
    """The bytes that a text of JSON stands for."""
    return text.base64 if isinstance(text, Encoded) else None if text is None else text.encode()


def text(data: bytes | None) -> Text:
    """Bytes as JSON text, or as base64 if they are not UTF-8."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Encoded(data)


def header_texts(headers: Iterable[Header]) -> dict[str, HeaderValue]:
    """Headers as an object of JSON."""
    gathered: dict[str, list[str | Encoded | None]] = {}
    for name, value in headers:
        gathered.setdefault(name, []).append(text(value))
    return {name: _single(values) for name, values in gathered.items()}


def _single(values: Sequence[Text]) -> HeaderValue:
    return values[0] if len(values) == 1 else list(values)
