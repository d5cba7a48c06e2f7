"""Schedules of periodic tasks, as pure arithmetic.

A schedule answers one question: the first tick after a time. Ticks belong to the calendar and not
to a process: `Every(30)` ticks at every full half minute, in every process. So all
processes of an application agree on which ticks there are, and the name of a tick is the same
everywhere; that is what makes it fire once (see `penstock.workers.ticker`).
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol

from penstock.core.errors import InvalidRequest

PERIOD_SECONDS_MIN = 0.001
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Schedule(Protocol):
    """Times in an endless row. `Cron` and `Every` are schedules, and so is anything like them."""

    def next_after(self, when: datetime) -> datetime:
        """The first tick after a time, in UTC."""
        ...


class Missed(StrEnum):
    """The treatment of ticks that were missed while no worker ran."""

    SKIP = "skip"
    """Skip them. For tasks that are useful only at their time."""
    RUN_ONCE = "run once"
    """Run the latest of them late and skip the others. For tasks that must run in any case."""


@dataclass(frozen=True, slots=True)
class Every:
    """A tick every `seconds`, counted from the beginning of 1970, plus `offset` seconds."""

    seconds: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        if self.seconds < PERIOD_SECONDS_MIN:
            raise InvalidRequest(
                f"a task cannot be due every {self.seconds} s: {PERIOD_SECONDS_MIN} s is the least"
            )

    def next_after(self, when: datetime) -> datetime:
        # Whole microseconds, so that no rounding ever gives a time that is not after.
        period = round(self.seconds * 1_000_000)
        offset = round(self.offset * 1_000_000)
        passed = (when - _EPOCH) // timedelta(microseconds=1) - offset
        return _EPOCH + timedelta(microseconds=offset + (passed // period + 1) * period)


def latest_before(schedule: Schedule, now: datetime, since: datetime) -> datetime | None:
    """The last tick after `since` and not after `now`; None if there was none.

    A schedule knows only what comes next. So it is asked from further and further back, which takes
    some twenty questions even for years, and then on from the last answer that was too early."""
    step = timedelta(milliseconds=1)
    while True:
        begin = max(since, now - step)
        tick = schedule.next_after(begin)
        if tick <= now:
            break
        if begin == since:
            return None
        step *= 4
    while (following := schedule.next_after(tick)) <= now:
        tick = following
    return tick
