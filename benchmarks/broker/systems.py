"""What is measured: Penstock, the client's own limit, and Apache Kafka if it is there.

- **Penstock** runs as `penstock serve` with its defaults, one node or three. Three nodes are three
  processes on this machine: they share its cores and its disk, as no real cluster does.
- **The client's limit** is librdkafka's built-in mock cluster: a thread that answers every request
  at once from memory, in a process of its own. It hands out one batch of a partition at a time, so
  reading from a broker that hands out more may be faster still.
- **Apache Kafka** runs as it comes, if `make bench-peers` has fetched it or KAFKA_HOME says where
  it is. It does not sync: what it has acknowledged is in the page cache.

Every measurement starts a system anew in an empty directory and removes it afterwards, so that
systems never run side by side and none is slowed by what was there before.
"""

import os
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from benchmarks.broker.programs import Program, Usage
from benchmarks.peers import places
from tests.cluster.addresses import Block, free_block
from tests.cluster_key import key_file
from tests.installed import penstock_command

KAFKA_PORT, HTTP_PORT, PEER_PORT = 0, 1, 2


class System(ABC):
    """A broker or a cluster of them, running inside a `with` block."""

    creates_topics = True
    """False: a topic comes to exist, with four partitions, when it is first asked for."""

    def __init__(self, directory: Path, nodes: int) -> None:
        self.directory = directory
        self.programs: list[Program] = []
        self.ready_seconds = 0.0
        """From the launch of its processes until the last was ready."""
        self._nodes = nodes

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """What clients are given."""

    @abstractmethod
    def prepare(self, node: int, block: Block) -> Program:
        """Make the files of one node, and the process that will run it."""

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True)
        block = free_block()
        try:
            self.programs = [self.prepare(node, block) for node in range(1, self._nodes + 1)]
            began = time.perf_counter()
            self.start()
            self.ready_seconds = time.perf_counter() - began
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception):
            sys.stderr.writelines(f"{program.last_words()}\n" for program in self.programs)
        self._close()

    def start(self) -> None:
        """Start every node and wait until all are ready."""
        for program in self.programs:
            program.launch()
        for program in self.programs:
            program.wait_ready()

    def kill(self) -> None:
        """kill -9, all at once."""
        for program in self.programs:
            program.kill()

    def usage(self) -> Usage:
        """Of all nodes together; raises if one is gone."""
        for program in self.programs:
            program.check()
        return sum((program.usage() for program in self.programs), Usage())

    def _close(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        # What was removed may keep the disk busy for a while (a file system that discards at once
        # does so with its next commits), and the next system's syncs would wait for it.
        os.sync()


class Penstock(System):
    """`penstock serve` with its defaults."""

    def __init__(self, directory: Path, nodes: int, flags: Sequence[str] = ()) -> None:
        super().__init__(directory, nodes)
        self._flags = tuple(flags)
        self._kafka: list[str] = []
        self.http: list[str] = []
        """Where each node answers HTTP."""

    @property
    def bootstrap(self) -> str:
        return ",".join(self._kafka)

    def prepare(self, node: int, block: Block) -> Program:
        home = self.directory / f"node-{node}"
        home.mkdir()
        ready_file = home / "ready.json"
        kafka, http, peer = (
            f"{block.host(node)}:{block.port(port)}" for port in (KAFKA_PORT, HTTP_PORT, PEER_PORT)
        )
        self._kafka.append(kafka)
        self.http.append(http)
        founders = ",".join(
            f"{number}@{block.host(number)}:{block.port(PEER_PORT)}"
            for number in range(1, self._nodes + 1)
        )
        command = [
            *(penstock_command(), "serve"),
            *("--data", str(home / "data")),
            *("--kafka", kafka, "--http", http, "--peer", peer),
            *(("--node-id", str(node), "--cluster", founders) if self._nodes > 1 else ()),
            *(("--cluster-key-file", key_file(self.directory)) if self._nodes > 1 else ()),
            *("--ready-file", str(ready_file)),
            *self._flags,
        ]
        return Program(command, home / "log.txt", ready=lambda: _holds_json(ready_file))

    def start(self) -> None:
        # What a killed process has left says nothing about the next one.
        for path in self.directory.glob("*/ready.json"):
            path.unlink()
        super().start()


class MockCluster(System):
    """librdkafka's mock brokers, all in one process (`benchmarks.broker.mock_host`)."""

    creates_topics = False

    def __init__(self, directory: Path, nodes: int) -> None:
        super().__init__(directory, 1)
        self._brokers = nodes
        self._ready_file = directory / "ready.json"

    @property
    def bootstrap(self) -> str:
        return str(msgspec.json.decode(self._ready_file.read_bytes()))

    def prepare(self, node: int, block: Block) -> Program:  # noqa: ARG002 - it chooses by itself
        arguments = ["-m", "benchmarks.broker.mock_host", str(self._brokers), str(self._ready_file)]
        return Program(
            [sys.executable, *arguments],
            self.directory / "log.txt",
            ready=lambda: _holds_json(self._ready_file),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A system that can be measured, and what its acknowledgement is worth."""

    name: str
    family: str
    nodes: int
    durability: str
    make: Callable[[Path], System]


PENSTOCK = "penstock"
MOCK = "mock"
APACHE = "kafka"


def penstock(nodes: int, flags: Sequence[str] = ()) -> Kind:
    """Penstock with so many nodes."""
    majority = nodes // 2 + 1
    return Kind(
        name=f"Penstock, {_nodes(nodes)}",
        family=PENSTOCK,
        nodes=nodes,
        durability=f"synced {majority}/{nodes}",
        make=lambda directory: Penstock(directory, nodes, flags),
    )


def mock(nodes: int) -> Kind:
    """The client's limit with so many brokers."""
    return Kind(
        name=f"client's limit, {_nodes(nodes)}",
        family=MOCK,
        nodes=nodes,
        durability="memory",
        make=lambda directory: MockCluster(directory, nodes),
    )


def kafka_home() -> Path | None:
    """Where Apache Kafka is: as KAFKA_HOME says, or where `make bench-peers` has put it."""
    home = os.environ.get("KAFKA_HOME")
    if home:
        return Path(home)
    return places.KAFKA if (places.KAFKA / "libs").is_dir() else None


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _holds_json(path: Path) -> bool:
    try:
        return bool(msgspec.json.decode(path.read_bytes()))
    except (FileNotFoundError, msgspec.DecodeError):
        return False
