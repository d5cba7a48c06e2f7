"""The figures of `penstock top`: counts, and rates from the difference of two samples.

A look is a `ClusterSample`: the counts of every queue, how far every group of readers is, which
nodes are there. Counts come from the broker; rates are reckoned here, by the broker's own counters,
so that nothing needs to be watched all the time. A counter that went back, as after a leader that
knew less, gives no rate rather than a wrong one.

Pure: looks in, lines out.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal

from penstock.core.message_states import lying
from penstock.engine.cluster.status import ClusterStatus
from penstock.engine.groups.lag import GroupLag
from penstock.web.queue_lines import GroupCounts, QueueLine

Sorting = Literal["trouble", "lag", "in", "name"]
QueueKey = tuple[str, str]
"""A queue and a work group of it."""


class Level(IntEnum):
    """The severity of a row."""

    FINE = 0
    ATTENTION = 1
    WARNING = 2
    CRITICAL = 3


LAG_ATTENTION, LAG_CRITICAL = 1_000, 10_000
DEPTH_ATTENTION, DEPTH_WARNING = 10_000, 50_000
DEAD_WARNING, DEAD_CRITICAL = 100, 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLook:
    """The lag of a consumer group now and at its previous sample. With many groups only some are
    sampled each time."""

    at_ms: int
    lag: GroupLag
    before: "GroupLook | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSample:
    """The state of the cluster at one moment."""

    at_ms: int
    """Milliseconds of a monotonic clock."""
    queues: tuple[QueueLine, ...]
    groups: tuple[GroupLook, ...] = ()
    cluster: ClusterStatus | None = None
    more_queues: bool = False
    """True if there are more queues than one request returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue as one of its work groups sees it; rates are messages a second, if they are known."""

    queue: str
    group: str
    paused: bool
    ready: int
    leased: int
    delayed: int
    dead: int
    """Here or in the dead-letter queue."""
    oldest_age_ms: int | None
    dead_lettered: int = 0
    """The dead messages that the dead-letter queue holds."""
    dead_letter_topic: str = ""
    dead_letters_of: tuple[str, ...] = ()
    """The queues whose dead letters this queue receives."""
    in_rate: float | None = None
    out_rate: float | None = None
    """The rate of deliveries, minus released messages."""
    ack_rate: float | None = None

    @property
    def lag(self) -> int:
        """The messages that workers have not finished: ready or leased."""
        return self.ready + self.leased

    @property
    def depth(self) -> int:
        """The messages in the queue that are not dead."""
        return self.lag + self.delayed

    @property
    def level(self) -> Level:
        """By lag before depth: a deep queue that is worked off is what queues are for. Of a
        dead-letter queue everything in it counts, and nothing is expected to be worked off."""
        dead = lying(self) if self.dead_letters_of else self.dead
        lag, depth = (0, 0) if self.dead_letters_of else (self.lag, self.depth)
        if lag > LAG_CRITICAL or dead > DEAD_CRITICAL:
            return Level.CRITICAL
        if depth > DEPTH_WARNING or dead > DEAD_WARNING:
            return Level.WARNING
        if lag > LAG_ATTENTION or depth > DEPTH_ATTENTION or dead:
            return Level.ATTENTION
        return Level.FINE


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group of readers of topics."""

    group: str
    state: str
    members: int
    lag: int
    in_rate: float | None = None
    """The rate at which messages are appended to the topics of the group."""
    out_rate: float | None = None
    """The rate at which the group commits messages."""

    @property
    def level(self) -> Level:
        """The severity of the group's lag."""
        if self.lag > LAG_CRITICAL:
            return Level.CRITICAL
        return Level.ATTENTION if self.lag > LAG_ATTENTION else Level.FINE


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A row of the table of nodes."""

    node: int
    alive: bool
    leads: int
    holds: int
    kafka: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The sums over all queues."""

    ready: int = 0
    leased: int = 0
    delayed: int = 0
    dead: int = 0
    in_rate: float | None = None
    out_rate: float | None = None
    ack_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The data of one screen."""

    seconds: float | None
    """The interval between the two samples; None for the first."""
    health: str
    totals: Totals
    queues: tuple[QueueRow, ...]
    groups: tuple[GroupRow, ...]
    nodes: tuple[NodeRow, ...]
    more_queues: bool = False


def make_frame(
    now: ClusterSample, before: ClusterSample | None, *, sorting: Sorting = "trouble"
) -> Frame:
    """Compare two looks; without an earlier one there are no rates."""
    seconds = None
    earlier: dict[QueueKey, GroupCounts] = {}
    if before is not None and now.at_ms > before.at_ms:
        seconds = (now.at_ms - before.at_ms) / 1_000
        earlier = {(line.name, one.group): one for line in before.queues for one in line.groups}
    sources: dict[str, tuple[str, ...]] = {}
    for line in now.queues:
        if line.dead_letter_topic:
            known = sources.get(line.dead_letter_topic, ())
            sources[line.dead_letter_topic] = (*known, line.name)
    queues = sorted(
        (
            replace(
                _queue_row(line, counts, earlier.get((line.name, counts.group)), seconds or 0.0),
                dead_letters_of=sources.get(line.name, ()),
            )
            for line in now.queues
            for counts in line.groups
        ),
        key=lambda row: _place(row, sorting),
    )
    groups = sorted(map(_group_row, now.groups), key=lambda row: (-row.lag, row.group))
    status = now.cluster
    return Frame(
        seconds=seconds,
        health="" if status is None else status.health,
        totals=_totals(queues, known=seconds is not None),
        queues=tuple(queues),
        groups=tuple(groups),
        nodes=() if status is None else tuple(
            NodeRow(
                node=one.node, alive=one.alive, leads=one.leads, holds=one.holds, kafka=one.kafka
            )
            for one in status.nodes
        ),
        more_queues=now.more_queues,
    )  # fmt: skip


def _queue_row(
    line: QueueLine, now: GroupCounts, before: GroupCounts | None, seconds: float
) -> QueueRow:
    row = QueueRow(
        queue=line.name,
        group=now.group,
        paused=line.paused,
        ready=now.ready,
        leased=now.leased,
        delayed=now.delayed,
        dead=now.dead,
        oldest_age_ms=now.oldest_age_ms,
        dead_lettered=now.dead_lettered,
        dead_letter_topic=line.dead_letter_topic,
    )
    if before is None:
        return row
    return replace(
        row,
        in_rate=_rate(now.sent, before.sent, seconds),
        out_rate=_rate(_taken(now), _taken(before), seconds),
        ack_rate=_rate(now.acked, before.acked, seconds),
    )


def _rate(now: int, before: int, seconds: float) -> float | None:
    return (now - before) / seconds if now >= before else None


def _taken(counts: GroupCounts) -> int:
    """Messages that a worker has or had, and did not give back."""
    here = counts.dead - counts.dead_lettered
    return counts.leased + counts.acked + here + counts.moved


def _group_row(look: GroupLook) -> GroupRow:
    now, before = look.lag, look.before
    row = GroupRow(group=now.group, state=now.state, members=len(now.members), lag=now.lag)
    if before is None or look.at_ms <= before.at_ms:
        return row
    seconds = (look.at_ms - before.at_ms) / 1_000
    return replace(
        row,
        in_rate=_rate(_end(now), _end(before.lag), seconds),
        out_rate=_rate(_committed(now), _committed(before.lag), seconds),
    )


def _end(group: GroupLag) -> int:
    return sum(one.end for one in group.partitions if one.end is not None)


def _committed(group: GroupLag) -> int:
    return sum(max(0, one.committed) for one in group.partitions)


def _place(row: QueueRow, sorting: Sorting) -> tuple[float | str, ...]:
    """The sort key of a queue. By trouble, the worst comes first, and queues with dead letters
    before others."""
    match sorting:
        case "trouble":
            return (-row.level, -(row.dead > 0), -row.lag, row.queue, row.group)
        case "lag":
            return (-row.lag, row.queue, row.group)
        case "in":
            return (-(row.in_rate or 0.0), row.queue, row.group)
        case "name":
            return (row.queue, row.group)


def _dead(rows: list[QueueRow]) -> int:
    """Dead letters of all queues; what lies in a dead-letter queue counts once, also if several
    queues and work groups share it."""
    held: dict[str, int] = {}
    for row in rows:
        if row.dead_letter_topic:
            place = row.dead_letter_topic
            held[place] = max(row.dead_lettered, held.get(place, 0))
    return sum(row.dead - row.dead_lettered for row in rows) + sum(held.values())


def _totals(rows: list[QueueRow], *, known: bool) -> Totals:
    def rate(name: str) -> float | None:
        return sum(getattr(row, name) or 0.0 for row in rows) if known else None

    return Totals(
        ready=sum(row.ready for row in rows),
        leased=sum(row.leased for row in rows),
        delayed=sum(row.delayed for row in rows),
        dead=_dead(rows),
        in_rate=rate("in_rate"),
        out_rate=rate("out_rate"),
        ack_rate=rate("ack_rate"),
    )
