"""The interface of the broker for HTTP.

The port is open before there is an engine, so that probes can tell a broker that is recovering from
one that is dead. `Broker` is the process, from its first moment; `Node` is what operators use of
the node, once it is there. The server gives both; tests give fakes.

Queues have no fakes: what is asked of them is asked of a real node, in tests too (`node_of`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import msgspec

from penstock.core.errors import Unavailable
from penstock.core.front_end import FrontEndStatistics
from penstock.core.pipeline_report import PipelineReport
from penstock.core.types import NodeId, ShardId
from penstock.engine.cluster.node import Node as EngineNode
from penstock.engine.cluster.status import ClusterStatus
from penstock.engine.groups.lag import GroupLag, GroupLine

if TYPE_CHECKING:
    from penstock.watch.watch import Watch


class Phase(Enum):
    """The phase of a broker's life."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


class SettingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A setting and its current value."""

    name: str
    value: str
    source: str


class Leading(Protocol):
    """The leader of a shard; node 0 if none is known."""

    @property
    def node(self) -> NodeId: ...


class Member(Protocol):
    """A node, as the catalog has it."""

    @property
    def kafka(self) -> str: ...
    @property
    def http(self) -> str: ...


class NamedTopic(Protocol):
    """A topic, as the catalog has it."""

    @property
    def partitions(self) -> Sequence[object]: ...
    @property
    def configs(self) -> Mapping[str, str]: ...


class Contents(Protocol):
    """The contents of the catalog."""

    @property
    def nodes(self) -> Mapping[NodeId, Member]: ...
    @property
    def topics(self) -> Mapping[str, NamedTopic]: ...


class GroupRow(Protocol):
    """The overview of a consumer group."""

    @property
    def group(self) -> str: ...
    @property
    def state(self) -> str: ...


class GroupKeeper(Protocol):
    """The coordinator of some groups."""

    def groups(self) -> Sequence[GroupRow]: ...


class Topics(Protocol):
    """Topics, nodes and leaders, as this node knows them."""

    node_id: NodeId
    cluster_id: str

    @property
    def catalog(self) -> Contents: ...
    @property
    def alive(self) -> Callable[[], Collection[NodeId]]: ...
    def shards(self) -> Iterable[int]: ...
    def leader(self, shard: ShardId) -> Leading: ...


class Groups(Protocol):
    """Consumer groups of the shards that this node leads."""

    def led_coordinators(self) -> Sequence[GroupKeeper]: ...


class Engine(Protocol):
    """The part of the engine that pages read."""

    @property
    def topics(self) -> Topics: ...
    @property
    def groups(self) -> Groups: ...


class Cluster(Protocol):
    """The operations on the cluster."""

    async def status(self) -> ClusterStatus: ...
    async def add_node(self, node: NodeId, peer: str) -> None: ...
    async def remove_node(self, node: NodeId) -> bool: ...
    async def transfer(self, shard: ShardId, target: NodeId) -> None: ...


class Lag(Protocol):
    """The lag of consumer groups."""

    async def groups(self) -> list[GroupLine]: ...
    async def group(self, group: str) -> GroupLag: ...


class PipelineReports(Protocol):
    async def reports(self) -> list[PipelineReport]: ...


class Node(Protocol):
    """A node of a cluster."""

    @property
    def engine(self) -> Engine: ...
    @property
    def cluster(self) -> Cluster: ...
    @property
    def lag(self) -> Lag: ...
    @property
    def pipeline_reports(self) -> PipelineReports: ...


class Broker(Protocol):
    """The broker process."""

    @property
    def phase(self) -> Phase: ...
    @property
    def node(self) -> Node | None:
        """None until the log is recovered and the node is in its cluster."""
        ...

    @property
    def watch(self) -> "Watch | None":
        """None until the node is there."""
        ...

    def front_ends(self) -> Sequence[FrontEndStatistics]:
        """Return the statistics of each protocol that is served."""
        ...

    def problems(self) -> list[str]:
        """Why it does not serve; nothing if it does."""
        ...

    def warnings(self) -> list[str]:
        """Return the functions that are unavailable although the broker serves."""
        ...

    def settings(self) -> list[SettingRow]: ...
    def hosts(self) -> Collection[str]:
        """The names this node is known by."""
        ...

    @property
    def read_only(self) -> bool:
        """True if HTTP requests may not change anything."""
        ...


def node_of(broker: Broker) -> EngineNode:
    """The node, if it is there yet."""
    if broker.node is None:
        raise Unavailable("the broker is starting; ask again", retry_after_ms=1_000)
    assert isinstance(broker.node, EngineNode), f"queues are asked of {broker.node}"
    return broker.node
