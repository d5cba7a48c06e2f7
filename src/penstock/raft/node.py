"""One node's part in one shard's agreement: elections, and the way in and out of everything else.

`RaftNode` takes events (`tick`, `step`, `propose`, …), does no I/O itself, and returns the work to
be done in a `Ready`. The caller's loop, after *every* call into the node:

    while (ready := node.ready()) is not None:
        send(ready.messages)
        persist(ready)              # if ready.must_persist; may be gathered and take its time
        apply(ready.committed);     node.applied(ready.committed[-1].index)
        answer(ready.reads)
    …and when a persist is durable:
        send(ready.promises);       node.persisted(ready.sequence)

`messages` has the duties in detail. What runs where: elections here, a follower's work in
`Following`, a leader's in `Leadership`, all three on one `RaftState`.

**Terms** (Raft §5.1). A message of a higher term makes us a follower of that term, except: a
pre-vote request or a granted pre-vote, which speak of a term that does not exist yet; and a vote
request while we hear a leader, which is ignored (the lease guard, §4.2.3), unless a leader's
handover forced it. A message of a lower term is answered with our own where that lets the sender
catch up: an old leader steps down, and a pre-candidate adopts it. Without that, a node that has
reached a higher term than its leader's would stay shut out for ever, as pre-votes no longer raise
terms.

**Elections.** A follower that hears nothing for [T, 2T) ticks, drawn anew each time, asks for
pre-votes; with a majority of those it raises its term and asks for votes. Its own vote counts
when it is durable, like any other; so a cluster of one takes no other path than a cluster of
five.

A caller learns that it lost leadership from `role` and `term`; what it had proposed and not seen
committed is then *unknown*, never failed: the entry may be in the next leader's log.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from penstock.core.entries import EntryKind, HardState, Membership, SnapshotMark
from penstock.core.errors import NotLeader
from penstock.core.types import NO_INDEX, NO_NODE, Index, NodeId, Term
from penstock.raft.election import ElectionNotes
from penstock.raft.follower import Following
from penstock.raft.leadership import Leadership
from penstock.raft.log import LogReader, RaftLog
from penstock.raft.membership import MembershipHistory
from penstock.raft.messages import (
    AnyMessage,
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    Ready,
    SnapshotOffer,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from penstock.raft.progress import ProgressView
from penstock.raft.quorum import Outcome, tally
from penstock.raft.roles import Event, Role, after
from penstock.raft.settings import RaftSettings, Random
from penstock.raft.state import RaftState

_OF_A_LEADER = (AppendRequest, Heartbeat, SnapshotOffer)


class RaftStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a node, for metrics and people."""

    role: Role
    term: Term
    leader: NodeId
    commit: Index
    applied: Index
    last_index: Index
    durable_index: Index
    damaged: bool
    elections: int
    """Campaigns started since the start, pre-votes included."""
    leaderships: int
    reads_waiting: int
    memory_bytes: int


class RaftNode:
    def __init__(
        self,
        settings: RaftSettings,
        *,
        log: LogReader,
        hard_state: HardState,
        memberships: Iterable[tuple[Index, Membership]],
        random: Random,
        damaged: bool = False,
        committed: Index = NO_INDEX,
    ) -> None:
        """`committed` is durable here and was known to be committed before the last stop: it can be
        applied, and read, before there is a leader. It is a hint and may be old."""
        mark = log.snapshot
        self._random = random
        self._state = RaftState(
            settings,
            RaftLog(log, cache_bytes_max=settings.cache_bytes_max),
            MembershipHistory(mark.index, mark.membership, memberships),
            hard_state,
            life=1 + random.randrange(1 << 62) if damaged else 0,
        )
        self._state.log.commit_to(min(committed, self._state.log.last_index))
        self._role = Role.FOLLOWER
        self._following = Following(self._state)
        self._leadership: Leadership | None = None
        self._votes: dict[NodeId, bool] = {}
        self._forced = False
        self._elapsed = 0
        self._timeout = 0
        self._read_ids = 0
        self._elections = 0
        self._leaderships = 0
        self.election_notes = ElectionNotes()
        """For people."""
        self._draw_timeout()
        self._steps: dict[type, Callable[[Any], None]] = {
            VoteRequest: self._vote_asked,
            VoteResponse: self._vote_answered,
            AppendRequest: self._following.append,
            Heartbeat: self._following.heartbeat,
            SnapshotOffer: self._following.offered,
            AppendResponse: self._append_answered,
            HeartbeatResponse: self._heartbeat_answered,
            TimeoutNow: self._handed_leadership,
        }

    # What it is.

    @property
    def role(self) -> Role:
        return self._role

    @property
    def term(self) -> Term:
        return self._state.term

    @property
    def leader(self) -> NodeId:
        """The leader of this term, as far as known; 0 for none."""
        return self._state.leader

    @property
    def vote(self) -> NodeId:
        return self._state.vote

    @property
    def commit(self) -> Index:
        """Committed and durable here."""
        return self._state.log.commit

    @property
    def last_index(self) -> Index:
        return self._state.log.last_index

    @property
    def durable_index(self) -> Index:
        return self._state.log.durable

    @property
    def applied_index(self) -> Index:
        return self._state.log.applied

    @property
    def membership(self) -> Membership:
        """The newest in the log, committed or not."""
        return self._state.membership

    @property
    def damaged(self) -> bool:
        return self._state.damaged

    @property
    def established(self) -> bool:
        """We lead and have committed an entry of our term: what we know is current."""
        return self._leadership is not None and self._leadership.established

    @property
    def transfer_target(self) -> NodeId:
        return self._leadership.transfer_target if self._leadership is not None else NO_NODE

    @property
    def snapshot_wanted(self) -> bool:
        """We lead a follower that only a snapshot can help, and there is none: take one."""
        return self._leadership is not None and self._leadership.snapshot_wanted

    def membership_at(self, index: Index) -> Membership:
        """The members of the shard at an index from the snapshot on: for the next snapshot."""
        return self._state.history.at(index)

    def term_at(self, index: Index) -> Term:
        """The term of an entry that the log still has: for the next snapshot."""
        return self._state.log.term(index)

    def progress(self) -> tuple[ProgressView, ...]:
        """Every follower as this leader sees it, by node id; nothing unless we lead."""
        if self._leadership is None:
            return ()
        known = self._leadership.progress
        return tuple(known[node].view(node) for node in sorted(known))

    def describe(self) -> str:
        """`node 1 leader term 2 leader 1 commit 5 applied 5 durable 6 last 6`."""
        log = self._state.log
        text = f"node {self._state.me} {self._role.value} term {self.term}"
        text += f" leader {self.leader or 'unknown'} commit {log.commit} applied {log.applied}"
        text += f" durable {log.durable} last {log.last_index}"
        return text + (" damaged" * self.damaged)

    def statistics(self) -> RaftStatistics:
        log = self._state.log
        return RaftStatistics(
            role=self._role,
            term=self.term,
            leader=self.leader,
            commit=log.commit,
            applied=log.applied,
            last_index=log.last_index,
            durable_index=log.durable,
            damaged=self.damaged,
            elections=self._elections,
            leaderships=self._leaderships,
            reads_waiting=len(self._leadership.reads) if self._leadership is not None else 0,
            memory_bytes=log.memory_bytes,
        )

    # Events.

    def tick(self) -> None:
        """A tick of time has passed."""
        if self._leadership is not None:
            event = self._leadership.tick()
            if event is not None:
                self._follow(event)
            return
        self._elapsed += 1
        self.election_notes.quiet_ticks += 1
        if self._elapsed >= self._timeout and self._state.electable:
            self._ask_for_pre_votes()

    def step(self, message: AnyMessage) -> None:
        """A message of a peer has arrived."""
        state = self._state
        assert message.target == state.me, f"node {state.me} got {message.describe()}"
        if message.term > state.term:
            if isinstance(message, VoteRequest) and self._hears_leader and not message.forced:
                return
            if isinstance(message, VoteResponse):
                future = message.pre and message.granted
            else:
                future = isinstance(message, VoteRequest) and message.pre
            if not future:
                self._follow(Event.HIGHER_TERM, term=message.term)
        elif message.term < state.term:
            self._answer_old_term(message)
            return
        if isinstance(message, _OF_A_LEADER):
            self._hear_leader(message.source)
        self._steps[type(message)](message)
        self._resign_if_removed()

    def propose(self, proposals: Sequence[tuple[EntryKind, bytes]]) -> Index:
        """Append entries to the shard's log; the index of the first. Only the leader can."""
        return self._lead().propose(proposals)

    def propose_membership(self, membership: Membership) -> Index:
        """Change the members: one voter at a time, learners freely. Only the leader can."""
        return self._lead().propose_membership(membership)

    def read(self) -> int:
        """Ask for a linearizable read; a `ReadReady` with this id comes, or leadership goes."""
        leadership = self._lead()
        self._read_ids += 1
        leadership.reads.add(self._read_ids)
        leadership.restless = True
        return self._read_ids

    def transfer(self, target: NodeId) -> None:
        """Hand leadership to another voter; given up after T ticks. To oneself: give up now."""
        self._lead().transfer(target)

    def campaign(self) -> None:
        """Stand for election now, as if the timeout had passed."""
        if self._leadership is None and self._state.electable:
            self._ask_for_pre_votes()

    def persisted(self, sequence: int) -> None:
        """Everything up to the Ready with this sequence is durable."""
        state = self._state
        advanced = state.persisted(sequence)
        following = self._following
        if following.healing_sequence and following.healing_sequence <= sequence:
            following.healing_sequence = 0
            state.damaged = False
        if self._leadership is not None:
            if advanced:
                self._leadership.durable_advanced()
                self._resign_if_removed()
        elif self._role is Role.CANDIDATE:
            self._count_own_vote()
        if state.damaged and advanced:
            following.check_healed()

    def applied(self, index: Index) -> None:
        """The machine has applied everything up to this index."""
        self._state.log.apply_to(index)

    def snapshot_fetched(self, mark: SnapshotMark) -> bool:
        """The caller holds state and data of an offered snapshot.

        True: the next Ready carries it, to be installed. False: it has become useless."""
        return self._role is Role.FOLLOWER and self._following.fetched(mark)

    def compacted(self) -> None:
        """A new snapshot is durable, or the log's first index has moved."""
        self._state.history.forget(self._state.log.snapshot.index)

    # What it says.

    def ready(self) -> Ready | None:
        """What there is to do, or None. Cheap when there is nothing."""
        state, log, following = self._state, self._state.log, self._following
        leadership = self._leadership
        if leadership is not None and leadership.restless:
            leadership.flush()
        must_persist = log.unissued or state.hard_unissued or following.healed
        appliable = log.handed < log.committed and log.appliable
        if not (
            must_persist
            or appliable
            or not state.outbox.empty
            or following.offer is not None
            or (leadership is not None and leadership.reads.confirmed)
        ):
            return None
        # Reading the log can fail; nothing has been taken yet.
        committed = log.hand_over(state.settings.apply_bytes_max) if appliable else ()
        confirmed = leadership is not None and leadership.reads.confirmed
        reads = leadership.reads.take() if leadership is not None and confirmed else ()
        messages, promises = state.outbox.take(must_persist=must_persist)
        sequence = state.outbox.sequence
        hard_state = state.issue_hard_state(sequence)
        mark, entries = log.issue(sequence)
        offer, following.offer = following.offer, None
        healed = following.healed
        if healed:
            following.healed = False
            following.healing_sequence = sequence
        return Ready(
            sequence=sequence,
            messages=messages,
            hard_state=hard_state,
            snapshot=mark,
            entries=entries,
            promises=promises,
            committed=committed,
            reads=reads,
            offered=offer,
            healed=healed,
        )

    # Terms and roles.

    def _follow(self, event: Event, *, term: Term | None = None) -> None:
        """Become a follower, in a new term or in the same one, without a leader yet."""
        state = self._state
        self._role = after(self._role, event)
        assert self._role is Role.FOLLOWER, f"'{event.value}' does not make a follower"
        if term is not None:
            assert term > state.term, f"term {term} after {state.term}"
            state.term = term
            state.vote = NO_NODE
            self._following.start_term()
        state.leader = NO_NODE
        if self._leadership is not None:
            self.election_notes.resign(event)
        self._leadership = None
        self._votes.clear()
        self._elapsed = 0
        self._draw_timeout()

    def _hear_leader(self, leader: NodeId) -> None:
        state = self._state
        assert self._role is not Role.LEADER, (
            f"nodes {state.me} and {leader} both lead term {state.term}"
        )
        if self._role is not Role.FOLLOWER:
            self._follow(Event.LEADER_FOUND)
        assert state.leader in (NO_NODE, leader), (
            f"nodes {state.leader} and {leader} both lead term {state.term}"
        )
        state.leader = leader
        self._elapsed = 0
        self.election_notes.hear(leader)

    @property
    def _hears_leader(self) -> bool:
        """A leader was heard less than T ago. A leader hears itself, as it checks its quorum."""
        return self._leadership is not None or (
            self._state.leader != NO_NODE and self._elapsed < self._state.settings.election_ticks
        )

    def _answer_old_term(self, message: AnyMessage) -> None:
        state = self._state
        if isinstance(message, VoteRequest):
            self._answer_vote(message, granted=False)
        elif isinstance(message, _OF_A_LEADER):
            state.send(
                AppendResponse(
                    source=state.me,
                    target=message.source,
                    term=state.term,
                    session=message.session,
                    damaged=state.damaged,
                    life=state.life if state.damaged else 0,
                )
            )

    def _draw_timeout(self) -> None:
        ticks = self._state.settings.election_ticks
        self._timeout = ticks + self._random.randrange(ticks)

    def _lead(self) -> Leadership:
        if self._leadership is None:
            known = f"; node {self.leader} does" if self.leader else ""
            raise NotLeader(f"node {self._state.me} does not lead{known}", leader=self.leader)
        return self._leadership

    # Elections.

    def _ask_for_pre_votes(self) -> None:
        state = self._state
        self._role = after(self._role, Event.TIMED_OUT)
        self._start_election(forced=False)
        self._votes[state.me] = True
        self._ask(Term(state.term + 1), pre=True)
        self._conclude()

    def _ask_for_votes(self) -> None:
        state = self._state
        state.term = Term(state.term + 1)
        state.vote = state.me
        self._following.start_term()
        self.election_notes.ask()
        self._start_election(forced=self._forced)
        self._ask(state.term, pre=False)

    def _start_election(self, *, forced: bool) -> None:
        self._elections += 1
        self._forced = forced
        self._state.leader = NO_NODE
        self._votes.clear()
        self._elapsed = 0
        self._draw_timeout()

    def _ask(self, term: Term, *, pre: bool) -> None:
        state = self._state
        for node in state.membership.voters:
            if node != state.me:
                request = VoteRequest(
                    source=state.me,
                    target=node,
                    term=term,
                    pre=pre,
                    last_index=state.log.last_index,
                    last_term=state.log.last_term,
                    forced=self._forced,
                )
                if pre:
                    state.outbox.send(request)
                else:
                    state.outbox.promise(request)

    def _vote_asked(self, message: VoteRequest) -> None:
        state = self._state
        free = (
            message.term > state.term  # Only a pre-vote can be: it is not binding.
            or state.vote == message.source
            or (state.vote == NO_NODE and state.leader == NO_NODE)
        )
        # Learners vote too: they may have been made voters and not know it yet. The damaged do
        # not: they may have forgotten an entry that only a better candidate holds.
        granted = (
            free and not state.damaged and state.up_to_date(message.last_index, message.last_term)
        )
        if granted and not message.pre:
            state.vote = message.source
            self._elapsed = 0
        self._answer_vote(message, granted=granted)

    def _answer_vote(self, message: VoteRequest, *, granted: bool) -> None:
        state = self._state
        # A granted pre-vote carries the term it was asked for, or the candidate would take it for
        # an old message. A refusal carries our own, and the candidate adopts it (etcd #8501).
        response = VoteResponse(
            source=state.me,
            target=message.source,
            term=message.term if granted else state.term,
            pre=message.pre,
            granted=granted,
        )
        if message.pre and granted:
            state.outbox.send(response)
        else:
            state.send(response)

    def _vote_answered(self, message: VoteResponse) -> None:
        asking = Role.PRE_CANDIDATE if message.pre else Role.CANDIDATE
        if self._role is not asking:
            return
        if message.pre and message.granted and message.term != self._state.term + 1:
            return
        self._votes.setdefault(message.source, message.granted)
        self._conclude()

    def _count_own_vote(self) -> None:
        state = self._state
        if state.hard_durable:
            self._votes[state.me] = True
            self._conclude()

    def _conclude(self) -> None:
        """Count the votes; perhaps the election is over."""
        outcome = tally(self._state.membership.voters, self._votes)
        if outcome is Outcome.LOST:
            self._follow(Event.LOST)
        elif outcome is Outcome.WON:
            self._role = after(self._role, Event.WON)
            if self._role is Role.CANDIDATE:
                self._ask_for_votes()
            else:
                self._leaderships += 1
                self._note_election()
                self._state.leader = self._state.me
                self._leadership = Leadership(self._state)

    def _note_election(self) -> None:
        state = self._state
        self.election_notes.win(
            state.term,
            me=state.me,
            votes=self._votes,
            voters=state.membership.voters,
            handed_over=self._forced,
        )

    def _handed_leadership(self, _message: TimeoutNow) -> None:
        if self._role is Role.FOLLOWER and self._state.electable:
            self._role = after(self._role, Event.HANDED_LEADERSHIP)
            self._forced = True
            self._ask_for_votes()

    # A leader's answers.

    def _append_answered(self, message: AppendResponse) -> None:
        if self._leadership is not None:
            self._leadership.append_answered(message)

    def _heartbeat_answered(self, message: HeartbeatResponse) -> None:
        if self._leadership is not None:
            self._leadership.heartbeat_answered(message)

    def _resign_if_removed(self) -> None:
        if self._leadership is not None and self._leadership.removed:
            self._leadership.resign()
            self._follow(Event.REMOVED)
