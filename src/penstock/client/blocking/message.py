"""A message that was leased: it is this worker's until the lease ends or it says what became of it.

    ack()        done: it never comes back
    release()    not done: it comes back, after a delay or as the queue's retry policy says
    reject()     it can never be done: it goes to the dead letters
    extend()     not done yet: the lease lasts longer

Generated from penstock.client.message by tests/house/blocking_client.py; do not edit.
`make generate` renews it.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Generic, TypeVar

from penstock.client.blocking.twin import Twin
from penstock.client.dead_letter import DeadLetter
from penstock.client.message import Message
from penstock.client.seconds import Seconds

T = TypeVar("T")


class BlockingMessage(Twin[Message[T]], Generic[T]):
    """`Message` without `await`."""

    __slots__ = ()

    @property
    def offset(self) -> int:
        """Its offset in its partition."""
        return self._inner.offset

    @property
    def timestamp_ms(self) -> int:
        """The time when it was sent, in milliseconds since 1970."""
        return self._inner.timestamp_ms

    @property
    def key(self) -> bytes | None:
        """The key: messages of one key keep their order."""
        return self._inner.key

    @property
    def settled(self) -> bool:
        """A verdict on it was given and counted."""
        return self._inner.settled

    def __repr__(self) -> str:
        return f"Blocking{self._inner!r}"

    # What it is.

    @property
    def deliveries(self) -> int:
        """The number of deliveries, including this one: 1 for the first."""
        return self._inner.deliveries

    @property
    def queue(self) -> str:
        """The name of the queue it came from."""
        return self._inner.queue

    @property
    def group(self) -> str:
        """The work group it was leased for."""
        return self._inner.group

    @property
    def partition(self) -> int:
        """The index of its partition."""
        return self._inner.partition

    @property
    def id(self) -> str:
        """The message id: the same for every receiver and every delivery, also after a move to
        another queue and back."""
        return self._inner.id

    @property
    def raw(self) -> bytes:
        """The bytes of the body."""
        return self._inner.raw

    @property
    def body(self) -> T:
        """The body, decoded; `InvalidBody` if the codec cannot."""
        return self._inner.body

    @property
    def headers(self) -> Mapping[str, bytes | None]:
        """The headers, but for those that say how the queue handles the message."""
        return self._inner.headers

    @property
    def sent_at(self) -> datetime:
        """The producer's time, with time zone UTC."""
        return self._inner.sent_at

    @property
    def first_received_at(self) -> datetime:
        """The time of its first delivery."""
        return self._inner.first_received_at

    @property
    def priority(self) -> int:
        """0 to 9, the higher the sooner."""
        return self._inner.priority

    @property
    def delay(self) -> float:
        """The delay that its sender requested, in seconds."""
        return self._inner.delay

    @property
    def deadline(self) -> datetime | None:
        """After which it is not worth delivering, by its sender's wish."""
        return self._inner.deadline

    @property
    def dedup_id(self) -> str | None:
        """The deduplication id that its sender chose."""
        return self._inner.dedup_id

    @property
    def message_group(self) -> str | None:
        """The group within which order holds."""
        return self._inner.message_group

    @property
    def dead_reason(self) -> str | None:
        """In a dead-letter queue: why it died."""
        return self._inner.dead_reason

    @property
    def dead_letter(self) -> DeadLetter | None:
        """In a dead-letter queue: where, when, why and after how many deliveries it died."""
        return self._inner.dead_letter

    @property
    def receipt(self) -> str:
        """The lease as text, with which another program can settle the message: `queue.ack` and the
        others accept it in place of the message."""
        return self._inner.receipt

    @property
    def lease_left(self) -> float:
        """For how many seconds it is still this worker's; 0 when the lease is over."""
        return self._inner.lease_left

    @property
    def lease_until(self) -> datetime:
        """The time when the lease ends, by this machine's clock."""
        return self._inner.lease_until

    def processing(self) -> AbstractContextManager[None]:
        """`with message.processing():` around the work on it makes a span of OpenTelemetry, of the
        trace that the message was sent in. Without an SDK it does nothing. Workers do it by
        themselves."""
        return self._inner.processing()

    # What became of it.

    def ack(self) -> bool:
        """Acknowledge the message: it is done and is never delivered again."""
        return self._thread.run(self._inner.ack())

    def release(self, delay: Seconds | None = None, reason: str = "") -> bool:
        """Return the message for another delivery, after `delay` or as the retry policy says. If it
        was the last one, the message becomes a dead letter, which tells the reason."""
        return self._thread.run(self._inner.release(delay, reason))

    def reject(self, reason: str = "") -> bool:
        """Make the message a dead letter, with a reason: it can never be processed."""
        return self._thread.run(self._inner.reject(reason))

    def extend(self, lease: Seconds | None = None) -> bool:
        """Extend the lease to `lease` from now; by default to its first duration."""
        return self._thread.run(self._inner.extend(lease))
