"""Commits are timed by group, and those of a lost leadership not at all."""

import pytest

from penstock.core.types import Index
from penstock.engine.replica.proposals import CommitTimes


class Watch:
    """A clock that is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_was_proposed_together_counts_once() -> None:
    watch = Watch()
    times = CommitTimes(watch)
    times.proposed(Index(10))
    watch.now += 0.02
    times.proposed(Index(12))
    times.applied(Index(9))
    assert times.spans.histogram.statistics().count == 0
    watch.now += 0.03
    times.applied(Index(12))
    reading = times.spans.histogram.statistics()
    assert reading.count == 2
    assert reading.sum == pytest.approx(0.05 + 0.03)


def test_a_lost_leadership_leaves_nothing_behind() -> None:
    watch = Watch()
    times = CommitTimes(watch)
    times.proposed(Index(10))
    times.forget()
    times.applied(Index(20))
    assert times.spans.histogram.statistics().count == 0
