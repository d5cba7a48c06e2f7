"""What every role shares: term and vote, the log and its memberships, and what is to be said.

The roles themselves (`Following`, `Leadership`, and the elections in `RaftNode`) work on this and
on nothing else of each other.

Two things are kept together here that must never part: an entry enters the log and, if it is a
membership, the history, in one call; and a message is checked against what is durable when it is
said."""

from collections import deque

from penstock.core.entries import (
    Entry,
    EntryKind,
    HardState,
    Membership,
    SnapshotMark,
    decode_membership,
)
from penstock.core.types import NO_NODE, Index, NodeId, Term
from penstock.raft.log import RaftLog
from penstock.raft.membership import MembershipHistory
from penstock.raft.messages import AnyMessage
from penstock.raft.outbox import Outbox
from penstock.raft.settings import RaftSettings


class RaftState:
    """The part of a node that outlives a change of role."""

    __slots__ = (
        "_hard_durable",
        "_hard_issued",
        "_hard_writes",
        "damaged",
        "history",
        "leader",
        "life",
        "log",
        "me",
        "outbox",
        "settings",
        "term",
        "vote",
    )

    def __init__(
        self,
        settings: RaftSettings,
        log: RaftLog,
        history: MembershipHistory,
        hard_state: HardState,
        *,
        life: int,
    ) -> None:
        self.settings = settings
        self.me: NodeId = settings.node
        self.log = log
        self.history = history
        self.outbox = Outbox()
        self.term: Term = hard_state.term
        self.vote: NodeId = hard_state.vote
        self.leader: NodeId = NO_NODE
        self.life = life
        """Not 0: the node was damaged when it started."""
        self.damaged = life != 0
        """It is damaged still: it neither votes nor counts."""
        self._hard_durable = hard_state
        self._hard_issued = hard_state
        self._hard_writes: deque[tuple[int, HardState]] = deque()

    # Term and vote.

    @property
    def hard_state(self) -> HardState:
        return HardState(self.term, self.vote)

    @property
    def hard_durable(self) -> bool:
        """Term and vote as they are now would survive a crash."""
        durable = self._hard_durable
        return durable.term == self.term and durable.vote == self.vote

    @property
    def hard_unissued(self) -> bool:
        issued = self._hard_issued
        return issued.term != self.term or issued.vote != self.vote

    def issue_hard_state(self, sequence: int) -> HardState | None:
        """Term and vote, if they changed since the last Ready."""
        if not self.hard_unissued:
            return None
        hard_state = self.hard_state
        self._hard_issued = hard_state
        self._hard_writes.append((sequence, hard_state))
        return hard_state

    def persisted(self, sequence: int) -> bool:
        """Writes up to this sequence are durable. Says whether the durable index moved."""
        self.outbox.persisted(sequence)
        while self._hard_writes and self._hard_writes[0][0] <= sequence:
            self._hard_durable = self._hard_writes.popleft()[1]
        return self.log.persisted(sequence)

    # Saying things.

    def send(self, message: AnyMessage) -> None:
        """Say something that needs nothing durable but the term it is said in."""
        if self.hard_durable:
            self.outbox.send(message)
        else:
            self.outbox.promise(message)

    def send_when_durable(self, message: AnyMessage, index: Index) -> None:
        """Say something that is true once the log is durable up to `index`."""
        if self.log.durable >= index and not self.log.restoring:
            self.send(message)
        else:
            self.outbox.promise(message)

    # Log and members.

    @property
    def membership(self) -> Membership:
        return self.history.current

    def append(self, entries: tuple[Entry, ...] | list[Entry]) -> None:
        """Append, replacing from the first entry's index on; memberships are in force at once."""
        if entries[0].index <= self.log.last_index:
            self.history.truncate(entries[0].index)
        self.log.append(entries)
        for entry in entries:
            if entry.kind is EntryKind.MEMBERSHIP:
                self.history.append(entry.index, decode_membership(entry.payload))

    def restore(self, mark: SnapshotMark) -> None:
        """Put a snapshot in the place of the log."""
        self.log.restore(mark)
        self.history.restart(mark.index, mark.membership)

    def up_to_date(self, last_index: Index, last_term: Term) -> bool:
        """Whether a log that ends so is at least as new as ours (Raft §5.4.1)."""
        return (last_term, last_index) >= (self.log.last_term, self.log.last_index)

    @property
    def electable(self) -> bool:
        """May stand for election: a voter, whole, with its log in place.

        A node whose removal is not known to be committed still counts as one. It may hold the only
        log that can win, and the others would wait for it for ever (§4.2.2, figure 4.6)."""
        voter = self.me in self.membership.voters or (
            self.history.changed_index > self.log.committed
            and self.me in self.history.previous.voters
        )
        return voter and not self.damaged and not self.log.restoring
