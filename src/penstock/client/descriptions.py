"""Descriptions of queues, topics and the cluster."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """The number of messages of one work group in each state.

    sent = ready + leased + delayed + (dead - dead_lettered) + acked + moved + expired + purged
    + dropped + duplicates, at every moment."""

    sent: int = 0
    """Offered to the group since it began."""
    ready: int = 0
    """Available for delivery now."""
    leased: int = 0
    """Received, and their lease has not ended: being worked on."""
    delayed: int = 0
    """Not available until their delay ends."""
    dead: int = 0
    """Failed for good: archived here, about to be moved, or in the dead-letter queue."""
    dead_lettered: int = 0
    """The dead messages that the dead-letter queue holds, if there is one. A queue that several
    others share counts fully for each."""
    acked: int = 0
    moved: int = 0
    """Messages moved to a dead-letter queue since the group began."""
    expired: int = 0
    purged: int = 0
    dropped: int = 0
    duplicates: int = 0
    oldest_age: float | None = None
    """For how many seconds the oldest living message has been there."""

    @property
    def depth(self) -> int:
        """Messages that are not done: ready, leased or delayed."""
        return self.ready + self.leased + self.delayed

    @property
    def lag(self) -> int:
        """The number of messages that are available for delivery now."""
        return self.ready

    @property
    def visible(self) -> int:
        """Deprecated name of `ready`."""
        warnings.warn("QueueStats.visible is now .ready", DeprecationWarning, stacklevel=2)
        return self.ready

    @property
    def in_flight(self) -> int:
        """Deprecated name of `leased`."""
        warnings.warn("QueueStats.in_flight is now .leased", DeprecationWarning, stacklevel=2)
        return self.leased


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    """The name and size of a topic or queue."""

    name: str
    partitions: int
    is_queue: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """The leader and the offsets of one partition."""

    index: int
    leader: int
    """The node; 0 while there is none."""
    start: int
    end: int
    """The offset that the next message gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic or queue, with its partitions."""

    name: str
    id: str
    is_queue: bool
    partitions: tuple[PartitionDescription, ...]
    configs: Mapping[str, str]
    """The configs that differ from the defaults."""
    created_at: datetime

    @property
    def messages(self) -> int:
        """The number of offsets that the partitions hold."""
        return sum(one.end - one.start for one in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDescription(TopicDescription):
    """A queue, with what its work groups have to do."""

    groups: Mapping[str, QueueStats] = field(default_factory=dict)


SettingSource = Literal["own", "group", "queue", "default"]


@dataclass(frozen=True, slots=True)
class GroupSetting:
    """A setting of a work group, as text."""

    value: str
    source: SettingSource
    """`own` if it is set for the group on this queue, `group` if it is set for the group on all
    topics, `queue` if it is inherited from the queue, and `default` on a topic that is no queue."""

    @property
    def inherited(self) -> bool:
        """True if the group has no value of its own."""
        return self.source in ("queue", "default")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDescription:
    """A node of the cluster."""

    id: int
    address: str
    alive: bool
    http: str = ""
    """HOST:PORT of its HTTP port; empty of a node of 0.1, and of an engine inside this process."""
    read_only: bool = False
    """It holds a shard that has lost its majority: what lies there can be read and not written.
    As the node sees it that was asked; always False if that is a node of 0.1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The cluster, as the node sees it that was asked."""

    cluster_id: str
    version: str
    """The version of the node that answered."""
    node: int
    controller: int
    nodes: tuple[NodeDescription, ...]
    read_only_shards: tuple[int, ...] = ()
    """Shards of the node that answered that have lost their majority."""

    @property
    def read_only(self) -> bool:
        """Some of the data can be read and not written now."""
        return bool(self.read_only_shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveDescription:
    """A move of messages from one queue to another."""

    state: str
    moved: int
    total: int
    """The number of messages in the queue when the move began."""
    failure: str
    id: str = ""
    to: str = ""
    """The target queue; empty if each message returns to the queue it died in, or if unknown."""
    started_at: datetime | None = None


def from_milliseconds(time_ms: int) -> datetime:
    """A moment, as the broker tells it."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
