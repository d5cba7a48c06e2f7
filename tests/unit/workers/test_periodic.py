"""Periodic tasks from end to end: several processes' worth of applications, one queue."""

import asyncio
from datetime import UTC, datetime, timedelta

import penstock
from penstock.testing.clock import ManualClock
from penstock.workers.app import App
from penstock.workers.schedules import Missed
from tests.unit.workers.rig import play, until

MIDNIGHT = datetime(2026, 5, 4, tzinfo=UTC)


def make_clock(**since_midnight: float) -> ManualClock:
    when = MIDNIGHT + timedelta(**since_midnight)
    return ManualClock(wall_ms=int(when.timestamp() * 1_000))


async def let_pass(clock: ManualClock, seconds: float) -> None:
    clock.advance(seconds=seconds)
    for _ in range(200):
        await asyncio.sleep(0)


def test_each_tick_fires_once_however_many_run_the_application() -> None:
    async def story() -> None:
        clock, fired = make_clock(), list[datetime]()
        apps = [App("memory:beats", clock=clock, name="beats") for _ in range(3)]
        for app in apps:

            @app.every(seconds=60)
            async def beat(tick: datetime) -> None:
                fired.append(tick)

        async with apps[0], apps[1], apps[2]:
            await until(lambda: all(app.statistics().workers for app in apps))
            for number in range(1, 6):
                await let_pass(clock, 60)
                await until(lambda: len(fired) >= number)  # noqa: B023 - it is asked at once.
        assert fired == [MIDNIGHT + timedelta(minutes=number) for number in range(1, 6)]

    play(story)


def test_a_function_may_take_nothing() -> None:
    async def story() -> None:
        clock, fired = make_clock(), list[int]()
        app = App("memory:nothing", clock=clock)

        @app.cron("30 3 * * *")
        def nightly() -> None:
            fired.append(1)

        async with app:
            await until(lambda: app.statistics().workers != ())
            await let_pass(clock, 3 * 3_600 + 1_799)
            assert fired == []
            await let_pass(clock, 1)
            await until(lambda: fired == [1])
        assert nightly.queue == "app.nightly"

    play(story)


def test_a_missed_tick_is_made_up_for_once() -> None:
    async def story() -> None:
        clock, fired = make_clock(hours=9), list[datetime]()

        def make() -> App:
            app = App("memory:missed", clock=clock)

            @app.cron("0 6 * * *", missed=Missed.RUN_ONCE)
            async def nightly(tick: datetime) -> None:
                fired.append(tick)

            return app

        async with penstock.connect("memory:missed", clock=clock) as keeps_it:
            async with make():
                await until(lambda: fired == [MIDNIGHT + timedelta(hours=6)])
            async with make() as again:
                await until(lambda: again.statistics().workers != ())
                for _ in range(500):
                    await asyncio.sleep(0)
                stats = await keeps_it.queue("app.nightly").stats()
            assert len(fired) == 1, "the queue remembers that it was sent"
            assert stats.acked == 1

    play(story)


def test_ticks_that_nobody_worked_on_in_time_are_void() -> None:
    async def story() -> None:
        clock, fired = make_clock(), list[datetime]()

        def make() -> App:
            app = App("memory:void", clock=clock)

            @app.every(seconds=10)
            async def beat(tick: datetime) -> None:
                fired.append(tick)

            return app

        async with penstock.connect("memory:void", clock=clock) as client:
            async with make() as first:
                await until(lambda: first.statistics().workers != ())
            queue = client.queue("app.beat", codec=datetime)
            tick = MIDNIGHT + timedelta(seconds=10)
            await queue.send(tick, dedup_id="x", expire_at=tick + timedelta(seconds=10))
            clock.advance(seconds=25)
            async with make() as second:
                await until(lambda: second.statistics().workers != ())
                await let_pass(clock, 10)
                await until(lambda: len(fired) == 1)
        assert fired == [MIDNIGHT + timedelta(seconds=30)]

    play(story)
