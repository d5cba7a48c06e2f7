"""The documents about topics and consumer groups."""

import msgspec

from penstock.core.types import NodeId
from penstock.web.queue_messages import HeaderValue, Text


class TopicLine(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the list of topics."""

    name: str
    partitions: int
    is_queue: bool
    is_internal: bool
    created_ms: int
    messages: int | None
    """From the beginning to the end of its partitions; None if some cannot be reached now. After a
    compaction there may be fewer."""
    size_bytes: int | None
    """The size on the leaders' disks."""


class PartitionLine(msgspec.Struct, frozen=True, kw_only=True):
    partition: int
    shard: int
    leader: NodeId
    """The node; 0 if there is no leader now."""
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
    """The committed offsets, by partition."""


class TopicDetail(TopicLine, frozen=True, kw_only=True):
    id: str
    configs: dict[str, str]
    """The configs that are set; the others have their defaults."""
    rows: list[PartitionLine]
    """The partitions, from `after_partition` on."""
    next_partition: int | None
    """The `after_partition` of the next page."""
    readers: list[ReaderLine]


class LogMessage(msgspec.Struct, frozen=True, kw_only=True):
    partition: int
    offset: int
    id: str
    timestamp_ms: int
    key: Text
    body: Text
    headers: dict[str, HeaderValue] = {}
    key_bytes: int
    body_bytes: int
    """The full length, -1 if there is none; the text shown may be cut."""
    is_cut: bool


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of messages of a log."""

    messages: list[LogMessage]
    next: str | None
    """The `from` of the next page in the same order; None if there is nothing more now."""
    newer: str
    """The `from`, with the order oldest first, that shows only messages appended later."""
    unreachable: list[int]
    """Partitions that could not be looked at now."""
