"""A picture of the cluster at a moment, as one node sees it; read when asked."""

import msgspec

from penstock.core.types import Index, NodeId, ShardId, Term


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the cluster."""

    node: NodeId
    alive: bool
    """The node that answers is connected to it."""
    leaving: bool
    peer: str
    kafka: str
    http: str
    leads: int
    """The number of shards it leads."""
    holds: int


class FollowerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A follower as its leader sees it."""

    node: NodeId
    state: str
    lag_entries: int
    silent_ms: int
    damaged: bool


class ShardStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Leader, members and progress of a shard, as `penstock cluster status` shows them."""

    shard: ShardId
    leader: NodeId
    term: Term
    placed: tuple[NodeId, ...]
    voters: tuple[NodeId, ...] = ()
    learners: tuple[NodeId, ...] = ()
    commit: Index = Index(0)
    partitions: int = 0
    size_bytes: int = 0
    full: bool = False
    read_only: bool = False
    leads_here: bool = False
    followers: tuple[FollowerStatus, ...] = ()
    """The followers; known to the leader only."""
    state_bytes: int = 0
    """The size in a snapshot of groups, offsets, producers, leases and so on."""
    state_share: float = 0.0
    """Of what the fullest kind of it may take."""
    snapshot_failure: str = ""
    """The reason why no new snapshot could be taken; the previous one and the log are kept."""


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    cluster_id: str
    node: NodeId
    """The node that answers."""
    controller: NodeId
    read_only: bool
    health: str
    """The health of the cluster in one sentence."""
    nodes: tuple[NodeStatus, ...]
    shards: tuple[ShardStatus, ...]
    topics: int
    partitions: int


class NodeHealth(msgspec.Struct, frozen=True, kw_only=True):
    ready: bool
    problems: tuple[str, ...]
    """The reasons why it cannot serve."""
    warnings: tuple[str, ...]
    """The functions that are unavailable although it serves."""
    read_only: bool
