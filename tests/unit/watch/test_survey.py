"""What several nodes say, put together; said by hand, on one real node in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from penstock.core.topic import Topic
from penstock.core.types import Index, NodeId, ShardId, Term
from penstock.embedded.engine import EmbeddedEngine
from penstock.engine.cluster.node import Node
from penstock.engine.inspection.samples import (
    GroupSample,
    MachineSample,
    NodeSample,
    QueueSample,
    ShardSample,
    WorkCounts,
)
from penstock.engine.replica.time_slices import TimeSlices
from penstock.testing.clock import ManualClock
from penstock.watch.readings import Readings
from penstock.watch.survey import LATE_MS, Survey
from tests.unit.watch.looped import on_a_loop

MACHINE = MachineSample("1.0", 1_000, 1_000, 200, 50, 10, 100, 3)
OTHER = NodeId(2)


def shard(number: int, term: int = 1) -> ShardSample:
    return ShardSample(ShardId(number), Term(term), Index(1), (NodeId(1), OTHER), False, 10, ())


class Said:
    """A survey of what nodes are made to say."""

    def __init__(self, node: Node, clock: ManualClock, patch: pytest.MonkeyPatch) -> None:
        self.clock = clock
        self.node = node
        self.samples: list[NodeSample] = []
        self.silent: list[NodeId] = []
        self.connected = {node.engine.topics.node_id, OTHER}
        patch.setattr(node.sampler, "everywhere", self._everywhere)
        patch.setattr(node.topics, "alive", lambda: self.connected)
        self._survey = Survey(node, lambda _queue, _group: None, TimeSlices())

    async def _everywhere(self) -> tuple[list[NodeSample], list[NodeId]]:
        return self.samples, self.silent

    async def after(
        self, seconds: float, *samples: NodeSample, silent: tuple[NodeId, ...] = ()
    ) -> Readings:
        self.clock.advance(seconds=seconds)
        self.samples, self.silent = list(samples), list(silent)
        return await self._survey.take()


def sample(
    node: int,
    *queues: QueueSample,
    shards: tuple[ShardSample, ...] = (),
    groups: tuple[GroupSample, ...] = (),
    life: str = "a",
) -> NodeSample:
    return NodeSample(NodeId(node), life, MACHINE, list(queues), list(groups), [], list(shards))


def part(topic: Topic, *indexes: int, **counts: int) -> QueueSample:
    chosen = tuple(topic.partitions[index] for index in indexes)
    return QueueSample(topic.topic_id, "queue", chosen, WorkCounts(**counts))


@asynccontextmanager
async def said(patch: pytest.MonkeyPatch) -> AsyncIterator[Said]:
    clock = ManualClock()
    engine = await EmbeddedEngine.open(None, clock=clock)
    try:
        yield Said(engine.node, clock, patch)
    finally:
        patch.undo()
        await engine.close()


@on_a_loop
async def test_partitions_led_by_two_nodes_are_one_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    async with said(monkeypatch) as one:
        topic = await one.node.engine.topics.create_topic("jobs", 2, {})
        readings = await one.after(
            0, sample(1, part(topic, 0, ready=3)), sample(2, part(topic, 1, ready=4, dead=1))
        )
        (queue,) = readings.queues
        assert (queue.ready, queue.dead, queue.complete) == (7, 1, True)
        readings = await one.after(2, sample(1, part(topic, 0, ready=3)))
        assert not readings.queues[0].complete


@on_a_loop
async def test_dead_letters_count_for_the_work_groups_that_lost_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with said(monkeypatch) as one:
        topics = one.node.engine.topics
        letters = await topics.create_topic("jobs-dead", 1, {})
        jobs = await topics.create_topic("jobs", 1, {"queue.dead.letter.topic": "jobs-dead"})

        def of(group: str, topic: Topic, **counts: int) -> QueueSample:
            return QueueSample(topic.topic_id, group, topic.partitions, WorkCounts(**counts))

        async def dead(**moved: int) -> dict[str, tuple[int, int]]:
            groups = [of(name, jobs, moved_ever=count) for name, count in moved.items()]
            held = of("queue", letters, ready=3)
            readings = await one.after(2, sample(1, held, *groups))
            assert (readings.totals.dead, readings.totals.dead_letters) == (3, 3)
            rows = [row for row in readings.queues if row.queue == "jobs"]
            assert all(row.dead_letters == row.dead for row in rows)
            return {row.group: (row.dead, row.dead_lettered) for row in rows}

        assert await dead(queue=7, audit=0) == {"queue": (3, 3), "audit": (0, 0)}
        assert await dead(queue=0, audit=1) == {"queue": (0, 0), "audit": (3, 3)}
        assert await dead(queue=2, audit=5) == {"queue": (2, 2), "audit": (3, 3)}
        assert await dead(queue=0) == {"queue": (3, 3)}


@on_a_loop
async def test_a_change_of_leaders_is_no_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    async with said(monkeypatch) as one:
        topic = await one.node.engine.topics.create_topic("jobs", 1, {})
        await one.after(0, sample(1, part(topic, 0, delivered=10)))
        readings = await one.after(2, sample(1, part(topic, 0, delivered=30)))
        assert readings.queues[0].out_rate == 10
        readings = await one.after(2, sample(2, part(topic, 0, delivered=90_000)))
        assert readings.queues[0].out_rate == 0
        readings = await one.after(2, sample(2, part(topic, 0, delivered=90_020)))
        assert readings.queues[0].out_rate == 10
        readings = await one.after(2, sample(2, part(topic, 0, delivered=5), life="b"))
        assert readings.queues[0].out_rate == 0


@on_a_loop
async def test_a_busy_node_is_taken_at_its_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    async with said(monkeypatch) as one:
        topic = await one.node.engine.topics.create_topic("jobs", 1, {})
        there = sample(2, part(topic, 0, ready=4), shards=(shard(1),))
        await one.after(0, sample(1, shards=(shard(0),)), there)
        readings = await one.after(2, sample(1, shards=(shard(0),)), silent=(OTHER,))
        assert readings.queues[0].ready == 4
        assert readings.silent_nodes == ()
        late = await one.after(LATE_MS / 1_000, sample(1, shards=(shard(0),)), silent=(OTHER,))
        assert late.queues == ()
        assert late.silent_nodes == (OTHER,)


@on_a_loop
async def test_but_not_if_it_is_gone_or_another_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    async with said(monkeypatch) as one:
        topic = await one.node.engine.topics.create_topic("jobs", 1, {})
        there = sample(2, part(topic, 0, ready=4), shards=(shard(1),))
        await one.after(0, sample(1), there)
        heir = sample(1, part(topic, 0, ready=9), shards=(shard(1, term=2),))
        readings = await one.after(1, heir, silent=(OTHER,))
        assert readings.queues[0].ready == 9
        one.connected.discard(OTHER)
        readings = await one.after(1, sample(1), silent=(OTHER,))
        assert readings.queues == ()


@on_a_loop
async def test_of_two_leaders_the_later_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with said(monkeypatch) as one:
        topic = await one.node.engine.topics.create_topic("jobs", 1, {})
        number = one.node.engine.topics.shard_of(topic.partitions[0])
        former = sample(2, part(topic, 0, ready=4), shards=(shard(number),))
        leader = sample(1, part(topic, 0, ready=5), shards=(shard(number, term=2),))
        readings = await one.after(0, former, leader)
        (queue,) = readings.queues
        assert (queue.ready, queue.complete) == (5, True)
        assert readings.shards[number].leader == 1
        assert readings.shards[number].term == 2


@on_a_loop
async def test_a_group_without_members(monkeypatch: pytest.MonkeyPatch) -> None:
    async with said(monkeypatch) as one:
        topic = await one.node.engine.topics.create_topic("orders", 1, {})

        def group(members: int, committed: int) -> NodeSample:
            rows = ((topic.topic_id, 100 - committed, committed, 1, True),)
            return sample(1, groups=(GroupSample("billing", "Empty", members, rows),))

        assert (await one.after(0, group(1, 10))).groups[0].silent_ms == 0
        reading = (await one.after(60, group(0, 10))).groups[0]
        assert (reading.silent_ms, reading.lag, reading.members) == (60_000, 90, 0)
        assert [(one.topic, one.lag) for one in reading.topics] == [("orders", 90)]
        reading = (await one.after(2, group(0, 30))).groups[0]
        assert reading.silent_ms == 0, "somebody commits"
        assert reading.commit_rate > 0
        assert (await one.after(5, group(0, 30))).groups[0].silent_ms == 5_000


@on_a_loop
async def test_silence_outlives_a_change_of_leaders(monkeypatch: pytest.MonkeyPatch) -> None:
    async with said(monkeypatch) as one:
        topic = await one.node.engine.topics.create_topic("jobs", 1, {})
        asked = msgspec.structs.replace(part(topic, 0, ready=1), silent_ms=1_000)
        assert (await one.after(0, sample(1, asked))).queues[0].silent_ms == 1_000
        assert (await one.after(100, sample(1, asked))).queues[0].silent_ms == 1_000
        unknown = part(topic, 0, ready=1)
        assert (await one.after(50, sample(2, unknown))).queues[0].silent_ms == 51_000
        assert (await one.after(1)).queues == ()
        assert (await one.after(1, sample(2, unknown))).queues[0].silent_ms == 53_000
        done = msgspec.structs.replace(unknown, counts=WorkCounts(ready=1, acked=1))
        assert (await one.after(1, sample(2, done))).queues[0].silent_ms == 0


@on_a_loop
async def test_health_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    async with said(monkeypatch) as one:
        every = tuple(shard(number) for number in one.node.engine.topics.shards())
        assert (await one.after(0, sample(1, shards=every))).health == (
            "1 of 1 nodes, all leaders settled"
        )
        readings = await one.after(1, sample(1, shards=every[1:]))
        assert readings.health == "1 of 1 nodes, shard 0 is without a leader"
        assert not readings.healthy
        full = msgspec.structs.replace(every[0], full=True)
        readings = await one.after(1, sample(1, shards=(full, *every[1:])))
        assert readings.health == "1 of 1 nodes, shard 0 is full: appends are refused"
        assert readings.nodes[0].disk_used_share == 0.8
