"""The servers of other queues, each with the settings under which it syncs what it acknowledges.

- **Redis**: appendonly, appendfsync always, no snapshots.
- **RabbitMQ**: its defaults; a quorum queue syncs before it confirms.
- **PostgreSQL**: its defaults; a commit syncs.

They run in directories of the benchmark, on addresses of the benchmark. A server is found on PATH,
or where a variable says; a peer that lacks its server or its Python client is left out, and the
report says so in a line.
"""

import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.orders import Moved, Schedule
from benchmarks.broker.programs import Program, ProgramFailed, Usage, usage_of
from benchmarks.broker.schedules import Arrivals, Sent
from benchmarks.broker.systems import System
from benchmarks.peers import postgresql, rabbitmq, redis_streams
from benchmarks.peers.orders import QueueOrder
from benchmarks.report import Progress
from tests.cluster.addresses import Block

SERVER_PORT, NAMES_PORT = 0, 1
NOBODY = "nobody"
_CHILD_TICKS = (13, 14)
"""Fields of /proc/PID/stat: processor time of children that have ended."""
_ENDING_SECONDS = 0.1
"""Until the process of a connection that was closed has ended, and its time is its parent's."""


class _Peer(System):
    """A server that is ready when its client gets an answer."""

    def __init__(self, directory: Path, server: Path, answers: Callable[[str], bool]) -> None:
        super().__init__(directory, 1)
        self._server = server
        self._answers = answers
        self._place = ""

    @property
    def bootstrap(self) -> str:
        return self._place

    def is_ready(self) -> bool:
        return self._answers(self._place)


class Redis(_Peer):
    """`redis-server`."""

    def prepare(self, node: int, block: Block) -> Program:
        host, port = block.host(node), block.port(SERVER_PORT)
        self._place = f"{host}:{port}"
        command = [
            str(self._server),
            *("--bind", host, "--port", str(port), "--dir", str(self.directory)),
            *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
        ]
        return Program(command, self.directory / "log.txt", ready=self.is_ready)


class RabbitMq(_Peer):
    """`rabbitmq-server` with a name server of its own, both in the foreground."""

    def start(self) -> None:
        names = Program(
            ["epmd", "-address", self._host, "-port", str(self._names_port)],
            self.directory / "names.txt",
            ready=lambda: True,
        )
        names.launch()
        self.programs.insert(0, names)
        self.programs[1].launch()
        self.programs[1].wait_ready()

    def prepare(self, node: int, block: Block) -> Program:
        self._host, self._names_port = block.host(node), block.port(NAMES_PORT)
        self._place = f"{self._host}:{block.port(SERVER_PORT)}"
        home = self.directory
        (home / "plugins").write_text("[].\n", "utf-8")
        (home / "rabbitmq.conf").write_text("log.console = true\n", "utf-8")
        environment = {
            "HOME": str(home),
            "ERL_EPMD_PORT": str(self._names_port),
            "ERL_EPMD_ADDRESS": self._host,
            "RABBITMQ_NODENAME": f"benchmark{os.getpid()}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": self._host,
            "RABBITMQ_NODE_PORT": str(block.port(SERVER_PORT)),
            "RABBITMQ_DIST_PORT": str(_free_port()),
            "ERL_CRASH_DUMP": os.devnull,
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(home / "none"),
            # So the script becomes the server instead of watching over it.
            "RUNNING_UNDER_SYSTEMD": "true",
        }
        return Program(
            [str(self._server)], home / "log.txt", ready=self.is_ready, environment=environment
        )


def _free_port() -> int:
    """One that is free on every address: the port by which Erlang's nodes talk to each other is
    taken on all of them."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


class PostgreSql(_Peer):
    """`postgres` on a directory that `initdb` makes; both refuse to run as root."""

    def prepare(self, node: int, block: Block) -> Program:
        host, port = block.host(node), block.port(SERVER_PORT)
        self._place = f"{host}:{port}"
        data = self.directory / "data"
        data.mkdir()
        prefix: Sequence[str] = ()
        if os.geteuid() == 0:
            prefix = self._as_nobody(data)
        made = subprocess.run(
            [*prefix, str(self._server.with_name("initdb")), "--pgdata", str(data),
             "--username", "benchmark", "--auth", "trust", "--no-instructions"],
            capture_output=True, text=True, check=False, cwd=data,
        )  # fmt: skip
        if made.returncode:
            raise ProgramFailed(f"initdb ended with {made.returncode}:\n{made.stderr}")
        command = [
            *prefix,
            *(str(self._server), "-D", str(data), "-h", host, "-p", str(port)),
            *("-c", "unix_socket_directories="),
        ]
        return Program(command, self.directory / "log.txt", ready=self.is_ready)

    def _as_nobody(self, data: Path) -> Sequence[str]:
        """How to become a user who may run it, and who can reach the directory."""
        user = pwd.getpwnam(NOBODY)
        os.chown(data, user.pw_uid, user.pw_gid)
        for path in (self.directory, self.directory.parent):
            path.chmod(0o711)
        ids = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
        return ("setpriv", *ids)

    def usage(self) -> Usage:
        """Of the postmaster and of the processes it makes for connections, gone ones included."""
        (program,) = self.programs
        program.check()
        time.sleep(_ENDING_SECONDS)
        first = program.usage()
        gone = Path(f"/proc/{program.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        ticks = sum(int(gone[field]) for field in _CHILD_TICKS)
        living = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text("ascii")
        found = first + Usage(cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"))
        for pid in living.split():
            try:
                one = usage_of(int(pid))
            except (FileNotFoundError, KeyError):
                continue  # It has ended since, or is about to and has no memory left.
            # What they share is the postmaster's already.
            own = one.anonymous_bytes
            found += Usage(one.cpu_seconds, own, own, own)
        return found

    def kill(self) -> None:
        """The postmaster's children end with it if it is asked to stop, not if it is killed."""
        for program in self.programs:
            program.terminate()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """How a system is used: functions that a client process runs."""

    prepare: Callable[[str, str], None]
    send: Callable[[QueueOrder], Moved]
    receive: Callable[[QueueOrder], Moved]
    send_on_schedule: Callable[[Schedule], Sent]
    receive_on_schedule: Callable[[Schedule], Arrivals]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueKind:
    """A system whose queue can be measured."""

    name: str
    durability: str
    make: Callable[[Path], System]
    loads: Loads
    shares_process: bool = False
    """The broker runs in the client's process, which then both sends and receives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Where a peer may be, and what is wanted of it."""

    name: str
    variable: str
    server: str
    places: Sequence[str]
    client: str
    make: Callable[[Path, Path], System]
    loads: Loads
    durability: str = "synced 1/1"


def _loads(module: object) -> Loads:
    names = ("prepare", "send", "receive", "send_on_schedule", "receive_on_schedule")
    return Loads(**{name: getattr(module, name) for name in names})


_PEERS = (
    _Found(
        name="Redis Streams, fsync always",
        variable="REDIS_SERVER",
        server="redis-server",
        places=(),
        client="redis",
        make=lambda directory, server: Redis(directory, server, redis_streams.answers),
        loads=_loads(redis_streams),
    ),
    _Found(
        name="RabbitMQ quorum queue",
        variable="RABBITMQ_SERVER",
        server="rabbitmq-server",
        # Debian's command on PATH changes the user and the directory; this is what it calls.
        places=("/usr/lib/rabbitmq/bin/rabbitmq-server",),
        client="pika",
        make=lambda directory, server: RabbitMq(directory, server, rabbitmq.answers),
        loads=_loads(rabbitmq),
    ),
    _Found(
        name="PostgreSQL SKIP LOCKED",
        variable="POSTGRES_SERVER",
        server="postgres",
        places=tuple(str(path) for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")),
        client="psycopg",
        make=lambda directory, server: PostgreSql(directory, server, postgresql.answers),
        loads=_loads(postgresql),
    ),
)


def peers(environment: Mapping[str, str] = os.environ) -> tuple[list[QueueKind], list[str]]:
    """Those that can be measured here, and a line for each that cannot."""
    kinds, absences = [], []
    for peer in _PEERS:
        server = _server(peer, environment)
        if server is None:
            absences.append(
                f"{peer.name}: not measured; {peer.server} is neither on PATH nor named by"
                f" {peer.variable}."
            )
        elif importlib.util.find_spec(peer.client) is None:
            absences.append(f"{peer.name}: not measured; its Python client {peer.client} lacks.")
        else:
            kinds.append(_kind(peer, server))
    return kinds, absences


@contextmanager
def excused(
    kind: QueueKind, others: list[QueueKind], absences: list[str], progress: Progress
) -> Iterator[None]:
    """A peer that breaks is left out from then on, and told of; ours is not excused."""
    try:
        yield
    except (ClientFailed, ProgramFailed) as error:
        if kind not in others:
            raise
        others.remove(kind)
        absences.append(f"{kind.name}: it broke, and what is shown is of the rounds before.")
        progress(f"{kind.name} broke: {error}")


def versions(environment: Mapping[str, str] = os.environ) -> list[str]:
    """A line that says what was measured."""
    found = []
    for peer in _PEERS:
        server = _server(peer, environment)
        if server is not None and importlib.util.find_spec(peer.client) is not None:
            client = f"{peer.client} {importlib.metadata.version(peer.client)}"
            found.append(f"{_version(peer, server)} with {client}")
    return [f"versions: {'; '.join(found)}."] if found else []


def _version(peer: _Found, server: Path) -> str:
    if peer.server == "rabbitmq-server":
        # Asked for its version it would start; its directory is named by it.
        return server.resolve().parent.parent.name.replace("_server-", " ")
    told = subprocess.run([server, "--version"], capture_output=True, text=True, check=False)
    number = re.search(r"\d+(\.\d+)+", told.stdout)
    return f"{peer.server} {number.group() if number else '?'}"


def _kind(peer: _Found, server: Path) -> QueueKind:
    return QueueKind(
        name=peer.name,
        durability=peer.durability,
        make=lambda directory: peer.make(directory, server),
        loads=peer.loads,
    )


def _server(peer: _Found, environment: Mapping[str, str]) -> Path | None:
    named = environment.get(peer.variable)
    if named:
        return Path(named)
    for place in peer.places:
        if os.access(place, os.X_OK):
            return Path(place)
    found = shutil.which(peer.server)
    return None if found is None else Path(found)
