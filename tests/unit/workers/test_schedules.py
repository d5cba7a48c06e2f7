"""Periods are of the calendar, and the latest tick is found without knowing earlier ones."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock.workers.cron import Cron
from penstock.workers.schedules import Every, latest_before

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def test_everybody_finds_the_same_ticks() -> None:
    half_minute = Every(30)
    for second in (0, 1, 29):
        assert half_minute.next_after(NOON + timedelta(seconds=second)) == NOON + timedelta(
            seconds=30
        )
    assert half_minute.next_after(NOON + timedelta(seconds=29.999999)) == NOON + timedelta(
        seconds=30
    )


def test_an_offset_moves_them() -> None:
    assert Every(60, offset=7).next_after(NOON) == NOON + timedelta(seconds=7)
    assert Every(60, offset=-7).next_after(NOON) == NOON + timedelta(seconds=53)


def test_odd_periods_never_stand_still() -> None:
    tick = Every(0.7).next_after(NOON)
    for _ in range(1_000):
        following = Every(0.7).next_after(tick)
        assert following - tick == timedelta(seconds=0.7)
        tick = following


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/5 * * * *", NOON),
        ("1 * * * *", NOON - timedelta(minutes=59)),
        ("0 6 1 * *", NOON.replace(day=1, hour=6)),
        ("* 3 * * *", NOON.replace(hour=3, minute=59)),
    ],
)
def test_the_latest_tick(expression: str, expected: datetime) -> None:
    assert latest_before(Cron(expression), NOON, NOON - timedelta(days=40)) == expected


def test_no_tick_yet() -> None:
    assert latest_before(Cron("0 6 1 * *"), NOON, NOON - timedelta(days=2)) is None
    assert latest_before(Every(30), NOON, NOON) is None
    assert latest_before(Every(30), NOON, NOON - timedelta(milliseconds=1)) == NOON
