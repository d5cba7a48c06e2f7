"""Penstock's queues as a system to be measured: over the wire, and inside the client's process."""

from pathlib import Path

from benchmarks.broker.programs import Program
from benchmarks.broker.systems import Penstock, System
from benchmarks.native import loads
from benchmarks.peers.systems import Loads, QueueKind
from tests.cluster.addresses import Block

LOADS = Loads(
    prepare=loads.prepare,
    send=loads.send,
    receive=loads.receive,
    send_on_schedule=loads.send_on_schedule,
    receive_on_schedule=loads.receive_on_schedule,
)


class NativePenstock(Penstock):
    """`penstock serve` with its defaults, by its native address."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, 1)

    @property
    def bootstrap(self) -> str:
        return f"penstock://{super().bootstrap}"


class Embedded(System):
    """No process of its own: the client's has the engine inside."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, 0)

    @property
    def bootstrap(self) -> str:
        return f"file:{self.directory / 'data'}"

    def prepare(self, node: int, block: Block) -> Program:
        raise AssertionError(f"node {node} of {block} is not wanted")


def penstock() -> QueueKind:
    """One node in a process of its own."""
    return QueueKind(
        name="Penstock, 1 node", durability="synced 1/1", make=NativePenstock, loads=LOADS
    )


def embedded() -> QueueKind:
    """The same engine, without a server."""
    return QueueKind(
        name="Penstock, embedded",
        durability="synced 1/1",
        make=Embedded,
        loads=LOADS,
        shares_process=True,
    )
