"""The last week, as curves: a point every five minutes, the mean of the points of the last hour's
history (see `history`) that it stands for. It is kept on the disk of the node, so that a restart
forgets none of it.

A chart of up to an hour has the fine points, and coarse ones before this process began; a longer
one has coarse points, and the fine ones since the last of them. While the node was down nothing is
known: the curve has a gap there.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from penstock.core.errors import PenstockError
from penstock.core.limits import (
    HISTORY_LONG_SERIES_MAX,
    HISTORY_LONG_STEP_MS,
    HISTORY_LONG_STEPS,
    HISTORY_STEP_MS,
    HISTORY_STEPS,
)
from penstock.storage import Disk
from penstock.watch.history import Curves, History, Key
from penstock.watch.history_file import HistoryFile, Value

NAMES = frozenset((
    "ready", "leased", "dead", "dead_letters", "in_rate", "out_rate", "ack_rate", "error_rate",
    "lag", "commit_rate", "disk_used_share", "memory_bytes",
))  # fmt: skip
"""The curves that are kept for long."""
HOUR_MS = HISTORY_STEP_MS * HISTORY_STEPS
GAP_STEPS = 2.5
"""A longer time between two points is a gap."""

logger = logging.getLogger(__name__)


class LongHistory:
    """For one node's watch; `disk` and `folder` say where it is kept, if it is."""

    def __init__(self, fine: History, disk: Disk | None = None, folder: str = "") -> None:
        self._fine = fine
        self._coarse = History(
            steps=HISTORY_LONG_STEPS,
            step_ms=HISTORY_LONG_STEP_MS,
            series_max=HISTORY_LONG_SERIES_MAX,
        )
        self._file = None if disk is None else HistoryFile(disk, folder)
        self._last_ms = 0
        """The time of the last column, or of the start of this process."""

    async def load(self) -> None:
        """Read what was kept. A disk that fails costs the history, and nothing else."""
        if self._file is None:
            return
        try:
            await asyncio.to_thread(self._load, self._file)
        except (PenstockError, OSError) as error:
            logger.warning("the history of the charts cannot be kept: %s", error)
            self._file = None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def steps(self, at_ms: int) -> Iterator[list[Value] | None]:
        """Add a column if it is time for one, in small steps; the last yields what to `write`."""
        if not self._last_ms or at_ms < self._last_ms:
            self._last_ms = at_ms
        if at_ms - self._last_ms < HISTORY_LONG_STEP_MS:
            return
        since_ms, self._last_ms = self._last_ms, at_ms
        self._coarse.begin(at_ms)
        values: list[Value] = []
        for key, name, value in self._fine.means(max(since_ms, at_ms - HOUR_MS), NAMES):
            if self._coarse.put(key, name, value):
                values.append((key, name, value))
            yield None
        yield values

    async def write(self, at_ms: int, values: list[Value]) -> None:
        """Write a column to disk."""
        if self._file is None:
            return
        try:
            await asyncio.to_thread(self._file.append, at_ms, values)
        except (PenstockError, OSError) as error:
            logger.warning("the history of the charts is not kept any more: %s", error)
            self._file = None

    def curves(self, key: Key, names: Sequence[str], since_ms: int, at_ms: int) -> Curves:
        """Curves of one thing, from a wall time on; it is `at_ms` now."""
        fine = self._fine.curves(key, names, since_ms)
        coarse = self._coarse.curves(key, names, since_ms)
        if at_ms - since_ms <= HOUR_MS:
            first = fine.times[0] if fine.times else at_ms / 1_000
            coarse = _part(coarse, lambda time: time < first)
        else:
            last = coarse.times[-1] if coarse.times else 0.0
            fine = _part(fine, lambda time: time > last)
        if not coarse.times:
            return fine
        return _with_gaps(_joined(coarse, fine), HISTORY_LONG_STEP_MS / 1_000)

    def _load(self, file: HistoryFile) -> None:
        for at_ms, values in file.open():
            if at_ms <= self._last_ms:
                continue  # The clock was set back, and forward again.
            self._last_ms = at_ms
            self._coarse.begin(at_ms)
            for key, name, value in values:
                self._coarse.put(key, name, value)


def _part(curves: Curves, wanted: Callable[[float], bool]) -> Curves:
    """Select the points of the wanted times."""
    places = [place for place, time in enumerate(curves.times) if wanted(time)]
    return Curves(
        step_s=curves.step_s,
        times=[curves.times[place] for place in places],
        series={name: [some[place] for place in places] for name, some in curves.series.items()},
    )


def _joined(earlier: Curves, later: Curves) -> Curves:
    return Curves(
        step_s=earlier.step_s,
        times=earlier.times + later.times,
        series={name: some + later.series[name] for name, some in earlier.series.items()},
    )


def _with_gaps(curves: Curves, step_s: float) -> Curves:
    """With a point at which nothing is known wherever the node was down."""
    long = GAP_STEPS * step_s
    gaps = [
        place
        for place, (before, after) in enumerate(pairwise(curves.times), 1)
        if after - before > long
    ]
    times = list(curves.times)
    series = {name: list(some) for name, some in curves.series.items()}
    for place in reversed(gaps):
        times.insert(place, (times[place - 1] + times[place]) / 2)
        for some in series.values():
            some.insert(place, None)
    return Curves(step_s=curves.step_s, times=times, series=series)
