"""Rates are of about a minute, however often somebody asks."""

import pytest

from penstock.core.histogram import WORK_BOUNDS, Histogram
from penstock.watch.last_minute import LastMinute, QueueCounters


def counters(
    produced: int,
    failed: int = 0,
    acked: int = 0,
    times: Histogram | None = None,
    batches: int = 0,
) -> dict[str, QueueCounters]:
    reading = (times or Histogram(WORK_BOUNDS)).statistics()
    failures = (0, failed, 0, 0)
    return {
        "orders": QueueCounters(
            produced, acked=acked, failures=failures, times=reading, batches=batches
        )
    }


def test_at_first_it_is_everything_since_the_start() -> None:
    minute = LastMinute(now=100.0)
    assert minute.rates(110.0, counters(50))["orders"].enqueued == pytest.approx(5.0)


def test_later_it_is_the_last_minute() -> None:
    minute = LastMinute(now=0.0)
    total, rates = 0, minute.rates(0.0, {})
    for second in range(0, 601, 5):
        total += 5 * (10 if second <= 300 else 2)
        rates = minute.rates(float(second), counters(total))
    assert rates["orders"].enqueued == pytest.approx(2.0)


def test_who_asks_all_the_time_does_not_shorten_the_window() -> None:
    minute = LastMinute(now=0.0)
    rates = minute.rates(0.0, {})
    for tenth in range(1_200):
        rates = minute.rates(tenth / 10, counters(tenth))
    assert rates["orders"].enqueued == pytest.approx(10.0, rel=0.05)


def test_a_queue_that_was_not_there_before_began_at_nothing() -> None:
    minute = LastMinute(now=0.0)
    minute.rates(20.0, {})
    assert minute.rates(40.0, counters(40))["orders"].enqueued == pytest.approx(1.0)


def test_errors_are_a_share_of_what_came_to_an_end() -> None:
    minute = LastMinute(now=0.0)
    assert minute.rates(10.0, counters(0))["orders"].error_rate == 0.0
    assert minute.rates(10.0, counters(0, failed=1, acked=99))["orders"].error_rate == 0.01
    rates = minute.rates(10.0, counters(0, failed=3))["orders"]
    assert rates.error_rate == 1.0
    assert rates.error_rates == {"lease_expired": 1.0}


def test_the_size_of_a_batch_is_known_if_something_was_appended() -> None:
    minute = LastMinute(now=0.0)
    assert minute.rates(10.0, counters(0))["orders"].batch_size is None
    assert minute.rates(20.0, counters(30, batches=12))["orders"].batch_size == 2.5


def test_latency_is_known_if_something_was_done() -> None:
    minute, times = LastMinute(now=0.0), Histogram(WORK_BOUNDS)
    assert minute.rates(10.0, counters(0, times=times))["orders"].latency_p95 is None
    times.observe(0.2, 100)
    latency = minute.rates(20.0, counters(0, times=times))["orders"].latency_p95
    assert latency is not None
    assert 0.1 < latency <= 0.25
