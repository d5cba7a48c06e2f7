"""Batches: one call for many messages, where a call costs more than a message.

A bulk insert or an API that takes a hundred items is ten times as fast as a hundred calls. The
processor gathers messages until it has `size` of them or the first one has waited for `wait`
seconds, hands them over in one call, and acknowledges them in one request.

    async def store(batch: Batch[Order]) -> None:
        await database.executemany(…, [message.body for message in batch.messages])

    await BatchProcessor(client.queue("orders", codec=Order), store, size=100, wait=1.0).run()

What becomes of a batch:

- The function returns: all are acknowledged, but those it has named with `batch.fail(message)`;
  these are released and come again, alone or in another batch.
- The function raises: which message caused it is unknown. The batch is halved, and each half is
  tried by itself, down to single messages: good ones are done, and the bad one is found in
  2·log₂(size) calls, released, and counted by the queue's `deliveries_max`. Who cannot bear that
  some messages are handed over twice, without having failed, says `halve=False`: then all are
  released.
- The lease must outlast the whole of it, or be extended: leave `extend_leases` on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from penstock.client.message import Message
from penstock.client.queue import Queue
from penstock.core.errors import PenstockError

_log = logging.getLogger(__name__)

T = TypeVar("T")
SIZE_MAX = 10_000
IDLE_WAIT_SECONDS = 20.0


@dataclass(slots=True)
class Batch(Generic[T]):
    """Messages that are handed over together."""

    messages: list[Message[T]]
    failed: dict[str, float | None] = field(default_factory=dict)
    """Ids of messages to be released, and after how many seconds."""

    def fail(self, message: Message[T], *, delay: float | None = None) -> None:
        """Mark a message as failed: it is delivered again, after a delay or as the queue's retry
        policy says."""
        self.failed[message.id] = delay


@dataclass(slots=True)
class BatchStatistics:
    """The counters of a batch processor."""

    batches: int = 0
    """The number of calls of the function."""
    done: int = 0
    released: int = 0


class BatchProcessor(Generic[T]):
    """Receives, hands over, settles."""

    def __init__(
        self,
        queue: Queue[T],
        process: Callable[[Batch[T]], Awaitable[None]],
        *,
        size: int = 100,
        wait: float = 1.0,
        lease: float | None = None,
        delay: float | None = None,
        halve: bool = True,
    ) -> None:
        assert 1 <= size <= SIZE_MAX, f"a batch has 1 to {SIZE_MAX} messages, not {size}"
        self.statistics = BatchStatistics()
        self._queue = queue
        self._process = process
        self._size = size
        self._wait = wait
        self._lease = lease
        self._delay = delay
        self._halve = halve

    async def run(self) -> None:
        """Process batches until cancelled. Messages that were collected and not processed are
        released."""
        async with self._queue.consume(
            prefetch=self._size, lease=self._lease, create=True
        ) as consumer:

            async def receive(room: int, wait: float) -> list[Message[T]]:
                return await consumer.receive(room, wait=wait)

            while True:
                gathered = await consumer.receive(1, wait=IDLE_WAIT_SECONDS)
                if not gathered:
                    continue
                try:
                    await self._fill(gathered, receive)
                except asyncio.CancelledError:
                    await self._queue.release(gathered, 0)
                    raise
                await self._hand_over(gathered)

    async def process_once(self, *, wait: float | None = None) -> int:
        """Gather and process one batch; how many messages were in it."""

        async def receive(room: int, wait: float) -> list[Message[T]]:
            return await self._queue.receive(room, wait=wait, lease=self._lease, create=True)

        gathered = await receive(self._size, self._wait if wait is None else wait)
        if not gathered:
            return 0
        if wait != 0:
            await self._fill(gathered, receive)
        await self._hand_over(gathered)
        return len(gathered)

    async def _fill(
        self,
        gathered: list[Message[T]],
        receive: Callable[[int, float], Awaitable[list[Message[T]]]],
    ) -> None:
        """Add more messages, until the batch is full or the time is up."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._wait
        while (room := self._size - len(gathered)) > 0 and (left := end - loop.time()) > 0:
            gathered += await receive(room, left)

    async def _hand_over(self, messages: list[Message[T]]) -> None:
        batch = Batch(messages)
        self.statistics.batches += 1
        try:
            await self._process(batch)
        except Exception as error:  # noqa: BLE001 - whatever a user's function may raise
            if len(messages) > 1 and self._halve:
                middle = len(messages) // 2
                await self._hand_over(messages[:middle])
                await self._hand_over(messages[middle:])
                return
            reason = f"{type(error).__name__}: {error}"
            _log.warning("%d messages of %s failed: %s", len(messages), self._queue.name, reason)
            for message in messages:
                batch.fail(message, delay=self._delay)
        await self._settle(batch)

    async def _settle(self, batch: Batch[T]) -> None:
        done = [message for message in batch.messages if message.id not in batch.failed]
        by_delay: dict[float | None, list[Message[T]]] = {}
        for message in batch.messages:
            if message.id in batch.failed:
                by_delay.setdefault(batch.failed[message.id], []).append(message)
        try:
            if done:
                self.statistics.done += await self._queue.ack(done)
            for delay, failed in by_delay.items():
                self.statistics.released += await self._queue.release(failed, delay)
        except PenstockError as error:
            _log.warning("%d messages come again: %s", len(batch.messages), error)
