"""A shard on a real loop, with real threads and a real disk."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.core.entries import Membership
from penstock.core.errors import (
    DirectoryInUse,
    NotLeader,
    PartitionExists,
    PenstockError,
    UnknownPartition,
)
from penstock.core.types import NodeId, Offset, PartitionId, ShardId
from penstock.engine.peers.loopback import LoopbackNetwork
from penstock.engine.replica.shard import Shard, ShardSettings
from penstock.machines.commands import CreatePartition
from penstock.raft import Role
from penstock.storage import Identity, LogSettings
from tests.batches import build_batch

PARTITION = PartitionId(0)


def settings(path: Path, node: int = 1, members: int = 1) -> ShardSettings:
    return ShardSettings(
        directory=str(path / f"node-{node}"),
        identity=Identity("test", ShardId(0), NodeId(node)),
        members=Membership(tuple(NodeId(n) for n in range(1, members + 1))),
        log=LogSettings(segment_bytes=1 << 20, ballast_bytes=1 << 20),
        tick_ms=10,
    )


async def open_alone(path: Path) -> Shard:
    network = LoopbackNetwork(asyncio.get_running_loop().call_soon)
    return await Shard.open(settings(path), network)


async def until_led(ask: Callable[[], Awaitable[object]]) -> None:
    """Ask until a leader answers, as a client would."""
    while True:
        try:
            await ask()
        except PartitionExists:
            return  # An attempt whose outcome was unknown has made it.
        except PenstockError:
            await asyncio.sleep(0)  # Other tasks, and the timer, have their turn.
        else:
            return


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    async def first() -> None:
        shard = await open_alone(tmp_path)
        await until_led(lambda: shard.change(CreatePartition(partition=PARTITION)))
        batches = [build_batch(3, value=b"%d" % number) for number in range(100)]
        replies = await asyncio.gather(*(shard.append(PARTITION, batch) for batch in batches))
        assert [reply.base_offset for reply in replies] == [3 * n for n in range(100)]
        await shard.close()

    async def second() -> bytes:
        shard = await open_alone(tmp_path)
        await until_led(shard.wait_current)
        data = shard.fetch(PARTITION, Offset(0), 1 << 20)
        with pytest.raises(UnknownPartition):
            await shard.append(PartitionId(9), build_batch(1))
        shard.abandon()
        shard.replica.log.close()
        return data

    asyncio.run(first())
    data = asyncio.run(second())
    assert [data.count(b"%d" % number) > 0 for number in range(100)] == [True] * 100


def test_a_directory_is_used_by_one_shard_at_a_time(tmp_path: Path) -> None:
    async def run() -> None:
        shard = await open_alone(tmp_path)
        with pytest.raises(DirectoryInUse):
            await open_alone(tmp_path)
        await shard.close()
        await (await open_alone(tmp_path)).close()

    asyncio.run(run())


def test_three_shards_agree_and_survive_the_loss_of_the_leader(tmp_path: Path) -> None:
    async def run() -> None:
        network = LoopbackNetwork(asyncio.get_running_loop().call_soon)
        shards = {}
        for node in (1, 2, 3):
            shards[node] = await Shard.open(settings(tmp_path, node, 3), network)
            network.attach(NodeId(node), shards[node].replica.receive)

        async def anywhere(ask: Callable[[Shard], Awaitable[object]]) -> None:
            async def once() -> object:
                for shard in shards.values():
                    if shard.replica.raft.role is Role.LEADER:
                        return await ask(shard)
                raise NotLeader("nobody leads")

            await until_led(once)

        await anywhere(lambda shard: shard.change(CreatePartition(partition=PARTITION)))
        await anywhere(lambda shard: shard.append(PARTITION, build_batch(1, value=b"before")))
        leader = next(n for n, s in shards.items() if s.replica.raft.role is Role.LEADER)
        network.detach(NodeId(leader))
        gone = shards.pop(leader)
        gone.abandon()
        gone.replica.log.close()
        await anywhere(lambda shard: shard.append(PARTITION, build_batch(1, value=b"after")))
        new = next(s for s in shards.values() if s.replica.raft.role is Role.LEADER)
        data = new.fetch(PARTITION, Offset(0), 1 << 20)
        assert b"before" in data
        assert b"after" in data
        for shard in shards.values():
            await shard.close()

    asyncio.run(run())
