"""The durations of one kind of operation, and the times of the long ones.

The histogram counts; the few long spans that are kept have their times, so that a slow request of
that time can be explained. Times are passed in, as everywhere in these layers.
"""

from collections import deque
from typing import Final

from penstock.core.histogram import Histogram

LONG_SECONDS: Final = 0.1
SPANS_REMEMBERED_MAX: Final = 16


class Spans:
    """Written by one thread, read by any."""

    __slots__ = ("_long", "histogram")

    def __init__(self) -> None:
        self.histogram = Histogram()
        self._long: deque[tuple[float, float]] = deque(maxlen=SPANS_REMEMBERED_MAX)

    def note(self, began: float, ended: float) -> None:
        """Record an operation, from its beginning to its end in seconds of one clock."""
        seconds = ended - began
        self.histogram.observe(seconds)
        if seconds >= LONG_SECONDS:
            self._long.append((began, ended))

    def longest_within(self, began: float, ended: float) -> float:
        """The longest overlap of an interval with a long operation, in seconds."""
        shared = (min(end, ended) - max(start, began) for start, end in list(self._long))
        return max(0.0, max(shared, default=0.0))
