"""Long work in short slices: what may take as long as it likes must not keep the loop for long.

    slices.begin()
    for one in many:
        …                            a little work
        await slices.let_others()    every now and then, at once if it is not time yet
    slices.end()

What it cost is added up, in processor time: on a machine with other work to do a slice may take
long and cost little. Between `end` and `begin` anything may be awaited.
"""

import asyncio

from penstock.core.clock import precise_seconds, worked_seconds

SLICE_SECONDS = 0.002
"""How long the loop may be kept at a time."""


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
        """It is over, or waits for another task."""
        self.spent_seconds += worked_seconds() - self._worked

    async def let_others(self) -> None:
        """Give way, if it is time to."""
        if precise_seconds() - self._began >= SLICE_SECONDS:
            self.end()
            await asyncio.sleep(0)
            self.begin()
