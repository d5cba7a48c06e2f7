"""Little's law, and how long a queue takes to drain."""

import pytest

from penstock.spark.jobs.forecasts import drain_seconds, forecast


def test_little() -> None:
    seen = forecast(600, arrivals_per_second=20, departures_per_second=20)
    assert seen.stay_seconds == 30
    assert seen.drain_seconds is None
    assert (seen.depth_in_5m, seen.depth_in_1h, seen.depth_in_1d) == (600, 600, 600)


def test_a_queue_that_drains() -> None:
    seen = forecast(900, arrivals_per_second=1, departures_per_second=4)
    assert seen.drain_seconds == 300
    assert (seen.depth_in_5m, seen.depth_in_1h) == (0, 0)


def test_a_queue_that_grows() -> None:
    seen = forecast(10, arrivals_per_second=5, departures_per_second=3)
    assert seen.drain_seconds is None
    assert (seen.depth_in_5m, seen.depth_in_1h) == (610, 7_210)


def test_an_idle_queue() -> None:
    seen = forecast(5, arrivals_per_second=0, departures_per_second=0)
    assert (seen.stay_seconds, seen.drain_seconds, seen.depth_in_1d) == (None, None, 5)


@pytest.mark.parametrize(
    ("depth", "growth", "seconds"), [(0, 9.0, 0.0), (5, 0.0, None), (6, -2.0, 3.0)]
)
def test_draining(depth: int, growth: float, seconds: float | None) -> None:
    assert drain_seconds(depth, growth) == seconds
