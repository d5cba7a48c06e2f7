"""Cron expressions: fields, month ends, leap years, and days on which clocks change."""

from datetime import UTC, datetime

import pytest

from penstock.core.errors import InvalidRequest
from penstock.workers.cron import Cron


def ticks(expression: str, start: str, count: int, zone: str = "UTC") -> list[str]:
    """The next ticks after a UTC time, as UTC."""
    cron = Cron(expression, zone)
    when = datetime.fromisoformat(start).replace(tzinfo=UTC)
    found = []
    for _ in range(count):
        when = cron.next_after(when)
        found.append(when.strftime("%Y-%m-%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("expression", "start", "expected"),
    [
        ("*/5 * * * *", "2026-01-01 00:03", ["2026-01-01 00:05", "2026-01-01 00:10"]),
        ("* * * * *", "2026-01-01 00:00:30", ["2026-01-01 00:01", "2026-01-01 00:02"]),
        ("0 9-17/4 * * *", "2026-01-01 08:00", ["2026-01-01 09:00", "2026-01-01 13:00"]),
        ("30 4 1,15 * *", "2026-01-02 00:00", ["2026-01-15 04:30", "2026-02-01 04:30"]),
        ("0 0 * * mon-fri", "2026-01-02 12:00", ["2026-01-05 00:00", "2026-01-06 00:00"]),
        ("0 0 * * 7", "2026-01-02 00:00", ["2026-01-04 00:00", "2026-01-11 00:00"]),
        ("0 0 * * sun", "2026-01-02 00:00", ["2026-01-04 00:00", "2026-01-11 00:00"]),
        ("5/20 * * * *", "2026-01-01 00:00", ["2026-01-01 00:05", "2026-01-01 00:25"]),
        ("0 0 1 jan,JUL *", "2026-01-01 00:00", ["2026-07-01 00:00", "2027-01-01 00:00"]),
        ("@daily", "2026-12-31 05:00", ["2027-01-01 00:00", "2027-01-02 00:00"]),
        ("@hourly", "2026-12-31 23:00", ["2027-01-01 00:00", "2027-01-01 01:00"]),
    ],
)
def test_fields(expression: str, start: str, expected: list[str]) -> None:
    assert ticks(expression, start, len(expected)) == expected


def test_a_tick_is_after_and_never_at() -> None:
    assert ticks("0 12 * * *", "2026-01-01 12:00", 1) == ["2026-01-02 12:00"]


@pytest.mark.parametrize(
    ("expression", "start", "expected"),
    [
        ("0 0 31 * *", "2026-01-31 00:00", ["2026-03-31 00:00", "2026-05-31 00:00"]),
        ("0 0 30 * *", "2026-01-30 00:00", ["2026-03-30 00:00", "2026-04-30 00:00"]),
        ("0 0 L * *", "2026-01-30 00:00", ["2026-01-31 00:00", "2026-02-28 00:00"]),
        ("0 0 L 2 *", "2026-03-01 00:00", ["2027-02-28 00:00", "2028-02-29 00:00"]),
        ("0 0 15,L * *", "2026-02-01 00:00", ["2026-02-15 00:00", "2026-02-28 00:00"]),
        ("0 0 29 2 *", "2026-01-01 00:00", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("0 0 29 2 *", "2096-03-01 00:00", ["2104-02-29 00:00"]),
    ],
)
def test_ends_of_months(expression: str, start: str, expected: list[str]) -> None:
    assert ticks(expression, start, len(expected)) == expected


def test_either_day_is_enough_if_both_are_given() -> None:
    found = ticks("0 0 13 * fri", "2026-02-07 00:00", 3)
    assert found == ["2026-02-13 00:00", "2026-02-20 00:00", "2026-02-27 00:00"]
    assert ticks("0 0 */10 * fri", "2026-01-01 00:00", 2) == [
        "2026-05-01 00:00",
        "2026-07-31 00:00",
    ], "a star with a step is no restriction, as in Vixie's cron"


# Berlin put its clocks forward at 01:00 UTC on 2026-03-29, and back on 2026-10-25.


def test_a_time_that_the_clock_skips_comes_later() -> None:
    assert ticks("30 2 * * *", "2026-03-28 00:00", 3, "Europe/Berlin") == [
        "2026-03-28 01:30",
        "2026-03-29 01:30",
        "2026-03-30 00:30",
    ]


def test_a_time_that_the_clock_shows_twice_comes_once() -> None:
    assert ticks("30 2 * * *", "2026-10-24 12:00", 2, "Europe/Berlin") == [
        "2026-10-25 00:30",
        "2026-10-26 01:30",
    ]


def test_a_rhythm_follows_the_time_that_passes() -> None:
    assert ticks("*/30 * * * *", "2026-03-29 00:00", 4, "Europe/Berlin") == [
        "2026-03-29 00:30",
        "2026-03-29 01:00",
        "2026-03-29 01:30",
        "2026-03-29 02:00",
    ]
    assert ticks("*/30 * * * *", "2026-10-24 23:59", 5, "Europe/Berlin") == [
        "2026-10-25 00:00",
        "2026-10-25 00:30",
        "2026-10-25 01:00",
        "2026-10-25 01:30",
        "2026-10-25 02:00",
    ]


def test_half_an_hour_of_summer() -> None:
    # Lord Howe Island puts its clocks forward by thirty minutes: 02:00 becomes 02:30.
    assert ticks("15 2 * * *", "2026-10-03 00:00", 2, "Australia/Lord_Howe") == [
        "2026-10-03 15:45",
        "2026-10-04 15:15",
    ]


def test_a_day_that_the_zone_left_out() -> None:
    # Samoa went from the 29th to the 31st of December 2011 and had no 30th.
    found = ticks("0 12 * * *", "2011-12-29 00:00", 3, "Pacific/Apia")
    assert found[0] == "2011-12-29 22:00"
    assert found == sorted(set(found))


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("* * * *", "has 4 fields"),
        ("60 * * * *", "the minute of '60 * * * *' cannot be '60': it is 0 to 59"),
        ("* * 0 * *", "day of month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "day of week"),
        ("5-1 * * * *", "backwards"),
        ("*/0 * * * *", "step of minute"),
        ("a * * * *", "cannot be 'a'"),
        ("1,,2 * * * *", "cannot be ''"),
        ("-5 * * * *", "cannot be ''"),
        ("¹ * * * *", "cannot be"),
    ],
)
def test_what_means_nothing(expression: str, problem: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Cron(expression)
    assert problem in str(caught.value)


def test_a_day_that_never_comes() -> None:
    with pytest.raises(InvalidRequest, match="never comes"):
        ticks("0 0 30 2 *", "2026-01-01 00:00", 1)
