"""A message that was leased: it is this worker's until the lease ends or it says what became of it.

    ack()        done: it never comes back
    release()    not done: it comes back, after a delay or as the queue's retry policy says
    reject()     it can never be done: it goes to the dead letters
    extend()     not done yet: the lease lasts longer

Each returns whether it counted. False means that the lease was over and another receiver has had
the message since, or that it is gone: the work may be done a second time.

Messages are made by the hundred thousand, so everything that is not always needed (id, headers, the
decoded body) is made when it is asked for.
"""

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from penstock.client.codecs import Codec
from penstock.client.dead_letter import DeadLetter, dead_letter_of
from penstock.client.receipts import LeaseReceipt, write_receipt
from penstock.client.seconds import Seconds
from penstock.client.tracer import Tracing
from penstock.core import delivery_headers
from penstock.core.clock import Clock
from penstock.core.errors import InvalidBody
from penstock.core.message import Header
from penstock.core.message_id import message_id
from penstock.core.queue_rules import DEFAULT_PRIORITY
from penstock.core.types import Offset, TopicId

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNREAD = object()


class Settling(Protocol):
    """Carries verdicts to the broker."""

    @property
    def tracing(self) -> Tracing: ...

    async def ack(self, messages: "Sequence[Message[Any]]") -> int: ...
    async def release(
        self, messages: "Sequence[Message[Any]]", delay: Seconds | None, reason: str
    ) -> int: ...
    async def reject(self, messages: "Sequence[Message[Any]]", reason: str) -> int: ...
    async def give_back(self, messages: "Sequence[Message[Any]]") -> int: ...
    async def extend(self, messages: "Sequence[Message[Any]]", lease: Seconds | None) -> int: ...


class Lease:
    """The state shared by messages of one partition that were leased together."""

    __slots__ = (
        "clock", "codec", "duration_ms", "epoch", "group", "held", "index", "queue", "settling",
        "topic_id", "until_ms",
    )  # fmt: skip

    def __init__(
        self,
        *,
        queue: str,
        topic_id: bytes,
        index: int,
        group: str,
        epoch: int,
        until_ms: int,
        duration_ms: int,
        codec: Codec[object],
        settling: Settling,
        clock: Clock,
    ) -> None:
        self.queue = queue
        self.topic_id = topic_id
        self.index = index
        self.group = group
        self.epoch = epoch
        self.until_ms = until_ms
        """The end of the lease, in the clock's monotonic time."""
        self.duration_ms = duration_ms
        self.codec = codec
        self.settling = settling
        self.clock = clock
        self.held: set[int] | None = None
        """The offsets whose leases are extended, if a lease keeper runs."""


class Grant(NamedTuple):
    """The state shared by neighbours of one lease: the number of deliveries and the time of the
    first."""

    lease: Lease
    deliveries: int
    first_ms: int


class Message(Generic[T]):
    """A leased message: this worker's until its lease ends, or until it is settled by `ack`,
    `release` or `reject`; `extend` gives it more time.

    `body` is decoded when it is first looked at, and `deliveries` counts attempts, this one
    included. A verdict that comes after the lease has ended changes nothing and returns False.

        for message in await queue.receive(10, wait=20):
            print(message.body, message.deliveries)
            await message.ack()
    """

    __slots__ = (
        "_body", "_grant", "_headers", "_value", "key", "offset", "settled", "timestamp_ms",
    )  # fmt: skip

    def __init__(
        self,
        grant: Grant,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Header, ...],
    ) -> None:
        self._grant = grant
        self.offset = offset
        """Its offset in its partition."""
        self.timestamp_ms = timestamp_ms
        """The time when it was sent, in milliseconds since 1970."""
        self.key = key
        """The key: messages of one key keep their order."""
        self._value = value
        self._headers = headers
        self._body: object = _UNREAD
        self.settled = False
        """A verdict on it was given and counted."""

    def __repr__(self) -> str:
        place = f"{self.queue}:{self.partition}:{self.offset}"
        return f"Message({place}, {len(self.raw)} bytes, delivery {self.deliveries})"

    # What it is.

    @property
    def lease(self) -> Lease:
        """The lease that it shares with other messages."""
        return self._grant.lease

    @property
    def deliveries(self) -> int:
        """The number of deliveries, including this one: 1 for the first."""
        return self._grant.deliveries

    @property
    def queue(self) -> str:
        """The name of the queue it came from."""
        return self.lease.queue

    @property
    def group(self) -> str:
        """The work group it was leased for."""
        return self.lease.group

    @property
    def partition(self) -> int:
        """The index of its partition."""
        return self.lease.index

    @property
    def id(self) -> str:
        """The message id: the same for every receiver and every delivery, also after a move to
        another queue and back."""
        moved = self._delivery_headers(delivery_headers.MESSAGE_ID)
        if moved is not None:
            return moved.decode(errors="replace")
        return message_id(TopicId(self.lease.topic_id), self.lease.index, Offset(self.offset))

    @property
    def raw(self) -> bytes:
        """The bytes of the body."""
        return self._value or b""

    @property
    def body(self) -> T:
        """The body, decoded; `InvalidBody` if the codec cannot."""
        if self._body is _UNREAD:
            if self._delivery_headers(delivery_headers.UNREADABLE) is not None:
                raise InvalidBody("The batch this message came in cannot be read.")
            value = self._value
            decode = self.lease.codec.decode
            self._body = None if value is None else decode(value, self._headers)
        return cast(T, self._body)

    @property
    def headers(self) -> Mapping[str, bytes | None]:
        """The headers, but for those that say how the queue handles the message."""
        return {
            name: value
            for name, value in self._headers
            if not name.startswith(delivery_headers.PREFIX)
        }

    @property
    def sent_at(self) -> datetime:
        """The producer's time, with time zone UTC."""
        return _EPOCH + timedelta(milliseconds=self.timestamp_ms)

    @property
    def first_received_at(self) -> datetime:
        """The time of its first delivery."""
        return _EPOCH + timedelta(milliseconds=max(0, self._grant.first_ms))

    @property
    def priority(self) -> int:
        """0 to 9, the higher the sooner."""
        return self._number(delivery_headers.PRIORITY, DEFAULT_PRIORITY)

    @property
    def delay(self) -> float:
        """The delay that its sender requested, in seconds."""
        at_ms = self._number(delivery_headers.DELIVER_AT, -1)
        if at_ms >= 0:
            return max(0, at_ms - self.timestamp_ms) / 1_000
        return self._number(delivery_headers.DELAY, 0) / 1_000

    @property
    def deadline(self) -> datetime | None:
        """After which it is not worth delivering, by its sender's wish."""
        at_ms = self._number(delivery_headers.EXPIRE_AT, -1)
        if at_ms < 0:
            ttl_ms = self._number(delivery_headers.TTL, -1)
            at_ms = self.timestamp_ms + ttl_ms if ttl_ms >= 0 else -1
        return None if at_ms < 0 else _EPOCH + timedelta(milliseconds=at_ms)

    @property
    def dedup_id(self) -> str | None:
        """The deduplication id that its sender chose."""
        return self._text(delivery_headers.DEDUP_ID)

    @property
    def message_group(self) -> str | None:
        """The group within which order holds."""
        return self._text(delivery_headers.GROUP)

    @property
    def dead_reason(self) -> str | None:
        """In a dead-letter queue: why it died."""
        return self._text(delivery_headers.DEAD_REASON)

    @property
    def dead_letter(self) -> DeadLetter | None:
        """In a dead-letter queue: where, when, why and after how many deliveries it died."""
        return dead_letter_of(self._headers)

    @property
    def receipt(self) -> str:
        """The lease as text, with which another program can settle the message: `queue.ack` and the
        others accept it in place of the message."""
        lease = self.lease
        return write_receipt(
            LeaseReceipt(
                lease.topic_id, lease.index, lease.group, lease.epoch, self.offset,
                lease.duration_ms,
            )
        )  # fmt: skip

    @property
    def lease_left(self) -> float:
        """For how many seconds it is still this worker's; 0 when the lease is over."""
        return max(0, self.lease.until_ms - self.lease.clock.monotonic_ms()) / 1_000

    @property
    def lease_until(self) -> datetime:
        """The time when the lease ends, by this machine's clock."""
        left_ms = max(0, self.lease.until_ms - self.lease.clock.monotonic_ms())
        return _EPOCH + timedelta(milliseconds=self.lease.clock.wall_ms() + left_ms)

    def _delivery_headers(self, name: str) -> bytes | None:
        for known, value in self._headers:
            if known == name:
                return value
        return None

    def _text(self, name: str) -> str | None:
        value = self._delivery_headers(name)
        return None if value is None else value.decode(errors="replace")

    def _number(self, name: str, default: int) -> int:
        value = self._delivery_headers(name)
        return int(value) if value is not None and value.isdigit() else default

    def processing(self) -> AbstractContextManager[None]:
        """`with message.processing():` around the work on it makes a span of OpenTelemetry, of the
        trace that the message was sent in. Without an SDK it does nothing. Workers do it by
        themselves."""
        return self.lease.settling.tracing.processing(self)

    # What became of it.

    async def ack(self) -> bool:
        """Acknowledge the message: it is done and is never delivered again."""
        return await _one(self.lease.settling.ack([self]))

    async def release(self, delay: Seconds | None = None, reason: str = "") -> bool:
        """Return the message for another delivery, after `delay` or as the retry policy says. If it
        was the last one, the message becomes a dead letter, which tells the reason."""
        return await _one(self.lease.settling.release([self], delay, reason))

    async def reject(self, reason: str = "") -> bool:
        """Make the message a dead letter, with a reason: it can never be processed."""
        return await _one(self.lease.settling.reject([self], reason))

    async def extend(self, lease: Seconds | None = None) -> bool:
        """Extend the lease to `lease` from now; by default to its first duration."""
        return await _one(self.lease.settling.extend([self], lease))


def headers_of(message: Message[Any]) -> tuple[Header, ...]:
    """All headers as they are stored, those included that say how a queue handles it."""
    return message._headers  # noqa: SLF001 - of this module's own class.


async def _one(counted: Awaitable[int]) -> bool:
    return await counted == 1
