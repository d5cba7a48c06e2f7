"""What is measured: Penstock, and moto's server, which people test against.

Both run as processes of their own with their defaults. Penstock syncs what it acknowledges to the
disk; moto keeps everything in memory. moto's server closes every connection after its answer and
gives each a thread; more than a few connections at a time make it slower, so it gets a few.
"""

import importlib.util
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.broker.programs import Program
from benchmarks.broker.systems import HTTP_PORT, Penstock, System
from tests.cluster.addresses import Block


class SqsPenstock(Penstock):
    """`penstock serve` with its defaults, by its SQS address."""

    @property
    def bootstrap(self) -> str:
        ready = msgspec.json.decode((self.directory / "node-1" / "ready.json").read_bytes())
        return str(ready["sqs"]).removeprefix("http://")


class Moto(System):
    """moto's server."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, 1)
        self._place: tuple[str, int] = ("", 0)

    @property
    def bootstrap(self) -> str:
        return f"{self._place[0]}:{self._place[1]}"

    def prepare(self, node: int, block: Block) -> Program:
        self._place = (block.host(node), block.port(HTTP_PORT))
        host, port = self._place
        return Program(
            [sys.executable, "-m", "moto.server", "-H", host, "-p", str(port)],
            self.directory / "log.txt",
            ready=lambda: _listens(self._place),
        )


def _listens(place: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(place, timeout=1.0):
            return True
    except OSError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A system that can be measured."""

    name: str
    durability: str
    connections: int
    make: Callable[[Path], System]


PENSTOCK = Kind(
    name="Penstock, 1 node",
    durability="synced 1/1",
    connections=32,
    make=lambda directory: SqsPenstock(directory, 1),
)
MOTO = Kind(name="moto", durability="memory", connections=4, make=Moto)


def systems() -> list[Kind]:
    """Those that are on this machine."""
    found = all(importlib.util.find_spec(name) for name in ("moto", "flask", "flask_cors"))
    return [PENSTOCK, MOTO] if found else [PENSTOCK]
