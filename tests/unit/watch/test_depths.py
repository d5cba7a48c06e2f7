"""Histograms of how deep queues were."""

from penstock.core.limits import SCRAPED_HISTOGRAMS_MAX
from penstock.core.request_times import OTHER
from penstock.watch.depths import DEPTH_BOUNDS, Depths
from penstock.watch.readings import QueueReading


def queue(name: str, ready: int, group: str = "queue") -> QueueReading:
    return QueueReading(queue=name, group=group, kind="standard", partitions=1, ready=ready)


def test_each_look_is_an_observation_of_each_queue() -> None:
    depths = Depths()
    depths.observe([queue("jobs", 7), queue("jobs", 5, "audit"), queue("mail", 0)])
    depths.observe([queue("jobs", 1_000_001), queue("mail", 0)])
    jobs, mail = (depths.histograms[name].statistics() for name in ("jobs", "mail"))
    found = dict(zip((*DEPTH_BOUNDS, None), jobs.counts, strict=True))
    assert (found[100], found[None], jobs.count) == (1, 1, 2)  # 12, of both groups.
    assert (mail.counts[0], mail.count) == (2, 2)


def test_queues_that_are_gone_or_too_many_are_counted_together_and_no_sum_falls() -> None:
    depths = Depths()
    many = [queue(f"q{number:04}", 1) for number in range(SCRAPED_HISTOGRAMS_MAX + 3)]
    depths.observe(many)
    assert len(depths.histograms) == SCRAPED_HISTOGRAMS_MAX + 1
    assert depths.histograms[OTHER].statistics().count == 3
    depths.observe(many[:1])
    assert set(depths.histograms) == {"q0000", OTHER}
    assert sum(one.statistics().count for one in depths.histograms.values()) == len(many) + 1
