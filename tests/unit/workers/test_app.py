"""Applications from end to end: the real engine, in memory."""

import asyncio
import threading
from dataclasses import dataclass
from datetime import timedelta

import pytest

from penstock.client.guarantees import Guarantee
from penstock.client.message import Message
from penstock.core.errors import InvalidRequest
from penstock.workers.app import App
from penstock.workers.options import WorkerOptions
from penstock.workers.retry import Retry, dead, fixed
from penstock.workers.scale import Scaling
from penstock.workers.verdicts import Reject, RetryLater
from tests.unit.workers.rig import Rig, play, until


@dataclass
class Order:
    number: int


def test_functions_of_every_kind_get_what_they_are_sent() -> None:
    async def story() -> None:
        rig, done = Rig(), list[object]()

        @rig.app.worker("a")
        async def with_body(order: Order) -> None:
            done.append(order)

        @rig.app.worker("b")
        def in_a_thread(text: str) -> None:
            assert threading.current_thread() is not threading.main_thread()
            done.append(text)

        @rig.app.worker("c", codec=bytes)
        async def with_message(message: Message[bytes]) -> None:
            done.append((message.body, message.deliveries))

        async with rig.working():
            await with_body.send(Order(7))
            await in_a_thread.send("hello")
            await with_message.send(b"raw")
            await with_body.send_many([Order(8), Order(9)])
            await until(lambda: len(done) == 5)
        assert {repr(one) for one in done} == {
            repr(one) for one in (Order(7), Order(8), Order(9), "hello", (b"raw", 1))
        }
        assert [row.processed for row in rig.app.statistics().tasks] == [3, 1, 1]

    play(story)


def test_working_until_the_queues_are_empty() -> None:
    async def story() -> None:
        app, done = App("memory:"), list[str]()

        @app.worker("second")
        async def second(text: str) -> None:
            done.append(text)

        @app.worker("first")
        async def first(text: str) -> None:
            await second.send(f"{text} again")

        await first.send_many(["a", "b"])
        await second.send("tomorrow", delay=86_400)
        await app.run_until_empty()
        assert sorted(done) == ["a again", "b again"]

    asyncio.run(story())


def test_what_is_left_when_the_time_is_over() -> None:
    async def story() -> None:
        app, over = App("memory:", grace=0), asyncio.Event()

        @app.worker("endless")
        async def endless(_text: str) -> None:
            await over.wait()

        await endless.send("a")
        with pytest.raises(TimeoutError, match="work left: endless holds 1"):
            await app.run_until_empty(timeout=0.05)

    asyncio.run(story())


def test_a_run_that_cannot_begin_is_an_error_and_no_empty_queue() -> None:
    with pytest.raises(InvalidRequest, match="has no workers"):
        asyncio.run(App("memory:").run_until_empty())


def test_a_task_is_still_its_function() -> None:
    app = App("memory:")

    @app.worker("numbers")
    def double(number: int) -> int:
        """Twice as much."""
        return 2 * number

    assert double(4) == 8
    assert double(number=4) == 8
    assert double.__doc__ == "Twice as much."
    assert double.queue == "numbers"
    assert double.codec is int
    assert repr(double).endswith("double of numbers>")


def test_objects_and_what_wraps_functions() -> None:
    class Charging:
        """An object with an async call."""

        def __init__(self) -> None:
            self.done: list[int] = []

        async def __call__(self, order: Order) -> None:
            self.done.append(order.number)

    async def story() -> None:
        rig, charging = Rig(), Charging()
        rig.app.worker("orders")(charging)

        async def inner(order: Order) -> None:
            """Never awaited."""

        def wrapped(order: Order) -> object:
            return inner(order)

        rig.app.worker("wrapped", retry=Retry(default=dead))(wrapped)
        async with rig.working():
            await rig.client.queue("orders", codec=Order).send(Order(7))
            await rig.client.queue("wrapped", codec=Order).send(Order(8))
            await until(lambda: charging.done == [7])
            await rig.until_stats("wrapped", moved=1)
            (letter,) = await rig.dead("wrapped")
            assert "returned a coroutine" in letter.reason

    play(story)


def test_a_message_that_failed_comes_again_when_its_time_has_come() -> None:
    async def story() -> None:
        rig, seen = Rig(), list[int]()

        @rig.app.worker("orders", retry=Retry(default=fixed(30)))
        async def charge(message: Message[Order]) -> None:
            seen.append(message.deliveries)
            if message.deliveries == 1:
                raise ConnectionError("away")
            if message.deliveries == 2:
                raise RetryLater(5)

        async with rig.working():
            await charge.send(Order(1))
            await rig.until_stats("orders", delayed=1)
            rig.clock.advance(seconds=29)
            await rig.until_stats("orders", delayed=1)
            assert seen == [1]
            rig.clock.advance(seconds=1)
            await until(lambda: seen == [1, 2])
            await rig.until_stats("orders", delayed=1)
            rig.clock.advance(seconds=5)
            await rig.until_stats("orders", acked=1)
        total = rig.app.statistics().tasks[0]
        assert (total.processed, total.failed, total.retried) == (1, 2, 2)

    play(story)


def test_without_a_policy_the_queue_decides() -> None:
    async def story() -> None:
        rig, seen = Rig(), list[int]()

        @rig.app.worker("orders", create={"retry": "linear", "retry_delay": 7, "deliveries_max": 2})
        async def charge(message: Message[Order]) -> None:
            seen.append(message.deliveries)
            raise ConnectionError("away")

        async with rig.working():
            await charge.send(Order(1))
            await rig.until_stats("orders", delayed=1)
            rig.clock.advance(seconds=6.9)
            await rig.until_stats("orders", delayed=1)
            rig.clock.advance(seconds=0.1)
            await rig.until_stats("orders", moved=1)
            (letter,) = await rig.dead("orders")
        assert seen == [1, 2]
        assert letter.reason == "too many deliveries: ConnectionError: away", (
            "the queue's own bound"
        )

    play(story)


def test_what_cannot_be_done_is_a_dead_letter_with_its_reason() -> None:
    async def story() -> None:
        rig = Rig()

        @rig.app.worker("orders", retry=Retry(on={ValueError: dead}))
        async def charge(order: Order) -> None:
            if order.number == 1:
                raise Reject("no such card")
            raise ValueError("negative")

        async with rig.working():
            await charge.send_many([Order(1), Order(2)])
            await rig.client.send("orders", b"not JSON", headers={"content-type": "text/plain"})
            await rig.until_stats("orders", moved=3)
            reasons = sorted(one.reason for one in await rig.dead("orders"))
            assert reasons[0].startswith("InvalidBody: The body is text/plain")
            assert reasons[1:] == ["ValueError: negative", "no such card"]
        total = rig.app.statistics().tasks[0]
        assert (total.rejected, total.processed) == (3, 0)

    play(story)


def test_one_bad_message_does_not_stop_the_queue() -> None:
    async def story() -> None:
        rig, done = Rig(), list[int]()

        @rig.app.worker("orders", concurrency=1)
        async def charge(order: Order) -> None:
            if order.number == 0:
                raise SystemExit("even this")
            done.append(order.number)

        async with rig.working():
            await charge.send_many([Order(number) for number in range(5)])
            await until(lambda: sorted(done) == [1, 2, 3, 4])
            await rig.until_stats("orders", acked=4, delayed=1)

    play(story)


def test_a_function_that_takes_too_long_is_cancelled() -> None:
    async def story() -> None:
        rig, ended = Rig(), list[str]()

        @rig.app.worker("orders", timeout=timedelta(milliseconds=10), retry=Retry(default=dead))
        async def charge(order: Order) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cancelled")

        async with rig.working():
            await charge.send(Order(1))
            await rig.until_stats("orders", moved=1)
            (letter,) = await rig.dead("orders")
            assert "took more than 0.01 s" in letter.reason
            assert ended == ["cancelled"]

    play(story)


def test_at_most_once_is_acknowledged_before() -> None:
    async def story() -> None:
        rig = Rig()
        tried = asyncio.Event()

        @rig.app.worker("readings", guarantee=Guarantee.AT_MOST_ONCE)
        async def note(reading: bytes) -> None:
            await rig.until_stats("readings", acked=1)
            tried.set()
            raise ConnectionError("away")

        async with rig.working():
            await note.send(b"21.5")
            await tried.wait()
            await until(lambda: rig.app.statistics().tasks[0].failed == 1)
            await rig.until_stats("readings", acked=1, ready=0, delayed=0, dead=0)

    play(story)


def test_delay_is_for_threads() -> None:
    async def story() -> None:
        rig, done = Rig(), list[str]()

        @rig.app.worker("second")
        async def second(text: str) -> None:
            done.append(text)

        @rig.app.worker("first")
        def first(text: str) -> None:
            second.delay(text + "!")

        async with rig.working():
            with pytest.raises(InvalidRequest, match="await send"):
                first.delay("x")
            await first.send("go")
            await until(lambda: done == ["go!"])

    play(story)


@pytest.mark.slow
def test_delay_needs_no_loop(tmp_path: object) -> None:
    app = App(f"file:{tmp_path}")

    @app.worker("orders")
    def charge(order: Order) -> None:
        """Never called here."""

    sent = [charge.delay(Order(number)).offset for number in (1, 2)]
    assert sent == [0, 1]
    play(app.close)


def test_send_at() -> None:
    async def story() -> None:
        rig, done = Rig(), list[int]()

        @rig.app.worker("orders")
        async def charge(order: Order) -> None:
            done.append(order.number)

        async with rig.working():
            later = rig.app.now() + timedelta(minutes=5)
            await charge.send_at(later, Order(1))
            await rig.until_stats("orders", delayed=1)
            rig.clock.advance(seconds=300)
            await until(lambda: done == [1])

    play(story)


def test_only_some_queues() -> None:
    async def story() -> None:
        rig, done = Rig(), list[str]()

        @rig.app.worker("a")
        async def one(text: str) -> None:
            done.append(text)

        @rig.app.worker("b")
        async def other(text: str) -> None:
            done.append(text)

        async with rig.client:
            await rig.client.queue("b", codec=str).send("not now")
            running = asyncio.create_task(rig.app.run(only=["a"], concurrency=2))
            await one.send("yes")
            await until(lambda: done == ["yes"])
            assert len(rig.app.statistics().workers) == 2
            rig.app.stop()
            await running
            await rig.until_stats("b", ready=1)
            with pytest.raises(InvalidRequest, match="no worker takes from queue c"):
                await rig.app.run(only=["c"])

    play(story)


def test_workers_come_and_go_with_the_load() -> None:
    async def story() -> None:
        rig, gate = Rig(), asyncio.Event()
        scaling = Scaling(minimum=1, maximum=6, target_seconds=1, cool_down=0, interval=0.001)

        @rig.app.worker("orders", scaling=scaling)
        async def charge(order: Order) -> None:
            await gate.wait()

        def workers() -> int:
            rows = rig.app.statistics().workers
            return sum(row.worker != "retired" for row in rows)

        async with rig.working():
            await charge.send_many([Order(number) for number in range(40)])
            rig.clock.advance(seconds=5)  # The oldest is now older than the target.
            await until(lambda: workers() == 6)
            gate.set()
            await rig.until_stats("orders", acked=40)
            await until(lambda: workers() == 1)
        assert rig.app.statistics().tasks[0].processed == 40

    play(story)


def test_what_cannot_be_declared() -> None:
    app = App("memory:")

    @app.worker("orders")
    async def charge(order: Order) -> None:
        """Takes all of them."""

    with pytest.raises(InvalidRequest, match="would share queue orders"):
        app.worker("orders")(charge)
    app.worker("orders", group="audit")(charge)
    with pytest.raises(InvalidRequest, match="exactly once needs a store"):
        app.worker("payments", guarantee=Guarantee.EXACTLY_ONCE)(charge)
    with pytest.raises(InvalidRequest, match="is called by a schedule"):
        app.every(5)(charge)

    def books(order: Order, transaction: object) -> None:
        """Needs a store."""

    with pytest.raises(InvalidRequest, match="store of processed ids"):
        app.worker("books")(books)


def test_an_application_without_workers_does_not_run() -> None:
    with pytest.raises(InvalidRequest, match="has no workers"):
        play(App("memory:").run)


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 0},
        {"prefetch": 0},
        {"timeout": 0.0},
        {"queues": ()},
        {"queues": ("a", "a")},
    ],
)
def test_options_that_cannot_be(wrong: dict[str, object]) -> None:
    options: dict[str, object] = {"queues": ("a",), **wrong}
    with pytest.raises(InvalidRequest):
        WorkerOptions(**options)  # type: ignore[arg-type]
