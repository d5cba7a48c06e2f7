"""`engine.queue_duties`: queues follow their configs, leases end, done messages go."""

import asyncio
from pathlib import Path

import pytest

from penstock.core.errors import OutcomeUnknown, UnknownPartition
from penstock.core.queue_rules import DEFAULT_WORK_GROUP, Dead, QueueRules, WorkRules
from penstock.core.topic import Topic
from penstock.core.types import LATEST, Offset, PartitionId, ShardId
from penstock.core.verdicts import Verdict
from penstock.engine.cluster.node import Node
from penstock.engine.peers.loopback import LoopbackNetwork
from penstock.engine.replica.shard import Shard
from penstock.engine.topics import queue_upkeep as queue_duties
from penstock.engine.topics.queue_upkeep import QueueUpkeep, write_rules
from penstock.engine.topics.topics import Acks
from penstock.machines.commands import CreatePartition, TrimPartition
from penstock.machines.machine import Reply, Request
from penstock.machines.queue_commands import (
    Acquire,
    CloseWork,
    ConfigureQueue,
    OpenWork,
    Settle,
    Settlement,
)
from penstock.machines.queues import Acquired, QueueChanged
from penstock.machines.work import WorkGroup
from penstock.testing.clock import ManualClock
from tests.batches import build_batch
from tests.unit.engine.nodes import Nodes, until
from tests.unit.engine.replica.test_shard import settings, until_led
from tests.unit.machines.cluster import Cluster

FIFO = {"queue.order": "fifo", "queue.lease.ms": "7000"}


def leading(node: Node, partition: PartitionId) -> Shard | None:
    running = node._shards.get(node.engine.topics.shard_of(partition))
    return running if running is not None and running.replica.leads else None


def led(nodes: Nodes, partition: PartitionId) -> Shard:
    """The running shard of a partition, where it is led."""
    found = [one for node in nodes.running.values() if (one := leading(node, partition))]
    assert found, f"nobody leads the shard of partition {partition}"
    return found[0]


def work(nodes: Nodes, partition: PartitionId, group: str = DEFAULT_WORK_GROUP) -> WorkGroup:
    found = led(nodes, partition).machine.queues.work(partition, group)
    assert found is not None, f"group {group} is not open on partition {partition}"
    return found


def rules(nodes: Nodes, topic: Topic) -> list[QueueRules | None]:
    return [led(nodes, one).machine.queues.rules(one) for one in topic.partitions]


async def acquire(running: Shard, partition: PartitionId, count: int, lease_ms: int = -1) -> int:
    """Lease messages of the default group; the epoch of the lease."""
    reply = await running.change(
        Acquire(
            partition=partition,
            group=DEFAULT_WORK_GROUP,
            messages_max=count,
            lease_ms=lease_ms,
        )
    )
    assert isinstance(reply, Acquired)
    assert reply.runs
    return reply.epoch


async def ack(running: Shard, partition: PartitionId, first: int, end: int, epoch: int) -> None:
    settlement = Settlement(Offset(first), Offset(end), epoch, Verdict.ACK)
    await running.change(
        Settle(partition=partition, group=DEFAULT_WORK_GROUP, settlements=(settlement,))
    )


# With nodes.


@pytest.mark.slow
def test_a_queue_is_one_when_it_has_been_made_or_changed(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        topic = await engine.topics.create_topic("orders", 2, FIFO)
        assert rules(nodes, topic) == [QueueRules(fifo=True)] * 2
        assert work(nodes, topic.partitions[1]).rules.lease_ms == 7_000
        topic = await engine.topics.configure_topic("orders", {"queue.priority": "strict"})
        assert rules(nodes, topic) == [topic.settings.queue.queue_rules] * 2
        topic = await engine.topics.configure_topic("orders", {"queue.lease.ms": "8000"})
        assert work(nodes, topic.partitions[0]).rules.lease_ms == 8_000
        topic = await engine.topics.add_partitions("orders", 3)
        assert rules(nodes, topic) == [topic.settings.queue.queue_rules] * 3
        assert work(nodes, topic.partitions[2]).rules.lease_ms == 8_000
        plain = dict.fromkeys(("queue.order", "queue.lease.ms", "queue.priority"))
        topic = await engine.topics.configure_topic("orders", plain)
        assert rules(nodes, topic) == [QueueRules()] * 3
        await until(lambda: work(nodes, topic.partitions[0]).rules.lease_ms == 30_000)
        await engine.topics.delete_topic("orders")
        shards = [nodes[1]._shards.get(ShardId(number)) for number in (1, 2)]
        await until(lambda: not any(one.machine.queues.partitions for one in shards if one))
        await nodes.stop()

    asyncio.run(story())


@pytest.mark.slow
def test_what_was_lost_is_written_again(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        topic = await engine.topics.create_topic("orders", 1, FIFO)
        partition = topic.partitions[0]
        await led(nodes, partition).change(CloseWork(partition=partition))
        assert rules(nodes, topic) == [None]
        await until(lambda: rules(nodes, topic) == [QueueRules(fifo=True)])
        await until(lambda: work(nodes, partition).rules.lease_ms == 7_000)
        await nodes.stop()

    asyncio.run(story())


@pytest.mark.slow
def test_share_groups_follow_their_configs_and_plain_topics_cost_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        topic = await engine.topics.create_topic("orders", 2, {"retention.ms": "-1"})
        first, second = topic.partitions
        opening = OpenWork(partition=first, group="g", start=LATEST, rules=WorkRules())
        await led(nodes, first).change(opening)
        await until(lambda: work(nodes, first, "g").rules.dead is Dead.DISCARD)
        assert work(nodes, first, "g").rules == engine.topics.catalog.group_settings("g").work_rules
        limit = {"share.delivery.count.limit": "9"}
        assert await engine.groups.configure_group("g", dict(limit), validate_only=True) == {}
        assert (
            await engine.groups.configure_group("g", dict(limit))
            == limit
            == engine.groups.group_configs("g")
        )
        await until(lambda: work(nodes, first, "g").rules.deliveries_max == 9)
        queues = led(nodes, first).machine.queues
        assert queues.groups(first).keys() == {"g"}, "nobody asked for the default group"
        assert led(nodes, second).machine.queues.rules(second) is None
        await nodes.stop()

    asyncio.run(story())


@pytest.mark.slow
def test_leases_end_and_done_messages_go_without_being_asked(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        topic = await engine.topics.create_topic("orders", 1, {"queue.delete.acked": "true"})
        partition = topic.partitions[0]
        await engine.topics.produce(topic, 0, build_batch(5), Acks.ALL)
        running = led(nodes, partition)
        await acquire(running, partition, 3, lease_ms=1)
        await until(lambda: work(nodes, partition).ready == 5)
        epoch = await acquire(running, partition, 5)
        await ack(running, partition, 1, 3, epoch)
        await ack(running, partition, 0, 1, epoch)
        await until(lambda: engine.topics.bounds(topic, 0) == (3, 5))
        assert work(nodes, partition).leased == 2
        await nodes.stop()

    asyncio.run(story())


@pytest.mark.slow
def test_any_of_three_nodes_makes_a_queue_and_all_share_a_key(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        for number in (1, 2, 3):
            topic = await nodes[number].engine.topics.create_topic(f"orders-{number}", 2, FIFO)
            assert rules(nodes, topic) == [QueueRules(fifo=True)] * 2
        await until(
            lambda: all(node.engine.topics.receipt_key() for node in nodes.running.values())
        )
        key = nodes[1].engine.topics.receipt_key()
        assert len(key) == 32
        assert [nodes[number].engine.topics.receipt_key() for number in (2, 3)] == [key, key]
        await nodes.stop()
        await nodes.start()
        await until(lambda: bool(nodes[2].engine.topics.receipt_key()))
        assert nodes[2].engine.topics.receipt_key() == key
        await nodes.stop()

    asyncio.run(story())


# With one shard and a clock of our own.

ALL = ShardId(1)


class Rig:
    """A shard, and duties that know one topic of one partition."""

    def __init__(self, running: Shard, clock: ManualClock, configs: dict[str, str]) -> None:
        self.running = running
        self.clock = clock
        self.cluster = Cluster()
        self.cluster.found()
        self.topic = self.cluster.create("orders", 1, **configs)
        self.partition = self.topic.partitions[0]
        self.upgraded = False
        self.duties = QueueUpkeep(
            lambda: self.cluster.catalog, lambda _: ALL, clock, lambda: self.upgraded
        )

    @classmethod
    async def open(cls, path: Path, **configs: str) -> "Rig":
        """`queue_order="fifo"` sets queue.order of the topic."""
        clock = ManualClock()
        network = LoopbackNetwork(asyncio.get_running_loop().call_soon)
        running = await Shard.open(settings(path), network, clock=clock)
        return cls(running, clock, configs)

    @property
    def log_start(self) -> Offset:
        return self.running.machine.bounds(self.partition).log_start

    @property
    def work(self) -> WorkGroup:
        found = self.running.machine.queues.work(self.partition, DEFAULT_WORK_GROUP)
        assert found is not None, "the default group is not open"
        return found

    async def make(self, partition: PartitionId) -> None:
        await until_led(lambda: self.running.change(CreatePartition(partition=partition)))

    async def fill(self, count: int) -> None:
        await self.make(self.partition)
        await self.duties.tend(ALL, self.running)
        await self.running.append(self.partition, build_batch(count))

    async def open_work(self, group: str, start: int) -> None:
        opening = OpenWork(
            partition=self.partition, group=group, start=Offset(start), rules=WorkRules()
        )
        await self.running.change(opening)

    async def done(self, first: int, end: int) -> None:
        epoch = await acquire(self.running, self.partition, end - first)
        await ack(self.running, self.partition, first, end, epoch)

    async def tick(self) -> None:
        """A tick, and whatever it brings about; what changes nothing comes after it."""
        self.duties.tick(ALL, self.running)
        await self.running.change(TrimPartition(partition=self.partition, before=Offset(0)))


def test_messages_go_in_steps(tmp_path: Path) -> None:
    async def story() -> None:
        rig = await Rig.open(tmp_path, queue_delete_acked="true")
        await rig.fill(5_000)
        starts = []
        for first, end, pause_ms in (
            (0, 1, 0),  # The first is late in any case.
            (1, 1_000, 0),
            (1_000, 1_001, 0),  # Now there are 1,000.
            (1_001, 1_002, 999),
            (1_002, 1_003, 1),
        ):
            await rig.done(first, end)
            rig.clock.advance(pause_ms)
            await rig.tick()
            starts.append(rig.log_start)
        assert starts == [1, 1, 1_001, 1_001, 1_003]
        await rig.running.close()

    asyncio.run(story())


def test_messages_that_one_group_needs_stay(tmp_path: Path) -> None:
    async def story() -> None:
        rig = await Rig.open(tmp_path, queue_delete_acked="true")
        await rig.fill(10)
        await rig.open_work("g", 4)
        await rig.done(0, 10)
        await rig.tick()
        assert rig.log_start == 4
        await rig.running.close()

    asyncio.run(story())


@pytest.mark.parametrize("configs", [{}, {"queue_lease_ms": "9000"}])
def test_nothing_goes_unless_it_is_asked_for(tmp_path: Path, configs: dict[str, str]) -> None:
    async def story() -> None:
        rig = await Rig.open(tmp_path, **configs)
        await rig.fill(10)
        await rig.open_work(DEFAULT_WORK_GROUP, 0)
        await rig.done(0, 10)
        await rig.tick()
        assert (rig.work.start, rig.log_start) == (10, 0)
        await rig.running.close()

    asyncio.run(story())


def test_the_clock_is_turned_when_something_is_due_and_only_then(tmp_path: Path) -> None:
    async def story() -> None:
        rig = await Rig.open(tmp_path, queue_lease_ms="5000")
        await rig.fill(2)
        await acquire(rig.running, rig.partition, 2)
        rig.clock.advance(4_999)
        await rig.tick()
        assert rig.work.leased == 2
        assert rig.running.machine.queues.time_ms < rig.clock.wall_ms(), "nothing was written"
        rig.clock.advance(1)
        await rig.tick()
        assert rig.work.leased == 0
        await rig.running.close()

    asyncio.run(story())


def test_many_leases_that_end_at_once_take_several_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        rig = await Rig.open(tmp_path, queue_lease_ms="5000")
        await rig.fill(10)
        for _ in range(10):
            await acquire(rig.running, rig.partition, 1)
        monkeypatch.setattr(WorkGroup.turn, "__defaults__", (3,))
        rig.clock.advance(5_000)
        rig.duties.tick(ALL, rig.running)
        rig.duties.tick(ALL, rig.running)  # One turn at a time.
        await until(lambda: rig.work.leased == 0)
        await rig.running.close()

    asyncio.run(story())


def test_a_look_writes_so_much_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_duties, "STEPS_AT_ONCE", 1)

    async def story() -> None:
        rig = await Rig.open(tmp_path, queue_order="fifo")
        other = rig.cluster.create("other", 1, queue_order="fifo").partitions[0]
        for partition in (rig.partition, other):
            await rig.make(partition)
        queues = rig.running.machine.queues
        await rig.duties.tend(ALL, rig.running)
        assert len(queues.partitions) == 1
        await rig.duties.tend(ALL, rig.running)
        assert queues.partitions.keys() == {rig.partition, other}
        await rig.running.close()

    asyncio.run(story())


# Writing rules from anywhere.


class Shards:
    """Takes changes, and fails as it is told."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.taken: list[Request] = []

    async def change(self, shard: ShardId, request: Request) -> Reply:
        assert shard == ALL
        if self.failures:
            raise self.failures.pop(0)
        self.taken.append(request)
        return QueueChanged()


def fifo_topic() -> Topic:
    cluster = Cluster()
    cluster.found()
    return cluster.create("orders", 1, queue_order="fifo")


def test_rules_are_written_though_an_answer_is_lost() -> None:
    shards, topic = Shards(OutcomeUnknown("lost")), fifo_topic()
    asyncio.run(write_rules(topic, topic.partitions, shards.change, lambda _: ALL))
    assert [type(one) for one in shards.taken] == [ConfigureQueue, OpenWork]


def test_rules_that_cannot_be_written_are_left_to_the_leader() -> None:
    shards, topic = Shards(UnknownPartition("not yet")), fifo_topic()
    asyncio.run(write_rules(topic, topic.partitions, shards.change, lambda _: ALL))
    assert shards.taken == []


def test_our_own_mistakes_are_not_hidden() -> None:
    shards, topic = Shards(AssertionError("a mistake")), fifo_topic()
    with pytest.raises(AssertionError, match="a mistake"):
        asyncio.run(write_rules(topic, topic.partitions, shards.change, lambda _: ALL))


def test_the_version_of_queues_changes_when_every_node_knows_it(tmp_path: Path) -> None:
    async def story() -> None:
        rig = await Rig.open(tmp_path, queue_lease_ms="5000")
        await rig.fill(3)

        async def fail() -> int:
            """Let a lease end; returns which message is next."""
            await acquire(rig.running, rig.partition, 1)
            rig.clock.advance(5_000)
            await rig.tick()
            command = Acquire(partition=rig.partition, group=DEFAULT_WORK_GROUP, messages_max=1)
            reply = await rig.running.change(command)
            assert isinstance(reply, Acquired)
            ((first, end, *_),) = reply.runs
            given = Settlement(first, end, reply.epoch, Verdict.RETURN)
            await rig.running.change(
                Settle(partition=rig.partition, group=DEFAULT_WORK_GROUP, settlements=(given,))
            )
            return first

        assert rig.running.machine.queues.version == 1
        assert await fail() == 0
        rig.upgraded = True
        await rig.duties.tend(ALL, rig.running)
        assert rig.running.machine.queues.version == 2
        assert await fail() == 1
        await rig.running.close()

    asyncio.run(story())


def test_a_node_alone_uses_the_newest_version_of_queues(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        topic = await nodes[1].engine.topics.create_topic("orders", 1, {})
        shard = nodes[1].engine.topics.led_shard(topic.partitions[0])
        await until(lambda: shard.machine.queues.version == 2)
        await nodes.stop()

    asyncio.run(story())
