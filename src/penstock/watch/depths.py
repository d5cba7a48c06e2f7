"""How deep each queue was, as histograms: an observation of each queue by each survey.

The node that leads the catalog observes, since it sees whole queues and not only the partitions
that it leads. When another node takes over, it goes on from its own histograms: sums of rates over
nodes are right. The number of queues with a histogram of their own is bounded.
"""

from collections.abc import Iterable, Mapping

from penstock.core.histogram import Histogram
from penstock.core.limits import SCRAPED_HISTOGRAMS_MAX
from penstock.core.request_times import OTHER
from penstock.watch.readings import QueueReading

DEPTH_BOUNDS = (
    0.0, 1.0, 10.0, 100.0, 500.0, 1e3, 5e3, 1e4, 5e4, 1e5, 5e5, 1e6,
)  # fmt: skip


class Depths:
    """For one node's watch."""

    def __init__(self) -> None:
        self.histograms: Mapping[str, Histogram] = {}
        """By queue; those without one of their own, and those that are gone, are `OTHER`."""

    def observe(self, queues: Iterable[QueueReading]) -> None:
        """The depth of a queue is what is ready, of all its work groups."""
        ready: dict[str, int] = {}
        for one in queues:
            ready[one.queue] = ready.get(one.queue, 0) + one.ready
        alone = set(sorted(ready)[:SCRAPED_HISTOGRAMS_MAX])
        kept: dict[str, Histogram] = {}
        for name, histogram in self.histograms.items():
            place = name if name in alone else OTHER
            if place not in kept:
                kept[place] = histogram
            else:
                kept[place].add(histogram)
        for name, depth in ready.items():
            place = name if name in alone else OTHER
            kept.setdefault(place, Histogram(DEPTH_BOUNDS)).observe(depth)
        self.histograms = kept
