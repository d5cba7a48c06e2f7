"""The loads of `penstock bench` on an engine in memory, by a clock that ticks when looked at."""

import asyncio
import gc
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

import penstock
from penstock.cli.bench import loads as bench_loads
from penstock.cli.bench.load import Load, Schedule, Tally
from penstock.core.errors import Unavailable
from tests.unit.engine.nodes import until

MEMORY = "memory:bench-loads"


@asynccontextmanager
async def queue_of_a_client() -> AsyncIterator[penstock.Queue[bytes]]:
    async with penstock.connect(MEMORY) as client:
        await client.create_queue("jobs")
        yield client.queue("jobs", codec=bytes)


def ticking() -> Callable[[], float]:
    """A clock on which each look takes a hundredth of a second."""
    return (number / 100 for number in itertools.count()).__next__


def tally_of(load: Load) -> Tally:
    return Tally(load, start=0.0, now=ticking())


def test_producing_and_consuming_count_every_message() -> None:
    async def work() -> None:
        load = Load(kind="produce", messages=25, batch=10, size_bytes=7, clients=2)
        tally = tally_of(load)
        async with queue_of_a_client() as queue:
            await bench_loads.produce([queue, queue], load, tally)
            assert (tally.counted, tally.histograms["call"].count) == (25, 3)
            assert 0 < tally.ended < 0.2
            assert (await queue.stats()).sent == 25
            assert {len(one.raw) for one in await queue.peek(25)} == {7}
            load = Load(kind="consume", messages=25, batch=10)
            tally = tally_of(load)
            await bench_loads.consume([queue, queue], load, tally)
            assert (tally.counted, tally.histograms["call"].count) == (25, 3)
            assert (await queue.stats()).acked == 25

    asyncio.run(work())


def test_a_time_ends_a_load_and_what_was_before_its_warm_up_does_not_count() -> None:
    async def work() -> None:
        load = Load(kind="produce", seconds=0.5, batch=1, size_bytes=1, warm_up_seconds=0.3)
        tally = tally_of(load)
        async with queue_of_a_client() as queue:
            await bench_loads.produce([queue], load, tally)
            sent = (await queue.stats()).sent
        assert tally.pulse().done == tally.done_all == sent
        assert 0 < tally.counted < sent
        assert tally.counted == tally.histograms["call"].count
        assert tally.ended == pytest.approx(0.8, abs=0.03)

    asyncio.run(work())


def test_a_schedule_is_fixed_beforehand() -> None:
    """Two clients take turns; the clock is far ahead, and still every call has its own due time."""

    async def work() -> None:
        load = Load(kind="produce", rate=1_000.0, batch=10, clients=2, offset_seconds=0.005)
        tally = Tally(load, start=0.0, now=lambda: 5.0)
        first, second = (Schedule(load, tally, number=number) for number in (0, 1))
        due = [await first.next(), await second.next(), await first.next(), await second.next()]
        assert due == [pytest.approx(0.005 + turn * 0.01) for turn in range(4)]

    asyncio.run(work())


def test_a_schedule_ends_with_the_time_and_when_it_is_stopped() -> None:
    async def work() -> None:
        load = Load(kind="produce", rate=10.0, batch=1, seconds=0.15)
        tally = Tally(load, start=0.0, now=lambda: 0.0)
        tally.now = lambda: 0.12
        schedule = Schedule(load, tally, number=0)
        assert [await schedule.next() for _ in range(3)] == [0.0, pytest.approx(0.1), None]
        tally = Tally(Load(kind="produce"), start=0.0, now=lambda: 0.0)
        tally.stopping.set()
        assert await Schedule(Load(kind="produce"), tally, number=0).next() is None

    asyncio.run(work())


def test_latencies_are_from_when_a_message_was_due() -> None:
    """All are due at once, and time passes only when it is looked at."""

    async def work() -> None:
        load = Load(kind="latency", messages=20, rate=1e9, batch=1, size_bytes=50, token=7)
        tally = tally_of(load)
        async with queue_of_a_client() as queue:
            await bench_loads.latency([queue, queue], load, tally)
            assert (await queue.stats()).acked == 20
        sent, received = tally.histograms["send"], tally.histograms["receive"]
        assert sent.count == received.count == tally.counted == 20
        assert 0.01 <= sent.quantile(0.5) <= sent.most
        assert received.most > 0.2, "the last one was due at 0, and twenty looks came before it"

    asyncio.run(work())


def test_messages_of_others_are_put_off_and_not_acknowledged() -> None:
    async def work() -> None:
        load = Load(kind="latency", messages=5, rate=1e9, batch=1, size_bytes=50, token=7)
        tally = tally_of(load)
        async with queue_of_a_client() as queue:
            await queue.send_many([b"of", b"others, and longer than a stamp"])
            await bench_loads.latency([queue, queue], load, tally)
            stats = await queue.stats()
        assert (tally.counted, tally.foreign) == (5, 2)
        assert (stats.acked, stats.delayed) == (5, 2)

    asyncio.run(work())


def test_a_failing_sender_ends_the_receiver() -> None:
    class Failing:
        async def send(self, _body: bytes) -> None:
            raise Unavailable("the broker has gone")

    async def work() -> None:
        load = Load(kind="latency", messages=5, rate=1e9, batch=1, size_bytes=50)
        async with queue_of_a_client() as queue:
            before = asyncio.all_tasks()
            with pytest.raises(Unavailable, match="has gone"):
                await bench_loads.latency(
                    [Failing(), queue],  # type: ignore[list-item]
                    load,
                    tally_of(load),
                )
            left = [repr(task) for task in asyncio.all_tasks() - before]
            assert not [task for task in left if "bench_loads" in task]

    asyncio.run(work())


def test_several_failures_at_once_are_all_looked_at() -> None:
    """Otherwise asyncio prints the others when they are collected."""

    async def fail() -> None:
        raise Unavailable("the broker has gone")

    async def work() -> list[dict[str, object]]:
        complaints: list[dict[str, object]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        with pytest.raises(Unavailable, match="has gone"):
            await bench_loads.drive([fail(), fail(), fail()], tally_of(Load(kind="produce")))
        gc.collect()
        return complaints

    assert asyncio.run(work()) == []


def test_a_load_that_is_told_to_stop_stops() -> None:
    async def work() -> None:
        load = Load(kind="produce", batch=1, size_bytes=1)
        tally = tally_of(load)
        async with queue_of_a_client() as queue:
            running = asyncio.create_task(bench_loads.produce([queue], load, tally))
            await until(lambda: tally.done_all >= 5)
            tally.stopping.set()
            await running
            assert tally.done_all == (await queue.stats()).sent, "the call under way counts"

    asyncio.run(work())


def test_a_load_is_split_without_a_remainder() -> None:
    load = Load(kind="queue", messages=11, rate=300.0, batch=10, clients=2)
    shares = load.split(3)
    assert [one.messages for one in shares] == [4, 4, 3]
    assert [one.rate for one in shares] == [100.0] * 3
    assert [one.first_sender for one in shares] == [0, 2, 4]
    assert [one.offset_seconds for one in shares] == pytest.approx([0, 1 / 30, 2 / 30])
    assert [one.messages for one in Load(kind="queue").split(2)] == [None, None]
