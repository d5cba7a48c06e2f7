"""Not faster than so many each second, whatever the bites."""

import pytest

from penstock.engine.moves.move_runner import RateLimit


@pytest.mark.parametrize("bite", [1, 7, 100])
def test_no_faster_than_told(bite: int) -> None:
    pace, now_ms = RateLimit(50), 1_000
    for _ in range(1_000 // bite):
        now_ms += pace.pay(bite, began_ms=now_ms, now_ms=now_ms)
    done = 1_000 // bite * bite
    assert now_ms == pytest.approx(1_000 + done * 20, abs=1_000 // bite)


def test_time_that_passed_counts() -> None:
    pace = RateLimit(100)
    assert pace.pay(10, began_ms=0, now_ms=60) == 40
    assert pace.pay(10, began_ms=100, now_ms=300) == 0, "it took longer than it had to"


def test_idle_time_is_not_saved_up() -> None:
    pace = RateLimit(10)
    assert pace.pay(1, began_ms=0, now_ms=0) == 100
    assert pace.pay(5, began_ms=60_000, now_ms=60_000) == 500


def test_nothing_costs_nothing() -> None:
    assert RateLimit(1).pay(0, began_ms=5, now_ms=5) == 0
