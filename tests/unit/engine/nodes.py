"""Real nodes in one process: real disks, real sockets on loopback, a fast clock for Raft."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.core.topic import Topic
from penstock.core.types import NodeId
from penstock.engine.cluster.node import Node
from penstock.engine.cluster.node_settings import NodeSettings
from penstock.engine.topics.topics import Acks, Produced
from penstock.server.reserved_ports import ReservedPorts
from penstock.storage import LogSettings
from tests.batches import build_batch
from tests.cluster_key import key_file

LOG = LogSettings(segment_bytes=1 << 20, ballast_bytes=1 << 20)
PATIENCE_SECONDS = 60


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something to come true; a node that is being opened may refuse to tell."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                if holds():
                    return
            except PenstockError:
                pass
            await asyncio.sleep(0)  # The nodes have their turn.


class Nodes:
    """The nodes of one cluster."""

    def __init__(self, path: Path, numbers: Iterable[int], *, shards: int = 2) -> None:
        self._path = path
        self._shards = shards
        chosen = tuple(map(NodeId, numbers))
        self._ports = ReservedPorts(len(chosen))  # Nodes stop and come back at their ports.
        self.addresses = {
            node: f"127.0.0.1:{port}" for node, port in zip(chosen, self._ports, strict=True)
        }
        self.has_key_file = True
        self.running: dict[NodeId, Node] = {}
        self.lines: list[str] = []

    def __getitem__(self, number: int) -> Node:
        return self.running[NodeId(number)]

    async def start(self, *numbers: int, directory: str = "") -> None:
        """Start these nodes, or all; returns when they serve."""
        chosen = [NodeId(number) for number in numbers] or list(self.addresses)
        await asyncio.gather(*(self._start(node, directory) for node in chosen))
        await self.ready()

    async def _start(self, node: NodeId, directory: str) -> None:
        port = int(self.addresses[node].rpartition(":")[2])
        settings = NodeSettings(
            data=str(self._path / (directory or f"node-{node}")),
            node_id=node,
            cluster=self.addresses,
            cluster_key_file=key_file(self._path) if self.has_key_file else None,
            peer_port=port,
            shards=self._shards,
            tick_ms=20,
            log=LOG,
        )
        running = await Node.open(settings, announce=self.lines.append)
        await running.register(kafka=f"127.0.0.1:{9000 + node}", http=f"127.0.0.1:{8000 + node}")
        self.running[node] = running

    async def ready(self) -> None:
        """Wait until every node that runs can serve."""
        await until(lambda: all(node.health().ready for node in self.running.values()))

    async def stop(self, *numbers: int, hand_over: bool = False) -> None:
        """Stop these nodes, or all."""
        for number in numbers or tuple(self.running):
            node = self.running.pop(NodeId(number))
            if hand_over:
                await node.hand_over()
            await node.close()

    async def produce(self, topic: Topic, index: int, value: bytes) -> Produced:
        """Append one message wherever the partition is led, asking until it works."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                for node in list(self.running.values()):
                    try:
                        batch = build_batch(1, value=value)
                        return await node.engine.topics.produce(topic, index, batch, Acks.ALL)
                    except PenstockError:
                        await asyncio.sleep(0)
