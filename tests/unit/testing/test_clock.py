"""The clock that is moved by hand."""

import pytest

from penstock.core.clock import Clock, SystemClock
from penstock.testing.clock import ManualClock


def test_it_stands_still() -> None:
    clock: Clock = ManualClock(wall_ms=1000, monotonic_ms=5)
    assert (clock.wall_ms(), clock.wall_ms(), clock.monotonic_ms()) == (1000, 1000, 5)


def test_it_advances_both_readings() -> None:
    clock = ManualClock(wall_ms=1000)
    clock.advance(250)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (1250, 250)


def test_only_the_wall_clock_jumps() -> None:
    clock = ManualClock(wall_ms=1000)
    clock.jump_wall(-400)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (600, 0)


def test_time_does_not_pass_backwards() -> None:
    with pytest.raises(AssertionError, match="backwards"):
        ManualClock().advance(-1)


def test_the_real_one_has_the_same_shape() -> None:
    clock: Clock = SystemClock()
    first = clock.monotonic_ms()
    assert clock.monotonic_ms() >= first
    assert clock.wall_ms() > 1_600_000_000_000


def test_it_may_be_moved_by_seconds() -> None:
    clock = ManualClock(wall_ms=1000)
    clock.advance(seconds=1.5)
    clock.advance(10, seconds=1)
    assert clock.monotonic_ms() == 2510


def test_whoever_watches_is_told_of_every_move() -> None:
    clock = ManualClock()
    seen: list[int] = []
    end = clock.watch(lambda: seen.append(clock.monotonic_ms()))
    clock.advance(5)
    clock.jump_wall(-100)
    end()
    end()
    clock.advance(5)
    assert seen == [5, 5]
