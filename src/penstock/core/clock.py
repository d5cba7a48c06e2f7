"""The time, as a parameter.

Nothing but this module asks the operating system for the time; everything else is handed a `Clock`,
so tests and the simulator can move it. Wall time may jump and is used only to stamp log entries;
monotonic time never jumps and is used for every timeout.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol, runtime_checkable

precise_seconds: Final = time.perf_counter
"""For measuring how long something took, to a fraction of a microsecond. It is for people only:
nothing may be decided by it, since no test can move it."""

worked_seconds: Final = time.thread_time
"""Processor time of this thread: what something has cost, however busy the machine is with others'
work meanwhile. Asking takes longer than for `precise_seconds`."""


pause_thread: Final = time.sleep
"""For threads beside the event loop, which would keep the interpreter from it for milliseconds if
they never paused."""


class Clock(Protocol):
    """Two readings of time, both in milliseconds."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump in either direction."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start; never decreases; means nothing after a restart."""
        ...


@runtime_checkable
class MovableClock(Clock, Protocol):
    """A clock that is moved by hand, and that announces each move."""

    def watch(self, moved: Callable[[], None]) -> Callable[[], None]:
        """Call `moved` after every move, on any thread; calling the result ends that."""
        ...


class SystemClock:
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
