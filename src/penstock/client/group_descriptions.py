"""Descriptions of consumer groups."""

from dataclasses import dataclass

from penstock.client.reader.positions import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group in a line."""

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
    """The name of a static member."""
    client_id: str
    host: str
    assigned: tuple[TopicPartition, ...] = ()
    """The partitions that it reads. Empty while the group rebalances, and from a node of 0.1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartition:
    """How far a group has got in a partition."""

    topic: str
    partition: int
    committed: int
    """The next offset to read."""
    end: int | None
    """Where the log ends; None if unknown."""

    @property
    def lag(self) -> int | None:
        """How many messages are still to be read."""
        return None if self.end is None else max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group with its members and its lag."""

    name: str
    state: str
    assignor: str
    """How the members share the partitions; nothing while there are none."""
    coordinator: int
    members: tuple[GroupMember, ...]
    partitions: tuple[GroupPartition, ...]

    @property
    def lag(self) -> int:
        """Over all partitions whose end is known."""
        return sum(one.lag or 0 for one in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """What a reset does, or would do, to a partition."""

    topic: str
    partition: int
    before: int | None
    """None if the group had not begun with it."""
    after: int
