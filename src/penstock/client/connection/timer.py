"""One timer for many deadlines.

A timer for each request would be made and cancelled again for almost every one, since almost all
are answered in time. So there is one, which goes off at the earliest deadline that was
named. Most of what was due then is over long ago; the callback looks at what is left, and returns
when to ring again.

Deadlines are counted from `fresh_time`. A loop reads the time once a turn, and a turn may take long
if the program works in it: what it asks for in the end would be late as soon as it is asked.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

fresh_time: Final = time.monotonic
"""The clock that the time of event loops is read from; a loop's own time may be a little old."""
NEVER: Final = float("inf")
EARLY_SECONDS: Final = 0.001
"""The precision of timers: deadlines this close count as passed."""


class Alarm:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ring: Callable[[float], float],
        now: Callable[[], float] = fresh_time,
    ) -> None:
        """`ring` gets the time up to which deadlines have passed, and returns the next one, or
        `NEVER`."""
        self._loop = loop
        self._ring = ring
        self._now = now
        self._at = NEVER
        self._timer: asyncio.TimerHandle | None = None

    def set(self, deadline: float) -> None:
        """Ring at this time, if not before."""
        if deadline < self._at:
            self.stop()
            self._at = deadline
            self._timer = self._loop.call_later(max(0.0, deadline - self._now()), self._go_off)

    def stop(self) -> None:
        """Cancel the alarm."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._at = NEVER

    def _go_off(self) -> None:
        self._timer = None
        self._at = NEVER
        self.set(self._ring(self._now() + EARLY_SECONDS))
