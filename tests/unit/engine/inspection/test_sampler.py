"""What a node says about what it leads; one in memory, whose clock is moved."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.core.decoders import decode_msgpack
from penstock.core.message import NewMessage
from penstock.core.topic import Topic
from penstock.core.types import NodeId, Offset
from penstock.core.verdicts import Verdict
from penstock.embedded.engine import EmbeddedEngine
from penstock.engine.cluster.node import Node
from penstock.engine.groups.requests import CommitOffsets, OffsetToCommit
from penstock.engine.inspection.sampler import FRESH_MS, SAMPLE
from penstock.engine.inspection.samples import NodeSample, QueueSample
from penstock.engine.peers.exchange import Caller
from penstock.testing.clock import ManualClock


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Node, ManualClock]]:
    clock = ManualClock()
    engine = await EmbeddedEngine.open(None, clock=clock)
    try:
        yield engine.node, clock
    finally:
        await engine.close()


async def make(node: Node, name: str, partitions: int = 1, **configs: str) -> Topic:
    given = {key.replace("_", "."): value for key, value in configs.items()}
    topic = await node.engine.topics.create_topic(
        name, partitions, {"queue.lease.ms": "30000", **given}
    )
    await node.delivery.open(topic, "queue")
    return topic


async def queue(node: Node, topic: Topic) -> QueueSample:
    sample = await node.sampler.here(fresh=True)
    (found,) = (one for one in sample.queues if one.topic_id == topic.topic_id)
    return found


def test_partitions_are_summed() -> None:
    async def story() -> None:
        async with opened() as (node, _):
            topic = await make(node, "jobs", 3)
            for index in range(3):
                await node.delivery.send(topic, [NewMessage(b"x")] * (index + 1), index=index)
            found = await queue(node, topic)
            assert found.partitions == topic.partitions
            assert (found.counts.ready, found.counts.sent) == (6, 6)
            sample = await node.sampler.here()
            assert [(one.partitions, one.ends) for one in sample.topics] == [(3, 6)]

    asyncio.run(story())


def test_what_happened_is_counted_since_the_state_was_loaded_all_of_it() -> None:
    async def story() -> None:
        async with opened() as (node, _):
            topic = await make(node, "jobs")
            await node.delivery.send(topic, [NewMessage(b"x")] * 3)

            async def work_off() -> None:
                (got,) = await node.delivery.receive(topic)
                await node.delivery.settle(topic, [(got.receipt, Verdict.ACK, -1, "")])

            await work_off()
            counts = (await queue(node, topic)).counts
            assert (counts.sent, counts.delivered, counts.acked, counts.ready) == (3, 1, 1, 2)
            machine = node.topics.led_shard(topic.partitions[0]).machine
            machine.restore(machine.snapshot())  # As a node does that starts.
            counts = (await queue(node, topic)).counts
            assert (counts.sent, counts.delivered, counts.acked, counts.ready) == (3, 0, 0, 2)
            await work_off()
            counts = (await queue(node, topic)).counts
            assert (counts.delivered, counts.acked) == (1, 1)

    asyncio.run(story())


def test_one_sample_serves_whoever_asks_within_a_second() -> None:
    async def story() -> None:
        async with opened() as (node, clock):

            async def ask() -> bytes:
                return await node.calls.answer(Caller(NodeId(2), is_member=True), SAMPLE.name, b"")

            first = await node.sampler.here()
            assert await node.sampler.here() is first
            assert decode_msgpack(await ask(), NodeSample) == first
            assert await ask() is await ask(), "it is encoded once"
            clock.advance(FRESH_MS)
            await ask()
            assert (await node.sampler.here()).life == first.life
            assert await node.sampler.here(fresh=True) is not first
            assert node.sampler.spent_seconds > 0

    asyncio.run(story())


def test_the_oldest_that_lives_counts_and_not_the_dead() -> None:
    async def story() -> None:
        async with opened() as (node, clock):
            topic = await make(node, "jobs")
            await node.delivery.send(topic, [NewMessage(b"bad")])
            (bad,) = await node.delivery.receive(topic)
            clock.advance(seconds=5)
            await node.delivery.send(topic, [NewMessage(b"good")])
            assert (await queue(node, topic)).oldest_age_ms == 5_000
            await node.delivery.settle(topic, [(bad.receipt, Verdict.REJECT, 0, "")])
            clock.advance(seconds=2)
            found = await queue(node, topic)
            assert (found.counts.dead, found.oldest_age_ms) == (1, 2_000)
            (good,) = await node.delivery.receive(topic)
            await node.delivery.settle(topic, [(good.receipt, Verdict.ACK, 0, "")])
            assert (await queue(node, topic)).oldest_age_ms == -1

    asyncio.run(story())


def test_a_dead_letter_queue_that_nobody_has_opened_is_a_queue() -> None:
    async def story() -> None:
        async with opened() as (node, _):
            await make(node, "jobs", queue_dead_letter_topic="letters")
            letters = await node.engine.topics.create_topic("letters", 1, {})
            plain = await node.engine.topics.create_topic("plain", 1, {})
            for topic in (letters, plain):
                await node.delivery.send(topic, [NewMessage(b"x")] * 2)
            assert (await queue(node, letters)).counts.ready == 2
            sample = await node.sampler.here()
            assert plain.topic_id not in {one.topic_id for one in sample.queues}

    asyncio.run(story())


def test_groups_and_how_far_they_are_behind() -> None:
    async def story() -> None:
        async with opened() as (node, _):
            topic = await node.engine.topics.create_topic("orders", 2, {})
            for index in range(2):
                await node.delivery.send(topic, [NewMessage(b"x")] * 10, index=index)
            offsets = tuple(OffsetToCommit(topic.topic_id, one, Offset(4)) for one in range(2))
            await node.engine.groups.coordinator("billing").commit_offsets(
                CommitOffsets(group="billing", offsets=offsets)
            )
            (group,) = (await node.sampler.here(fresh=True)).groups
            assert (group.group, group.members) == ("billing", 0)
            assert group.topics == ((topic.topic_id, 12, 8, 2, True),)

    asyncio.run(story())


def test_who_asks_is_said() -> None:
    async def story() -> None:
        async with opened() as (node, clock):
            topic = await make(node, "jobs")
            assert (await queue(node, topic)).silent_ms == -1
            await node.delivery.receive(topic, receiver="a")
            await node.delivery.receive(topic, receiver="b")
            clock.advance(seconds=3)
            found = await queue(node, topic)
            assert (found.silent_ms, found.workers) == (3_000, ("a", "b"))

    asyncio.run(story())
