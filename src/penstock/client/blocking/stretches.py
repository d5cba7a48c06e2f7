"""An async iterator, iterated with `for`, a stretch of it for each hop to the loop.

For iterators that end by themselves, as a replay of a log does: what is taken ahead of need is
thrown away if nobody asks for it, and nobody waits for a stretch to fill.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from penstock.client.blocking.loop_thread import LoopThread
from penstock.core.errors import ClientClosed, PenstockError

T = TypeVar("T")

STRETCH_MAX = 500


def iterate(values: AsyncIterator[T], thread: LoopThread) -> Iterator[T]:
    """All values, in order. Whoever stops early ends the async iterator as well."""
    try:
        while True:
            stretch, end = thread.run(_take(values))
            yield from stretch
            if isinstance(end, StopAsyncIteration):
                return
            if end is not None:
                raise end  # After what came before it.
    finally:
        close: Any = getattr(values, "aclose", None)
        if close is not None:
            with suppress(ClientClosed):
                thread.run(close())


async def _take(values: AsyncIterator[T]) -> tuple[list[T], Exception | None]:
    """Up to so many values, and what ended them, if they have ended."""
    stretch: list[T] = []
    try:
        while len(stretch) < STRETCH_MAX:
            stretch.append(await anext(values))
    except (PenstockError, StopAsyncIteration) as end:
        return stretch, end
    return stretch, None
