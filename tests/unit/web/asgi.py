"""Requests to an ASGI application without a network, and a broker that does as it is told."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.types import ASGIApp, Message

from penstock.core.errors import PenstockError, UnknownGroup, UnknownNode
from penstock.core.front_end import FrontEndStatistics
from penstock.core.pipeline_report import PipelineReport
from penstock.core.types import Index, NodeId, ShardId, Term
from penstock.engine.cluster.status import ClusterStatus, FollowerStatus, NodeStatus, ShardStatus
from penstock.engine.groups.lag import GroupLag, GroupLine
from penstock.watch.watch import Watch
from penstock.web.broker import Phase, SettingRow

JSON = {"content-type": "application/json"}


class Answer(msgspec.Struct, frozen=True):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


def call(
    app: ASGIApp,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    parts: Iterable[bytes] = (b"",),
) -> Answer:
    """One request, its body in parts; `parts=()` hangs up in the middle of it."""
    return asyncio.run(ask(app, method, path, headers=headers, parts=parts))


async def ask(
    app: ASGIApp,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    parts: Iterable[bytes] = (b"",),
) -> Answer:
    """The same, on the loop of a test."""
    sent: list[Message] = []
    told = {"host": "127.0.0.1:8080", **(headers or {})}
    incoming = list(parts)
    hangs_up = not incoming

    async def receive() -> Message:
        if not incoming and not hangs_up:
            await asyncio.Event().wait()  # The connection stays, and nothing more comes.
        if not incoming:
            return {"type": "http.disconnect"}
        part = incoming.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(incoming)}

    async def send(message: Message) -> None:
        sent.append(message)

    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "scheme": "http",
        "headers": [(name.lower().encode(), value.encode()) for name, value in told.items()],
        "server": ("127.0.0.1", 8080),
        "client": ("127.0.0.1", 50_000),
    }
    await app(scope, receive, send)
    return Answer(
        status=sent[0]["status"],
        headers={name.decode(): value.decode() for name, value in sent[0]["headers"]},
        body=b"".join(message.get("body", b"") for message in sent[1:]),
    )


def shard(
    number: int, *, leader: int = 1, silent_ms: Mapping[int, int] | None = None, **changes: Any
) -> ShardStatus:
    """A shard on nodes 1 to 3, all in good order but as told."""
    silent = {node: 0 for node in (1, 2, 3) if node != leader} | dict(silent_ms or {})
    sound = ShardStatus(
        shard=ShardId(number),
        leader=NodeId(leader),
        term=Term(1),
        placed=(NodeId(1), NodeId(2), NodeId(3)),
        voters=(NodeId(1), NodeId(2), NodeId(3)),
        commit=Index(5),
        followers=tuple(
            FollowerStatus(
                node=NodeId(node), state="replicate", lag_entries=0, silent_ms=ms, damaged=False
            )
            for node, ms in sorted(silent.items())
            if node != leader
        ),
    )
    return msgspec.structs.replace(sound, **changes)


def cluster_status(*shards: ShardStatus, node: int = 1) -> ClusterStatus:
    """A cluster of three as one of them sees it."""
    nodes = tuple(
        NodeStatus(
            node=NodeId(number),
            alive=True,
            leaving=False,
            peer=f"127.0.0.1:{number}",
            kafka=f"127.0.0.1:909{number}",
            http=f"127.0.0.1:808{number}",
            leads=1,
            holds=1,
        )
        for number in (1, 2, 3)
    )
    return ClusterStatus(
        cluster_id="c1",
        node=NodeId(node),
        controller=NodeId(1),
        read_only=False,
        health="3 of 3 nodes, all leaders settled",
        nodes=nodes,
        shards=shards,
        topics=1,
        partitions=4,
    )


@dataclass
class FakeRecord:
    kafka: str
    http: str


@dataclass
class FakeTopic:
    partitions: tuple[int, ...]
    configs: dict[str, str] = field(default_factory=dict)


@dataclass
class FakeCatalog:
    nodes: dict[NodeId, FakeRecord] = field(default_factory=dict)
    topics: dict[str, FakeTopic] = field(default_factory=dict)


@dataclass
class FakeGroup:
    group: str
    state: str


@dataclass
class FakeKeeper:
    listed: list[FakeGroup]

    def groups(self) -> list[FakeGroup]:
        return self.listed


@dataclass
class FakeLeader:
    node: NodeId


class FakeTopics:
    """Three shards, all led by node 1."""

    def __init__(self) -> None:
        self.node_id = NodeId(1)
        self.cluster_id = "c1"
        self.catalog = FakeCatalog()
        self.alive = lambda: frozenset({NodeId(1)})

    def shards(self) -> range:
        return range(3)

    def leader(self, _shard: ShardId) -> FakeLeader:
        return FakeLeader(NodeId(1))


class FakeGroups:
    """The groups that each coordinator knows."""

    def __init__(self) -> None:
        self.keepers: list[FakeKeeper] = []

    def led_coordinators(self) -> list[FakeKeeper]:
        return self.keepers


class FakeEngine:
    """What pages read."""

    def __init__(self) -> None:
        self.topics = FakeTopics()
        self.groups = FakeGroups()


class FakeCluster:
    """Notes what it is told, and answers or raises as set."""

    def __init__(self) -> None:
        self.orders: list[tuple[object, ...]] = []
        self.found = cluster_status(shard(0), shard(1))
        self.error: PenstockError | Exception | None = None
        self.gone = True

    async def status(self) -> ClusterStatus:
        if self.error is not None:
            raise self.error
        return self.found

    async def add_node(self, node: NodeId, peer: str) -> None:
        self._order("add", node, peer)

    async def remove_node(self, node: NodeId) -> bool:
        if node == 9:
            raise UnknownNode("there is no node 9")
        self._order("remove", node)
        return self.gone

    async def transfer(self, shard: ShardId, target: NodeId) -> None:
        self._order("transfer", shard, target)

    def _order(self, *order: object) -> None:
        if self.error is not None:
            raise self.error
        self.orders.append(order)


class FakeLag:
    """One group, two messages behind."""

    async def groups(self) -> list[GroupLine]:
        return [GroupLine(group="readers", state="Stable", coordinator=NodeId(2))]

    async def group(self, group: str) -> GroupLag:
        if group != "readers/a":
            raise UnknownGroup(f"there is no group {group}")
        return GroupLag(
            group=group,
            state="Stable",
            protocol="range",
            coordinator=NodeId(2),
            members=(),
            partitions=(),
            lag=2,
        )


@dataclass
class FakeReports:
    found: list[PipelineReport] = field(default_factory=list)

    async def reports(self) -> list[PipelineReport]:
        return self.found


@dataclass
class FakeNode:
    engine: FakeEngine = field(default_factory=FakeEngine)
    cluster: FakeCluster = field(default_factory=FakeCluster)
    lag: FakeLag = field(default_factory=FakeLag)
    pipeline_reports: FakeReports = field(default_factory=FakeReports)


@dataclass
class FakeBroker:
    """A process in any state."""

    phase: Phase = Phase.SERVING
    node: FakeNode | None = field(default_factory=FakeNode)
    reasons: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=lambda: {"broker.example"})
    read_only: bool = False
    watch: Watch | None = None

    def problems(self) -> list[str]:
        return self.reasons

    def warnings(self) -> list[str]:
        return self.warned

    def settings(self) -> list[SettingRow]:
        return [SettingRow(name="shards", value="4", source="default")]

    def hosts(self) -> set[str]:
        return self.known

    def front_ends(self) -> list[FrontEndStatistics]:
        return []
