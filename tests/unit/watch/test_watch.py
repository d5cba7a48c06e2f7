"""A watch on a real node in memory, whose clock is moved."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest

from penstock.core.alert_levels import Level, Levels
from penstock.core.message import NewMessage
from penstock.core.topic import Topic
from penstock.core.types import NodeId
from penstock.core.verdicts import Outcome, Verdict
from penstock.embedded.engine import EmbeddedEngine
from penstock.engine.cluster.node import Node
from penstock.engine.delivery.requests import Delivery
from penstock.testing.clock import ManualClock
from penstock.watch.alert import Alert, AlertState
from penstock.watch.expected_rate import POINTS_MIN
from penstock.watch.exposition import Exposition
from penstock.watch.history import queue_key
from penstock.watch.readings import QueueReading, Readings
from penstock.watch.settings import AlertSettings
from penstock.watch.watch import EVERY_MS, Watch
from tests.unit.watch.looped import on_a_loop
from tests.unit.watch.scraped import Scraped
from tests.unit.watch.test_webhook import notice


class Watched:
    """A node, its watch, and a clock for both."""

    def __init__(self, engine: EmbeddedEngine, clock: ManualClock, settings: AlertSettings) -> None:
        self._engine = engine
        self.clock = clock
        self.watch = Watch(engine.node, settings)

    @property
    def node(self) -> Node:
        return self._engine.node

    async def make(self, name: str = "jobs", **configs: str) -> Topic:
        given = {key.replace("_", "."): value for key, value in configs.items()}
        topic = await self.node.engine.topics.create_topic(
            name, 1, {"queue.lease.ms": "30000", **given}
        )
        await self.node.delivery.open(topic, "queue")
        return topic

    async def send(self, topic: Topic, count: int) -> None:
        messages = [NewMessage(b"x") for _ in range(count)]
        await self.node.delivery.send(topic, messages)

    async def receive(self, topic: Topic, most: int, receiver: str = "worker") -> list[Delivery]:
        return await self.node.delivery.receive(topic, messages_max=most, receiver=receiver)

    async def settle(self, topic: Topic, some: Sequence[Delivery], verdict: Verdict) -> None:
        outcomes = await self.node.delivery.settle(
            topic, [(one.receipt, verdict, 0, "") for one in some]
        )
        assert set(outcomes) <= {Outcome.DONE}

    async def after(self, seconds: float) -> QueueReading:
        """Let time pass, look, and return the first queue."""
        self.clock.advance(seconds=seconds)
        await self._engine._time.catch_up()
        return (await self.watch.look()).queues[0]

    @property
    def firing(self) -> list[tuple[str, Level]]:
        return [(one.rule, one.level) for one in self.watch.alerts.firing()]


@asynccontextmanager
async def watched(**settings: object) -> AsyncIterator[Watched]:
    clock = ManualClock()
    engine = await EmbeddedEngine.open(None, clock=clock)
    one = Watched(engine, clock, AlertSettings(**settings))  # type: ignore[arg-type]
    try:
        yield one
    finally:
        await one.watch.close()
        await engine.close()


@on_a_loop
async def test_a_queue_is_read_in_all_its_states() -> None:
    async with watched() as one:
        topic = await one.make()
        await one.after(0)
        await one.send(topic, 30)
        some = await one.receive(topic, 10)
        await one.settle(topic, some[:5], Verdict.ACK)
        reading = await one.after(4)
        assert (reading.ready, reading.leased, reading.acked) == (20, 5, 5)
        assert (reading.sent, reading.delivered) == (30, 10)
        assert reading.in_rate == 7.5
        assert reading.out_rate == 2.5
        assert reading.ack_rate == 1.25
        assert reading.oldest_age_ms == 4_000
        assert reading.workers == ("worker",)
        assert reading.consumers == 1
        assert reading.silent_ms == 0


@on_a_loop
async def test_rates_are_of_the_last_ten_seconds() -> None:
    async with watched() as one:
        topic = await one.make()
        await one.after(0)
        await one.send(topic, 100)
        assert (await one.after(2)).in_rate == 50
        for _ in range(4):
            await one.after(2)
        assert (await one.after(2)).in_rate == 0


@on_a_loop
async def test_redeliveries_and_deaths_are_counted() -> None:
    async with watched() as one:
        topic = await one.make(queue_deliveries_max="2")
        await one.after(0)
        await one.send(topic, 2)
        for _ in range(2):
            await one.settle(topic, await one.receive(topic, 10), Verdict.RELEASE)
        reading = await one.after(2)
        assert (reading.delivered, reading.redelivered) == (4, 2)
        assert (reading.failed, reading.died, reading.dead) == (4, 2, 2)
        assert reading.redelivery_rate == 1
        assert reading.dead_rate == 1
        assert reading.error_rate == 1


@on_a_loop
async def test_nobody_asks_for_five_minutes() -> None:
    async with watched() as one:
        topic = await one.make()
        await one.receive(topic, 1)
        await one.send(topic, 1)
        await one.after(0)
        reading = await one.after(299.999)
        assert reading.silent_ms == 299_999
        assert one.firing == []
        await one.after(0.001)
        assert one.firing == []
        await one.after(0.001)
        assert one.firing == [("no_consumers", Level.CRITICAL)]
        await one.receive(topic, 1)
        reading = await one.after(1)
        assert reading.consumers == 1
        await one.after(30)
        assert one.firing == []


@on_a_loop
async def test_silence_from_before_the_watch_is_not_known() -> None:
    async with watched() as one:
        topic = await one.make()
        await one.send(topic, 1)
        await one.after(0)
        reading = await one.after(60)
        assert (reading.silent_ms, reading.silent_known) == (60_000, False)
        await one.receive(topic, 1)
        await one.after(0)
        reading = await one.after(40)
        assert reading.silent_known


@on_a_loop
async def test_a_worker_that_holds_a_message_for_long_is_there() -> None:
    async with watched() as one:
        topic = await one.make(queue_lease_ms="3600000")
        await one.send(topic, 2)
        await one.receive(topic, 1)
        await one.after(0)
        reading = await one.after(1_200)
        assert reading.consumers == 1
        assert reading.workers == ()
        assert reading.silent_ms == 0
        assert one.firing == []


@on_a_loop
async def test_depth_by_a_number_of_the_queue_itself() -> None:
    async with watched() as one:
        topic = await one.make(alert_depth="5,10,off", alert_no_consumers_ms="off")
        await one.send(topic, 5)
        await one.after(0)
        await one.after(10)
        assert one.firing == []
        await one.send(topic, 1)
        await one.after(2)
        assert one.watch.alerts.active()[0].state is AlertState.PENDING
        await one.after(10)
        assert one.firing == [("depth", Level.ATTENTION)]
        await one.send(topic, 5)
        await one.after(1)
        await one.after(10)
        assert one.firing == [("depth", Level.WARNING)]
        await one.settle(topic, await one.receive(topic, 20), Verdict.ACK)
        await one.after(31)
        assert one.firing == []
        (gone,) = one.watch.alerts.resolved()
        assert gone.resolved_ms is not None


@on_a_loop
async def test_errors_of_the_last_minute() -> None:
    levels = AlertSettings().levels | {"processing_rate": Levels()}
    async with watched(hold_ms=0, clear_ms=0, levels=levels) as one:
        topic = await one.make()
        await one.after(0)
        await one.send(topic, 101)
        some = await one.receive(topic, 101)
        await one.settle(topic, some[1:100], Verdict.ACK)
        await one.settle(topic, some[:1], Verdict.RELEASE)
        reading = await one.after(2)
        assert reading.error_rate == 0.01
        assert one.firing == []
        await one.settle(topic, some[100:], Verdict.RELEASE)
        await one.after(2)
        assert one.firing == [("error_rate", Level.WARNING)]
        await one.after(54)
        assert one.firing == [("error_rate", Level.WARNING)]
        await one.after(6)
        assert one.firing == []


@on_a_loop
async def test_dead_letters_are_counted_where_they_lie() -> None:
    async with watched(hold_ms=0) as one:
        await one.make("jobs-dead", alert_dead_letters="2,off,off")
        topic = await one.make(queue_dead_letter_topic="jobs-dead", queue_deliveries_max="1")
        letters = one.node.engine.topics.topic("jobs-dead")
        await one.send(letters, 2)
        await one.after(0)
        jobs, dead = one.watch.readings.queues if one.watch.readings else ()
        assert dead.dead_letters_of == ("jobs",)
        assert (jobs.dead, jobs.dead_letters, jobs.dead_lettered) == (2, 2, 2)
        assert one.firing == []
        await one.send(letters, 1)
        await one.after(2)
        assert one.firing == [("dead_letters", Level.ATTENTION)]
        assert one.watch.readings is not None
        assert one.watch.readings.totals.dead_letters == 3
        assert topic.name == "jobs"


@on_a_loop
async def test_half_of_what_was_asked_for() -> None:
    async with watched(hold_ms=0, clear_ms=0) as one:
        topic = await one.make(alert_expected_rate="2", alert_depth="off")
        await one.after(0)
        await one.send(topic, 200)
        for _ in range(30):
            await one.settle(topic, await one.receive(topic, 2), Verdict.ACK)
            await one.after(2)
        assert one.firing == []
        await one.after(2)
        assert one.firing == [("processing_rate", Level.ATTENTION)]
        assert one.watch.alerts.firing()[0].message.startswith("workers of jobs process 1.0 ")


@pytest.mark.slow
@on_a_loop
async def test_what_is_usual_is_learnt_in_ten_minutes_and_kept_while_it_is_slow() -> None:
    async with watched(hold_ms=0, clear_ms=0) as one:
        topic = await one.make(alert_depth="off", alert_no_consumers_ms="off")
        await one.after(0)
        await one.send(topic, 5_000)
        for _ in range(POINTS_MIN + 70):
            await one.settle(topic, await one.receive(topic, 20), Verdict.ACK)
            await one.after(5)
        assert (await one.after(1)).expected_rate == 4
        assert one.firing == []
        for _ in range(20):
            await one.after(5)
        assert one.firing == [("processing_rate", Level.ATTENTION)]
        for _ in range(800):
            await one.after(5)
        assert (await one.after(1)).expected_rate == 4
        assert one.firing == [("processing_rate", Level.ATTENTION)]


@on_a_loop
async def test_a_deleted_queue_is_no_longer_wrong() -> None:
    async with watched(hold_ms=0, clear_ms=0) as one:
        topic = await one.make(alert_depth="1,off,off")
        await one.send(topic, 2)
        await one.after(0)
        assert one.firing == [("depth", Level.ATTENTION)]
        await one.make("other")
        await one.node.engine.topics.delete_topic(topic.name)
        await one.after(2)
        assert one.firing == []
        assert len(one.watch.alerts.resolved()) == 1


@on_a_loop
async def test_changes_are_events_and_listeners_hear_of_readings() -> None:
    async with watched(hold_ms=0, clear_ms=0) as one:
        heard: list[int] = []
        end = one.watch.listen(lambda readings: heard.append(readings.totals.ready))
        topic = await one.make(alert_depth="1,off,off")
        await one.send(topic, 2)
        await one.after(0)
        end()
        await one.after(2)
        assert heard == [2]
        (line,) = [event.line for event in one.node.events.here() if event.kind == "alert"]
        assert line.startswith("attention: 2 messages of jobs are ready")


@on_a_loop
async def test_it_can_be_switched_off() -> None:
    async with watched(enabled=False) as one:
        topic = await one.make(alert_depth="1,off,off")
        await one.send(topic, 2)
        await one.after(0)
        await one.after(60)
        assert one.watch.alerts.active() == ()


@on_a_loop
async def test_it_takes_a_hundredth_of_the_time_at_most() -> None:
    async with watched() as one:
        await one.make()
        readings = await one.watch.look()
        assert readings.took_ms > 0
        assert readings.every_ms >= max(EVERY_MS, int(100 * readings.took_ms) - 100)


@on_a_loop
async def test_history_has_what_was_read() -> None:
    async with watched() as one:
        topic = await one.make()
        await one.after(0)
        await one.send(topic, 7)
        await one.after(5)
        curves = one.watch.history.curves(queue_key("jobs", "queue"), ("ready", "in_rate"))
        assert curves.series["ready"] == [0, 7]
        assert curves.series["in_rate"][1] == 1.4


@on_a_loop
async def test_readings_are_a_document() -> None:
    async with watched() as one:
        await one.make()
        await one.after(0)
        again = msgspec.json.decode(msgspec.json.encode(one.watch.readings))
        assert again["health"] == "1 of 1 nodes, all leaders settled"
        assert again["healthy"] is True
        assert again["queues"][0]["queue"] == "jobs"


def test_an_alert_is_a_document_and_back() -> None:
    alert = notice().alert
    assert msgspec.json.decode(msgspec.json.encode(alert), type=Alert) == alert


@on_a_loop
async def test_it_looks_at_once_when_a_node_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without that, the second look would come in an hour."""
    monkeypatch.setattr("penstock.watch.watch.EVERY_MS", 3_600_000)
    monkeypatch.setattr("penstock.watch.watch.NOTICE_SECONDS", 0.001)
    async with watched() as one:
        looks: asyncio.Queue[Readings] = asyncio.Queue()
        one.watch.listen(looks.put_nowait)
        engine = one.node.engine
        there = engine.topics.alive()
        engine.topics.alive = lambda: there | {NodeId(2)}
        one.watch.start()
        await looks.get()
        engine.topics.alive = lambda: there
        async with asyncio.timeout(60):
            await looks.get()


@on_a_loop
async def test_what_the_watch_saw_is_on_the_page_of_metrics() -> None:
    async with watched() as one:
        topic = await one.make()
        await one.send(topic, 20)
        await one.after(0)
        await one.after(2)
        text, _ = await Exposition(one.node, list, lambda: one.watch).page()
        page = Scraped(text.decode())
        depths = page.by("penstock_queue_depth_messages_bucket", "le", queue="jobs")
        assert (depths["10.0"], depths["100.0"]) == (0, 2)
        assert page.value("penstock_availability_ratio") == 1
        assert page.value("penstock_available_seconds_total") == 2
        assert one.watch.readings is not None
        assert one.watch.readings.availability == 1
