"""The counters of workers.

Counters are plain integers, changed by the loop's own thread only. The mean is a moving one (each
new value counts for a tenth), because what a worker took last week says little about now; the 95th
percentile is exact over the last thousand messages. `statistics()` of an application returns frozen
snapshots, so that no number changes while it is printed.
"""

from collections import deque
from dataclasses import dataclass, field, replace

MEAN_WEIGHT = 0.1
DURATIONS_KEPT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatistics:
    """The counters of one worker, or the sum of many."""

    queue: str
    worker: str
    processed: int = 0
    """Processed and acknowledged."""
    failed: int = 0
    """Deliveries that ended with an error; each was retried or rejected."""
    retried: int = 0
    rejected: int = 0
    returned: int = 0
    """Given back uncounted: shutdown, an open circuit, a line behind a failure."""
    duplicates: int = 0
    """Had been processed before: exactly-once found their ids."""
    poisoned: int = 0
    """Rejected because they seem to kill the worker process; also counted as rejected."""
    stolen: int = 0
    """Taken from another worker's share."""
    lost: int = 0
    """Settled too late: the lease had expired, and another receiver has the message."""
    busy_seconds: float = 0.0
    mean_seconds: float = 0.0
    p95_seconds: float = 0.0
    workers: int = 1
    """The number of workers in the sum."""


@dataclass(slots=True)
class Tally:
    """The numbers of one worker while they change."""

    queue: str
    worker: str
    processed: int = 0
    failed: int = 0
    retried: int = 0
    rejected: int = 0
    returned: int = 0
    duplicates: int = 0
    poisoned: int = 0
    stolen: int = 0
    lost: int = 0
    busy_seconds: float = 0.0
    mean_seconds: float = 0.0
    _durations: deque[float] = field(default_factory=lambda: deque(maxlen=DURATIONS_KEPT))

    def took(self, seconds: float) -> None:
        """Record the duration of one message's processing, whatever its outcome."""
        self.busy_seconds += seconds
        if self._durations:
            self.mean_seconds += MEAN_WEIGHT * (seconds - self.mean_seconds)
        else:
            self.mean_seconds = seconds
        self._durations.append(seconds)

    def statistics(self) -> WorkerStatistics:
        """Return a frozen copy."""
        return WorkerStatistics(
            queue=self.queue,
            worker=self.worker,
            processed=self.processed,
            failed=self.failed,
            retried=self.retried,
            rejected=self.rejected,
            returned=self.returned,
            duplicates=self.duplicates,
            poisoned=self.poisoned,
            stolen=self.stolen,
            lost=self.lost,
            busy_seconds=self.busy_seconds,
            mean_seconds=self.mean_seconds,
            p95_seconds=percentile(sorted(self._durations), 0.95),
        )


_SUMMED = (
    "processed", "failed", "retried", "rejected", "returned", "duplicates", "poisoned", "stolen",
    "lost",
)  # fmt: skip


def add_up(rows: list[WorkerStatistics], worker: str = "all") -> WorkerStatistics:
    """Several workers as one. Means are weighted by work done; of percentiles the worst counts."""
    assert rows, "there must be at least one row to add up"
    total = replace(rows[0], worker=worker, workers=sum(row.workers for row in rows))
    total = replace(total, **{name: sum(getattr(row, name) for row in rows) for name in _SUMMED})
    worked = [row for row in rows if row.busy_seconds > 0]
    weights = [row.processed + row.failed for row in worked]
    mean = 0.0
    if sum(weights):
        pairs = zip(worked, weights, strict=True)
        mean = sum(row.mean_seconds * weight for row, weight in pairs) / sum(weights)
    return replace(
        total,
        busy_seconds=sum(row.busy_seconds for row in rows),
        mean_seconds=mean,
        p95_seconds=max(row.p95_seconds for row in rows),
    )


def percentile(ordered: list[float], part: float) -> float:
    """The value below or at which this part of sorted values lies; 0 without any."""
    if not ordered:
        return 0.0
    return ordered[max(0, -(-len(ordered) * round(part * 1_000) // 1_000) - 1)]
