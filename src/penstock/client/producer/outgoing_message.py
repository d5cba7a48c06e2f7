"""A message on its way out: its body and everything a sender may say about it.

What a queue has to know about a message travels as headers (`core.delivery_headers`), so any
protocol's reader and writer can take part. They are made here out of the words of Python: seconds,
dates, texts.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from penstock.client.codecs import Codec
from penstock.client.seconds import Seconds, to_milliseconds
from penstock.core import delivery_headers
from penstock.core.errors import InvalidRequest
from penstock.core.message import Header, NewMessage
from penstock.core.queue_rules import PRIORITIES

T = TypeVar("T")

Key = str | bytes | None
Headers = Mapping[str, str | bytes | None]


@dataclass(frozen=True, slots=True)
class Outgoing(Generic[T]):
    """A message for `send_many` with options of its own."""

    body: T
    key: Key = None
    headers: Headers | None = None
    priority: int | None = None
    delay: Seconds | None = None
    deliver_at: datetime | None = None
    ttl: Seconds | None = None
    expire_at: datetime | None = None
    message_group: str | None = None
    dedup_id: str | None = None
    partition: int | None = None
    timestamp: datetime | None = None

    @property
    def is_plain(self) -> bool:
        """True if the message has only a body."""
        return (
            self.key is None
            and not self.headers
            and self.priority is None
            and self.delay is None
            and self.deliver_at is None
            and self.ttl is None
            and self.expire_at is None
            and self.message_group is None
            and self.dedup_id is None
            and self.partition is None
            and self.timestamp is None
        )

    @property
    def asks_queue(self) -> bool:
        """True if an option is set that only a queue with delivery headers honours."""
        return not (
            self.priority is None
            and self.delay is None
            and self.deliver_at is None
            and self.ttl is None
            and self.expire_at is None
        )

    def encode(self, codec: Codec[Any]) -> NewMessage:
        """Encode the message as it is stored."""
        value, headers = codec.encode(self.body)
        if self.headers:
            headers += tuple(_header(name, value) for name, value in self.headers.items())
        headers += tuple(self._all_headers())
        time_ms = -1 if self.timestamp is None else _milliseconds(self.timestamp, "timestamp")
        return NewMessage(value, encode_key(self.key), headers, time_ms)

    def _all_headers(self) -> list[Header]:
        own_headers: list[Header] = []
        if self.delay is not None and self.deliver_at is not None:
            raise InvalidRequest("delay and deliver_at say the same: give one of them.")
        if self.ttl is not None and self.expire_at is not None:
            raise InvalidRequest("ttl and expire_at say the same: give one of them.")
        if self.priority is not None:
            if not 0 <= self.priority < PRIORITIES:
                raise InvalidRequest(f"priority is {self.priority}, and goes from 0 to 9.")
            own_headers.append((delivery_headers.PRIORITY, b"%d" % self.priority))
        if self.delay is not None:
            own_headers.append(
                (delivery_headers.DELAY, b"%d" % to_milliseconds(self.delay, "delay"))
            )
        if self.deliver_at is not None:
            own_headers.append(
                (delivery_headers.DELIVER_AT, b"%d" % _milliseconds(self.deliver_at, "deliver_at"))
            )
        if self.ttl is not None:
            own_headers.append((delivery_headers.TTL, b"%d" % to_milliseconds(self.ttl, "ttl")))
        if self.expire_at is not None:
            own_headers.append(
                (delivery_headers.EXPIRE_AT, b"%d" % _milliseconds(self.expire_at, "expire_at"))
            )
        if self.message_group is not None:
            own_headers.append(
                (delivery_headers.GROUP, _encode("message_group", self.message_group))
            )
        if self.dedup_id is not None:
            own_headers.append((delivery_headers.DEDUP_ID, _encode("dedup_id", self.dedup_id)))
        return own_headers

    @property
    def order_key(self) -> bytes | None:
        """The bytes that keep messages in one partition: the message group, or else the key, or
        else the deduplication id, so that a duplicate reaches the partition of the first."""
        if self.message_group is not None:
            return _encode("message_group", self.message_group)
        if self.key is None and self.dedup_id is not None:
            return _encode("dedup_id", self.dedup_id)
        return encode_key(self.key)

    @property
    def lane(self) -> bytes | None:
        """Deprecated name of `order_key`."""
        warnings.warn("Outgoing.lane is now .order_key", DeprecationWarning, stacklevel=2)
        return self.order_key


def encode_key(key: Key) -> bytes | None:
    return None if key is None else _encode("key", key)


def _encode(name: str, value: str | bytes) -> bytes:
    """Encode text or bytes that a caller gave; errors name the option."""
    if type(value) is bytes:
        return value
    if not isinstance(value, str):
        raise InvalidRequest(f"{name} is {value!r}, and must be str or bytes.")
    try:
        return value.encode()
    except UnicodeEncodeError as problem:
        raise InvalidRequest(f"{name} cannot be written as UTF-8: {problem}.") from problem


def _header(name: str, value: str | bytes | None) -> Header:
    if name.startswith(delivery_headers.PREFIX):
        raise InvalidRequest(
            f"headers that begin with {delivery_headers.PREFIX} are Penstock's own; {name} has an"
            " option of its own, or none"
        )
    return name, None if value is None else _encode(f"header {name}", value)


def _milliseconds(when: datetime, name: str) -> int:
    if when.tzinfo is None:
        raise InvalidRequest(
            f"{name} has no time zone and is ambiguous: use datetime.now(UTC), for instance"
        )
    return int(when.astimezone(UTC).timestamp() * 1_000)
