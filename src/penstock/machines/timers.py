"""When something happens to a run by itself: a lease or a delay ends, a message expires.

A heap whose entries may be out of date, and are found to be when they are looked at: changing a run
costs one entry more, not a search. It is cleared out when most of it is out of date.
"""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from penstock.core.types import Offset
from penstock.machines.run import TIMED, WAITING, Run

_SLACK = 1_024


class Timers:
    """The timers of one work group's runs."""

    __slots__ = ("_heap", "_runs")

    def __init__(self, runs: Mapping[Offset, Run]) -> None:
        self._runs = runs
        self._heap: list[tuple[int, Offset]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def watch(self, run: Run) -> None:
        """A run has come, or has changed."""
        for at_ms in _times(run):
            heappush(self._heap, (at_ms, run.first))
        if len(self._heap) > _SLACK + 4 * len(self._runs):
            self.watch_all(self._runs.values())

    def watch_all(self, runs: Iterable[Run]) -> None:
        """These are all the runs there are."""
        self._heap = [(at_ms, run.first) for run in runs for at_ms in _times(run)]
        heapify(self._heap)

    def due_ms(self) -> int | None:
        """When something happens, next."""
        heap = self._heap
        while heap:
            at_ms, first = heap[0]
            run = self._runs.get(first)
            if run is not None and at_ms in _times(run):
                return at_ms
            heappop(heap)
        return None

    def pop(self, now_ms: int) -> tuple[int, Run] | None:
        """The next run to which something happens by now, and when that was due."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            at_ms, first = heappop(heap)
            run = self._runs.get(first)
            if run is not None and at_ms in _times(run):
                return at_ms, run
        return None


def _times(run: Run) -> tuple[int, ...]:
    """When something happens to this run."""
    ends = run.at_ms >= 0 and run.state in TIMED
    expires = run.expire_ms >= 0 and run.state in WAITING
    if ends and expires:
        return run.at_ms, run.expire_ms
    if ends:
        return (run.at_ms,)
    return (run.expire_ms,) if expires else ()
