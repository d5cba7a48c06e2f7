"""Other queues that can be measured here, and what an acknowledgement of each is worth.

    synced 1/1     on the disk before it is acknowledged, as Penstock does by default
    each second    synced by the clock: what came since the last time is lost with the power
    cached 1/1     handed to the page cache: lost with the power, though not with the process

Ratios are fair between those of one kind; the other kinds stand there because people use them so.
A server is found on PATH, or where a variable says, or where `make bench-peers` has put it; a peer
that lacks its server or its Python client is left out, and the report says so in a line.
"""

import importlib.metadata
import importlib.util
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from benchmarks.broker.orders import Moved, Schedule
from benchmarks.broker.schedules import Arrivals, Sent
from benchmarks.broker.systems import System
from benchmarks.peers import (
    beanstalk,
    jetstream,
    places,
    postgresql,
    rabbitmq,
    rabbitmq_stream,
    redis_streams,
    servers,
)
from benchmarks.peers.orders import QueueOrder

SYNCED = "synced 1/1"
EACH_SECOND = "each second"
CACHED = "cached 1/1"
DURABLE_NOTE = (
    "durable: synced 1/1 is on the disk before it is acknowledged; each second, cached: not."
)


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
    client: str
    """The module it is used by, "" if it needs none."""
    make: Callable[[Path, Path], System]
    loads: Loads
    durability: str = SYNCED
    distribution: str = ""
    """What brings the client, if that has another name."""
    places: Sequence[str] = ()
    since: tuple[int, ...] = ()
    """The first version of the server that has what is wanted of it."""


def _loads(module: ModuleType) -> Loads:
    names = ("prepare", "send", "receive", "send_on_schedule", "receive_on_schedule")
    return Loads(**{name: getattr(module, name) for name in names})


def _redis(sync: str, durability: str) -> _Found:
    return _Found(
        name=f"Redis Streams, {sync}",
        variable="REDIS_SERVER",
        server="redis-server",
        client="redis",
        make=lambda directory, server: servers.Redis(
            directory, server, redis_streams.answers, sync=sync
        ),
        loads=_loads(redis_streams),
        durability=durability,
    )


def _nats(name: str, sync: str, durability: str, since: tuple[int, ...]) -> _Found:
    return _Found(
        name=f"NATS JetStream, {name}",
        variable="NATS_SERVER",
        server="nats-server",
        client="nats",
        distribution="nats-py",
        make=lambda directory, server: servers.Nats(
            directory, server, jetstream.answers, sync=sync
        ),
        loads=_loads(jetstream),
        durability=durability,
        since=since,
    )


# Debian's command on PATH changes the user and the directory; this is what it calls.
_RABBITMQ_PLACES = ("/usr/lib/rabbitmq/bin/rabbitmq-server",)

_PEERS = (
    _redis("always", SYNCED),
    _redis("everysec", EACH_SECOND),
    _Found(
        name="RabbitMQ quorum queue",
        variable="RABBITMQ_SERVER",
        server="rabbitmq-server",
        places=_RABBITMQ_PLACES,
        client="pika",
        make=lambda directory, server: servers.RabbitMq(directory, server, rabbitmq.answers),
        loads=_loads(rabbitmq),
    ),
    _Found(
        name="RabbitMQ stream",
        variable="RABBITMQ_SERVER",
        server="rabbitmq-server",
        places=_RABBITMQ_PLACES,
        client="rstream",
        make=lambda directory, server: servers.RabbitMqStreams(
            directory, server, rabbitmq_stream.answers
        ),
        loads=_loads(rabbitmq_stream),
        durability=CACHED,
    ),
    _nats("sync always", "always", SYNCED, (2, 10)),
    _nats("default", "", CACHED, ()),
    _Found(
        name="PostgreSQL SKIP LOCKED",
        variable="POSTGRES_SERVER",
        server="postgres",
        places=tuple(str(path) for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")),
        client="psycopg",
        make=lambda directory, server: servers.PostgreSql(directory, server, postgresql.answers),
        loads=_loads(postgresql),
    ),
    _Found(
        name="beanstalkd, sync always",
        variable="BEANSTALKD",
        server="beanstalkd",
        client="",
        make=lambda directory, server: servers.Beanstalkd(directory, server, beanstalk.answers),
        loads=_loads(beanstalk),
    ),
)


def peers(environment: Mapping[str, str] = os.environ) -> tuple[list[QueueKind], list[str]]:
    """Those that can be measured here, and a line for each that cannot."""
    kinds, absences = [], []
    for peer in _PEERS:
        server = _server(peer, environment)
        if server is None:
            why = f"{peer.server} is neither on PATH nor named by {peer.variable}"
        elif not _has_client(peer):
            why = f"its Python client {peer.client} lacks"
        elif peer.since and _numbers(_version(peer.server, server)) < peer.since:
            why = f"it wants {peer.server} {'.'.join(map(str, peer.since))} or later"
        else:
            kinds.append(_kind(peer, server))
            continue
        absences.append(f"{peer.name}: not measured; {why}.")
    return kinds, absences


def import_clients() -> None:
    """In a client process: what takes time only once is not to count for whoever comes first."""
    for peer in _PEERS:
        if peer.client and _has_client(peer):
            importlib.import_module(peer.client)


def versions(environment: Mapping[str, str] = os.environ) -> list[str]:
    """A line that says what was measured."""
    found: dict[str, None] = {}
    for peer in _PEERS:
        server = _server(peer, environment)
        if server is None or not _has_client(peer):
            continue
        told = f"{peer.server} {_version(peer.server, server)}"
        if peer.client:
            client = peer.distribution or peer.client
            told += f" with {client} {importlib.metadata.version(client)}"
        found[told] = None
    return [f"versions: {'; '.join(found)}."] if found else []


def _has_client(peer: _Found) -> bool:
    return not peer.client or importlib.util.find_spec(peer.client) is not None


@cache
def _version(name: str, server: Path) -> str:
    if name == "rabbitmq-server":
        # Asked for its version it would start; its directory is named by it.
        return server.resolve().parent.parent.name.rpartition("-")[2]
    option = "-v" if name == "beanstalkd" else "--version"
    told = subprocess.run([server, option], capture_output=True, text=True, check=False)
    number = re.search(r"\d+(\.\d+)+", f"{told.stdout} {told.stderr}")
    return number.group() if number else "?"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


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
    return places.program(peer.server)
