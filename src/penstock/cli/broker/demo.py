"""`penstock demo`: the replicated log at work, one readable line per event.

Three nodes in one process, each with its own directory, threads and log. A writer appends as fast
as it is answered while nodes are stopped, cut off and damaged around it. In the end everything
that was acknowledged is read back from every node. The exit code says whether all of it was there.
"""

import asyncio
import os
import struct
import sys
import tempfile
import time
from collections.abc import Callable

import msgspec

from penstock.core.checksum import crc32c
from penstock.core.entries import Membership
from penstock.core.errors import DamagedFile, PartitionExists, PenstockError
from penstock.core.records import BATCH_HEADER_BYTES, read_header
from penstock.core.types import NodeId, Offset, PartitionId, ShardId
from penstock.engine.peers.loopback import LoopbackNetwork
from penstock.engine.replica.shard import Shard, ShardSettings
from penstock.machines.commands import CreatePartition
from penstock.raft import Role
from penstock.storage import Identity, LogSettings

PARTITION = PartitionId(0)
RECORDS_PER_BATCH = 10
NODES = (NodeId(1), NodeId(2), NodeId(3))
LOG = LogSettings(segment_bytes=1 << 20, ballast_bytes=1 << 20)


def run_demo(seconds: float, data: str | None, *, json: bool = False) -> int:
    """Run the demonstration; 0 if nothing acknowledged was lost."""
    if data is not None:
        return _run_on_loop(_Demo(data, seconds, json=json))
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as directory:
        return _run_on_loop(_Demo(directory, seconds, json=json))


def _run_on_loop(demo: "_Demo") -> int:
    """On uvloop where it is to be had, as the broker will be."""
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    if sys.platform == "linux":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(demo.run())


class _Demo:
    def __init__(self, directory: str, seconds: float, *, json: bool) -> None:
        self._json = json
        self._directory = directory
        self._seconds = seconds
        self._began = time.monotonic()
        self._network = LoopbackNetwork(
            lambda action, *arguments: asyncio.get_running_loop().call_soon(action, *arguments)
        )
        self._shards: dict[NodeId, Shard] = {}
        self._supervisors: list[asyncio.Task[None]] = []
        self._acked: dict[int, bytes] = {}
        self._unknown = 0
        self._answered_at = self._began
        self._stalled = False

    async def run(self) -> int:
        self._say("", f"three nodes under {self._directory}; each answer means: on two disks")
        for node in NODES:
            await self._start(node)
        await self._create_partition()
        writer = asyncio.create_task(self._write())
        try:
            await self._trouble()
        except asyncio.CancelledError:
            for node in list(self._shards):
                self._crash(node)
            raise
        finally:
            writer.cancel()
        return await self._read_everything_back()

    # The story.

    async def _trouble(self) -> None:
        steps: list[Callable[[], object]] = [
            self._stop_leader,
            self._restart_stopped,
            self._isolate_leader,
            self._heal,
            self._stop_and_damage_follower,
            self._restart_stopped,
        ]
        pause = self._seconds / (len(steps) + 1)
        for step in steps:
            await asyncio.sleep(pause)
            self._report()
            outcome = step()
            if asyncio.iscoroutine(outcome):
                await outcome
        await asyncio.sleep(pause)
        self._report()

    def _stop_leader(self) -> None:
        leader = self._leader()
        if leader is not None:
            self._say(leader, "stops without a word (it was the leader)")
            self._crash(leader)

    def _isolate_leader(self) -> None:
        leader = self._leader()
        if leader is not None:
            self._say(leader, "is cut off from the others (it is the leader)")
            self._network.isolate(leader)

    def _heal(self) -> None:
        self._say("", "the network is whole again")
        self._network.isolate()

    def _stop_and_damage_follower(self) -> None:
        node = next(n for n in NODES if n in self._shards and n != self._leader())
        self._crash(node)
        path = _newest_segment(os.path.join(self._directory, f"node-{node}"))
        position = os.path.getsize(path) // 3
        with open(path, "r+b") as file:
            file.seek(position)
            byte = file.read(1)
            file.seek(position)
            file.write(bytes([byte[0] ^ 0x10]))
        self._say(node, f"stops, and one bit of {os.path.basename(path)} turns over")

    async def _restart_stopped(self) -> None:
        for node in NODES:
            if node not in self._shards:
                await self._start(node)

    async def _read_everything_back(self) -> int:
        await self._wait_agreed()
        lost = 0
        for node in NODES:
            try:
                seen = self._read_node(self._shards[node])
            except DamagedFile:  # The reader came upon it first: the node restarts and is repaired.
                await asyncio.sleep(0.1)
                await self._wait_agreed()
                seen = self._read_node(self._shards[node])
            missing = [offset for offset, value in self._acked.items() if seen.get(offset) != value]
            lost += len(missing)
            verdict = "none is missing" if not missing else f"{len(missing)} ARE MISSING"
            self._say(
                node, f"holds {len(seen)} batches; of {len(self._acked)} acknowledged {verdict}"
            )
        for supervisor in self._supervisors:
            supervisor.cancel()
        for node in NODES:
            await self._shards[node].close()
        self._say("", f"{self._unknown} batches had an unknown outcome, as they should say")
        return 1 if lost else 0

    # The pieces.

    async def _start(self, node: NodeId) -> None:
        settings = ShardSettings(
            directory=os.path.join(self._directory, f"node-{node}"),
            identity=Identity("demo", ShardId(0), node),
            members=Membership(NODES),
            log=LOG,
        )
        shard = await Shard.open(
            settings, self._network, announce=lambda line: self._say(node, line)
        )
        self._shards[node] = shard
        self._network.attach(node, shard.replica.receive)
        self._say(node, f"starts with {shard.replica.log.last_index} entries on disk")
        damage = shard.replica.log.quarantine
        if damage is not None:
            self._say(node, f"finds the damage and neither votes nor leads: {damage.reason}")
        self._supervisors.append(asyncio.create_task(self._supervise(node, shard)))

    async def _supervise(self, node: NodeId, shard: Shard) -> None:
        """A node that halts by itself is started again, as an operator's supervisor would."""
        await shard.halted
        self._crash(node)
        await self._start(node)

    def _crash(self, node: NodeId) -> None:
        self._network.detach(node)
        shard = self._shards.pop(node)
        shard.abandon()
        shard.replica.log.close()

    def _leader(self) -> NodeId | None:
        leaders = [n for n, s in self._shards.items() if s.replica.raft.role is Role.LEADER]
        return max(leaders, key=lambda n: self._shards[n].replica.raft.term, default=None)

    async def _create_partition(self) -> None:
        while True:
            leader = self._leader()
            if leader is not None:
                try:
                    await self._shards[leader].change(CreatePartition(partition=PARTITION))
                except PartitionExists:
                    return  # Of an earlier demonstration in the same directory.
                except PenstockError:
                    pass
                else:
                    return
            await asyncio.sleep(0.05)

    async def _write(self) -> None:
        number = 0
        while True:
            leader = self._leader()
            if leader is None:
                self._stalled = True
                await asyncio.sleep(0.02)
                continue
            number += 1
            value = f"batch {number}".encode()
            try:
                async with asyncio.timeout(1):
                    reply = await self._shards[leader].append(PARTITION, _batch(value))
            except (PenstockError, TimeoutError):
                self._unknown += 1
                self._stalled = True
                await asyncio.sleep(0.02)
                continue
            self._acked[reply.base_offset] = value
            gap = time.monotonic() - self._answered_at
            self._answered_at += gap
            if self._stalled:
                self._stalled = False
                self._say(leader, f"acknowledges again, {gap:.2f} s after the last answer")

    async def _wait_agreed(self) -> None:
        while True:
            leader = self._leader()
            if leader is not None and len(self._shards) == len(NODES):
                raft = self._shards[leader].replica.raft
                replicas = [shard.replica for shard in self._shards.values()]
                whole = all(r.halted is None and not r.raft.damaged for r in replicas)
                if whole and {r.applied_index for r in replicas} == {raft.last_index}:
                    return
            await asyncio.sleep(0.05)

    def _read_node(self, shard: Shard) -> dict[int, bytes]:
        seen: dict[int, bytes] = {}
        bounds = shard.replica.machine.bounds(PARTITION)
        offset: int = bounds.log_start
        while offset < bounds.high_watermark:
            data = shard.fetch(PARTITION, Offset(offset), 1 << 20)
            position = 0
            while position < len(data):
                header = read_header(data, position)
                body = data[position + BATCH_HEADER_BYTES : position + header.size]
                seen[header.base_offset] = body.rstrip(b".")
                position += header.size
                offset = header.base_offset + header.record_count
        return seen

    def _report(self) -> None:
        leader = self._leader()
        if leader is not None:
            replica = self._shards[leader].replica
            self._say(leader, f"{len(self._acked)} batches acknowledged; {replica.describe()}")

    def _say(self, node: NodeId | str, line: str) -> None:
        seconds = time.monotonic() - self._began
        if self._json:
            event = {"seconds": round(seconds, 3), "node": node or None, "event": line}
            sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
        else:
            who = f"node {node}" if node else "demo"
            sys.stdout.write(f"{seconds:7.2f}  {who:<7} {line}\n")
        sys.stdout.flush()


def _newest_segment(directory: str) -> str:
    names = sorted(name for name in os.listdir(directory) if name.endswith(".log"))
    return os.path.join(directory, names[-1])


def _batch(value: bytes) -> bytearray:
    """A record batch with a true header; the log never looks at the records."""
    body = value.ljust(RECORDS_PER_BATCH * 8, b".")
    stamp = int(time.time() * 1_000)
    tail = struct.pack(
        ">hiqqqhii", 0, RECORDS_PER_BATCH - 1, stamp, stamp, -1, -1, -1, RECORDS_PER_BATCH
    )
    tail += body
    head = struct.pack(">qiibI", 0, BATCH_HEADER_BYTES - 12 + len(body), -1, 2, crc32c(tail))
    return bytearray(head + tail)
