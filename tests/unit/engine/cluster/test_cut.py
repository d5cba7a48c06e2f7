"""One moment of a cluster: nothing before it depends on anything after it, whoever leads."""

import asyncio
from pathlib import Path
from typing import TypeVar

import pytest

from penstock.core.errors import PenstockError, Unavailable
from penstock.core.topic import Topic
from penstock.core.types import Index, NodeId, PartitionId, ShardId
from penstock.engine.cluster.backups.backup import ShardCopy
from penstock.engine.cluster.backups.cut import HOLD_TICKS, MARK, Cut, ShardHold
from penstock.engine.cluster.backups.restore import ShardReader
from penstock.engine.peers.calls import RemoteCall
from penstock.engine.replica.shard import Shard
from penstock.machines.shard_machine import ShardMachine
from penstock.storage import RealDisk
from penstock.storage.log_copy import hold_log
from penstock.storage.reading_disk import ReadingDisk
from tests.unit.engine.nodes import Nodes, until

pytestmark = pytest.mark.slow

WRITERS = 4
CUTS = 8
TURNS = 500
ONE, TWO = ShardId(1), ShardId(2)
Q = TypeVar("Q")
R = TypeVar("R")


def end_of(data: Path, cut: Cut, shard: ShardId, partition: PartitionId, copy: Path) -> int:
    """How many messages of a partition are before the cut, from the files alone."""
    held = hold_log(ReadingDisk(), str(data / f"shard-{shard}"))
    held.plan(cut.shards[shard])
    files = held.copy_to(RealDisk(), str(copy))
    held.close()
    row = ShardCopy(shard=shard, index=held.index, term=held.term, size_bytes=0, files=tuple(files))
    reader = ShardReader(ReadingDisk(), str(copy), row)
    assert reader.snapshot() is None, "too little was written for one"
    machine = ShardMachine()
    for entry in reader.entries():
        machine.apply(entry)
    return machine.bounds(partition).high_watermark


def dawdle(nodes: Nodes) -> None:
    """Let time pass before the shard of the notes names its entry: without a hold, notes would come
    before it whose steps are after the other shard's."""
    calls = nodes[2].calls
    ask = calls.ask_node

    async def slowly(
        node: NodeId, call: RemoteCall[Q, R], request: Q, *, seconds: float | None = None
    ) -> R:
        if call.name == MARK.name and isinstance(request, ShardHold) and ONE not in request.shards:
            for _ in range(TURNS):
                await asyncio.sleep(0)
        return await ask(node, call, request, seconds=seconds)

    calls.ask_node = slowly  # type: ignore[method-assign]


def in_shard(topic: Topic, nodes: Nodes, shard: ShardId) -> int:
    """The index of a partition of the topic that lies there."""
    shard_of = nodes[1].engine.topics.shard_of
    return next(index for index, number in enumerate(topic.partitions) if shard_of(number) == shard)


def test_nothing_before_a_cut_depends_on_anything_after_it(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        topic = await nodes[1].engine.topics.create_topic("orders", 4, {})
        await until(
            lambda: all(one.engine.topics.topic("orders") for one in nodes.running.values())
        )
        steps, notes = in_shard(topic, nodes, ONE), in_shard(topic, nodes, TWO)
        noted: dict[int, int] = {}
        ended = False
        dawdle(nodes)

        async def write() -> None:
            while not ended:
                step = await nodes.produce(topic, steps, b"step")
                note = await nodes.produce(topic, notes, b"note")
                noted[note.base_offset] = step.base_offset

        async def unsettle() -> None:
            """Leaders come and go."""
            turn = 0
            while not ended:
                turn += 1
                try:
                    await nodes[1].cluster.transfer(ONE, NodeId(1 + turn % 3))
                    await nodes[1].cluster.transfer(TWO, NodeId(1 + (turn + 1) % 3))
                except PenstockError:
                    pass
                for _ in range(200):
                    await asyncio.sleep(0)

        tasks = [asyncio.create_task(write()) for _ in range(WRITERS)]
        tasks.append(asyncio.create_task(unsettle()))
        cuts: list[Cut] = []
        async with asyncio.timeout(60):
            while len(cuts) < CUTS:
                try:
                    cuts.append(await nodes[2].cuts.cut())
                except PenstockError:
                    await asyncio.sleep(0)
        ended = True
        await asyncio.gather(*tasks)
        for number, cut in enumerate(cuts):
            assert set(cut.here) == {0, 1, 2}
            home = tmp_path / "node-2"
            step_end, note_end = (
                end_of(home, cut, shard, topic.partitions[index], tmp_path / f"{number}-{shard}")
                for shard, index in ((ONE, steps), (TWO, notes))
            )
            for note, step in noted.items():
                if note < note_end:
                    assert step < step_end, f"cut {number}: note {note} without step {step}"
        assert len({cut.shards[ONE] for cut in cuts}) > 1, "nothing was written between the cuts"
        await nodes.stop()

    asyncio.run(story())


def led(nodes: Nodes, shard: ShardId) -> Shard:
    running = nodes[1].shards.get(shard)
    assert running is not None
    return running


def test_a_leader_that_holds_lets_requests_wait(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        topic = await nodes[1].engine.topics.create_topic("orders", 2, {})
        index = in_shard(topic, nodes, ONE)
        replica = led(nodes, ONE).replica
        replica.hold("me", 1_000)
        before = replica.raft.last_index
        waiting = asyncio.create_task(nodes.produce(topic, index, b"x"))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not waiting.done()
        assert replica.raft.last_index == before
        with pytest.raises(Unavailable):
            replica.hold("another", 1_000)
        replica.release("another")
        assert replica.is_held_by("me")
        replica.release("me")
        assert (await waiting).base_offset == 0
        await nodes.stop()

    asyncio.run(story())


def test_a_leader_lets_go_by_itself_and_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        replica = led(nodes, TWO).replica
        replica.hold("somebody that died", HOLD_TICKS)
        await until(lambda: not replica.held)
        assert not replica.is_held_by("somebody that died")
        cut = await nodes[1].cuts.cut()
        assert cut.shards[TWO] >= Index(1)
        both = await asyncio.gather(nodes[1].cuts.cut(), nodes[1].cuts.cut())
        assert len(both) == 2, "one waits for the other"
        await nodes.stop()

    asyncio.run(story())
