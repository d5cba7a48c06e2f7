"""A stream of leased messages, iterated with `for`.

    with queue.consume() as messages:
        for message in messages:
            …
            message.ack()

Messages are fetched ahead on the client's loop, so each step here is a hop and no round trip. None
is taken from there before it is asked for: what nobody has looked at goes back, uncounted. Whoever
wants more of them at a time asks for them with `receive`.
"""

from types import TracebackType
from typing import Generic, Self, TypeVar

from penstock.client.blocking.loop_thread import LoopThread
from penstock.client.blocking.message import BlockingMessage, unwrap
from penstock.client.consumer import Consumer
from penstock.client.message import Message

T = TypeVar("T")


class BlockingConsumer(Generic[T]):
    """`Consumer` without `await`."""

    def __init__(self, consumer: Consumer[T], thread: LoopThread) -> None:
        self._consumer = consumer
        self._thread = thread

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._consumer.queue

    @property
    def waiting(self) -> int:
        """How many messages are here and were not handed out yet."""
        return self._consumer.waiting

    @property
    def paused(self) -> bool:
        """Nothing is fetched for now."""
        return self._consumer.paused

    def __enter__(self) -> Self:
        self._thread.run(self._consumer.__aenter__())
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
        message = self._thread.run(self._next())
        if message is None:
            raise StopIteration
        return BlockingMessage(message, self._thread)

    async def _next(self) -> Message[T] | None:
        # StopAsyncIteration cannot leave a coroutine, so the end is told by None.
        return await anext(self._consumer, None)

    def receive(self, max_messages: int = 1, *, wait: float = 0.0) -> list[BlockingMessage[T]]:
        """Up to so many of the messages that are here; waits for the first one if there is none."""
        found = self._thread.run(self._consumer.receive(max_messages, wait=wait))
        return [BlockingMessage(message, self._thread) for message in found]

    def pause(self) -> None:
        """Fetch no more, and give back what waits here, uncounted, until `resume`."""
        self._thread.run(self._consumer.pause())

    def resume(self) -> None:
        """Fetch again."""
        self._thread.call(self._consumer.resume)

    def give_up(self, message: BlockingMessage[T]) -> None:
        """Do not extend this message's lease any more."""
        (one,) = unwrap(message)
        self._thread.call(lambda: self._consumer.give_up(one))

    def close(self) -> None:
        """Stop fetching and give back what waits here. What was handed out can still be settled;
        its lease is not extended any more."""
        if not self._thread.is_closed():
            self._thread.run(self._consumer.close())
