"""Waiting for a time of day, by a clock that may jump or be moved by hand."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from penstock.core.clock import Clock

LOOK_SECONDS = 60.0
"""The longest wait before the clock is read again, because it may have been set."""


@runtime_checkable
class MovableClock(Clock, Protocol):
    """A clock that a test moves by hand, and that announces each move."""

    def watch(self, moved: Callable[[], None]) -> Callable[[], None]:
        """Call `moved` after every move, on any thread; calling the result ends that."""
        ...


async def wait_until_ms(clock: Clock, wall_ms: int) -> None:
    """Return when the clock shows this time, or a later one."""
    loop = asyncio.get_running_loop()
    moved = asyncio.Event()

    def note() -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed, and nothing waits on it.
            loop.call_soon_threadsafe(moved.set)

    end = clock.watch(note) if isinstance(clock, MovableClock) else None
    try:
        while (left_ms := wall_ms - clock.wall_ms()) > 0:
            moved.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_ms / 1_000, LOOK_SECONDS)):
                    await moved.wait()
    finally:
        if end is not None:
            end()
