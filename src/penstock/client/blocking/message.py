"""A leased message whose verdicts are given without `await`.

What it is can be read on any thread and costs no hop: nothing of it changes any more. What becomes
of it goes over the client's loop.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Generic, TypeVar

from penstock.client.blocking.loop_thread import LoopThread
from penstock.client.message import Message
from penstock.client.seconds import Seconds

T = TypeVar("T")


class BlockingMessage(Generic[T]):
    """`Message` without `await`."""

    __slots__ = ("_message", "_thread")

    def __init__(self, message: Message[T], thread: LoopThread) -> None:
        self._message = message
        self._thread = thread

    def __repr__(self) -> str:
        return f"Blocking{self._message!r}"

    # What it is.

    @property
    def id(self) -> str:
        """The same for everybody, at every delivery, and after a move to another queue and back."""
        return self._message.id

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self._message.queue

    @property
    def group(self) -> str:
        """The work group it was leased for."""
        return self._message.group

    @property
    def partition(self) -> int:
        """Of the queue."""
        return self._message.partition

    @property
    def offset(self) -> int:
        """Its place in its partition."""
        return self._message.offset

    @property
    def key(self) -> bytes | None:
        """What keeps messages together that belong together."""
        return self._message.key

    @property
    def raw(self) -> bytes:
        """The bytes of the body."""
        return self._message.raw

    @property
    def body(self) -> T:
        """The body, decoded; `InvalidBody` if the codec cannot."""
        return self._message.body

    @property
    def headers(self) -> Mapping[str, bytes | None]:
        """The headers, but for those that say how the queue handles the message."""
        return self._message.headers

    @property
    def timestamp_ms(self) -> int:
        """When it was sent, in milliseconds since 1970."""
        return self._message.timestamp_ms

    @property
    def sent_at(self) -> datetime:
        """When it was sent."""
        return self._message.sent_at

    @property
    def deliveries(self) -> int:
        """How often it has been delivered, this time included: 1 is the first time."""
        return self._message.deliveries

    @property
    def first_received_at(self) -> datetime:
        """When it was delivered for the first time."""
        return self._message.first_received_at

    @property
    def priority(self) -> int:
        """0 to 9, the higher the sooner."""
        return self._message.priority

    @property
    def delay(self) -> float:
        """How many seconds it had to wait at first, by its sender's wish."""
        return self._message.delay

    @property
    def deadline(self) -> datetime | None:
        """After which it is not worth delivering, by its sender's wish."""
        return self._message.deadline

    @property
    def dedup_id(self) -> str | None:
        """The id its sender gave it."""
        return self._message.dedup_id

    @property
    def message_group(self) -> str | None:
        """The group within which order holds."""
        return self._message.message_group

    @property
    def dead_reason(self) -> str | None:
        """In a dead-letter queue: why it died."""
        return self._message.dead_reason

    @property
    def lease_left(self) -> float:
        """For how many seconds it is still this worker's; 0 when the lease is over."""
        return self._message.lease_left

    @property
    def lease_until(self) -> datetime:
        """When the lease ends, by this machine's clock."""
        return self._message.lease_until

    @property
    def settled(self) -> bool:
        """A verdict on it was given and counted."""
        return self._message.settled

    def processing(self) -> AbstractContextManager[None]:
        """`with message.processing():` around the work on it makes a span of OpenTelemetry, of the
        trace that the message was sent in. Without an SDK it does nothing."""
        return self._message.processing()

    # What became of it.

    def ack(self) -> bool:
        """It is done and never comes back."""
        return self._thread.run(self._message.ack())

    def release(self, delay: Seconds | None = None) -> bool:
        """It is not done: deliver it again, after so long or as the retry policy says."""
        return self._thread.run(self._message.release(delay))

    def reject(self, reason: str = "") -> bool:
        """It can never be done: to the dead letters with it, and why."""
        return self._thread.run(self._message.reject(reason))

    def extend(self, lease: Seconds | None = None) -> bool:
        """It takes longer: the lease ends so long from now, or as long as it was at first."""
        return self._thread.run(self._message.extend(lease))


def unwrap(
    messages: BlockingMessage[T] | Sequence[BlockingMessage[T]],
) -> list[Message[T]]:
    """The messages of the async client behind one or several."""
    if isinstance(messages, BlockingMessage):
        return [messages._message]  # noqa: SLF001 - the twin of this very module's class.
    return [message._message for message in messages]  # noqa: SLF001
