"""How long a leader's proposals take until they are applied: written here, and on a majority.

What was proposed together is measured together: a busy shard costs no more than an idle one.
"""

from collections import deque
from collections.abc import Callable

from penstock.core.spans import Spans
from penstock.core.types import Index


class CommitTimes:
    """Of one shard, on one node, while it leads."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.spans = Spans()
        self._seconds = seconds
        self._under_way: deque[tuple[Index, float]] = deque()

    def proposed(self, last: Index) -> None:
        """Entries up to this one were proposed."""
        self._under_way.append((last, self._seconds()))

    def applied(self, index: Index) -> None:
        """Entries up to this one are committed and applied."""
        under_way = self._under_way
        while under_way and under_way[0][0] <= index:
            self.spans.note(under_way.popleft()[1], self._seconds())

    def forget(self) -> None:
        """Leadership is over: when, or whether, these are committed is unknown."""
        self._under_way.clear()
