"""How a follower treats its leader's messages: append, commit, snapshots, and being repaired.

Rules that hold here:

- The log is truncated only where an entry of the leader's has another term than ours at the same
  index. A message that is merely older or shorter proves nothing and takes nothing away.
- An acknowledgement names an index up to which our log is durable and equal to the leader's.
- Answers echo the leader's session; see `progress`.

**Repair.** A damaged node has lost entries it had acknowledged, and does not know which. It may
have been the one that made a majority, so until it has them back it must not vote, lead, or be
counted. It starts with an empty log and says `damaged` in every answer. Its leader opens a new
session, offers a snapshot and tells, by heartbeat, `repair_until`: the end of the leader's log
when the damage became known. Everything the node can ever have helped to commit lies at or before
that (Leader Completeness), so once the node's log equals the leader's up to there, durably, it is
whole. It then persists that fact (`Ready.healed`), and only when *that* is durable do its answers
count again.

The damaged node draws a number for this life, the leader repeats it beside `repair_until`.
Otherwise a heartbeat that was long under way could heal a node that has been damaged a second
time since."""

from penstock.core.entries import SnapshotMark
from penstock.core.types import NO_INDEX, Index
from penstock.raft.messages import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    SnapshotOffer,
)
from penstock.raft.state import RaftState


class Following:
    """What a node knows of the leader of its term."""

    __slots__ = (
        "_matched",
        "_session",
        "_state",
        "healed",
        "healing_sequence",
        "offer",
        "repair_until",
    )

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._session = 0
        self._matched: Index = state.log.committed
        self.repair_until: Index = NO_INDEX
        self.offer: SnapshotOffer | None = None
        """For the next Ready."""
        self.healed = False
        """For the next Ready."""
        self.healing_sequence = 0
        """Not 0: the Ready that asked the caller to persist that the log is whole."""

    def start_term(self) -> None:
        """Another leader: what we knew of the last one's log says nothing about this one's."""
        self._session = 0
        self._matched = self._state.log.committed
        self.repair_until = NO_INDEX
        self.offer = None

    # Appends.

    def append(self, message: AppendRequest) -> None:
        """Take entries, or say where our logs part."""
        state, log = self._state, self._state.log
        self._session = message.session
        if state.damaged and log.snapshot.index == NO_INDEX:
            # A repair starts with a snapshot. We know nothing yet, not even that we are empty.
            self._acknowledge(NO_INDEX)
        elif message.previous_index < log.committed:
            # Long under way; what is committed is the same in every log, so we agree up to there.
            self._acknowledge(log.committed)
        elif not log.matches(message.previous_index, message.previous_term):
            self._reject(message)
        else:
            self._take(message)

    def _take(self, message: AppendRequest) -> None:
        state, log = self._state, self._state.log
        entries = message.entries
        last = message.previous_index
        if entries:
            last = entries[-1].index
            held = log.last_index
            for position, entry in enumerate(entries):
                if entry.index > held or log.term(entry.index) != entry.term:
                    state.append(entries[position:] if position else entries)
                    break
        self._matched = max(self._matched, last)
        log.commit_to(min(message.commit, last))
        self._acknowledge(last)

    def _acknowledge(self, match: Index) -> None:
        state = self._state
        state.send_when_durable(
            AppendResponse(
                source=state.me,
                target=state.leader,
                term=state.term,
                session=self._session,
                match=match,
                damaged=state.damaged,
                life=state.life if state.damaged else 0,
            ),
            match,
        )

    def _reject(self, message: AppendRequest) -> None:
        # Instead of letting the leader go back one entry at a time, name the last place where our
        # logs could still agree: no entry after it has a term that old (§5.3, end).
        state, log = self._state, self._state.log
        hint = log.last_not_after(
            message.previous_index, message.previous_term, floor=Index(log.committed + 1)
        )
        state.send(
            AppendResponse(
                source=state.me,
                target=state.leader,
                term=state.term,
                session=self._session,
                rejected=message.previous_index,
                hint_index=hint,
                hint_term=log.term(hint),
                damaged=state.damaged,
                life=state.life if state.damaged else 0,
            )
        )

    # Heartbeats.

    def heartbeat(self, message: Heartbeat) -> None:
        """Learn what is committed; if damaged, until where to be repaired."""
        state = self._state
        self._session = message.session
        known = message.commit
        if state.damaged:
            # The leader may speak of a log we had before the damage.
            known = min(known, self._matched)
            if message.repair_until and message.repair_life == state.life:
                self.repair_until = message.repair_until
                self.check_healed()
        state.log.commit_to(known)
        state.send(
            HeartbeatResponse(
                source=state.me,
                target=message.source,
                term=state.term,
                session=message.session,
                round=message.round,
                damaged=state.damaged,
                life=state.life if state.damaged else 0,
            )
        )

    def check_healed(self) -> None:
        """Whole again? Only if the log is the leader's, and durable, up to the target."""
        if not self.repair_until or self.healed or self.healing_sequence:
            return
        if self._matched >= self.repair_until <= self._state.log.durable:
            self.healed = True

    # Snapshots.

    def offered(self, message: SnapshotOffer) -> None:
        """Fetch the snapshot, unless we have all that it holds."""
        log, mark = self._state.log, message.mark
        self._session = message.session
        if mark.index <= log.committed:
            self._acknowledge(log.committed)
        elif log.matches(mark.index, mark.term):
            log.commit_to(mark.index)
            self._matched = max(self._matched, mark.index)
            self._acknowledge(mark.index)
        else:
            self.offer = message

    def fetched(self, mark: SnapshotMark) -> bool:
        """The caller has what was offered. Says whether it is to be installed."""
        state, log = self._state, self._state.log
        if mark.index <= log.committed:
            return False
        if log.matches(mark.index, mark.term):
            log.commit_to(mark.index)
            return False
        state.restore(mark)
        self._matched = mark.index
        self.offer = None
        if state.leader and self._session:
            self._acknowledge(mark.index)
        return True
