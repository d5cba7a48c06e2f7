"""One timer for many deadlines."""

import asyncio
from collections.abc import Callable
from typing import cast

from penstock.client.connection.timer import EARLY_SECONDS, NEVER, Alarm


class Timers:
    """As much of a loop as an alarm needs, whose time stands still."""

    def __init__(self) -> None:
        self.now = 100.0
        self.made = 0
        self._due: dict[Timer, tuple[float, Callable[[], None]]] = {}

    def call_later(self, delay: float, call: Callable[[], None]) -> "Timer":
        self.made += 1
        timer = Timer(self)
        self._due[timer] = self.now + delay, call
        return timer

    def forget(self, timer: "Timer") -> None:
        self._due.pop(timer, None)

    def move(self, seconds: float) -> None:
        self.now += seconds
        for timer, (when, call) in list(self._due.items()):
            if when <= self.now and timer in self._due:
                self.forget(timer)
                call()

    @property
    def running(self) -> int:
        return len(self._due)


class Timer:
    def __init__(self, timers: Timers) -> None:
        self._timers = timers

    def cancel(self) -> None:
        self._timers.forget(self)


class Deadlines:
    """Somebody who has many."""

    def __init__(self) -> None:
        self.timers = Timers()
        loop = cast(asyncio.AbstractEventLoop, self.timers)
        self.alarm = Alarm(loop, self._ring, lambda: self.timers.now)
        self.left: set[float] = set()
        self.passed: list[float] = []

    def add(self, deadline: float) -> None:
        self.left.add(deadline)
        self.alarm.set(deadline)

    def _ring(self, now: float) -> float:
        over = sorted(one for one in self.left if one <= now)
        self.passed += over
        self.left.difference_update(over)
        return min(self.left, default=NEVER)


def test_each_is_told_in_its_turn_by_one_timer_at_a_time() -> None:
    deadlines = Deadlines()
    for deadline in (105.0, 103.0, 110.0, 104.0):
        deadlines.add(deadline)
        assert deadlines.timers.running == 1
    deadlines.timers.move(3.0)
    assert deadlines.passed == [103.0]
    deadlines.timers.move(1.0)
    assert deadlines.passed == [103.0, 104.0]
    deadlines.timers.move(6.0)
    assert deadlines.passed == [103.0, 104.0, 105.0, 110.0]
    assert deadlines.timers.running == 0


def test_what_is_over_in_time_costs_no_timer() -> None:
    deadlines = Deadlines()
    for number in range(1_000):
        deadlines.add(105.0 + number / 1_000)
        deadlines.left.clear()
    assert deadlines.timers.made == 1
    deadlines.timers.move(5.0)
    assert (deadlines.passed, deadlines.timers.running) == ([], 0)
    deadlines.add(107.0)
    deadlines.timers.move(2.0)
    assert deadlines.passed == [107.0]


def test_what_is_due_in_a_moment_is_due() -> None:
    deadlines = Deadlines()
    deadlines.add(103.0)
    deadlines.add(103.0 + EARLY_SECONDS / 2)
    deadlines.timers.move(3.0)
    assert (len(deadlines.passed), deadlines.timers.running) == (2, 0)


def test_one_that_was_stopped_is_silent_until_it_is_set_again() -> None:
    deadlines = Deadlines()
    deadlines.add(103.0)
    deadlines.alarm.stop()
    deadlines.timers.move(10.0)
    assert deadlines.passed == []
    deadlines.add(111.0)
    deadlines.timers.move(1.0)
    assert deadlines.passed == [103.0, 111.0]


def test_a_program_that_works_for_long_is_not_late_with_what_it_asks_then() -> None:
    deadlines = Deadlines()
    deadlines.add(101.0)
    deadlines.left.clear()  # It was answered; then the loop stood still.
    deadlines.timers.now += 5.0
    deadlines.add(deadlines.timers.now + 1.0)
    deadlines.timers.move(0.0)
    assert deadlines.passed == []
    deadlines.timers.move(1.0)
    assert deadlines.passed == [106.0]
