"""What a node does while it leads: replicate, commit, confirm reads, change members, hand over.

A `Leadership` is made when an election is won, after a failover or a transfer, and thrown away when
the term or the majority is lost, so nothing of one term can leak into the next.

**Committing.** An index is committed once a majority of voters holds it durably; the leader
counts itself only as far as its own disk has got, and commits nothing its own disk does not hold.
Only an entry of the leader's own term is committed by counting; older ones are then committed
with it (§5.4.2, figure 8). Hence the empty entry at the start of the term, which no size limit
applies to.

**Check-quorum** (§6.2). A leader that has not heard from a majority of voters within an election
timeout steps down, so that a leader cut off from its peers does not keep its clients.

**Replicating** is lazy: proposals and answers only mark that there is something to do, and `flush`,
called once per `Ready`, sends to every follower what it may get. A hundred proposals between two
Readies travel in one append. News of a commit ride on the next append or heartbeat; with
`prompt_commits` an empty append takes them to every follower at once.

**Departing nodes.** A removed node is served until it knows that its removal is committed, or falls
silent; else it would never learn why it gets no messages any more."""

from collections import deque
from collections.abc import Sequence

from penstock.core.entries import Entry, EntryKind, Membership, encode_membership
from penstock.core.errors import MembershipRefused, NotLeader, Overloaded
from penstock.core.limits import PROMOTION_LAG_ENTRIES_MAX
from penstock.core.types import NO_INDEX, NO_NODE, Index, NodeId
from penstock.raft.log import entry_bytes
from penstock.raft.membership import check_change, new_voters
from penstock.raft.messages import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    SnapshotOffer,
    TimeoutNow,
)
from penstock.raft.progress import Progress, ProgressState
from penstock.raft.quorum import majority, reached
from penstock.raft.reads import ReadQueue
from penstock.raft.roles import Event
from penstock.raft.state import RaftState


class Leadership:
    """One node's leadership of one term."""

    __slots__ = (
        "_commit_is_news",
        "_first_index",
        "_heartbeat_elapsed",
        "_round",
        "_sessions",
        "_state",
        "_transfer_elapsed",
        "_uncommitted",
        "_uncommitted_bytes",
        "progress",
        "reads",
        "restless",
        "transfer_target",
    )

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._commit_is_news = False
        self._heartbeat_elapsed = 0
        self._round = 0
        self._sessions = 0
        self._transfer_elapsed = 0
        self._uncommitted: deque[tuple[Index, int]] = deque()
        self._uncommitted_bytes = 0
        self.progress: dict[NodeId, Progress] = {}
        self.reads = ReadQueue()
        self.restless = True
        """There may be something to send: `flush`."""
        self.transfer_target: NodeId = NO_NODE
        self._first_index: Index = Index(state.log.last_index + 1)
        self._track(self._first_index)
        self._append([(EntryKind.NOOP, b"")])

    @property
    def established(self) -> bool:
        """An entry of this term is committed: the commit index is known to be current."""
        return self._state.log.commit >= self._first_index

    # Time.

    def tick(self) -> Event | None:
        """One tick; perhaps this leadership ends."""
        state = self._state
        for progress in self.progress.values():
            progress.silence += 1
        if not self._in_touch(state.membership):
            return Event.QUORUM_LOST
        if self.transfer_target:
            self._transfer_elapsed += 1
            if self._transfer_elapsed >= state.settings.election_ticks:
                # The target may still win; but we must not refuse proposals for ever.
                self.transfer_target = NO_NODE
        self._heartbeat_elapsed += 1
        if self._heartbeat_elapsed >= state.settings.heartbeat_ticks:
            self._start_round()
        return None

    def _in_touch(self, membership: Membership) -> bool:
        """Whether a majority of these voters was heard less than T ago (§6.2)."""
        state = self._state
        heard = 0
        for node in membership.voters:
            progress = self.progress.get(node)
            heard += node == state.me or (
                progress is not None
                and progress.silence < state.settings.election_ticks
                and not progress.damaged
            )
        return heard >= majority(len(membership.voters))

    # Proposals.

    def propose(self, proposals: Sequence[tuple[EntryKind, bytes]]) -> Index:
        """Append to the log; the index of the first."""
        state = self._state
        if self.transfer_target:
            raise NotLeader(f"node {state.me} is handing over to node {self.transfer_target}")
        if state.me not in state.membership.voters:
            raise NotLeader(f"node {state.me} leads only until its removal is committed")
        size = sum([len(payload) for _, payload in proposals])
        limit = state.settings.uncommitted_bytes_max
        if self._uncommitted_bytes and self._uncommitted_bytes + size > limit:
            raise Overloaded(
                f"{self._uncommitted_bytes} bytes wait for a majority, {size} more would exceed "
                f"{limit}; try again"
            )
        first = self._append(proposals)
        if size:
            self._uncommitted.append((state.log.last_index, size))
            self._uncommitted_bytes += size
        return first

    def propose_membership(self, membership: Membership) -> Index:
        """Append a change of members, in force at once. See `membership` for the rules."""
        state = self._state
        if self.transfer_target:
            raise NotLeader(f"node {state.me} is handing over to node {self.transfer_target}")
        if not self.established:
            raise MembershipRefused("no entry of this term is committed yet; try again")
        if state.history.changed_index > state.log.commit:
            raise MembershipRefused(
                f"the change at index {state.history.changed_index} is not committed yet; try again"
            )
        check_change(state.membership, membership)
        for node in new_voters(state.membership, membership):
            progress = self.progress[node]
            if (
                progress.state is not ProgressState.REPLICATE
                or progress.damaged
                or progress.match + PROMOTION_LAG_ENTRIES_MAX < state.log.last_index
            ):
                raise MembershipRefused(
                    f"node {node} has not caught up ({progress.view(node).describe()}); try again"
                )
        if not self._in_touch(membership):
            raise MembershipRefused(
                f"{membership.describe()}: a majority of these is damaged or silent; bring them "
                f"back first"
            )
        index = self._append([(EntryKind.MEMBERSHIP, encode_membership(membership))])
        self._track(index)
        return index

    def _append(self, proposals: Sequence[tuple[EntryKind, bytes]]) -> Index:
        state = self._state
        first = index = Index(state.log.last_index + 1)
        entries = []
        for kind, payload in proposals:
            entries.append(Entry(index, state.term, kind, payload))
            index = Index(index + 1)
        assert entries, "nothing was proposed"
        state.append(entries)
        self.restless = True
        return first

    # Followers.

    def _track(self, index: Index) -> None:
        """Keep a book on every member but ourselves; new ones get the log from `index` on."""
        state = self._state
        members = state.membership.everyone()
        for node in members:
            known = self.progress.get(node)
            if node != state.me and (known is None or known.departed_index):
                self.progress[node] = self._new_progress(index)
        for node, progress in self.progress.items():
            if node not in members and not progress.departed_index:
                progress.departed_index = index

    def _new_progress(self, next_: Index) -> Progress:
        settings = self._state.settings
        self._sessions += 1
        return Progress(
            session=self._sessions,
            next_=next_,
            inflight_messages_max=settings.inflight_messages_max,
            inflight_bytes_max=settings.inflight_bytes_max,
        )

    def _heard(self, message: AppendResponse | HeartbeatResponse) -> Progress | None:
        """The book on the sender, if the message belongs to it and to this session."""
        progress = self.progress.get(message.source)
        if progress is None or message.session != progress.session:
            return None
        if message.damaged and message.life != progress.life:
            self._begin_repair(message.source, message.life)
            return None
        if progress.damaged and not message.damaged:
            progress.damaged = False
            progress.repair_until = NO_INDEX
            self._advance_commit()
        progress.silence = 0
        return progress

    def _begin_repair(self, node: NodeId, life: int) -> None:
        """Start from nothing with a damaged follower: what it once acknowledged may be gone."""
        departed = self.progress[node].departed_index
        progress = self.progress[node] = self._new_progress(Index(1))
        progress.departed_index = departed
        progress.damaged = True
        progress.life = life
        progress.repair_until = self._state.log.last_index
        progress.need_snapshot()
        progress.nudge()
        self._beat(node, progress)
        self.restless = True

    def append_answered(self, message: AppendResponse) -> None:
        """A follower holds more of the log, or tells where ours does not fit."""
        progress = self._heard(message)
        if progress is None:
            return
        log = self._state.log
        if message.rejected:
            floor = log.first_index
            retry = log.last_not_after(
                message.hint_index, message.hint_term, floor=Index(floor - 1)
            )
            if progress.reject(message.rejected, Index(max(retry, 0) + 1)):
                self.restless = True
            return
        assert message.match <= log.last_index, (
            f"node {message.source} acknowledges {message.match} of {log.last_index}"
        )
        news = progress.acknowledge(message.match, first_index=log.first_index)
        if news:
            self._advance_commit()
        self._hand_over(message.source, progress)
        self.restless = True

    def heartbeat_answered(self, message: HeartbeatResponse) -> None:
        """A follower still follows: that counts for reads, and shows what was lost."""
        progress = self._heard(message)
        if progress is None:
            return
        if message.round > progress.round:
            progress.round = message.round
            self._confirm_reads()
        if progress.match < self._state.log.last_index or (
            progress.state is not ProgressState.REPLICATE
        ):
            progress.nudge()
            self.restless = True
        self._hand_over(message.source, progress)

    # Sending.

    def flush(self) -> None:
        """Send to every follower what it may get; start a heartbeat round if reads wait."""
        if self.reads.round_wanted and self.established:
            self._start_round()
        # A read error leaves us restless: nothing is forgotten that was not sent.
        for node, progress in self.progress.items():
            before = progress.next
            self._replicate(node, progress)
            if self._commit_is_news and progress.next == before:
                self._tell_commit(node, progress)
        self._commit_is_news = self.restless = False

    def _replicate(self, node: NodeId, progress: Progress) -> None:
        log = self._state.log
        if progress.next < log.first_index and progress.state is not ProgressState.SNAPSHOT:
            progress.need_snapshot()
            progress.nudge()
        while progress.next <= log.last_index and not progress.paused:
            self._send_append(node, progress)
        if progress.nudged:
            if progress.state is ProgressState.SNAPSHOT:
                self._send_offer(node, progress)
            elif not progress.probing:
                self._send_append(node, progress, empty=True)
            progress.nudged = False

    def _tell_commit(self, node: NodeId, progress: Progress) -> None:
        """Send the commit index to a follower that no append carried it to. One that is not in step
        gets it with the entries that bring it in step."""
        if progress.state is ProgressState.REPLICATE:
            self._send_append(node, progress, empty=True)

    def _send_append(self, node: NodeId, progress: Progress, *, empty: bool = False) -> None:
        state, log = self._state, self._state.log
        first = progress.next
        previous = Index(first - 1)
        entries: tuple[Entry, ...] = ()
        if not empty:
            entries = log.entries(
                first, state.settings.append_bytes_max, high=Index(log.last_index + 1)
            )
        state.send(
            AppendRequest(
                source=state.me,
                target=node,
                term=state.term,
                session=progress.session,
                previous_index=previous,
                previous_term=log.term(previous),
                entries=entries,
                commit=log.commit,
            )
        )
        if entries:
            progress.sent(entries[-1].index, sum(map(entry_bytes, entries)))
            progress.nudged = False
        elif progress.state is ProgressState.PROBE:
            progress.probing = True

    def _send_offer(self, node: NodeId, progress: Progress) -> None:
        state = self._state
        mark = state.log.snapshot
        if mark.index == NO_INDEX:
            return  # A damaged follower before our first snapshot: see `snapshot_wanted`.
        state.send(
            SnapshotOffer(
                source=state.me,
                target=node,
                term=state.term,
                session=progress.session,
                mark=mark,
            )
        )

    @property
    def snapshot_wanted(self) -> bool:
        """A follower can only be helped by a snapshot, and we have none: please take one."""
        return (
            bool(self.progress)
            and self._state.log.snapshot.index == NO_INDEX
            and any(one.state is ProgressState.SNAPSHOT for one in self.progress.values())
        )

    def _start_round(self) -> None:
        """Heartbeats to all members, under a new number."""
        state = self._state
        self._heartbeat_elapsed = 0
        self._round += 1
        if self.established:
            self.reads.start(self._round, state.log.commit)
        for node, progress in list(self.progress.items()):
            if progress.departed_index and progress.silence >= state.settings.election_ticks:
                del self.progress[node]
            else:
                self._beat(node, progress)
        self._confirm_reads()

    def _beat(self, node: NodeId, progress: Progress) -> None:
        state = self._state
        # Never tell a follower to commit what it may not hold.
        commit = min(progress.match, state.log.commit)
        state.send(
            Heartbeat(
                source=state.me,
                target=node,
                term=state.term,
                session=progress.session,
                commit=commit,
                round=self._round,
                repair_until=progress.repair_until,
                repair_life=progress.life if progress.repair_until else 0,
            )
        )
        if progress.departed_index and commit >= progress.departed_index:
            del self.progress[node]

    # Agreement.

    def durable_advanced(self) -> None:
        """Our own disk holds more."""
        self._advance_commit()

    def _advance_commit(self) -> None:
        state, log = self._state, self._state.log
        voters = state.membership.voters
        if len(voters) == 1 and voters[0] == state.me:
            agreed: int = log.durable
        else:
            agreed = reached(
                log.durable if node == state.me else self.progress[node].counted_match
                for node in voters
            )
        index = Index(min(agreed, log.durable))
        if index <= log.committed or log.term(index) != state.term:
            return
        log.commit_to(index)
        if state.settings.prompt_commits:
            self._commit_is_news = self.restless = True
        while self._uncommitted and self._uncommitted[0][0] <= index:
            self._uncommitted_bytes -= self._uncommitted.popleft()[1]
        if self.reads.round_wanted:
            self.restless = True

    def _confirm_reads(self) -> None:
        if not self.reads.round_open:
            return
        state = self._state
        self.reads.confirm(
            reached(
                self._round if node == state.me else self.progress[node].counted_round
                for node in state.membership.voters
            )
        )
        if self.reads.round_wanted:
            self.restless = True

    @property
    def removed(self) -> bool:
        """A membership without us is committed: others go on (§4.2.2)."""
        state = self._state
        return (
            state.me not in state.membership.voters
            and state.history.changed_index <= state.log.commit
        )

    def resign(self) -> None:
        """Hand over to the follower that is furthest, so that the shard need not wait for a
        timeout."""
        state = self._state
        voters = state.membership.voters
        best = max(voters, key=lambda node: (self.progress[node].counted_match, node))
        if self.progress[best].counted_match == state.log.last_index:
            self._beat(best, self.progress[best])
            state.send(TimeoutNow(source=state.me, target=best, term=state.term))

    # Handing over.

    def transfer(self, target: NodeId) -> None:
        """Make `target` the leader: no proposals, bring it up to date, let it campaign (§3.10)."""
        state = self._state
        if target == state.me:
            self.transfer_target = NO_NODE
            return
        if target not in state.membership.voters or self.progress[target].damaged:
            raise MembershipRefused(f"node {target} cannot lead: it is no voter, or damaged")
        self.transfer_target = target
        self._transfer_elapsed = 0
        self._hand_over(target, self.progress[target])
        # If it lacks something that was lost, find out now and not with the next heartbeat.
        self.progress[target].nudge()
        self.restless = True

    def _hand_over(self, node: NodeId, progress: Progress) -> None:
        state = self._state
        if node == self.transfer_target and progress.match == state.log.last_index:
            state.send(TimeoutNow(source=state.me, target=node, term=state.term))
