"""A sample: the figures of one node and of everything it leads, for the watch of the cluster.

Counts of a queue are summed over the partitions that the node leads; which these are is said too,
because counters belong to a leader and cannot be compared across a change of leaders.
"""

import msgspec

from penstock.core.types import Index, NodeId, PartitionId, ShardId, Term, TopicId


class WorkCounts(msgspec.Struct, frozen=True, array_like=True):
    """The number of messages of a work group in each state, and the activity so far."""

    ready: int = 0
    leased: int = 0
    delayed: int = 0
    dead: int = 0
    sent: int = 0
    """Offered since the group was opened."""
    acked: int = 0
    """From here on: since this node's process began to apply what happens there. A node of 0.1
    counts acked, moved and expired since the group was opened."""
    moved: int = 0
    expired: int = 0
    delivered: int = 0
    redelivered: int = 0
    failed: int = 0
    died: int = 0
    moved_ever: int = 0
    """Moved to a dead-letter queue since the group was opened; 0 from a node of 0.1."""


class QueueSample(msgspec.Struct, frozen=True, array_like=True):
    """A work group of a topic, over the partitions of it that this node leads."""

    topic_id: TopicId
    group: str
    partitions: tuple[PartitionId, ...]
    counts: WorkCounts
    oldest_age_ms: int = -1
    silent_ms: int = -1
    """Since a worker last asked this node; -1: none has, as far as it knows."""
    workers: tuple[str, ...] = ()
    """The receivers of the last minute, by their own names; some of them, if there are very
    many."""


class GroupSample(msgspec.Struct, frozen=True, array_like=True):
    """A consumer group this node looks after."""

    group: str
    state: str
    members: int
    topics: tuple[tuple[TopicId, int, int, int, bool], ...]
    """Topic, lag, sum of the committed offsets, partitions, and whether every end was known."""


class TopicSample(msgspec.Struct, frozen=True, array_like=True):
    """A topic, over the partitions of it that this node leads."""

    topic_id: TopicId
    partitions: int
    starts: int
    """The sum of the log starts."""
    ends: int


class FollowerSample(msgspec.Struct, frozen=True, array_like=True):
    """A follower of a shard."""

    node: NodeId
    lag_entries: int
    silent_ms: int
    state: str


class ShardSample(msgspec.Struct, frozen=True, array_like=True):
    """A shard that this node leads."""

    shard: ShardId
    term: Term
    commit: Index
    voters: tuple[NodeId, ...]
    full: bool
    size_bytes: int
    followers: tuple[FollowerSample, ...]


class MachineSample(msgspec.Struct, frozen=True, array_like=True):
    """The machine of a node."""

    version: str
    up_ms: int
    disk_bytes: int
    """The size of the disk; 0 if unknown."""
    disk_free_bytes: int
    data_bytes: int
    memory_bytes: int
    memory_bytes_max: int
    holds: int
    """The number of shards it holds."""
    state_used_share: float = 0.0
    """Of what one kind of state may take in a shard; that of the fullest."""


class NodeSample(msgspec.Struct, frozen=True, array_like=True):
    node: NodeId
    life: str
    """Another one after every start."""
    machine: MachineSample
    queues: list[QueueSample]
    groups: list[GroupSample]
    topics: list[TopicSample]
    shards: list[ShardSample]
