"""What a node knows of the whole cluster at one moment: queues, groups, topics, nodes, shards.

Nothing here makes a request: `survey` fills these in, and pages, metrics and alerts read them. They
are documents as well, and go out as JSON just as they are.

A rate is messages a second over the last ten seconds or so. What could not be learnt now is left
out or None, and never guessed; a queue of which some partitions could not be asked says so.
"""

import msgspec
from msgspec.structs import force_setattr

from penstock.engine.inspection.samples import MachineSample


class QueueReading(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as one of its work groups sees it."""

    queue: str
    """The topic."""
    group: str
    kind: str
    """standard, fifo, priority, delay or hybrid."""
    partitions: int
    complete: bool = True
    """Every partition was asked. If not, the numbers are too small."""
    paused: bool = False
    dead_letter_topic: str = ""
    """Where messages go that failed for good; empty: they stay."""
    dead_letters_of: tuple[str, ...] = ()
    """The queues whose dead letters come here."""
    ready: int = 0
    leased: int = 0
    in_flight: int = 0
    """Deprecated name of `leased`, gone in 0.3."""
    delayed: int = 0
    dead: int = 0
    """Failed for good: those still here, and those in its dead-letter queue."""
    dead_lettered: int = 0
    """Of these, what lies in the dead-letter queue. Of several work groups, those that moved
    nothing there have none of it; of those that did, each has no more than it moved, and together
    they may have less or more: letters are counted and not read."""
    dead_letters: int = 0
    """The same as `dead`."""
    oldest_age_ms: int | None = None
    """Of the oldest message that is not done; None if there is none or it is not known."""
    sent: int = 0
    """Offered to this group since it was opened, or reset."""
    delivered: int = 0
    """Totals from here to `expired`: all since the processes of the leaders started (`up_ms` of
    nodes), and part of none that is kept. They fall when a leader restarts or changes."""
    redelivered: int = 0
    """Deliveries that were not the first of their message."""
    failed: int = 0
    """Deliveries that came to nothing: released, rejected, or the lease ran out."""
    died: int = 0
    acked: int = 0
    moved: int = 0
    expired: int = 0
    in_rate: float = 0.0
    out_rate: float = 0.0
    """Deliveries."""
    ack_rate: float = 0.0
    redelivery_rate: float = 0.0
    dead_rate: float = 0.0
    error_rate: float = 0.0
    """Of the deliveries that came to an end in the last minute, the share that failed: 0 to 1."""
    minute_ended: int = 0
    """How many deliveries came to an end in the last minute."""
    minute_ack_rate: float = 0.0
    """`ack_rate` over a minute: what alerts look at."""
    expected_rate: float | None = None
    """How many acks a second are usual or were asked for; None if that is not known yet."""
    consumers: int = 0
    """Workers that asked for messages in the last minute, or hold some."""
    workers: tuple[str, ...] = ()
    """What they call themselves; some of them, if there are very many."""
    silent_ms: int | None = None
    """Since a worker was last heard of, as far as this node knows; 0 while one holds messages."""
    silent_known: bool = True
    """If not, it is at least so long: this watch began then, and no worker was heard of since."""

    def __post_init__(self) -> None:
        force_setattr(self, "in_flight", self.leased)


class TopicLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is behind in one topic."""

    topic: str
    lag: int
    committed: int
    """The sum of its committed offsets."""
    partitions: int
    complete: bool = True
    """The end of every partition could be learnt."""
    commit_rate: float = 0.0


class GroupReading(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group."""

    group: str
    state: str
    coordinator: int
    members: int
    topics: tuple[TopicLag, ...] = ()
    lag: int = 0
    commit_rate: float = 0.0
    """How many messages a second it gets on by."""
    silent_ms: int | None = None
    """For how long it has had no member; 0 while it has some."""


class TopicReading(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as a log."""

    topic: str
    partitions: int
    complete: bool = True
    messages: int = 0
    """From the start of the log to its end; compaction may have taken some of them."""
    written: int = 0
    """Ever appended: the sum of the ends."""
    in_rate: float = 0.0


class NodeReading(msgspec.Struct, frozen=True, kw_only=True):
    """A node."""

    node: int
    alive: bool
    """It answered."""
    leaving: bool = False
    leads: int = 0
    """Shards."""
    holds: int = 0
    http: str = ""
    kafka: str = ""
    version: str = ""
    up_ms: int | None = None
    disk_bytes: int | None = None
    """The size of the file system that its data is on; None if unknown."""
    disk_free_bytes: int | None = None
    disk_used_share: float | None = None
    """0 to 1."""
    data_bytes: int = 0
    """What its shards take of it."""
    memory_bytes: int | None = None
    memory_bytes_max: int | None = None
    """What the machine, or the limit set for the process, has."""
    state_used_share: float = 0.0
    """Of what one kind of state may take in a shard; that of the fullest."""

    def on(self, machine: MachineSample) -> "NodeReading":
        """With what it says about its machine."""
        used = machine.disk_bytes - machine.disk_free_bytes
        return msgspec.structs.replace(
            self,
            holds=machine.holds,
            version=machine.version,
            up_ms=machine.up_ms,
            disk_bytes=machine.disk_bytes or None,
            disk_free_bytes=machine.disk_free_bytes if machine.disk_bytes else None,
            disk_used_share=used / machine.disk_bytes if machine.disk_bytes else None,
            data_bytes=machine.data_bytes,
            memory_bytes=machine.memory_bytes,
            memory_bytes_max=machine.memory_bytes_max,
            state_used_share=machine.state_used_share,
        )


class FollowerReading(msgspec.Struct, frozen=True, kw_only=True):
    """A follower, as its leader sees it."""

    node: int
    lag_entries: int
    silent_ms: int
    state: str = ""


class ShardReading(msgspec.Struct, frozen=True, kw_only=True):
    """A shard, as its leader sees it; one without a leader as this node does."""

    shard: int
    leader: int
    """0: no leader."""
    term: int
    commit: int = 0
    voters: tuple[int, ...] = ()
    read_only: bool = False
    full: bool = False
    size_bytes: int = 0
    followers: tuple[FollowerReading, ...] = ()


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Everything together."""

    queues: int = 0
    topics: int = 0
    groups: int = 0
    ready: int = 0
    leased: int = 0
    in_flight: int = 0
    """Deprecated name of `leased`, gone in 0.3."""
    delayed: int = 0
    dead: int = 0
    """The dead that stayed, and what lies in dead-letter queues, each once."""
    dead_letters: int = 0
    """The same."""
    lag: int = 0
    oldest_age_ms: int | None = None
    consumers: int = 0
    in_rate: float = 0.0
    """Messages appended to any topic."""
    out_rate: float = 0.0
    ack_rate: float = 0.0
    redelivery_rate: float = 0.0
    dead_rate: float = 0.0
    error_rate: float = 0.0

    def __post_init__(self) -> None:
        force_setattr(self, "in_flight", self.leased)


class Readings(msgspec.Struct, frozen=True, kw_only=True):
    """The whole, at a moment."""

    at_ms: int
    """Wall time."""
    node: int
    """The node that took them."""
    health: str
    """One sentence for people."""
    healthy: bool
    """Every node answered, and every shard has a leader."""
    totals: Totals
    queues: tuple[QueueReading, ...] = ()
    """Sorted by name and group."""
    groups: tuple[GroupReading, ...] = ()
    topics: tuple[TopicReading, ...] = ()
    nodes: tuple[NodeReading, ...] = ()
    shards: tuple[ShardReading, ...] = ()
    silent_nodes: tuple[int, ...] = ()
    """They did not answer; what they lead is missing or old."""
    took_ms: float = 0.0
    """What it cost this node, without waiting for others."""
    every_ms: int = 0
    """How long until the next."""
    availability: float | None = None
    """The share of the last hour, 0 to 1, in which this node knew a leader of every shard and none
    of its shards had lost its majority; None before that is known."""

    def queue(self, name: str, group: str | None = None) -> QueueReading | None:
        """A queue; without a group, the work group that has most to do."""
        found = [one for one in self.queues if one.queue == name and group in (None, one.group)]
        return max(found, key=lambda one: (one.ready, one.leased), default=None)

    def group(self, name: str) -> GroupReading | None:
        """A consumer group."""
        return next((one for one in self.groups if one.group == name), None)

    def topic(self, name: str) -> TopicReading | None:
        """A topic."""
        return next((one for one in self.topics if one.topic == name), None)
