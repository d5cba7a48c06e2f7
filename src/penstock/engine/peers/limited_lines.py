"""A rate limit for log lines about connections that have proven nothing.

A stranger who reaches the port can cause a line with every packet. So many lines a second are
announced, each cut at a length; the others are counted, and the count is announced when the next
line may be.
"""

from collections.abc import Callable

from penstock.core.clock import Clock

LINES_PER_SECOND_MAX = 10
LINE_CHARACTERS_MAX = 300


class LimitedLines:
    """Passes lines on, within the limit."""

    def __init__(self, announce: Callable[[str], None], clock: Clock) -> None:
        self._announce = announce
        self._clock = clock
        self._second = -1
        self._lines = 0

    def announce(self, line: str) -> None:
        """Announce a line, or count it."""
        second = self._clock.monotonic_ms() // 1_000
        if second != self._second:
            suppressed = self._lines - LINES_PER_SECOND_MAX
            if suppressed > 0:
                self._announce(f"left out {suppressed} more lines about connections of strangers")
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines <= LINES_PER_SECOND_MAX:
            short = len(line) <= LINE_CHARACTERS_MAX
            self._announce(line if short else line[: LINE_CHARACTERS_MAX - 2] + " …")
