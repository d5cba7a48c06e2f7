"""How many bytes a shard's state takes, by kind, and how many it may take.

The count is kept while entries are applied, in the size that things have in a snapshot, more or
less: numbers count a fixed number of bytes, names and other texts their own. It is a function of
the state alone, so all replicas count the same, and a count that was restored from a snapshot goes
on where the other stands. In memory state takes several times as much.

The budget is kept by the leader, before it proposes: what would add state of a kind that has used
up its share is refused (`StateFull`). Acks, releases, deletions, heartbeats and whatever else keeps
or shrinks the state is never refused. Each kind has a share of its own, so that none can take the
room of another; what is under way is not counted, so a share may be exceeded by that much.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from penstock.core.errors import StateFull
from penstock.core.limits import SHARD_STATE_BYTES_MAX


class StateKind(StrEnum):
    """What state is of; the names are those of the metric's label."""

    GROUPS = "groups"
    """Consumer groups: members, what they say about themselves, and committed offsets."""
    PRODUCERS = "producers"
    """Idempotent producers and their last batches."""
    DEDUPLICATION = "deduplication"
    """Ids of messages that were seen lately."""
    MESSAGES = "messages"
    """Messages of queues that are not just ready: leased, delayed, dead, or in an order of their
    own."""
    WORK_GROUPS = "work_groups"
    """Work groups of partitions, whatever messages they have."""
    MOVES = "moves"
    PUBLICATIONS = "publications"
    CATALOG = "catalog"
    """Topics, groups that have configs of their own, and those configs."""


SHARES: Mapping[StateKind, float] = MappingProxyType(
    {
        StateKind.GROUPS: 1 / 4,
        StateKind.PRODUCERS: 1 / 8,
        StateKind.DEDUPLICATION: 1 / 4,
        StateKind.MESSAGES: 1 / 4,
        StateKind.WORK_GROUPS: 1 / 16,
        StateKind.MOVES: 1 / 32,
        StateKind.PUBLICATIONS: 1 / 32,
        StateKind.CATALOG: 1 / 2,
    }
)
"""Of the budget; together all of it, but for the catalog, whose shard holds nothing else."""

WAYS_OUT: Mapping[StateKind, str] = MappingProxyType(
    {
        StateKind.GROUPS: "delete consumer groups or offsets that are not needed",
        StateKind.PRODUCERS: "use fewer idempotent producers; each is forgotten a day after its"
        " last batch",
        StateKind.DEDUPLICATION: "wait until ids leave the deduplication window, or shorten it",
        StateKind.MESSAGES: "let workers settle what is leased, and delete or redrive dead letters",
        StateKind.WORK_GROUPS: "delete share groups, or queues, that are not needed",
        StateKind.MOVES: "wait until moves have ended",
        StateKind.PUBLICATIONS: "wait until publications have arrived, and use fewer application"
        " names",
        StateKind.CATALOG: "delete topics, or configs of topics and groups, that are not needed",
    }
)


def text_bytes(*texts: str) -> int:
    """What texts count for. What cannot be encoded is refused elsewhere."""
    return sum(len(text.encode(errors="replace")) for text in texts)


class ByteCount:
    """A running count that several tables share."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class StateBudget:
    """What each kind may take. A setting of a node: it decides nothing in `apply`."""

    __slots__ = ("_limits", "bytes_max")

    def __init__(self, bytes_max: int = SHARD_STATE_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._limits = {kind: int(bytes_max * share) for kind, share in SHARES.items()}

    def limit(self, kind: StateKind) -> int:
        """What one kind may take."""
        return self._limits[kind]

    def check(self, kind: StateKind, used: int, more: int = 0) -> None:
        """Raise `StateFull` if so much is used, or would be, that nothing can be added."""
        limit = self._limits[kind]
        if used + more <= limit and used < limit:
            return
        raise StateFull(
            f"the shard's state of {kind.value} takes {used:,} of the {limit:,} bytes that it may"
            f" ({more:,} more are asked for): {WAYS_OUT[kind]}, or raise storage.state_size_max"
        )


DEFAULT_BUDGET = StateBudget()
