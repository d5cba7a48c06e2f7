"""What is measured: Penstock, and the emulators people test against.

- **moto**'s server, in Python, closes every connection after its answer and gives each a thread;
  more than a few connections at a time make it slower, so it gets a few.
- **ElasticMQ**, in Scala, from Maven's packages; Java keeps the heap it chooses.
- **fauxqs**, in JavaScript, from npm's packages, without its log of requests.

All run as processes of their own with their defaults. Penstock syncs what it acknowledges to the
disk; the others keep everything in memory. `make bench-peers` fetches those that are no Python.
"""

import importlib.metadata
import importlib.util
import re
import shutil
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.broker.programs import Program
from benchmarks.broker.systems import HTTP_PORT, Penstock, System
from benchmarks.peers import places
from benchmarks.peers.ports import free_everywhere
from tests.cluster.addresses import Block

_LOOK_WITHIN_SECONDS = 1.0


class SqsPenstock(Penstock):
    """`penstock serve` with its defaults, by its SQS address."""

    @property
    def bootstrap(self) -> str:
        ready = msgspec.json.decode((self.directory / "node-1" / "ready.json").read_bytes())
        return str(ready["sqs"]).removeprefix("http://")


class _Emulator(System):
    """A server that is ready when it answers an HTTP request, whatever it says."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, 1)
        self._place: tuple[str, int] = ("", 0)

    @property
    def bootstrap(self) -> str:
        return f"{self._place[0]}:{self._place[1]}"

    def run(self, command: list[str], environment: dict[str, str] | None = None) -> Program:
        """The process that will be at the place."""
        return Program(
            command,
            self.directory / "log.txt",
            ready=lambda: _answers(self._place),
            environment=environment,
        )


class Moto(_Emulator):
    """moto's server."""

    def prepare(self, node: int, block: Block) -> Program:
        self._place = (block.host(node), block.port(HTTP_PORT))
        host, port = self._place
        return self.run([sys.executable, "-m", "moto.server", "-H", host, "-p", str(port)])


class ElasticMq(_Emulator):
    """ElasticMQ's server, without its page of statistics."""

    def prepare(self, node: int, block: Block) -> Program:
        self._place = (block.host(node), block.port(HTTP_PORT))
        host, port = self._place
        settings = self.directory / "elasticmq.conf"
        settings.write_text(
            'include classpath("application.conf")\n'
            f'node-address {{ protocol = http, host = "{host}", port = {port} }}\n'
            f'rest-sqs {{ enabled = true, bind-hostname = "{host}", bind-port = {port} }}\n'
            "rest-stats { enabled = false }\n",
            "utf-8",
        )
        found = places.java()
        assert found is not None, "there is no Java"
        classes = f"{places.ELASTICMQ / 'libs'}/*"
        main = "org.elasticmq.server.Main"
        return self.run([str(found), f"-Dconfig.file={settings}", "-cp", classes, main])


class Fauxqs(_Emulator):
    """fauxqs, which takes its port on every address."""

    def prepare(self, node: int, block: Block) -> Program:  # noqa: ARG002 - it has no choice
        self._place = ("127.0.0.1", free_everywhere())
        settings = {"FAUXQS_PORT": str(self._place[1]), "FAUXQS_LOGGER": "false"}
        return self.run(["node", str(places.FAUXQS_PROGRAM)], settings)


def _answers(place: tuple[str, int]) -> bool:
    host, port = place
    try:
        with socket.create_connection(place, _LOOK_WITHIN_SECONDS) as line:
            line.sendall(f"GET /health HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            return line.recv(16).startswith(b"HTTP/1.")
    except OSError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A system that can be measured."""

    name: str
    durability: str
    connections: int
    make: Callable[[Path], System]
    warm_up_seconds: float = 0.5
    """Work that does not count."""


PENSTOCK = Kind(
    name="Penstock, 1 node",
    durability="synced 1/1",
    connections=32,
    make=lambda directory: SqsPenstock(directory, 1),
)
MOTO = Kind(name="moto", durability="memory", connections=4, make=Moto)
ELASTICMQ = Kind(
    name="ElasticMQ",
    durability="memory",
    connections=32,
    make=ElasticMq,
    # Java compiles what runs often; until then its interpreter would be measured.
    warm_up_seconds=4.0,
)
FAUXQS = Kind(name="fauxqs", durability="memory", connections=32, make=Fauxqs)


def emulators() -> tuple[list[Kind], list[str]]:
    """Those that are on this machine, and a line for each that is not."""
    there = {
        MOTO: all(importlib.util.find_spec(name) for name in ("moto", "flask", "flask_cors")),
        ELASTICMQ: (places.ELASTICMQ / "libs").is_dir() and places.java() is not None,
        FAUXQS: places.FAUXQS_PROGRAM.exists() and shutil.which("node") is not None,
    }
    kinds = [kind for kind, found in there.items() if found]
    absences = [
        f"{kind.name}: not measured; `make bench-peers` fetches it where it can."
        for kind, found in there.items()
        if not found
    ]
    return kinds, absences


def versions() -> list[str]:
    """A line that says what was measured."""
    found = []
    if importlib.util.find_spec("moto") is not None:
        found.append(f"moto {importlib.metadata.version('moto')}")
    for jar in (places.ELASTICMQ / "libs").glob("elasticmq-server_*.jar"):
        if version := re.search(r"-([\d.]+)\.jar", jar.name):
            found.append(f"ElasticMQ {version.group(1)}")
    if places.FAUXQS_PROGRAM.exists():
        package = places.FAUXQS_PROGRAM.parents[1] / "package.json"
        found.append(f"fauxqs {msgspec.json.decode(package.read_bytes())['version']}")
    return [f"versions: {'; '.join(found)}."] if found else []
