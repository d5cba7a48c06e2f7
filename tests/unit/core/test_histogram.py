"""Times are counted where they belong, and quantiles are about right."""

import pytest

from penstock.core.histogram import REQUEST_BOUNDS, Histogram


def test_a_time_falls_into_the_drawer_whose_end_it_does_not_pass() -> None:
    histogram = Histogram((1.0, 2.0))
    for seconds in (0.5, 1.0, 1.5, 2.0, 2.1):
        histogram.observe(seconds)
    assert histogram.counts == [2, 2, 1]
    assert histogram.sum == pytest.approx(7.1)
    assert histogram.statistics().count == 5


def test_many_are_counted_at_once() -> None:
    histogram = Histogram((1.0,))
    histogram.observe(0.5, 1_000)
    assert histogram.counts == [1_000, 0]
    assert histogram.sum == pytest.approx(500)


def test_a_reading_stays_as_it_was_and_can_be_taken_off_a_later_one() -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.observe(0.5)
    before = histogram.statistics()
    histogram.observe(1.5, 3)
    since = histogram.statistics().since(before)
    assert before.counts == (1, 0, 0)
    assert since.counts == (0, 3, 0)
    assert since.sum == pytest.approx(4.5)
    assert histogram.statistics().since(None) == histogram.statistics()


def test_histograms_add_up() -> None:
    one, other = Histogram((1.0,)), Histogram((1.0,))
    one.observe(0.5)
    other.observe(3)
    one.add(other)
    assert one.counts == [1, 1]
    with pytest.raises(AssertionError, match="other bounds"):
        one.add(Histogram((2.0,)))


def test_a_quantile_lies_between_the_ends_of_its_drawer() -> None:
    histogram = Histogram((1.0, 2.0, 4.0))
    assert histogram.statistics().quantile(0.95) == 0.0
    histogram.observe(0.5, 50)
    histogram.observe(3.0, 50)
    reading = histogram.statistics()
    assert reading.quantile(0.5) == pytest.approx(1.0)
    assert reading.quantile(0.75) == pytest.approx(3.0)
    histogram.observe(100.0, 900)
    assert histogram.statistics().quantile(0.99) == 4.0, "above the last bound nothing is known"


def test_the_bounds_of_requests_ascend_from_half_a_millisecond_to_ten_seconds() -> None:
    assert list(REQUEST_BOUNDS) == sorted(set(REQUEST_BOUNDS))
    assert (REQUEST_BOUNDS[0], REQUEST_BOUNDS[-1]) == (0.0005, 10.0)
    assert {0.001, 0.0025, 0.005} < set(REQUEST_BOUNDS)
