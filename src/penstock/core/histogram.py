"""A latency histogram: counts in fixed buckets, plain ints, read on demand.

A histogram costs a search among its bounds and two additions. It is written by one thread at a time
and read by any: what is read may lack the observation of this very moment, and nothing worse.

    bounds   0.001   0.0025   0.005 …        the upper ends of the buckets, in seconds
    counts      17       40       3 …   1    how many fell into each; the last is for all above
"""

from bisect import bisect_left
from collections.abc import Sequence
from operator import add, sub
from typing import Final

import msgspec

REQUEST_BOUNDS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0,
    7.5, 10.0,
)  # fmt: skip
"""OpenTelemetry's advice for requests, and three below it: a broker may need no millisecond."""
WORK_BOUNDS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0,
)  # fmt: skip
"""For what workers do with a message, which may take half an hour."""


class HistogramReading(msgspec.Struct, frozen=True):
    """A histogram at one moment."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    """The count of each bucket; one more than there are bounds."""
    sum: float

    @property
    def count(self) -> int:
        """The number of observations."""
        return sum(self.counts)

    def since(self, before: "HistogramReading | None") -> "HistogramReading":
        """Return the observations since an earlier reading."""
        if before is None:
            return self
        counts = (now - then for now, then in zip(self.counts, before.counts, strict=True))
        return HistogramReading(self.bounds, tuple(counts), self.sum - before.sum)

    def quantile(self, share: float) -> float:
        """About the time below which this share of the observations is; 0 if there are none.
        Within a drawer they are taken to be spread evenly, as Prometheus does it."""
        wanted = share * self.count
        if not wanted:
            return 0.0
        passed, low = 0, 0.0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            if count and passed + count >= wanted:
                return low + (bound - low) * (wanted - passed) / count
            passed += count
            low = bound
        return self.bounds[-1]


class Histogram:
    """Counts of values by bucket, and their sum, as Prometheus has them."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = REQUEST_BOUNDS) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float, count: int = 1) -> None:
        """Add an observation, or `count` equal ones."""
        self.counts[bisect_left(self.bounds, seconds)] += count
        self.sum += seconds * count

    def add(self, other: "Histogram | HistogramReading") -> None:
        """Take in what another one has counted."""
        assert other.bounds == self.bounds, "histograms of other bounds cannot be added"
        self.counts[:] = map(add, self.counts, other.counts)
        self.sum += other.sum

    def remove(self, other: "Histogram | HistogramReading") -> None:
        """Take off what another one has counted, which was added before."""
        assert other.bounds == self.bounds, "histograms of other bounds cannot be taken off"
        self.counts[:] = map(sub, self.counts, other.counts)
        self.sum -= other.sum

    def statistics(self) -> HistogramReading:
        """Return a frozen copy."""
        return HistogramReading(self.bounds, tuple(self.counts), self.sum)
