"""Shards to measure: one replica or three in this process, on real files, and clients that append.

Clients are coroutines that each keep one append under way, so the number of clients is the number
of appends in flight. All batches are there before the clock starts, as if they had just arrived:
getting them into memory is not the log's business.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks.report import MIB
from penstock.core.entries import Membership
from penstock.core.errors import NotLeader, Unavailable
from penstock.core.types import NodeId, PartitionId, ShardId
from penstock.engine.peers.loopback import LoopbackNetwork
from penstock.engine.replica.shard import Shard, ShardSettings
from penstock.machines.commands import CreatePartition
from penstock.storage import Identity, LogJob, LogSettings, Step
from tests.batches import build_batch

PARTITION = PartitionId(0)
LEADER = NodeId(1)
CLUSTER = "benchmark"
LEADING_WITHIN_SECONDS = 120
# The ballast is made once in a shard's life; making it for each round would only wear the disk.
LOG = LogSettings(ballast_bytes=1 * MIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What clients send."""

    name: str
    batch: bytes
    messages: int
    """In one batch."""
    batches: int
    clients: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """What came of a load."""

    seconds: float
    cpu_seconds: float
    """Of the whole process: loop and writers."""
    latencies: list[float]
    groups: list[int]
    """Bytes of each write job of the leader, in order."""


def make_batch(messages: int, value_bytes: int) -> bytes:
    """A true record batch, as a Kafka client builds it."""
    return bytes(build_batch(messages, value=os.urandom(value_bytes)))


@asynccontextmanager
async def running_shard(directory: str, *, replicas: int) -> AsyncIterator[Shard]:
    """The leader of a shard with one partition; everything is closed at the end."""
    network = LoopbackNetwork(asyncio.get_running_loop().call_soon)
    members = Membership(tuple(NodeId(number) for number in range(1, replicas + 1)))
    shards = []
    for node in members.voters:
        settings = ShardSettings(
            directory=os.path.join(directory, f"node-{node}"),
            identity=Identity(CLUSTER, ShardId(0), node),
            members=members,
            log=LOG,
        )
        shard = await Shard.open(settings, network)
        network.attach(node, shard.replica.receive)
        shards.append(shard)
    leader = shards[0]
    try:
        leader.replica.campaign()
        await wait_leading(leader)
        await leader.change(CreatePartition(partition=PARTITION))
        yield leader
    finally:
        for shard in reversed(shards):  # The leader last: nobody should stand for election now.
            shard.abandon()
            shard.replica.log.close()


async def wait_leading(shard: Shard) -> None:
    """Return once the shard leads and has applied everything there is."""
    async with asyncio.timeout(LEADING_WITHIN_SECONDS):
        while True:
            try:
                return await shard.wait_current()
            except (NotLeader, Unavailable):
                await asyncio.sleep(0.001)


async def drive(shard: Shard, load: Load) -> Driven:
    """Let the clients append everything, and watch."""
    groups = _watch_groups(shard)
    latencies: list[float] = []
    waiting = [bytearray(load.batch) for _ in range(load.batches)]
    clock = time.perf_counter

    async def client() -> None:
        while waiting:
            sent = clock()
            await shard.append(PARTITION, waiting.pop())
            latencies.append(clock() - sent)

    cpu_began = time.process_time()
    began = clock()
    async with asyncio.TaskGroup() as group:
        for _ in range(load.clients):
            group.create_task(client())
    seconds = clock() - began
    return Driven(
        seconds=seconds,
        cpu_seconds=time.process_time() - cpu_began,
        latencies=latencies,
        groups=[size for size in groups if size],
    )


def _watch_groups(shard: Shard) -> list[int]:
    """The bytes of each write job from now on; jobs that write no entry count as zero."""
    log = shard.replica.log
    appender = log._appender
    take_job = log.take_job
    groups: list[int] = []
    before = appender.appended_bytes

    def take_and_note(on_written: Step | None = None) -> LogJob | None:
        nonlocal before
        job = take_job(on_written)
        if job is not None:
            groups.append(appender.appended_bytes - before)
            before = appender.appended_bytes
        return job

    log.take_job = take_and_note  # type: ignore[method-assign]
    return groups
