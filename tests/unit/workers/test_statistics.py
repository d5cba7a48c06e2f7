"""Numbers of workers."""

import pytest

from penstock.workers.statistics import Tally, add_up, percentile


def test_the_mean_moves_by_a_tenth() -> None:
    tally = Tally("orders", "1")
    tally.took(2.0)
    assert tally.mean_seconds == 2.0
    tally.took(3.0)
    assert tally.mean_seconds == pytest.approx(2.1)
    assert tally.busy_seconds == 5.0


def test_the_percentile_is_of_the_last_thousand() -> None:
    tally = Tally("orders", "1")
    for number in range(5_000):
        tally.took(float(number))
    assert tally.statistics().p95_seconds == 4_949.0


def test_percentiles() -> None:
    assert percentile([], 0.95) == 0.0
    assert percentile([7.0], 0.95) == 7.0
    assert percentile([float(n) for n in range(1, 101)], 0.95) == 95.0
    assert percentile([1.0, 2.0], 0.5) == 1.0


def test_adding_up() -> None:
    rows = []
    for worker, processed, seconds in (("a", 3, 1.0), ("b", 1, 5.0), ("c", 0, 0.0)):
        tally = Tally("orders", worker, processed=processed, stolen=1)
        for _ in range(processed):
            tally.took(seconds)
        rows.append(tally.statistics())
    total = add_up(rows)
    assert (total.processed, total.stolen, total.workers) == (4, 3, 3)
    assert total.busy_seconds == 8.0
    assert total.mean_seconds == pytest.approx(2.0)
    assert total.p95_seconds == 5.0
