"""Iterators on their way between the caller's thread and the client's loop."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar, overload

from penstock.client.blocking.loop_thread import LoopThread
from penstock.core.errors import ClientClosed, PenstockError

T = TypeVar("T")

BATCH_MAX = 500


def iterate(values: AsyncIterator[T], thread: LoopThread) -> Iterator[T]:
    """All values of an async iterator, in order, a batch of them for each hop to the loop.

    For iterators that end by themselves, as a replay of a log does: values read ahead are dropped
    if the caller stops early, and no batch waits to be filled. Stopping early also ends the async
    iterator."""
    try:
        while True:
            batch, end = thread.run(_take(values))
            yield from batch
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
    """Up to a batch of values, and what ended them, if they have ended."""
    batch: list[T] = []
    try:
        while len(batch) < BATCH_MAX:
            batch.append(await anext(values))
    except (PenstockError, StopAsyncIteration) as end:
        return batch, end
    return batch, None


def next_of(values: AsyncIterator[T], thread: LoopThread) -> T:
    """The next value, or `StopIteration`.

    For streams where a value counts as taken when it is asked for, so none is read ahead. A hop
    costs no round trip: the async side fetches ahead."""

    async def advance() -> T | None:
        # StopAsyncIteration cannot leave a coroutine, so None stands for the end.
        return await anext(values, None)

    value = thread.run(advance())
    if value is None:
        raise StopIteration
    return value


@overload
def listed(values: None) -> None: ...
@overload
def listed(values: Iterable[T]) -> Iterable[T]: ...
def listed(values: Iterable[T] | None) -> Iterable[T] | None:
    """The values as a collection. A generator is the caller's code and may block: it runs on the
    caller's thread, not on the loop."""
    return values if values is None or isinstance(values, list | tuple | str) else list(values)
