"""`core.clock`: the real clock agrees with the operating system's."""

import time

from penstock.core.clock import Clock, SystemClock


def test_wall_time_is_milliseconds_since_1970() -> None:
    clock: Clock = SystemClock()
    before = time.time_ns()
    reading = clock.wall_ms()
    after = time.time_ns()
    assert before // 1_000_000 <= reading <= after // 1_000_000


def test_monotonic_time_never_decreases() -> None:
    clock: Clock = SystemClock()
    readings = [clock.monotonic_ms() for _ in range(1_000)]
    assert readings == sorted(readings)
    assert all(isinstance(reading, int) for reading in readings)
