"""Every command of the queues, and their encoding.

The rules are those of `machines.commands`: a command is a request as it stands in the log, `plan`
stamps it, the encoding is strict, and a tag or an order of fields never changes.

All of them decide in `apply`. A work group is named by its partition and its name; one that was
never opened is `UnknownGroup`.
"""

from typing import NamedTuple

import msgspec

from penstock.core.limits import QUEUE_COMMAND_BYTES_MAX
from penstock.core.queue_rules import QueueRules, WorkRules
from penstock.core.types import Offset, PartitionId, TopicId
from penstock.core.verdicts import Verdict
from penstock.machines.command_codec import CommandCodec, Stamped, VersionCommand


class Settlement(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A verdict on the messages from `first` up to, not including, `end`, all of one lease."""

    first: Offset
    end: Offset
    epoch: int
    verdict: Verdict
    delay_ms: int = -1
    reason: str = ""


class CopyPlace(NamedTuple):
    """Where a copy of a message went: a topic, the number of a partition in it, an offset."""

    topic_id: TopicId
    partition: int
    offset: Offset


class ConfigureQueue(Stamped, frozen=True, kw_only=True, tag="configure_queue"):
    """Give a partition its rules. They count for messages appended, and decisions made, after."""

    partition: PartitionId
    rules: QueueRules


class OpenWork(Stamped, frozen=True, kw_only=True, tag="open_work"):
    """Let a work group begin at an offset; one that is open keeps its place and gets the rules.

    An offset out of range is taken for the nearer end; -1 means the end, -2 the log start."""

    partition: PartitionId
    group: str
    start: Offset
    rules: WorkRules


class CloseWork(Stamped, frozen=True, kw_only=True, tag="close_work"):
    """Forget a work group, or, with an empty name, all of the partition and its rules."""

    partition: PartitionId
    group: str = ""


class ResetWork(Stamped, frozen=True, kw_only=True, tag="reset_work"):
    """Reset the offset of a work group, as if it were opened there; leases end."""

    partition: PartitionId
    group: str
    start: Offset


class Recall(Stamped, frozen=True, kw_only=True, tag="recall"):
    """Tell a work group that was opened at an old offset what the messages from `first` up to, not
    including, `end` say: (offset, priority, group, not before, expiry) of those that say something.
    `fifo` is whether they were read as messages that stand in lines: if that has changed since,
    they must be read once more."""

    partition: PartitionId
    group: str
    first: Offset
    end: Offset
    delivery_headers: tuple[tuple[Offset, int, bytes | None, int, int], ...]
    fifo: bool = False


class Acquire(Stamped, frozen=True, kw_only=True, tag="acquire"):
    """Lease up to so many messages; `lease_ms` of -1 is the rules' own.

    With offsets: these and no others, as far as they are not leased. Moves acquire messages like
    this; it is no delivery and does not count as one."""

    partition: PartitionId
    group: str
    messages_max: int
    lease_ms: int = -1
    offsets: tuple[Offset, ...] = ()
    receiver: str = ""
    """The receiver, for people: nothing depends on it. It stands here, and not in a message between
    nodes, because the next leader must know it too."""


class Settle(Stamped, frozen=True, kw_only=True, tag="settle"):
    """Say what became of leased messages."""

    partition: PartitionId
    group: str
    settlements: tuple[Settlement, ...]
    copies: tuple[CopyPlace, ...] = ()
    """Of messages that were moved: where the copy of each settlement's is. For people, as who
    receives is; nothing depends on it."""


class RemoveDead(Stamped, frozen=True, kw_only=True, tag="bury"):
    """Dead messages, by offset, have been moved elsewhere, or are not wanted any more."""

    partition: PartitionId
    group: str
    offsets: tuple[Offset, ...]
    discarded: bool = False
    copies: tuple[CopyPlace, ...] = ()
    """Where the copy of each is; see `Settle`."""


class RequeueDead(Stamped, frozen=True, kw_only=True, tag="revive"):
    """Deliver archived dead messages anew, with counts reset; no offsets: all of them."""

    partition: PartitionId
    group: str
    offsets: tuple[Offset, ...] = ()


class Cancel(Stamped, frozen=True, kw_only=True, tag="cancel"):
    """Never deliver these messages, unless they are leased: a scheduled message can be
    cancelled."""

    partition: PartitionId
    group: str
    offsets: tuple[Offset, ...]


class Purge(Stamped, frozen=True, kw_only=True, tag="purge"):
    """Drop everything that waits or is leased; dead messages too."""

    partition: PartitionId
    group: str


class CumulativeAck(Stamped, frozen=True, kw_only=True, tag="cover"):
    """A reader of the log has processed the messages from `first` up to, not including, `end`: they
    are done, leased or not, after those in `dead`, wherever they are, have died, each for its
    reason. Messages that are done or dead already stay so.

    A stream that names itself and counts its batches is heard once for each: what it repeats after
    that changes nothing, also if a dead message was delivered anew meanwhile."""

    partition: PartitionId
    group: str
    first: Offset
    end: Offset
    dead: tuple[tuple[Offset, str], ...] = ()
    stream: str = ""
    batch: int = -1


class UseQueuesVersion(VersionCommand, frozen=True, kw_only=True, tag="use_queues_version"):
    """Apply every entry after this one as the version does. Written only when every member of the
    cluster knows the version."""


class TurnClock(Stamped, frozen=True, kw_only=True, tag="turn_clock"):
    """Time has passed: leases end, delays are over, messages expire."""


QueueCommand = (
    ConfigureQueue
    | OpenWork
    | CloseWork
    | ResetWork
    | Recall
    | Acquire
    | Settle
    | RemoveDead
    | RequeueDead
    | Cancel
    | Purge
    | TurnClock
    | CumulativeAck
    | UseQueuesVersion
)

QUEUE_CODEC: CommandCodec[QueueCommand] = CommandCodec(QueueCommand, QUEUE_COMMAND_BYTES_MAX)
encode_queue_command = QUEUE_CODEC.encode
decode_queue_command = QUEUE_CODEC.decode
