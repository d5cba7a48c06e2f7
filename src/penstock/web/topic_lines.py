"""What HTTP answers about topics and consumer groups, as documents."""

import msgspec

from penstock.core.types import NodeId
from penstock.web.queue_messages import HeaderValue, Text


class TopicLine(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in a list."""

    name: str
    partitions: int
    is_queue: bool
    is_internal: bool
    created_ms: int
    messages: int | None
    """From the beginning to the end of its partitions; None if some cannot be reached now. After a
    compaction there may be fewer."""
    size_bytes: int | None
    """On the leaders' disks."""


class PartitionLine(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a topic."""

    partition: int
    shard: int
    leader: NodeId
    """0: it has no leader now."""
    replicas: list[NodeId]
    log_start: int | None
    """None, as the two below: it cannot be reached now."""
    end: int | None
    size_bytes: int | None


class ReaderLine(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group that has read a topic."""

    group: str
    state: str
    members: int
    lag: int | None
    """None: some partition cannot be reached now."""
    committed: dict[str, int]
    """By partition."""


class TopicDetail(TopicLine, frozen=True, kw_only=True):
    """All about a topic."""

    id: str
    configs: dict[str, str]
    """What was set; the rest has its default."""
    rows: list[PartitionLine]
    """Its partitions, from `after_partition` on."""
    next_partition: int | None
    """What to give as `after_partition` to see more of them."""
    readers: list[ReaderLine]


class LogMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a log."""

    partition: int
    offset: int
    id: str
    timestamp_ms: int
    key: Text
    body: Text
    headers: dict[str, HeaderValue] = {}
    key_bytes: int
    body_bytes: int
    """How long they are, -1 if they are not there; what is shown may be cut."""
    is_cut: bool


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """What a look into a log has found."""

    messages: list[LogMessage]
    next: str | None
    """What to give as `from` to go on in the same order; None if there is nothing more now."""
    newer: str
    """What to give as `from`, oldest first, to see what comes after all that is there now."""
    unreachable: list[int]
    """Partitions that could not be looked at now."""
