"""What a replicated state machine is: the protocol between the meaning of a log and its shell.

A machine is deterministic: it never reads a clock, draws a number or writes a log line, and two
machines that applied the same entries hold the same state and take the same snapshot, byte by byte.

Theory of operation. A request lives through three steps, of which only the last changes state:

    plan     on the leader only, when the request arrives: what would this write? The answer is a
             `Plan`, or an error of `core.errors`, in which case nothing at all has changed.
    log      the shell proposes the plan's entry; Raft replicates and commits it.
    apply    on every replica, in log order, once: state changes, readers wake up. Never fails:
             what can be refused was refused by `plan`, or is refused here, alike everywhere.

Plans run ahead of the log. Between `plan` and `apply` of an entry the leader plans more requests,
so a machine keeps, beside its applied state, an overlay of what is planned and not yet applied, and
plans over both. Planning three requests and then applying them gives what planning and applying
them one by one gives. For this the shell owes the machine five things:

1. A leader plans nothing before it has applied the no-op of its term: by then everything that
   former leaders may have got committed is applied.
2. A plan is a promise. Every `Append` and `Propose` is proposed, in the order of planning. The
   shell looks for room in Raft and on disk before it plans, not after; if it cannot propose what
   it has planned, it gives up its leadership.
3. On winning and on losing leadership it calls `forget_plans`, and answers what was planned with
   `OutcomeUnknown`.
4. `Known` needs no entry, yet may repeat what is planned and may still be lost. It is answered when
   everything planned before it has been applied, and is `OutcomeUnknown` if that never happens.
5. Every entry that commits is applied, of whatever kind, in order.

Deciding in `apply`. Planning over an overlay pays where requests are many. A machine of rare
commands (the catalog, the groups) keeps no overlay: its `plan` only stamps and encodes, and `apply`
decides, answering with the reply or with `Refused`. That is sound because a decision made from
applied state and the entry alone is the same on every replica: where one refuses, all do, nothing
changes anywhere but log time, and the entry is a no-op that says why. It asks two things of such a
machine: whatever decides (rules, bounds, defaults) is the same on all nodes, so it belongs to the
version and is no setting; and a refusal is never damage, so `apply` still never fails.

Joining. The shell may join consecutive `Append` plans into one APPEND entry, and those of one
partition into one slice: `machines.appends.join_appends` does it. A `Propose` in between closes the
entry. `apply` answers once per slice and knows no requests; each request is answered with the reply
of its own plan (`Append.reply`) as soon as the entry that carries it has been applied.

Time is the leader's: `plan` stamps what it plans with max(last stamp, now), where the last stamp
may be that of another plan still under way, so stamps never decrease along a log, across leaders.
`time_ms` is the stamp of the last entry applied, and the only time a machine knows.

Versions. Replicas of different builds must apply an entry alike, so the behaviour's version is
replicated state: it starts at 1, is changed only by a command in the log, hence at the same index
everywhere, and travels in the snapshot. New behaviour is written under `if version >= n`. Every
build knows all versions up to its newest; one that meets a later version, or a command it has never
heard of, raises `UnsupportedVersion` before it changes anything, and the node stops. Before
a new version is proposed, every member must run a build that knows it.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

import msgspec

from penstock.core.entries import Entry
from penstock.core.errors import PenstockError, error_named
from penstock.core.types import Offset, PartitionId, Term
from penstock.machines.state_bytes import StateKind
from penstock.machines.state_pieces import Buffer, Piece, Restoring


class Request(msgspec.Struct, frozen=True):
    """Something a caller wants a machine to do."""


class Reply(msgspec.Struct, frozen=True):
    """What the caller gets once it has happened."""


class Refused(Reply, frozen=True, tag="refused"):
    """The entry changed nothing: applying it met the error of `core.errors` that `code` names."""

    code: str
    message: str


class Effect(msgspec.Struct, frozen=True):
    """Something the leader's shell should do now. It may get lost and may come twice."""


class Appended(Reply, frozen=True, gc=False):
    """Messages have their place: from `base_offset` up to, not including, `end_offset`."""

    partition: PartitionId
    base_offset: Offset
    end_offset: Offset


class WakeReaders(Effect, frozen=True, gc=False):
    """Wakes all readers that wait for messages of the partition below `end_offset`."""

    partition: PartitionId
    end_offset: Offset


class Append(msgspec.Struct, frozen=True, gc=False):
    """Plan: write this batch, already stamped in place, at these offsets."""

    partition: PartitionId
    base_offset: Offset
    record_count: int
    max_timestamp: int
    batch: bytearray | memoryview
    stamp_ms: int
    apply_us: int = 0
    """About how many microseconds a replica takes to look at its messages, if a queue does that."""

    @property
    def end_offset(self) -> Offset:
        """The offset after the batch's last message."""
        return Offset(self.base_offset + self.record_count)

    @property
    def reply(self) -> Appended:
        """The answer to the request, to be given when the entry with this batch is applied."""
        return Appended(self.partition, self.base_offset, self.end_offset)


class Propose(msgspec.Struct, frozen=True, gc=False):
    """Plan: write this payload as one COMMAND entry; answer with what applying it replies."""

    payload: bytes
    stamp_ms: int


class Known(msgspec.Struct, frozen=True):
    """Plan: nothing to write, the answer is this, once everything planned before is applied."""

    reply: Reply


def refusal(error: PenstockError) -> Refused:
    """The reply of a machine that decides in `apply` and met this error."""
    return Refused(type(error).__name__, str(error))


def refusal_error(refused: Refused) -> PenstockError:
    """The error to raise to the caller of a command that was refused."""
    return error_named(refused.code)(refused.message)


Plan = Append | Propose | Known


class Applied(msgspec.Struct, frozen=True):
    """What came of an entry.

    Replies: one per slice of an APPEND, in their order; one for a COMMAND; none for other kinds.
    """

    replies: tuple[Reply, ...] = ()
    effects: tuple[Effect, ...] = ()


class Machine(Protocol):
    """A deterministic state machine of one shard."""

    @property
    def version(self) -> int:
        """The version of the behaviour in force: replicated state, not the build's."""
        ...

    @property
    def time_ms(self) -> int:
        """The stamp of the last entry applied."""
        ...

    def plan(self, request: Request, *, now_ms: int, term: Term) -> Plan:
        """What the request would write, given all that is applied and all that is planned."""
        ...

    def forget_plans(self) -> None:
        """Drop the overlay: leadership was won or lost."""
        ...

    def apply(self, entry: Entry) -> Applied:
        """Carry out a committed entry. The only method that changes state."""
        ...

    def snapshot_pieces(self) -> Iterator[Piece]:
        """The applied state of this moment, in pieces that may be asked for while more is applied.
        Equal states give equal bytes."""
        ...

    def snapshot(self) -> bytes:
        """All of it at once."""
        ...

    def restore(self, data: Buffer) -> None:
        """Take over the state of a snapshot; what was there before, plans included, is gone."""
        ...

    def restoring(self, data: Buffer) -> Restoring:
        """The same with pauses, in which the old state is still in force; what is returned in the
        end puts the new one in its place."""
        ...

    def state_bytes(self) -> dict[StateKind, int]:
        """How many bytes the state takes, by kind: see `machines.state_bytes`."""
        ...

    def log_starts(self) -> Mapping[PartitionId, Offset]:
        """The first living offset of every living partition: what lies below may be reclaimed."""
        ...
