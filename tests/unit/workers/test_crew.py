"""Crews: order, pools, circuits, poison, and an end at which nothing is lost."""

import asyncio
import sqlite3
from collections import defaultdict
from pathlib import Path

import pytest

from penstock.client.message import Message
from penstock.client.processed_ids import SqliteProcessed
from penstock.client.processed_store import Transaction
from penstock.core.errors import PenstockError
from penstock.workers.breaker import CircuitBreaker
from penstock.workers.options import WorkerOptions
from penstock.workers.pools import Pool
from penstock.workers.retry import Retry, fixed
from tests.unit.workers.rig import Rig, play, until


def test_idle_workers_steal_from_busy_ones() -> None:
    async def story() -> None:
        rig, gate, done = Rig(), asyncio.Event(), list[int]()

        @rig.app.worker("jobs", concurrency=2, prefetch=40)
        async def job(number: int) -> None:
            if number == 0:
                await gate.wait()
            done.append(number)

        async with rig.client:
            await rig.client.queue("jobs", codec=int).send_many(range(20))
            async with rig.app:
                await until(lambda: sorted(done) == list(range(1, 20)))
                assert sum(row.stolen for row in rig.app.statistics().workers) > 0
                gate.set()
                await rig.until_stats("jobs", acked=20)

    play(story)


@pytest.mark.parametrize("fails", [False, True])
def test_messages_of_a_group_are_worked_on_in_order(fails: bool) -> None:
    async def story() -> None:
        rig = Rig()
        begun: dict[str, list[int]] = defaultdict(list)
        at_work: set[str] = set()

        @rig.app.worker("steps", concurrency=4, retry=Retry(default=fixed(1)), lease=3_600)
        async def step(message: Message[int]) -> None:
            group = message.message_group or ""
            assert group not in at_work, "two hands"
            at_work.add(group)
            for _ in range(3):
                await asyncio.sleep(0)
            at_work.discard(group)
            if fails and message.body % 7 == 3 and message.deliveries == 1:
                raise ConnectionError("away")
            begun[group].append(message.body)

        async with rig.client:
            await rig.client.create_queue("steps", fifo=True)
            queue = rig.client.queue("steps", codec=int)
            for number in range(60):
                await queue.send(number, message_group="abc"[number % 3])
            async with rig.app:
                while sum(map(len, begun.values())) < 60:
                    await until(lambda: not at_work)
                    rig.clock.advance(seconds=1)
                    for _ in range(50):
                        await asyncio.sleep(0)
                    assert rig.clock.monotonic_ms() < 1_000_000, "it goes on and on"
                await rig.until_stats("steps", acked=60)
        assert {group: done == sorted(done) for group, done in begun.items()} == {
            "a": True,
            "b": True,
            "c": True,
        }

    play(story)


@pytest.mark.slow
def test_bulk_cannot_starve_what_has_workers_of_its_own() -> None:
    async def story() -> None:
        rig, gate, done = Rig(), asyncio.Event(), list[str]()
        pools = {"high": Pool(priorities=range(7, 10), workers=1), "bulk": Pool(workers=2)}

        @rig.app.worker("jobs", pools=pools, create={"priorities": "strict"})
        async def job(name: str) -> None:
            if name.startswith("bulk"):
                await gate.wait()
            done.append(name)

        async with rig.working():
            await job.send_many([f"bulk {number}" for number in range(50)], priority=1)
            await until(lambda: rig.app.statistics().workers != ())
            await rig.until_stats("jobs", sent=50)
            await job.send("high 1", priority=9)
            await until(lambda: done == ["high 1"])
            await job.send("high 2", priority=8)
            await until(lambda: done == ["high 1", "high 2"])
            gate.set()
            await rig.until_stats("jobs", acked=52)

    play(story)


def test_the_first_queue_is_the_most_urgent() -> None:
    async def story() -> None:
        rig, gate, done = Rig(), asyncio.Event(), list[str]()

        @rig.app.worker(["high", "normal", "low"], concurrency=1, prefetch=20)
        async def job(name: str) -> None:
            if name == "first":
                await gate.wait()
            done.append(name)

        async with rig.working():
            await job.send("first")
            await rig.until_stats("high", leased=1)
            for queue in ("low", "normal", "high"):
                await rig.client.queue(queue, codec=str).send_many([queue] * 2)
                # All of them are here before the next one is chosen.
                await rig.until_stats(queue, leased=3 if queue == "high" else 2)
            gate.set()
            await until(lambda: len(done) == 7)
            assert done == ["first", "high", "high", "normal", "normal", "low", "low"]

    play(story)


def test_a_queue_with_a_pool_of_its_own_does_not_wait_for_the_others() -> None:
    async def story() -> None:
        rig, gate, done = Rig(), asyncio.Event(), list[str]()
        pools = {"high": Pool(queues=["high"], workers=1), "rest": Pool(workers=2)}

        @rig.app.worker(["high", "low"], pools=pools)
        async def job(name: str) -> None:
            if name == "low":
                await gate.wait()
            done.append(name)

        async with rig.working():
            await rig.client.queue("low", codec=str).send_many(["low"] * 30)
            await until(lambda: rig.app.statistics().workers != ())
            await job.send_many(["high"] * 5)
            await until(lambda: done == ["high"] * 5)
            gate.set()
            await rig.until_stats("low", acked=30)

    play(story)


def test_a_failed_transaction_leaves_nothing_behind(tmp_path: Path) -> None:
    async def story() -> None:
        rig, store = Rig(), SqliteProcessed(tmp_path / "books.db")
        with sqlite3.connect(tmp_path / "books.db") as books:
            books.execute("CREATE TABLE books (amount INTEGER)")
        books.close()

        @rig.app.worker("payments", processed=store, retry=Retry(default=fixed(0)))
        async def book(message: Message[int], transaction: Transaction[sqlite3.Connection]) -> None:
            transaction.cursor.execute("INSERT INTO books VALUES (?)", (message.body,))
            if message.deliveries == 1:
                raise ConnectionError("away")

        async with rig.working():
            await book.send(5)
            await rig.until_stats("payments", acked=1)
        with sqlite3.connect(tmp_path / "books.db") as books:
            assert books.execute("SELECT amount FROM books").fetchall() == [(5,)]
        books.close()
        store.close()

    play(story)


@pytest.mark.slow
def test_an_open_circuit_leaves_messages_where_they_are() -> None:
    async def story() -> None:
        rig, calls = Rig(), list[int]()
        breaker = CircuitBreaker("payments", failures=3, within=60, open_for=0.05, on=(OSError,))
        up = asyncio.Event()

        @rig.app.worker("orders", concurrency=2, breaker=breaker, retry=Retry(default=fixed(0)))
        async def charge(message: Message[int]) -> None:
            calls.append(message.deliveries)
            if not up.is_set():
                raise ConnectionError("down")

        async with rig.working():
            await charge.send_many(list(range(30)))
            await until(lambda: breaker.opened >= 3)
            assert len(calls) <= 8, "a few failures, and one probe each time"
            up.set()
            await rig.until_stats("orders", acked=30)
            assert max(calls) <= 7, "waiting cost no deliveries"
        assert rig.app.statistics().tasks[0].failed == len(calls) - 30

    play(story)


def test_a_circuit_inside_a_function_gives_the_message_back_uncounted() -> None:
    async def story() -> None:
        rig, seen = Rig(), list[int]()
        breaker = CircuitBreaker("payments", failures=1, open_for=0.03)

        @rig.app.worker("orders")
        async def charge(message: Message[int]) -> None:
            if not breaker.opened and (permit := breaker.permit()) is not None:
                permit.ended(OSError("down"))
            with breaker:
                seen.append(message.deliveries)

        async with rig.working():
            await charge.send(1)
            await rig.until_stats("orders", acked=1)
        assert seen == [1]
        total = rig.app.statistics().tasks[0]
        assert total.failed == 0
        assert total.returned >= 1

    play(story)


def test_what_kills_its_workers_is_found_out() -> None:
    async def story() -> None:
        rig, done = Rig(), list[str]()

        @rig.app.worker("jobs", lease=30, poison_after=3)
        async def job(name: str) -> None:
            done.append(name)

        async with rig.client:
            queue = rig.client.queue("jobs", codec=str)
            await queue.create(retry="none")
            await queue.send("poison")
            for number in (1, 2, 3):  # Three processes that die of it.
                (message,) = await queue.receive(lease=30)
                assert message.deliveries == number
                rig.clock.advance(seconds=31)
            await queue.send("harmless")
            async with rig.app:
                await rig.until_stats("jobs", acked=1, moved=1)
                (letter,) = await rig.dead("jobs")
        assert letter.reason.startswith("poison: 3 earlier deliveries")
        assert done == ["harmless"]
        total = rig.app.statistics().tasks[0]
        assert (total.poisoned, total.rejected, total.processed) == (1, 1, 1)

    play(story)


def test_a_suspect_is_worked_on_alone() -> None:
    async def story() -> None:
        rig = Rig()
        at_work, company = set[str](), dict[str, int]()

        @rig.app.worker("jobs", lease=30, poison_after=3)
        async def job(name: str) -> None:
            at_work.add(name)
            for _ in range(20):
                await asyncio.sleep(0)
            company[name] = len(at_work)
            at_work.discard(name)

        async with rig.client:
            queue = rig.client.queue("jobs", codec=str)
            await queue.create(retry="none")
            await queue.send("suspect")
            for _ in range(2):
                await queue.receive(lease=30)
                rig.clock.advance(seconds=31)
            await queue.send_many([f"other {number}" for number in range(8)])
            async with rig.app:
                await rig.until_stats("jobs", acked=9)
        assert company["suspect"] == 1
        assert max(company.values()) > 1

    play(story)


def test_stopping_finishes_what_is_in_hand_and_gives_back_the_rest() -> None:
    async def story() -> None:
        rig, gate, begun, done = Rig(), asyncio.Event(), list[int](), list[int]()

        @rig.app.worker("jobs", concurrency=3, prefetch=20)
        async def job(number: int) -> None:
            begun.append(number)
            await gate.wait()
            done.append(number)

        async with rig.client:
            await rig.client.queue("jobs", codec=int).send_many(range(40))
            running = asyncio.create_task(rig.app.run())
            await until(lambda: len(begun) == 3)
            rig.app.stop()
            await rig.until_stats("jobs", leased=3, ready=37)
            assert not running.done()
            gate.set()
            await running
            assert sorted(done) == sorted(begun)
            await rig.until_stats("jobs", acked=3, ready=37, leased=0)
            rest = await rig.client.queue("jobs").receive(40)
            assert {message.deliveries for message in rest} == {1}, "nothing was counted"

    play(story)


def test_when_the_grace_is_over_work_is_cancelled_and_goes_back() -> None:
    async def story() -> None:
        rig, ended = Rig(), list[str]()

        @rig.app.worker("jobs", concurrency=2)
        async def job(number: int) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        async with rig.client:
            await rig.client.queue("jobs", codec=int).send_many(range(2))
            running = asyncio.create_task(rig.app.run())
            await rig.until_stats("jobs", leased=2)
            await until(lambda: len(rig.app.statistics().workers) == 2)
            for _ in range(100):
                await asyncio.sleep(0)
            rig.app.stop()
            for _ in range(10):
                await asyncio.sleep(0)
            rig.app.stop(0)  # The second signal.
            await running
            assert ended == ["cancelled"] * 2
            await rig.until_stats("jobs", ready=2, leased=0)
            again = await rig.client.queue("jobs").receive(2)
            assert {message.deliveries for message in again} == {1}

    play(story)


def test_exactly_once_processes_a_repeated_message_once(tmp_path: Path) -> None:
    async def story() -> None:
        rig = Rig()
        store = SqliteProcessed(tmp_path / "books.db")

        @rig.app.worker("payments", processed=store, lease=30)
        def book(amount: int, transaction: Transaction[sqlite3.Connection]) -> None:
            transaction.connection.execute("CREATE TABLE IF NOT EXISTS books (amount INTEGER)")
            transaction.connection.execute("INSERT INTO books VALUES (?)", (amount,))

        @rig.app.worker("refunds", processed=store)
        async def refund(amount: int, transaction: Transaction[sqlite3.Connection]) -> None:
            transaction.connection.execute("INSERT INTO books VALUES (?)", (-amount,))

        async with rig.client:
            queue = rig.client.queue("payments", codec=int)
            await queue.send(5)
            (message,) = await queue.receive(lease=30)
            with store.once(message) as transaction:
                book(message.body, transaction)
            rig.clock.advance(seconds=31)  # The worker died before it could acknowledge.
            await rig.until_stats("payments", delayed=1)
            rig.clock.advance(seconds=4)
            async with rig.app:
                await rig.until_stats("payments", acked=1)
                await refund.send(2)
                await rig.until_stats("refunds", acked=1)
        first, second = rig.app.statistics().tasks
        assert (first.duplicates, first.processed) == (1, 0)
        assert (second.duplicates, second.processed) == (0, 1)
        with sqlite3.connect(tmp_path / "books.db") as books:
            assert books.execute("SELECT amount FROM books").fetchall() == [(5,), (-2,)]
        books.close()
        store.close()

    play(story)


@pytest.mark.slow
def test_leases_are_kept_while_work_lasts() -> None:
    async def story() -> None:
        rig, seen = Rig(), list[int]()

        @rig.app.worker("jobs", lease=0.15, concurrency=1)
        async def job(message: Message[int]) -> None:
            seen.append(message.deliveries)
            for _ in range(4):
                rig.clock.advance(120)  # Less than a third of the lease is left.
                await until(lambda: message.lease.until_ms > rig.clock.monotonic_ms() + 50)

        async with rig.working():
            await job.send(1)
            await rig.until_stats("jobs", acked=1)
        assert seen == [1]
        total = rig.app.statistics().tasks[0]
        assert (total.processed, total.lost) == (1, 0)

    play(story)


def test_a_thread_that_takes_too_long_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        import threading

        rig, go = Rig(), threading.Event()

        @rig.app.worker("jobs", timeout=0.01, concurrency=1)
        def job(number: int) -> None:
            go.wait(60)

        async with rig.working():
            await job.send(1)
            await until(lambda: "a thread cannot be cancelled" in caplog.text)
            go.set()
            await rig.until_stats("jobs", acked=1)

    play(story)


def test_a_queue_that_is_not_there_and_cannot_be_made_ends_the_run() -> None:
    async def story() -> None:
        rig = Rig()

        @rig.app.worker("no such / name")
        async def job(number: int) -> None:
            """Never called."""

        with pytest.raises(PenstockError):
            await rig.app.run()

    play(story)


def test_how_many_workers_there_can_be() -> None:
    assert WorkerOptions(queues=("a",), concurrency=10).workers_max == 10
    assert WorkerOptions(queues=("a",), pools={"one": Pool(workers=3)}).workers_max == 3
