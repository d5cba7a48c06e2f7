"""Rates out of counters."""

from penstock.watch.meter import MINUTE_MS, RATE_MS, Meter


def test_a_rate_is_growth_over_ten_seconds() -> None:
    meter = Meter(2)
    for second in range(0, 31, 2):
        meter.note(second * 1_000, (10 * second, 3))
    assert meter.rates() == [10.0, 0.0]


def test_one_reading_is_no_rate() -> None:
    meter = Meter(1)
    assert meter.rates() == [0.0]
    meter.note(0, (1_000,))
    assert meter.rates() == [0.0]
    assert meter.is_flat


def test_two_readings_are_enough() -> None:
    meter = Meter(1)
    meter.note(0, (0,))
    meter.note(2_000, (50,))
    assert meter.rates() == [25.0]


def test_a_burst_after_a_long_silence_counts_over_ten_seconds_only() -> None:
    meter = Meter(1)
    for second in range(0, 1_000, 2):
        meter.note(second * 1_000, (5,))
    meter.note(1_000_000, (105,))
    assert meter.rates(RATE_MS) == [10.0]
    assert meter.growth(MINUTE_MS) == ([100], MINUTE_MS)


def test_what_was_between_two_readings_is_worked_out() -> None:
    meter = Meter(1)
    meter.note(0, (0,))
    meter.note(20_000, (200,))
    assert meter.rates() == [10.0]
    assert meter.growth(RATE_MS) == ([100], RATE_MS)


def test_after_a_minute_it_is_quiet_again() -> None:
    meter = Meter(1)
    meter.note(0, (0,))
    meter.note(2_000, (100,))
    for second in range(4, 70, 2):
        meter.note(second * 1_000, (100,))
    assert meter.growth(MINUTE_MS)[0] == [0.0]


def test_a_total_that_falls_begins_anew() -> None:
    meter = Meter(1)
    meter.note(0, (1_000,))
    meter.note(2_000, (1_100,))
    meter.note(4_000, (10,))
    assert meter.rates() == [0.0]
    meter.note(6_000, (30,))
    assert meter.rates() == [10.0]


def test_another_owner_begins_anew() -> None:
    meter = Meter(1)
    meter.note(0, (0,), "node 1")
    meter.note(2_000, (10,), "node 1")
    meter.note(4_000, (9_000,), "node 2")
    assert meter.rates() == [0.0]


def test_a_reading_of_the_past_is_passed_over() -> None:
    meter = Meter(1)
    meter.note(2_000, (10,))
    meter.note(2_000, (20,))
    assert meter.is_flat


def test_what_is_kept_does_not_grow() -> None:
    idle, busy = Meter(1), Meter(1)
    for second in range(0, 3_600, 2):
        idle.note(second * 1_000, (7,))
        busy.note(second * 1_000, (second,))
    assert len(idle._entries) == 2
    assert len(busy._entries) <= MINUTE_MS // 2_000 + 2
