"""The heart of the simulator: a heap of events, a clock that jumps, one trace.

Time is in microseconds and moves only when the next event is taken. Events of equal time run in the
order they were scheduled, so a run is a function of its seed and nothing else. Every event writes
one line; the SHA-256 of all lines is the run's fingerprint, and two runs of one seed must agree.
"""

import hashlib
import heapq
from collections import Counter, deque
from collections.abc import Callable
from random import Random

SECOND = 1_000_000
MILLISECOND = 1_000
LINES_KEPT = 400


class Event:
    """Something that will happen; `cancel` makes it not happen."""

    __slots__ = ("action", "cancelled")

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Timeline:
    """Schedules events, moves time, keeps the trace and counts what happened."""

    def __init__(self, seed: int, *, echo: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.now = 0
        self.events = 0
        self.happened: Counter[str] = Counter()
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._heap: list[tuple[int, int, Event]] = []
        self._scheduled = 0
        self._hash = hashlib.sha256()
        self._echo = echo

    def random(self, name: str) -> Random:
        """A stream of chance of its own for each subsystem, so that one more draw in one of them
        does not change the others' histories."""
        return Random(f"{self.seed}/{name}")

    def after(self, delay: int, action: Callable[[], None]) -> Event:
        """Run `action` in `delay` microseconds."""
        assert delay >= 0, f"an event {delay} us in the past"
        event = Event(action)
        self._scheduled += 1
        heapq.heappush(self._heap, (self.now + delay, self._scheduled, event))
        return event

    def run_until(self, end: int, after_each: Callable[[], None]) -> None:
        """Take events until the time is `end`; call `after_each` after every one."""
        heap = self._heap
        while heap and heap[0][0] <= end:
            self.now, _, event = heapq.heappop(heap)
            if event.cancelled:
                continue
            self.events += 1
            event.action()
            after_each()
        self.now = end

    def line(self, who: str, what: str) -> None:
        """Write one line of the trace."""
        text = f"{self.now / SECOND:11.6f} {who:<4} {what}"
        self._hash.update(text.encode())
        self.lines.append(text)
        if self._echo is not None:
            self._echo(text)

    def count(self, what: str) -> None:
        """Note that a fault or a rare branch took place; what never does fails the batch."""
        self.happened[what] += 1

    def fingerprint(self) -> str:
        return self._hash.hexdigest()
