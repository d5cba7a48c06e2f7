"""A page of metrics in the making: samples by the names of the table, in the table's order.

A caller that fills a page passes only names, labels and numbers; a name or a label that the table
does not have is a bug and is found at once.

The page is written in two ways. Almost every scraper asks for Prometheus' text format, which is
written here, straight from the numbers: it takes a tenth of the time that the way through the
library's objects takes, and a page is written every few seconds. A request for OpenMetrics is
served by way of the library (`collect`). A test compares the two.

Names and labels are the same from page to page, and only numbers differ: the part of a line that
stands before its number is made once and remembered.
"""

from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from penstock.core.histogram import HistogramReading
from penstock.watch.metric_table import METRICS, Kind

_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_Labels = tuple[str, ...]
_LINES_AT_ONCE = 100
_STARTS_MAX = 32_768
"""The number of cached line prefixes: as many as some thousand queues need."""
_HISTOGRAMS_MAX = 2_048


class Families(Collector):
    """The metrics of one moment."""

    def __init__(self) -> None:
        self._numbers: dict[str, list[tuple[_Labels, float]]] = {}
        self._times: dict[str, list[tuple[_Labels, HistogramReading]]] = {}

    def add(self, name: str, value: float, *labels: str) -> None:
        """A counter or a gauge; labels in the order of the table."""
        known = self._numbers.get(name)
        if known is None:
            assert METRICS[name].kind is not Kind.HISTOGRAM, f"{name} is a histogram"
            known = self._numbers[name] = []
        assert len(labels) == len(METRICS[name].labels), f"{name}: {labels} are other labels"
        known.append((labels, value))

    def add_times(self, name: str, reading: HistogramReading, *labels: str) -> None:
        """Add a histogram."""
        known = self._times.get(name)
        if known is None:
            assert METRICS[name].kind is Kind.HISTOGRAM, f"{name} is no histogram"
            known = self._times[name] = []
        assert len(labels) == len(METRICS[name].labels), f"{name}: {labels} are other labels"
        known.append((labels, reading))

    def write(self) -> Iterator[str]:
        """The page in Prometheus' text format, version 0.0.4, bit by bit."""
        for name in METRICS:
            numbers, times = self._numbers.get(name, ()), self._times.get(name, ())
            if numbers or times:
                yield _head(name)
            for start in range(0, len(numbers), _LINES_AT_ONCE):
                yield "".join(
                    [
                        f"{_start(name, labels)}{value}\n"
                        for labels, value in numbers[start : start + _LINES_AT_ONCE]
                    ]
                )
            for labels, reading in times:
                yield "".join(_histogram_lines(name, labels, reading))

    def collect(self) -> Iterator[Family]:
        """Yield the families, as Prometheus' library expects."""
        for name, metric in METRICS.items():
            if name in self._numbers:
                numbers: CounterMetricFamily | GaugeMetricFamily
                if metric.kind is Kind.COUNTER:
                    bare = name.removesuffix("_total")
                    numbers = CounterMetricFamily(bare, metric.meaning, labels=metric.labels)
                else:
                    numbers = GaugeMetricFamily(name, metric.meaning, labels=metric.labels)
                for labels, value in self._numbers[name]:
                    numbers.add_metric(labels, value)
                yield numbers
            elif name in self._times:
                times = HistogramMetricFamily(name, metric.meaning, labels=metric.labels)
                for labels, reading in self._times[name]:
                    bounds = [*map(str, reading.bounds), "+Inf"]
                    buckets = list(zip(bounds, accumulate(reading.counts), strict=True))
                    times.add_metric(labels, buckets, reading.sum)
                yield times


@cache
def _head(name: str) -> str:
    metric = METRICS[name]
    meaning = metric.meaning.replace("\\", r"\\")
    return f"# HELP {name} {meaning}\n# TYPE {name} {metric.kind.value}\n"


@lru_cache(_STARTS_MAX)
def _start(name: str, labels: _Labels) -> str:
    """The prefix of a line, up to its number."""
    pairs = _pairs(METRICS[name].labels, labels)
    return f"{name}{{{pairs}}} " if pairs else f"{name} "


def _pairs(names: _Labels, values: _Labels) -> str:
    both = zip(names, values, strict=True)
    return ",".join([f'{name}="{value.translate(_ESCAPED)}"' for name, value in both])


@lru_cache(_HISTOGRAMS_MAX)
def _starts(name: str, labels: _Labels, bounds: tuple[float, ...]) -> tuple[str, ...]:
    """The prefixes of all lines of a histogram: its buckets, then the count and the sum."""
    pairs = _pairs(METRICS[name].labels, labels)
    before = f"{pairs}," if pairs else ""
    braced = f"{{{pairs}}}" if pairs else ""
    return (
        *(f'{name}_bucket{{{before}le="{bound}"}} ' for bound in (*bounds, "+Inf")),
        f"{name}_count{braced} ",
        f"{name}_sum{braced} ",
    )


def _histogram_lines(name: str, labels: _Labels, reading: HistogramReading) -> list[str]:
    numbers = [*accumulate(reading.counts), reading.count, reading.sum]
    starts = _starts(name, labels, reading.bounds)
    return [f"{start}{number}\n" for start, number in zip(starts, numbers, strict=True)]
