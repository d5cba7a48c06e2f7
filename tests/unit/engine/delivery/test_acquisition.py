"""Acquisitions: one receive loop for all front-ends, on real nodes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

from penstock.core.errors import NotLeader, PenstockError, TooManyReceives, UnknownPartition
from penstock.core.message import NewMessage
from penstock.core.topic import Topic
from penstock.core.types import PartitionId
from penstock.engine.delivery import acquisition
from penstock.engine.delivery.acquisition import (
    FEW_MESSAGES,
    AcquireLimits,
    Acquisitions,
)
from penstock.engine.delivery.first_use import FirstUse
from penstock.engine.delivery.lease_returns import LeaseReturns
from penstock.engine.delivery.leases import PartitionLease
from penstock.engine.delivery.service import DeliveryService
from penstock.engine.topics.topics import Topics
from penstock.machines.catalog import Catalog
from penstock.testing.clock import ManualClock
from tests.unit.engine.nodes import Nodes, until

Story = Callable[[Nodes, DeliveryService, Topic], Awaitable[None]]


def on_one_node(path: Path, story: Story, partitions: int = 1) -> None:
    async def play() -> None:
        nodes = Nodes(path, [1])
        await nodes.start()
        engine = nodes[1].engine
        topic = await engine.topics.create_topic("orders", partitions, {"queue.order": "standard"})
        await until(lambda: bool(engine.topics.catalog.secrets))
        await until(lambda: len(engine.delivery.led(topic)) == partitions)
        await story(nodes, engine.delivery, topic)
        await nodes.stop()

    asyncio.run(play())


def test_a_receiver_that_waits_again_at_once_is_woken_again(tmp_path: Path) -> None:
    """Of two that are woken together, the second finds its queue idle when the first one already
    waits in the next queue, which must stay known."""

    async def story(nodes: Nodes, delivery: DeliveryService, topic: Topic) -> None:
        engine = nodes[1].engine
        nothing = cast(LeaseReturns, None), cast(FirstUse, None)
        acquisitions = Acquisitions(engine.topics, ManualClock(), *nothing)
        partition = topic.partitions[0]
        key, led = ("queue", (partition,)), [(topic, delivery.led(topic))]
        woken: list[str] = []

        async def wait(name: str, times: int) -> None:
            for _ in range(times):
                await acquisitions.wait_queue(key, led).wait(60)
                woken.append(name)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(wait("first", 2))
            tasks.create_task(wait("second", 1))
            await asyncio.sleep(0)
            engine.topics.waiting.wake(partition)  # Without a work group, all waiters look.
            await until(lambda: woken == ["first", "second"])
            engine.topics.waiting.wake(partition)
            await until(lambda: woken == ["first", "second", "first"])

    on_one_node(tmp_path, story)


def messages(count: int, size: int = 1) -> list[NewMessage]:
    return [NewMessage(b"x" * size) for _ in range(count)]


def offsets(leases: list[PartitionLease]) -> list[tuple[int, int]]:
    return [
        (lease.index, offset)
        for lease in leases
        for first, end in lease.ranges()
        for offset in range(first, end)
    ]


def test_one_at_a_time_measures_and_acquires() -> None:
    clock = ManualClock()
    nothing = cast(LeaseReturns, None), cast(FirstUse, None)
    acquisitions = Acquisitions(cast(Topics, None), clock, *nothing)
    seen: list[int] = []

    async def acquire(number: int, partition: int) -> None:
        async with acquisitions.gate(PartitionId(partition), "g"):
            seen.append(number)
            await asyncio.sleep(0)
            seen.append(number)

    async def story() -> None:
        await asyncio.gather(acquire(1, 0), acquire(2, 0), acquire(3, 0))
        assert seen == [1, 1, 2, 2, 3, 3]
        seen.clear()
        await asyncio.gather(acquire(1, 0), acquire(2, 5))
        assert seen == [1, 2, 1, 2]
        assert acquisitions._gates == {}

    asyncio.run(story())


def test_partitions_take_turns_and_share_the_limit(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, delivery: DeliveryService, topic: Topic) -> None:
        for index in range(3):
            await delivery.send(topic, messages(4), index=index)
        firsts = set()
        for _ in range(3):
            leases = await delivery.acquisition(topic, "queue", AcquireLimits(2), "").run()
            assert len(offsets(leases)) == 2
            firsts.add(leases[0].index)
        assert firsts == {0, 1, 2}
        leases = await delivery.acquisition(topic, "queue", AcquireLimits(100), "").run()
        assert len(offsets(leases)) == 6

    on_one_node(tmp_path, story, partitions=3)


def test_what_is_leased_fits_the_bytes(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, delivery: DeliveryService, topic: Topic) -> None:
        for _ in range(4):
            await delivery.send(topic, messages(30, size=100))
        limits = AcquireLimits(1_000, bytes=7_000)
        leases = await delivery.acquisition(topic, "queue", limits, "").run()
        assert offsets(leases) == [(0, offset) for offset in range(60)]
        (lease,) = leases
        assert lease.pieces is not None
        assert len(lease.pieces) == 2
        limits = AcquireLimits(FEW_MESSAGES, bytes=1)
        (lease,) = await delivery.acquisition(topic, "queue", limits, "").run()
        assert lease.pieces is None, "a few are read one by one"
        assert [one.offset for one in delivery.messages(lease)] == list(range(60, 76))

    on_one_node(tmp_path, story)


def test_a_wake_finds_the_catalog_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_topics: Topics) -> Catalog:
        raise NotLeader("the catalog is closed before the other shards are")

    async def story(nodes: Nodes, delivery: DeliveryService, topic: Topic) -> None:
        waiting = nodes[1].engine.topics.waiting
        task = asyncio.create_task(delivery.receive(topic, wait_ms=60_000))
        await until(lambda: waiting.watches(topic.partitions[0]) == 1)
        with monkeypatch.context() as patch:
            patch.setattr(Topics, "catalog", property(closed))
            waiting.wake(topic.partitions[0])
        await delivery.send(topic, messages(1))
        assert await task, "it has looked again, and waited on"

    on_one_node(tmp_path, story)


def test_receivers_of_all_front_ends_wait_in_one_queue(tmp_path: Path) -> None:
    """One message wakes one of them, in order of arrival, whatever front-end it came through."""

    async def story(nodes: Nodes, delivery: DeliveryService, topic: Topic) -> None:
        waiting = nodes[1].engine.topics.waiting
        done: list[str] = []

        async def native() -> None:
            limits = AcquireLimits(1, wait_ms=60_000)
            assert await delivery.acquisition(topic, "queue", limits, "").run()
            done.append("native")

        async def sqs() -> None:
            assert await delivery.receive(topic, wait_ms=60_000)
            done.append("sqs")

        tasks = []
        for receive in (native, sqs, native, sqs):
            tasks.append(asyncio.create_task(receive()))
            await until(lambda: waiting.watches(topic.partitions[0]) == 1)
            for _ in range(5):
                await asyncio.sleep(0)
        assert waiting.watches(topic.partitions[0]) == 1, "they share one watch"
        for count in range(1, 5):
            await delivery.send(topic, messages(1))
            await until(lambda count=count: len(done) == count)  # type: ignore[misc]
        await asyncio.gather(*tasks)
        assert done == ["native", "sqs", "native", "sqs"]
        await until(lambda: len(waiting) == 0)

    on_one_node(tmp_path, story)


def test_a_partition_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    async def story(nodes: Nodes, delivery: DeliveryService, topic: Topic) -> None:
        topics = nodes[1].engine.topics
        await delivery.open(topic, "queue")
        led_shard = topics.led_shard
        broken = topic.partitions[0]

        def fail(partition: PartitionId) -> object:
            if partition == broken:
                raise UnknownPartition("it is being moved")
            return led_shard(partition)

        topics.led_shard = fail  # type: ignore[assignment, method-assign]
        assert await delivery.acquisition(topic, "queue", AcquireLimits(5), "").run() == []
        await delivery.send(topic, messages(1), index=1)
        leases = await delivery.acquisition(topic, "queue", AcquireLimits(5), "").run()
        assert offsets(leases) == [(1, 0)]
        places = [(topic, 0), (topic, 1)]
        told: list[set[PartitionId]] = []

        def ends_wait(problems: dict[PartitionId, PenstockError]) -> bool:
            told.append(set(problems))
            return True

        limits = AcquireLimits(5, bytes=1_000, wait_ms=60_000, whole_batches=True)
        acquisition = delivery.acquisition_of(places, "queue", limits, "", ends_wait)
        assert await acquisition.run() == []
        assert told == [{broken}]
        with pytest.raises(UnknownPartition):
            await delivery._leader.receive(
                topic, [0], "queue", messages_max=1, lease_ms=None, wait_ms=60_000
            )
        topics.led_shard = led_shard  # type: ignore[method-assign]

    on_one_node(tmp_path, story, partitions=2)


def test_a_wait_ends_early_when_it_is_stopped(tmp_path: Path) -> None:
    async def story(nodes: Nodes, delivery: DeliveryService, topic: Topic) -> None:
        await delivery.open(topic, "queue")
        limits = AcquireLimits(5, bytes=1_000, wait_ms=60_000, whole_batches=True)
        acquisition = delivery.acquisition_of([(topic, 0)], "queue", limits, "", lambda _: True)
        running = asyncio.create_task(acquisition.run())
        waiting = nodes[1].engine.topics.waiting
        await until(lambda: bool(waiting.watches(topic.partitions[0])))
        acquisition.stop()
        async with asyncio.timeout(30):
            assert await running == []
        assert len(waiting) == 0

    on_one_node(tmp_path, story)


def test_a_wait_ends_early_when_partitions_are_added(tmp_path: Path) -> None:
    async def story(nodes: Nodes, delivery: DeliveryService, topic: Topic) -> None:
        topics = nodes[1].engine.topics
        await delivery.open(topic, "queue")
        limits = AcquireLimits(1, wait_ms=60_000)
        running = asyncio.create_task(delivery.acquisition(topic, "queue", limits, "").run())
        receiving = asyncio.create_task(delivery.receive(topic, wait_ms=60_000))
        await until(lambda: bool(topics.waiting.watches(topic.partitions[0])))
        grown = await topics.add_partitions("orders", 2)
        topics.waiting.wake_all()
        assert await running == []
        await delivery.send(grown, messages(1), index=1)
        (delivered,) = await receiving
        assert delivered.index == 1, "a receive goes on with what is new"

    on_one_node(tmp_path, story)


def test_only_so_many_receives_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquisition, "RECEIVES_WAITING_MAX", 2)

    async def story(nodes: Nodes, delivery: DeliveryService, topic: Topic) -> None:
        waiting = nodes[1].engine.topics.waiting
        await delivery.open(topic, "queue")
        limits = AcquireLimits(1, wait_ms=60_000)
        running = [
            asyncio.create_task(delivery.acquisition(topic, "queue", limits, "").run())
            for _ in range(2)
        ]
        await until(lambda: bool(waiting.watches(topic.partitions[0])))
        with pytest.raises(TooManyReceives, match="2 receives wait"):
            await delivery.acquisition(topic, "queue", limits, "").run()
        with pytest.raises(TooManyReceives):  # At once, and not after some attempts.
            await delivery.receive(topic, group="queue", wait_ms=60_000)
        shared = delivery.acquisition_of([(topic, 0)], "queue", limits, "", lambda _: True)
        assert await shared.run() == []
        assert isinstance(shared.problems[topic.partitions[0]], TooManyReceives)
        immediate = delivery.acquisition(topic, "queue", AcquireLimits(1), "")
        assert await immediate.run() == [], "a receive without a wait is not refused"
        running[0].cancel()
        await asyncio.gather(running[0], return_exceptions=True)
        last = asyncio.create_task(delivery.acquisition(topic, "queue", limits, "").run())
        await asyncio.sleep(0)
        await delivery.send(topic, messages(2))
        assert [offsets(await one) for one in (running[1], last)] == [[(0, 0)], [(0, 1)]]

    on_one_node(tmp_path, story)
