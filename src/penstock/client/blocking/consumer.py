"""A stream of leased messages: fetched ahead, handed out one by one, their leases kept going.

    with queue.consume() as messages:
        for message in messages:
            …
            message.ack()

Generated from penstock.client.consumer by tests/house/blocking_client.py; do not edit.
`make generate` renews it.
"""

from types import TracebackType
from typing import Generic, Self, TypeVar

from penstock.client.blocking.iteration import next_of
from penstock.client.blocking.message import BlockingMessage
from penstock.client.blocking.twin import Twin, unwrap
from penstock.client.consumer import Consumer

T = TypeVar("T")


class BlockingConsumer(Twin[Consumer[T]], Generic[T]):
    """`Consumer` without `await`; made by `BlockingQueue.consume`."""

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._inner.queue

    @property
    def waiting(self) -> int:
        """The number of messages in the buffer that were not handed out yet."""
        return self._inner.waiting

    def __enter__(self) -> Self:
        self._thread.run(self._inner.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BlockingMessage[T]:
        found = next_of(self._inner, self._thread)
        return BlockingMessage(found, self._thread)

    def receive(self, max_messages: int = 1, *, wait: float = 0.0) -> list[BlockingMessage[T]]:
        """Return up to `max_messages` from the buffer; if it is empty, wait for the first one."""
        found = self._thread.run(self._inner.receive(max_messages, wait=wait))
        return [BlockingMessage(one, self._thread) for one in found]

    # Pausing and ending.

    def pause(self) -> None:
        """Fetch no more, and give back what waits here, uncounted, until `resume`."""
        self._thread.run(self._inner.pause())

    def resume(self) -> None:
        """Resume fetching after `pause`."""
        self._thread.call(self._inner.resume)

    @property
    def paused(self) -> bool:
        """True between `pause` and `resume`."""
        return self._inner.paused

    def give_up(self, message: BlockingMessage[T]) -> None:
        """Do not extend this message's lease any more."""
        self._thread.call(lambda: self._inner.give_up(unwrap(message)))

    def close(self) -> None:
        """Stop fetching and release the buffered messages. Messages that were handed out can still
        be settled, but their leases are no longer extended."""
        if not self._thread.is_closed():
            self._thread.run(self._inner.close())
