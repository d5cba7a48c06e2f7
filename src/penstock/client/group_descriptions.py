"""Descriptions of consumer groups."""

from dataclasses import dataclass

from penstock.client.reader.positions import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """The name and state of a group."""

    name: str
    state: str
    """Empty, Stable, or on the way from one to the other."""
    coordinator: int
    """The node that looks after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A connected consumer: its ids, and the host that it connects from."""

    id: str
    instance_id: str | None
    """The id of a static member; None for other members."""
    client_id: str
    host: str
    assigned: tuple[TopicPartition, ...] = ()
    """The partitions that it reads. Empty while the group rebalances, and from a node of 0.1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartition:
    """The progress of a group in a partition."""

    topic: str
    partition: int
    committed: int
    """The offset of the next message to read."""
    end: int | None
    """The end of the log; None if it is unknown."""

    @property
    def lag(self) -> int | None:
        """The number of messages still to be read; None if the end of the log is unknown."""
        return None if self.end is None else max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group with its members and its lag."""

    name: str
    state: str
    assignor: str
    """The strategy that assigns partitions to members; empty while there are no members."""
    coordinator: int
    members: tuple[GroupMember, ...]
    partitions: tuple[GroupPartition, ...]

    @property
    def lag(self) -> int:
        """The lag over all partitions whose end is known."""
        return sum(one.lag or 0 for one in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """The effect of a reset on a partition."""

    topic: str
    partition: int
    before: int | None
    """None if the group had not begun with it."""
    after: int
