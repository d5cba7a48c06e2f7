"""The sender of `penstock produce`: a few batches in flight, in order, with an optional rate limit
and a progress bar on a terminal."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.client.producer.outgoing_message import Outgoing
from penstock.client.sent_message import SentMany
from penstock.core.plurals import counted

BATCHES_IN_FLIGHT = 4
PORTIONS_PER_SECOND = 10
"""With a rate, messages go out in this many portions each second."""

Batch = Sequence[bytes | Outgoing[bytes | None]]
SendMany = Callable[[Batch], Awaitable[SentMany]]


@dataclass(slots=True, kw_only=True)
class Tally:
    """The totals of acknowledged messages."""

    messages: int = 0
    size_bytes: int = 0
    duplicates: int = 0

    def sentence(self, seconds: float) -> str:
        """In one line: messages, bytes, seconds, and what that makes each second."""
        seconds = max(seconds, 0.001)
        again = f" ({counted(self.duplicates, 'duplicate')})" if self.duplicates else ""
        return (
            f"{counted(self.messages, 'message')}{again},"
            f" {counted(self.size_bytes, 'byte')} acknowledged in {seconds:.2f} s:"
            f" {self.messages / seconds:,.0f} messages/s,"
            f" {self.size_bytes / seconds / 1e6:,.1f} MB/s"
        )


async def send_batches(
    send_many: SendMany,
    batches: AsyncIterator[Batch],
    tally: Tally,
    *,
    advance: Callable[[int], None],
) -> None:
    """Send everything, a few batches at a time; raises what the first one that failed raised."""
    on_their_way: deque[asyncio.Task[None]] = deque()

    async def send(batch: Batch) -> None:
        done = await send_many(batch)
        size = sum(map(size_of, batch))
        tally.messages += len(batch)
        tally.size_bytes += size
        if any(map(_has_id, batch)):
            tally.duplicates += sum(one.duplicate for one in done)
        advance(size)

    try:
        async for batch in batches:
            if len(on_their_way) >= BATCHES_IN_FLIGHT:
                await on_their_way.popleft()
            on_their_way.append(asyncio.create_task(send(batch)))
        while on_their_way:
            await on_their_way.popleft()
    finally:
        # The outcome of the others is counted before the tally is printed.
        await asyncio.gather(*on_their_way, return_exceptions=True)


async def paced(batches: AsyncIterator[Batch], rate: float | None) -> AsyncIterator[Batch]:
    """Limit the rate of the messages, in messages per second."""
    if rate is None:
        async for batch in batches:
            yield batch
        return
    loop = asyncio.get_running_loop()
    portion = max(1, int(rate / PORTIONS_PER_SECOND))
    begun = loop.time()
    handed = 0
    async for batch in batches:
        for start in range(0, len(batch), portion):
            ahead = begun + handed / rate - loop.time()
            if ahead > 0:
                await asyncio.sleep(ahead)
            part = batch[start : start + portion]
            handed += len(part)
            yield part


def size_of(message: bytes | Outgoing[bytes | None]) -> int:
    """The size of the body and the key, in bytes."""
    if isinstance(message, bytes):
        return len(message)
    return len(message.body or b"") + len(message.key or b"")


@contextmanager
def byte_bar(told: str, total: int | None, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, if that is a terminal; gives a function that moves it on by some bytes."""
    talk = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} bytes"),
        TimeElapsedColumn(),
    )
    hidden = quiet or not talk.is_terminal
    with Progress(*columns, console=talk, disable=hidden, transient=True) as progress:
        task = progress.add_task(told, total=total)
        yield lambda size: progress.advance(task, size)


def _has_id(message: bytes | Outgoing[bytes | None]) -> bool:
    return not isinstance(message, bytes) and message.dedup_id is not None
