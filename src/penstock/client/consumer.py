"""A stream of leased messages: fetched ahead, handed out one by one, their leases kept going.

    async with queue.consume() as messages:
        async for message in messages:
            …
            await message.ack()

While the program works on a message, the next ones are being fetched, so it need not wait for the
network; how many may wait here is bounded in number and size. Leases of messages that wait or are
being worked on are extended until they are settled. On leaving, messages that were not handed out
go back to the queue, uncounted, at once.
"""

import asyncio
from collections import deque
from types import TracebackType
from typing import Generic, Self, TypeVar

from penstock.client.guarantees import Guarantee
from penstock.client.message import Message
from penstock.client.seconds import Seconds
from penstock.client.worker.lease_keeper import LeaseKeeper
from penstock.client.worker.receiver import Receiver
from penstock.client.worker.settler import Settler
from penstock.core.errors import ClientClosed, InvalidRequest, PenstockError

T = TypeVar("T")

WAIT_SECONDS = 20.0
PREFETCH = 100


class Consumer(Generic[T]):
    """Messages of a queue, fetched ahead and handed out one by one, their leases kept going until
    they are settled; made by `Queue.consume`.

    It never ends by itself. A message that is not settled when the next one is asked for stays
    leased; leaving the loop gives back what was fetched ahead.

        async with queue.consume() as messages:
            async for message in messages:
                await message.ack()
    """

    def __init__(
        self,
        receiver: Receiver[T],
        settler: Settler,
        *,
        prefetch: int,
        prefetch_bytes_max: int,
        lease: Seconds | None,
        guarantee: Guarantee,
        extend_leases: bool,
        create: bool = False,
    ) -> None:
        if prefetch < 1:
            raise InvalidRequest(f"prefetch is {prefetch}; it must be 1 or more.")
        if guarantee is Guarantee.EXACTLY_ONCE:
            raise InvalidRequest(
                "exactly once needs a store of processed ids: receive at least once and wrap the"
                " work in `with store.once(message)`, or give a worker its store by processed=."
            )
        self._receiver = receiver
        self._settler = settler
        self._prefetch = prefetch
        self._bytes_max = prefetch_bytes_max
        self._lease = lease
        self._guarantee = guarantee
        self._create = create
        self._keeper = LeaseKeeper(settler) if extend_leases else None
        self._buffer: deque[Message[T]] = deque()
        self._buffered_bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._problem: BaseException | None = None
        self._closed = False
        self._paused = False
        self._news = asyncio.Event()
        """Messages came, or there will be none any more."""
        self._room = asyncio.Event()

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._receiver.queue

    @property
    def waiting(self) -> int:
        """The number of messages in the buffer that were not handed out yet."""
        return len(self._buffer)

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[T]:
        while True:
            if self._buffer:
                messages = self._pop(1)
                if self._guarantee is Guarantee.AT_MOST_ONCE:
                    messages = await self._acked(messages)
                for message in messages:
                    return message
            else:
                try:
                    await self._wait(None)
                except ClientClosed:
                    raise StopAsyncIteration from None

    async def receive(self, max_messages: int = 1, *, wait: float = 0.0) -> list[Message[T]]:
        """Return up to `max_messages` from the buffer; if it is empty, wait for the first one."""
        if not self._buffer:
            await self._wait(asyncio.get_running_loop().time() + wait)
        messages = self._pop(max_messages)
        if messages and self._guarantee is Guarantee.AT_MOST_ONCE:
            return await self._acked(messages)
        return messages

    def _pop(self, messages_max: int) -> list[Message[T]]:
        """The next ones of those that wait here."""
        count = min(messages_max, len(self._buffer))
        messages = [self._buffer.popleft() for _ in range(count)]
        self._buffered_bytes -= sum([len(message.raw) for message in messages])
        if len(self._buffer) <= self._prefetch // 2:
            self._room.set()
        return messages

    async def _acked(self, messages: list[Message[T]]) -> list[Message[T]]:
        """Ack the messages and return those whose ack counted: the others may be leased to another
        receiver."""
        if await self._settler.ack(messages) == len(messages):
            return messages
        return [message for message in messages if message.settled]

    async def _wait(self, until: float | None) -> None:
        """Wait for a message; one that cannot come raises the reason."""
        self._start()
        self._raise_problem()
        if self._closed:
            raise ClientClosed("the consumer is closed")
        self._news.clear()
        if until is None:
            await self._news.wait()
            return
        try:
            async with asyncio.timeout_at(until):
                await self._news.wait()
        except TimeoutError:
            pass
        if not self._buffer:
            self._raise_problem()

    def _raise_problem(self) -> None:
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem

    # Fetching.

    def _start(self) -> None:
        if self._task is None and not self._closed and not self._paused:
            self._task = asyncio.create_task(self._fetch())

    async def _fetch(self) -> None:
        try:
            while True:
                room = self._prefetch - len(self._buffer)
                if room < 1 or self._buffered_bytes >= self._bytes_max:
                    self._room.clear()
                    await self._room.wait()
                    continue
                await self._put(
                    await self._receiver.receive(
                        room, WAIT_SECONDS, self._lease, create=self._create
                    )
                )
        except PenstockError as error:
            self._problem = error  # For the next call; then it is tried again.
        finally:
            self._task = None
            self._news.set()

    async def _put(self, messages: list[Message[T]]) -> None:
        if self._keeper is not None:
            self._keeper.keep(messages)
        if self._closed or self._paused:
            await self._give_back(messages)
            return
        self._buffer += messages
        self._buffered_bytes += sum([len(message.raw) for message in messages])
        if messages:
            self._news.set()

    # Pausing and ending.

    async def pause(self) -> None:
        """Fetch no more, and give back what waits here, uncounted, until `resume`."""
        self._paused = True
        await self._stop_fetching()  # It could lease again what is given back now.
        await self._give_back_buffer()

    def resume(self) -> None:
        """Resume fetching after `pause`."""
        self._paused = False
        self._room.set()
        self._start()

    @property
    def paused(self) -> bool:
        """True between `pause` and `resume`."""
        return self._paused

    def give_up(self, message: Message[T]) -> None:
        """Do not extend this message's lease any more."""
        if self._keeper is not None:
            self._keeper.give_up(message)

    async def close(self) -> None:
        """Stop fetching and release the buffered messages. Messages that were handed out can still
        be settled, but their leases are no longer extended."""
        if self._closed:
            return
        self._closed = True
        self._news.set()
        await self._stop_fetching()
        await self._give_back_buffer()
        if self._keeper is not None:
            await self._keeper.close()
        await self._receiver.close()

    async def _stop_fetching(self) -> None:
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _give_back_buffer(self) -> None:
        waiting = list(self._buffer)
        self._buffer.clear()
        self._buffered_bytes = 0
        await self._give_back(waiting)

    async def _give_back(self, messages: list[Message[T]]) -> None:
        if messages:
            try:
                await self._settler.give_back(messages)
            except PenstockError:
                return  # Then their leases end by themselves.
