"""Staging and publishing on real nodes, in a few words."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec
import pytest

from penstock.core.errors import PenstockError
from penstock.core.internal_topics import STAGING_TOPIC
from penstock.core.message_batches import iter_batches, read_messages
from penstock.core.topic import Topic
from penstock.core.types import Offset, PartitionId
from penstock.engine.cluster.node import Node
from penstock.engine.cluster.node_settings import NodeSettings
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.publications import PublishOutcome, PublishRequest
from penstock.engine.topics.staging import StagedBatch
from penstock.machines.commands import ExpireProducers
from penstock.machines.publication_commands import PublishedPart
from penstock.storage import LogSettings
from penstock.storage.memory_disk import MemoryDisk
from penstock.testing.clock import ManualClock
from tests.batches import build_batch
from tests.unit.engine.nodes import PATIENCE_SECONDS, until

Story = Callable[[Node], Awaitable[None]]
SETTINGS = NodeSettings(
    data="data",
    peer_port=None,
    shards=2,
    log=LogSettings(segment_bytes=1 << 20, ballast_bytes=1 << 20),
)


def play(
    story: Story,
    *,
    disk: MemoryDisk | None = None,
    clock: ManualClock | None = None,
    shards: int = 2,
) -> None:
    """A story of one node, in memory."""

    async def run() -> None:
        settings = msgspec.structs.replace(SETTINGS, shards=shards)
        node = await Node.open(settings, disk=disk or MemoryDisk(), clock=clock)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await until(lambda: _hurried(node).health().ready)
                await story(node)
        finally:
            await node.close()

    asyncio.run(run())


def _hurried(node: Node) -> Node:
    node.look_after_now()
    return node


async def stage(
    node: Node, topic: Topic, index: int, value: bytes, count: int = 1, **options: int
) -> StagedBatch:
    """Stage one batch of equal messages."""
    options.setdefault("timestamp", node.topics.clock.wall_ms())
    batch = build_batch(count, value=value, **options)  # type: ignore[arg-type]
    staging = node.engine.publications.staging
    return await staging.stage(topic, index, memoryview(batch))


def part(topic: Topic, *staged: StagedBatch) -> PublishedPart:
    """What one partition is to get."""
    ranges = tuple((one.first, one.end) for one in staged)
    return PublishedPart(topic.topic_id, staged[0].partition, staged[0].staging, ranges)


def parts(topic: Topic, staged: Iterable[StagedBatch]) -> tuple[PublishedPart, ...]:
    """What all partitions are to get."""
    found: dict[PartitionId, list[StagedBatch]] = {}
    for one in staged:
        found.setdefault(one.partition, []).append(one)
    return tuple(part(topic, *ones) for ones in found.values())


async def publish(
    node: Node, batch: int, *given: PublishedPart, application: str = "app", owner: str = ""
) -> PublishOutcome:
    """Publish once; whatever comes is the caller's."""
    asked = PublishRequest(application, batch, owner, given)
    return await node.engine.publications.publish(asked)


async def publish_until(
    nodes: Callable[[], Sequence[Node]], batch: int, *given: PublishedPart, application: str = "app"
) -> PublishOutcome:
    """Publish as a client does: ask one node after the other until there is an answer."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for node in nodes():
                try:
                    return await publish(node, batch, *given, application=application)
                except PenstockError:
                    await asyncio.sleep(0)


def values(node: Node, topic: Topic, index: int) -> list[bytes]:
    """What a partition holds, on the node that leads it."""
    start, end = node.engine.topics.bounds(topic, index)
    found: list[bytes] = []
    position = start
    while position < end:
        data = node.engine.topics.read(topic, index, position, 1 << 20)
        for batch in iter_batches(data):
            found += [message.value or b"" for message in read_messages(batch)]
        position = Offset(start + len(found))
    return found


async def led_values(nodes: Callable[[], Sequence[Node]], topic: Topic, index: int) -> list[bytes]:
    """The same, on whichever node leads it and is sure of it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for node in nodes():
                try:
                    await node.engine.topics.led_shard(topic.partitions[index]).wait_current()
                    return values(node, topic, index)
                except PenstockError:
                    await asyncio.sleep(0)


async def orders(node: Node, partitions: int = 3, **configs: str) -> Topic:
    """A topic to publish in."""
    named = {name.replace("_", "."): value for name, value in configs.items()}
    return await node.engine.topics.create_topic("orders", partitions, named)


def shard_for(node: Node, application: str = "app") -> Shard:
    """The shard that decides."""
    shard = node.engine.topics.group_shard(application)
    return next(running for running in _shards(node) if running.shard == shard)


def _shards(node: Node) -> list[Shard]:
    found = (node.shards.get(shard) for shard in node.shards)
    return [running for running in found if running is not None]


def staging_index(node: Node, partition: PartitionId) -> int:
    """Which of the staging partitions it is."""
    return node.engine.topics.topic(STAGING_TOPIC).partitions.index(partition)


async def trimmed(node: Node, partition: PartitionId) -> tuple[int, int]:
    """Where a staging partition begins and ends after a look at it."""
    for _ in range(10):
        node.engine.publications.staging.tick()
    running = node.engine.topics.led_shard(partition)
    await running.change(ExpireProducers(before_ms=0))  # Everything before it is applied.
    return running.machine.partitions.bounds(partition)


async def refused(node: Node, batch: int, error: type[Exception], *given: PublishedPart) -> None:
    """Nothing is decided."""
    with pytest.raises(error):
        await publish(node, batch, *given)
    known = shard_for(node).machine.publications.get("app")
    assert known is None, "nothing was decided"
