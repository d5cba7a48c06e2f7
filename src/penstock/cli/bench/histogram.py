"""A histogram of latencies with buckets whose width grows with the value, as HdrHistogram has them,
in integers.

    nanoseconds   0 1 2 … 255 | 256 258 260 … 510 | 512 516 520 … | … up to 73 minutes
    width                   1 |                 2 |             4 | … doubling

Every doubling of the value has 128 drawers, so a value is known to 1/128 of itself (0.8 %) whatever
its size, in 4,608 counters and no more, however long a run is. Two histograms are added by adding
their counters: clients and processes each keep one, and the sum is as exact as if there had been
one. The largest value and the sum are exact.

A quantile is the upper end of its bucket, as in HdrHistogram: never too good.
"""

import math
from collections.abc import Iterator
from operator import add
from typing import NamedTuple

_BITS = 8
_HALF = 1 << (_BITS - 1)
"""Buckets of each doubling."""
NANOS_MAX = (1 << 42) - 1
_DRAWERS = ((42 - _BITS) << (_BITS - 1)) + (1 << _BITS)
_TICKS = 5
"""Rows of a distribution for each halving of the remaining share."""


class Row(NamedTuple):
    """A row of a percentile distribution: `passed` values are at most `seconds`."""

    seconds: float
    share: float
    passed: int


class LatencyHistogram:
    __slots__ = ("count", "counts", "least", "most", "sum", "sum_of_squares")

    def __init__(self) -> None:
        self.counts = [0] * _DRAWERS
        self.sum = 0.0
        self.sum_of_squares = 0.0
        self.count = 0
        self.most = 0.0
        """The largest value, in seconds."""
        self.least = math.inf

    def add(self, seconds: float, count: int = 1) -> None:
        """Add `count` values of `seconds` each; a negative value counts as 0."""
        seconds = max(0.0, seconds)
        self.counts[_drawer(min(NANOS_MAX, int(seconds * 1e9)))] += count
        self.sum += seconds * count
        self.sum_of_squares += seconds * seconds * count
        self.count += count
        self.most = max(self.most, seconds)
        self.least = min(self.least, seconds)

    def merge(self, other: "LatencyHistogram") -> None:
        """Take in what another one has counted."""
        self.counts[:] = map(add, self.counts, other.counts)
        self.sum += other.sum
        self.sum_of_squares += other.sum_of_squares
        self.count += other.count
        self.most = max(self.most, other.most)
        self.least = min(self.least, other.least)

    @property
    def mean(self) -> float:
        """In seconds; 0 if there is nothing."""
        return self.sum / self.count if self.count else 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation, in seconds."""
        if not self.count:
            return 0.0
        return math.sqrt(max(0.0, self.sum_of_squares / self.count - self.mean**2))

    def quantile(self, share: float) -> float:
        """The seconds within which this share of all was done; 0 if there is nothing."""
        wanted = max(1, math.ceil(share * self.count - 1e-9))
        passed = 0
        for drawer, count in enumerate(self.counts):
            passed += count
            if count and passed >= wanted:
                return min(self.most, _upper_end(drawer))
        return self.most

    def distribution(self) -> Iterator[Row]:
        """Rows that become denser towards the end, as HdrHistogram's percentile iterator has them;
        the last one is of all values."""
        passed, level = 0, 0.0
        for drawer, count in enumerate(self.counts):
            if not count:
                continue
            passed += count
            while passed < self.count and level <= passed / self.count:
                yield Row(min(self.most, _upper_end(drawer)), level, passed)
                halvings = math.floor(math.log2(1 / (1 - level))) + 1
                level += 1 / (_TICKS * 2**halvings)
        if self.count:
            yield Row(self.most, 1.0, self.count)


def percentile_text(histogram: LatencyHistogram) -> str:
    """The percentile distribution as HdrHistogram prints it and plotters read it; values are in
    milliseconds."""
    lines = [f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}", ""]
    for row in histogram.distribution():
        line = f"{row.seconds * 1e3:12.3f} {row.share:2.12f} {row.passed:10d}"
        lines.append(line if row.share == 1 else f"{line} {1 / (1 - row.share):14.2f}")
    mean, deviation = histogram.mean * 1e3, histogram.deviation * 1e3
    lines += [
        f"#[Mean    = {mean:12.3f}, StdDeviation   = {deviation:12.3f}]",
        f"#[Max     = {histogram.most * 1e3:12.3f}, Total count    = {histogram.count:12d}]",
        f"#[Buckets = {42 - _BITS + 1:12d}, SubBuckets     = {2 * _HALF:12d}]",
    ]
    return "\n".join(lines) + "\n"


def _drawer(nanos: int) -> int:
    shift = max(0, nanos.bit_length() - _BITS)
    return (shift << (_BITS - 1)) + (nanos >> shift)


def _upper_end(drawer: int) -> float:
    """The upper end of a bucket, in seconds."""
    shift = max(0, (drawer >> (_BITS - 1)) - 1)
    return (((drawer - shift * _HALF) + 1 << shift) - 1) / 1e9
