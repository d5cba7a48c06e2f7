"""Time slices: long work shares the event loop with everything else.

    slices.begin()
    for one in many:
        …                            a little work
        await slices.let_others()    now and then: gives way if the slice is used up
    slices.end()

Work that is a generator, and yields between small portions, is carried out by `run`.

What it costs is added up, in processor time: on a machine with other work to do, a slice may take
long and cost little. Between `end` and `begin` anything may be awaited.
"""

import asyncio
from collections.abc import Generator
from typing import TypeVar

from penstock.core.clock import precise_seconds, worked_seconds

SLICE_SECONDS = 0.002
"""How long the loop may be kept at a time."""

T = TypeVar("T")


class TimeSlices:
    __slots__ = ("_began", "_worked", "spent_seconds")

    def __init__(self) -> None:
        self._began = 0.0
        self._worked = 0.0
        self.spent_seconds = 0.0
        """All that it cost so far."""

    def begin(self) -> None:
        """Work begins, or goes on."""
        self._began, self._worked = precise_seconds(), worked_seconds()

    def end(self) -> None:
        """Work is over, or waits for something."""
        self.spent_seconds += worked_seconds() - self._worked

    @property
    def is_used_up(self) -> bool:
        """Whether it is time to give way."""
        return precise_seconds() - self._began >= SLICE_SECONDS

    async def let_others(self) -> None:
        """Give way, if it is time to."""
        if self.is_used_up:
            self.end()
            await asyncio.sleep(0)
            self.begin()

    async def run(self, portions: Generator[None, None, T]) -> T:
        """Carry out work that yields between its portions; its result."""
        while True:
            try:
                next(portions)
            except StopIteration as end:
                result: T = end.value
                return result
            await self.let_others()
