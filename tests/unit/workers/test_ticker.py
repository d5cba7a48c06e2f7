"""Ticks are sent once, in time, whatever the clock does."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from penstock.core.errors import Unavailable
from penstock.testing.clock import ManualClock
from penstock.workers.cron import Cron
from penstock.workers.schedules import Every, Missed, Schedule
from penstock.workers.ticker import Tick, Ticker, window_seconds

START = datetime(2026, 5, 4, 12, 0, 10, tzinfo=UTC)
MINUTE = Every(60)


def make_clock() -> ManualClock:
    return ManualClock(wall_ms=int(START.timestamp() * 1_000))


class Post:
    """Takes ticks, or refuses to."""

    def __init__(self) -> None:
        self.ticks: list[Tick] = []
        self.is_open = True

    async def send(self, tick: Tick) -> None:
        if not self.is_open:
            raise Unavailable("the broker is away")
        self.ticks.append(tick)

    @property
    def times(self) -> list[str]:
        return [tick.at.strftime("%H:%M:%S") for tick in self.ticks]


def ticker(clock: ManualClock, schedule: Schedule, missed: Missed, post: Post) -> Ticker:
    return Ticker("app.beat", schedule, missed, clock, post.send)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def play(
    schedule: Schedule, missed: Missed, moves: list[Callable[[ManualClock, Post], None]]
) -> list[str]:
    async def run() -> list[str]:
        clock, post = make_clock(), Post()
        running = asyncio.create_task(ticker(clock, schedule, missed, post).run())
        await settle()
        for move in moves:
            move(clock, post)
            await settle()
        running.cancel()
        return post.times

    return asyncio.run(run())


def later(seconds: float) -> Callable[[ManualClock, Post], None]:
    return lambda clock, _post: clock.advance(int(seconds * 1_000))


def test_ticks_come_when_they_are_due() -> None:
    assert play(MINUTE, Missed.SKIP, [later(49), later(1), later(30), later(30)]) == [
        "12:01:00",
        "12:02:00",
    ]


def test_after_a_long_pause_only_the_last_one_comes() -> None:
    assert play(MINUTE, Missed.SKIP, [later(50), later(600)]) == ["12:01:00", "12:11:00"]


def test_what_is_too_late_is_skipped_or_made_up_for() -> None:
    hourly = Cron("0 * * * *")
    assert play(hourly, Missed.SKIP, [later(3_600 + 600)]) == []
    assert play(hourly, Missed.RUN_ONCE, [later(3_600 + 600)]) == ["12:00:00", "13:00:00"]


def test_a_start_makes_up_for_the_latest_only_if_asked_to() -> None:
    noon = Cron("0 12 * * *")
    assert play(noon, Missed.SKIP, []) == []
    assert play(noon, Missed.RUN_ONCE, []) == ["12:00:00"]


def test_a_clock_that_is_put_back_repeats_nothing() -> None:
    def back(clock: ManualClock, _post: Post) -> None:
        clock.jump_wall(-120_000)

    moves = [later(50), back, later(120), later(60)]
    assert play(MINUTE, Missed.SKIP, moves) == ["12:01:00", "12:02:00"]


def test_a_broker_that_is_away_is_asked_again() -> None:
    def shut(_clock: ManualClock, post: Post) -> None:
        post.is_open = False

    def reopen(_clock: ManualClock, post: Post) -> None:
        post.is_open = True

    assert play(MINUTE, Missed.SKIP, [shut, later(50), later(5), reopen, later(5)]) == ["12:01:00"]


def test_a_tick_has_the_same_id_everywhere_and_expires_with_the_next() -> None:
    clock = make_clock()
    one, other = (ticker(clock, MINUTE, Missed.SKIP, Post()) for _ in range(2))
    clock.advance(55_000)
    found = one.due()
    assert found is not None
    assert found == other.due()
    assert found.id == "app.beat@2026-05-04T12:01:00+00:00"
    assert found.expires == found.at + timedelta(minutes=1)


def test_what_has_to_be_done_at_all_does_not_expire() -> None:
    due = ticker(make_clock(), MINUTE, Missed.RUN_ONCE, Post()).due()
    assert due is not None
    assert due.expires is None


def test_ids_are_remembered_for_longer_than_a_schedule_pauses() -> None:
    day = 24 * 3_600
    assert window_seconds(Every(1), START) == 3_600
    assert window_seconds(Cron("0 3 * * *"), START) == 2 * day
    assert window_seconds(Cron("0 3 * * mon-fri"), START) == 6 * day
    assert window_seconds(Cron("0 3 1 * *"), START) == 7 * day
