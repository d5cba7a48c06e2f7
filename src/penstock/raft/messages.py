"""Everything that goes into and comes out of a `RaftNode`.

In: messages of peers, ticks, proposals. Out: a `Ready`, which is a list of duties for the caller.

The caller's duties for each `Ready`, in this order:

1. Send `messages` at once, in any order, in parallel with everything below. They promise nothing
   that is not already durable (a leader may replicate while its own disk still writes, Raft
   §10.2.1).
2. Persist, in this order: `snapshot` (replaces the log up to its mark), `hard_state`, `entries`
   (which replace whatever the log holds from `entries[0].index` on). Readies are persisted in the
   order they came; several may be gathered into one disk sync.
3. When they are durable, send `promises`: votes, acknowledgements and vote requests, the messages
   that would be lies after a crash; and call `node.persisted(ready.sequence)`.
4. Apply `committed`, in order, and call `node.applied(index)`. These are durable here already.
5. Answer `reads`: each may be served from the applied state once it has reached the index.

A `Ready` with nothing to persist needs no `persisted` call and has no `promises`.
"""

import msgspec

from penstock.core.entries import Entry, HardState, SnapshotMark
from penstock.core.types import NO_INDEX, NO_NODE, NO_TERM, Index, NodeId, Term


class Message(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=True):
    """What every message carries. `term` is the sender's, except in a pre-vote: see there."""

    source: NodeId
    target: NodeId
    term: Term

    def describe(self) -> str:
        """`1→2 Append term 3 after 5/2, 6..7, commit 5, session 4`: one line for people."""
        return f"{self.source}→{self.target} {self._name()} term {self.term}{self._detail()}"

    def _name(self) -> str:
        return type(self).__name__

    def _detail(self) -> str:
        return ""


class VoteRequest(Message, frozen=True, kw_only=True):
    """Please vote for me. A pre-vote asks with the term it *would* have and changes nothing."""

    pre: bool
    last_index: Index
    last_term: Term
    forced: bool = False
    """A leadership transfer: the lease of the current leader does not count."""

    def _name(self) -> str:
        return "PreVoteRequest" if self.pre else "VoteRequest"

    def _detail(self) -> str:
        return f", log ends {self.last_index}/{self.last_term}" + (", forced" * self.forced)


class VoteResponse(Message, frozen=True, kw_only=True):
    """A pre-vote granted carries the request's term; one rejected carries the rejecter's."""

    pre: bool
    granted: bool

    def _name(self) -> str:
        return "PreVoteResponse" if self.pre else "VoteResponse"

    def _detail(self) -> str:
        return ", granted" if self.granted else ", refused"


class AppendRequest(Message, frozen=True, kw_only=True):
    """Entries after (`previous_index`, `previous_term`); empty when only probing."""

    session: int
    """Made anew whenever the leader starts to track this follower; answers must echo it."""
    previous_index: Index
    previous_term: Term
    entries: tuple[Entry, ...]
    commit: Index

    def _detail(self) -> str:
        text = f" after {self.previous_index}/{self.previous_term}, "
        if self.entries:
            first, last = self.entries[0].index, self.entries[-1].index
            text += f"entries {first}..{last}, " if last > first else f"entry {first}, "
        return f"{text}commit {self.commit}, session {self.session}"


class AppendResponse(Message, frozen=True, kw_only=True):
    """The follower's log is durable and equal to the leader's up to `match`; or a rejection."""

    session: int
    match: Index = NO_INDEX
    rejected: Index = NO_INDEX
    """Not 0: the `previous_index` that did not match; the hints tell where to go on."""
    hint_index: Index = NO_INDEX
    hint_term: Term = NO_TERM
    damaged: bool = False
    """The follower lost what it had promised: it must be repaired and counts for nothing."""
    life: int = 0
    """Of a damaged node: drawn at its start, so that a second damage can be distinguished from the
    first."""

    def _detail(self) -> str:
        if self.rejected:
            text = f", rejected {self.rejected}, hint {self.hint_index}/{self.hint_term}"
        else:
            text = f", match {self.match}"
        return f"{text}, session {self.session}" + (", damaged" * self.damaged)


class Heartbeat(Message, frozen=True, kw_only=True):
    """I still lead. `commit` never goes past what this follower is known to hold."""

    session: int
    commit: Index
    round: int
    """Rounds grow; an answer to this one proves leadership for reads asked before it (§6.4)."""
    repair_until: Index = NO_INDEX
    """For a damaged follower: once durable up to here it is whole again."""
    repair_life: int = 0
    """The life of the damaged follower that `repair_until` was worked out for."""

    def _detail(self) -> str:
        text = f", round {self.round}, commit {self.commit}, session {self.session}"
        return text + (f", repair until {self.repair_until}" if self.repair_until else "")


class HeartbeatResponse(Message, frozen=True, kw_only=True):
    """I follow you still; `round` is the heartbeat's own."""

    session: int
    round: int
    damaged: bool = False
    life: int = 0

    def _detail(self) -> str:
        return f", round {self.round}, session {self.session}" + (", damaged" * self.damaged)


class SnapshotOffer(Message, frozen=True, kw_only=True):
    """The entries you need are gone here: fetch the state at `mark` from me and install it.

    How the bytes travel is not Raft's business. The follower's shell fetches them, then calls
    `node.snapshot_fetched(mark)`; the answer to the leader is an `AppendResponse`."""

    session: int
    mark: SnapshotMark

    def _detail(self) -> str:
        return f", mark {self.mark.index}/{self.mark.term}, session {self.session}"


class TimeoutNow(Message, frozen=True, kw_only=True):
    """Campaign at once, without a pre-vote: the leader hands over to you."""


AnyMessage = (
    VoteRequest
    | VoteResponse
    | AppendRequest
    | AppendResponse
    | Heartbeat
    | HeartbeatResponse
    | SnapshotOffer
    | TimeoutNow
)


class ReadReady(msgspec.Struct, frozen=True):
    """The read with this id may be served once `index` has been applied."""

    read_id: int
    index: Index


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """Duties for the caller; see the top of this module."""

    sequence: int
    """Grows with each Ready that has something to persist."""
    messages: tuple[AnyMessage, ...] = ()
    hard_state: HardState | None = None
    snapshot: SnapshotMark | None = None
    entries: tuple[Entry, ...] = ()
    promises: tuple[AnyMessage, ...] = ()
    committed: tuple[Entry, ...] = ()
    reads: tuple[ReadReady, ...] = ()
    offered: SnapshotOffer | None = None
    """A leader offers a snapshot that this node needs: fetch it."""
    healed: bool = False
    """A damaged node is whole again: persist that before its next promise."""

    @property
    def must_persist(self) -> bool:
        return bool(self.entries or self.hard_state or self.snapshot or self.healed)


NOBODY = NO_NODE
