"""Rates of groups, from two looks at them."""

from datetime import UTC, datetime, timedelta

from penstock.spark.jobs.standings import Lag, forecasts

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def lag(seconds: float, partition: int, *, arrived: int, departed: int, group: str = "g") -> Lag:
    return Lag(
        at=NOW + timedelta(seconds=seconds),
        kind="consumer group",
        group=group,
        topic="orders",
        partition=partition,
        lag=arrived - departed,
        arrived=arrived,
        departed=departed,
    )


def test_partitions_are_added_up_and_rates_are_of_the_time_between() -> None:
    before = [lag(0, 0, arrived=100, departed=40), lag(0, 1, arrived=100, departed=90)]
    after = [lag(2, 0, arrived=110, departed=70), lag(2, 1, arrived=110, departed=100)]
    (one,) = forecasts(before, after)
    assert (one.group, one.topic, one.forecast.depth) == ("g", "orders", 50)
    assert one.forecast.arrivals_per_second == 10
    assert one.forecast.departures_per_second == 20
    assert one.forecast.stay_seconds == 5
    assert one.forecast.drain_seconds == 5


def test_a_group_that_is_new_or_was_turned_back_has_no_negative_rates() -> None:
    assert forecasts([], [lag(1, 0, arrived=5, departed=0)]) == []
    (one,) = forecasts([lag(0, 0, arrived=9, departed=9)], [lag(1, 0, arrived=9, departed=0)])
    assert (one.forecast.departures_per_second, one.forecast.drain_seconds) == (0, None)
