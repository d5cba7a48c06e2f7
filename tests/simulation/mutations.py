"""Planted bugs of the replicated log; see `tests/simulation/planting.py`."""

from collections.abc import Callable, Iterator
from typing import Any

from penstock.core.entries import Entry, HardState
from penstock.core.errors import NotLeader
from penstock.core.types import Index, NodeId
from penstock.engine.replica import replica as replica_module
from penstock.engine.replica.proposals import Proposals
from penstock.engine.replica.replica import Replica
from penstock.engine.replica.snapshot_transfer import SnapshotSource
from penstock.machines.group import Group
from penstock.machines.groups import Groups
from penstock.machines.partitions import Partitions
from penstock.machines.run_table import RunTable
from penstock.machines.state_pieces import Piece, joined
from penstock.raft.follower import Following
from penstock.raft.leadership import Leadership
from penstock.raft.log import RaftLog
from penstock.raft.messages import AppendRequest, AppendResponse, Ready, VoteResponse
from penstock.raft.node import RaftNode
from penstock.raft.outbox import Outbox
from penstock.raft.quorum import reached
from penstock.raft.reads import ReadQueue
from penstock.raft.state import RaftState
from penstock.storage import incoming_snapshot as incoming
from penstock.storage import read_plan, reclaim, recovery, snapshots
from penstock.storage.log_writer import LogWriter
from penstock.storage.marker import Marker
from penstock.storage.record import Scan
from penstock.storage.recovery import Recovery
from penstock.storage.slots import SlotFile
from tests.simulation.planting import Patch, mutation

# The order of disk and network.


def _say_early(kind: type) -> list[Patch]:
    original = Replica._carry_out

    def carry_out(self: Replica, ready: Ready) -> None:
        for message in ready.promises:
            if isinstance(message, kind):
                self._world.network.send(message)
        original(self, ready)

    return [(Replica, "_carry_out", carry_out)]


@mutation
def vote_before_it_is_durable() -> list[Patch]:
    """A vote leaves before it is on disk: after a crash the node votes again."""
    return _say_early(VoteResponse)


@mutation
def acknowledge_before_sync() -> list[Patch]:
    """A follower acknowledges what it has only received."""
    return _say_early(AppendResponse)


@mutation
def forget_the_vote() -> list[Patch]:
    """Only the term is saved, not whom the vote went to."""
    original = RaftState.issue_hard_state

    def issue(self: RaftState, sequence: int) -> HardState | None:
        hard_state = original(self, sequence)
        return hard_state and HardState(hard_state.term)

    return [(RaftState, "issue_hard_state", issue)]


@mutation
def ignore_a_failed_sync() -> list[Patch]:
    """A job that failed is treated as one that worked, as if the next sync would mend it."""
    original = Replica._written

    def written(self: Replica, job: Any, duties: Any, error: BaseException | None) -> None:
        original(self, job, duties, None)

    return [(Replica, "_written", written)]


@mutation
def count_a_late_write() -> list[Patch]:
    """A write that was overtaken by a truncation still counts when it ends (ABA)."""
    original = RaftLog._truncate

    def truncate(self: RaftLog, index: Index) -> None:
        writes = list(self._writes)
        original(self, index)
        self._writes = type(self._writes)(writes)

    return [(RaftLog, "_truncate", truncate)]


# Committing.


def _advance_commit(own: Callable[[RaftLog], Index], old_terms: bool) -> list[Patch]:
    def advance(self: Leadership) -> None:
        state, log = self._state, self._state.log
        agreed = reached(
            own(log) if node == state.me else self.progress[node].counted_match
            for node in state.membership.voters
        )
        index = Index(agreed)
        if index > log.committed and (old_terms or log.term(index) == state.term):
            log.commit_to(index)

    return [(Leadership, "_advance_commit", advance)]


@mutation
def commit_old_terms_by_counting() -> list[Patch]:
    """Figure 8 of the Raft paper."""
    return _advance_commit(lambda log: log.durable, True)


@mutation
def count_self_before_durable() -> list[Patch]:
    """The leader counts what its own disk does not hold yet, and acts on it."""
    committed = property(lambda self: self.committed)
    return [*_advance_commit(lambda log: log.last_index, False), (RaftLog, "commit", committed)]


@mutation
def half_is_a_majority() -> list[Patch]:
    """Two of four, one of three: not more than half."""
    from penstock.raft import leadership

    def too_easily(values: Any) -> int:
        ordered = sorted(values)
        return int(ordered[len(ordered) // 2 + (len(ordered) > 2)]) if ordered else 0

    return [(leadership, "reached", too_easily)]


@mutation
def heartbeat_commits_everything() -> list[Patch]:
    """A heartbeat tells the leader's commit index, whatever the follower holds."""
    original = Leadership._beat

    def beat(self: Leadership, node: NodeId, progress: Any) -> None:
        match, progress.match = progress.match, self._state.log.commit
        try:
            original(self, node, progress)
        finally:
            progress.match = match

    def commit_to(self: RaftLog, index: Index) -> bool:
        if index <= self.committed:
            return False
        self.committed = min(index, self.last_index)
        return True

    return [(Leadership, "_beat", beat), (RaftLog, "commit_to", commit_to)]


# Elections.


@mutation
def vote_for_anybody() -> list[Patch]:
    """The candidate's log is not compared."""
    return [(RaftState, "up_to_date", lambda *_: True)]


@mutation
def vote_twice() -> list[Patch]:
    """A vote does not bind."""
    original = RaftNode._vote_asked

    def vote_asked(self: RaftNode, message: Any) -> None:
        if not message.pre and self._leadership is None:
            self._state.vote = NodeId(0)
            self._state.leader = NodeId(0)
        original(self, message)

    return [(RaftNode, "_vote_asked", vote_asked)]


@mutation
def damaged_nodes_vote() -> list[Patch]:
    """A node that lost what it had promised goes on as if it had not."""
    original = RaftNode.__init__

    def init(self: RaftNode, *arguments: Any, damaged: bool = False, **options: Any) -> None:
        original(self, *arguments, damaged=False, **options)

    return [(RaftNode, "__init__", init)]


# Followers.


@mutation
def truncate_on_a_stale_append() -> list[Patch]:
    """A message that is shorter than the log cuts it, conflict or not."""
    original = Following._take

    def take(self: Following, message: AppendRequest) -> None:
        log = self._state.log
        end = message.entries[-1].index if message.entries else message.previous_index
        if log.committed < end < log.last_index:
            log._truncate(Index(end + 1))
        original(self, message)

    return [(Following, "_take", take)]


@mutation
def accept_without_matching() -> list[Patch]:
    """Entries are taken although the one before them is another."""
    original = RaftLog.matches

    def matches(self: RaftLog, index: Index, term: Any) -> bool:
        return original(self, index, term) or self.first_index - 1 <= index <= self.last_index

    return [(RaftLog, "matches", matches)]


# Reads.


@mutation
def read_without_a_round() -> list[Patch]:
    """A leader believes that it still leads."""
    original = ReadQueue.start

    def start(self: ReadQueue, round_: int, commit: Index) -> None:
        original(self, round_, commit)
        self.confirm(round_)

    return [(ReadQueue, "start", start)]


@mutation
def read_rounds_are_reused() -> list[Patch]:
    """An answer to an earlier heartbeat confirms a later read (etcd #20418)."""
    original = Leadership._start_round

    def start_round(self: Leadership) -> None:
        if self._round:
            self._round -= 1
        original(self)

    return [(Leadership, "_start_round", start_round)]


@mutation
def read_before_the_first_commit() -> list[Patch]:
    """A new leader trusts a commit index that may be old."""
    return [(Leadership, "established", property(lambda _self: True))]


@mutation
def answer_reads_before_applying() -> list[Patch]:
    """The state is read before it has reached the read's index."""
    original = Replica._carry_out

    def carry_out(self: Replica, ready: Ready) -> None:
        for read in ready.reads:
            answer = self._reads.pop(read.read_id, None)
            if answer is not None:
                answer(replica_module.Done())
        original(self, ready)

    return [(Replica, "_carry_out", carry_out)]


# Answers and plans.


@mutation
def unknown_is_called_failed() -> list[Patch]:
    """Whoever waits when leadership ends is told that it did not happen."""

    def abandon(self: Proposals, reason: str) -> None:
        proposed, self._proposed = self._proposed, type(self._proposed)()
        self.bytes = 0
        for one in proposed:
            for waiter in one.waiters:
                waiter.answer(NotLeader(reason))

    return [(Proposals, "abandon", abandon)]


@mutation
def repeated_batches_are_confirmed_early() -> list[Patch]:
    """A repeated batch is acknowledged while the original is still on its way."""
    return [(Replica, "_ride", lambda *_: False)]


@mutation
def plan_before_settled() -> list[Patch]:
    """A new leader plans on a state that lacks its predecessor's last entries."""
    original = Replica._observe_leadership

    def observe(self: Replica) -> None:
        original(self)
        self._plan_from = Index(0)

    return [(Replica, "_observe_leadership", observe)]


@mutation
def plans_outlive_leadership() -> list[Patch]:
    """What a deposed leader had planned still counts when it leads again."""
    return [(Partitions, "forget_plans", lambda _self: None)]


@mutation
def stale_leaders_refuse() -> list[Patch]:
    """A replaced leader tells a producer that its sequence is wrong."""
    return [(Replica, "_refuse", lambda _self, refusal, answer: answer(refusal))]


@mutation
def answer_when_proposed() -> list[Patch]:
    """A request is answered when it is proposed, not when it is committed."""
    original = Proposals.file

    def file(self: Proposals, first: Index, term: Any, entries: Any) -> None:
        original(self, first, term, entries)
        for entry in entries:
            for waiter in entry.waiters:
                if waiter.reply is not None:
                    waiter.answer(waiter.reply)

    def applied(self: Proposals, entry: Entry, replies: Any) -> None:
        while self._proposed and self._proposed[0].index <= entry.index:
            for waiter in self._proposed.popleft().waiters:
                if waiter.reply is None:
                    waiter.answer(replies[0])

    return [(Proposals, "file", file), (Proposals, "applied", applied)]


# Snapshots.


@mutation
def snapshot_without_producers() -> list[Patch]:
    """A snapshot forgets which batches producers have sent."""
    original = Partitions.snapshot_pieces

    def snapshot_pieces(self: Partitions) -> Iterator[Piece]:
        kept = {number: partition.producers for number, partition in self._partitions.items()}
        for partition in self._partitions.values():
            partition.producers = None
        try:
            return iter((joined(original(self)),))
        finally:
            for number, producers in kept.items():
                self._partitions[number].producers = producers

    return [(Partitions, "snapshot_pieces", snapshot_pieces)]


@mutation
def snapshot_without_groups() -> list[Patch]:
    """A snapshot forgets consumer groups and how far they have got."""
    original = Groups.snapshot_pieces

    def snapshot_pieces(self: Groups) -> Iterator[Piece]:
        kept, self._groups = self._groups, {}
        try:
            return iter((joined(original(self)),))
        finally:
            self._groups = kept

    return [(Groups, "snapshot_pieces", snapshot_pieces)]


@mutation
def snapshot_of_several_moments() -> list[Patch]:
    """What changes while a snapshot is encoded is not copied before."""

    def nothing(*_: Any) -> None:
        pass

    return [(Groups, "_copy_before", nothing), (RunTable, "changing", nothing)]


@mutation
def state_bytes_only_grow() -> list[Patch]:
    """Offsets that are committed again are counted twice."""
    original = Group.commit

    def commit(self: Group, topic: Any, partition: int, committed: Any) -> None:
        original(self, topic, partition, committed)
        self.offsets_bytes += 1

    return [(Group, "commit", commit)]


@mutation
def snapshot_without_records() -> list[Patch]:
    """A snapshot is sent without the records that only its segments hold."""
    original = SnapshotSource.answer

    def answer(self: SnapshotSource, request: Any) -> Any:
        part = original(self, request)
        if part.entries:
            import msgspec

            part = msgspec.structs.replace(part, entries=())
        return part

    return [(SnapshotSource, "answer", answer)]


@mutation
def promises_ignore_earlier_writes() -> list[Patch]:
    """A promise that needs no write of its own does not wait for one that is under way."""

    def take(self: Outbox, *, must_persist: bool) -> Any:
        promises = tuple(self._promises) if must_persist else ()
        messages = tuple(self._messages) + (() if must_persist else tuple(self._promises))
        self._promises.clear()
        self._messages.clear()
        self.sequence += must_persist
        return messages, promises

    return [(Outbox, "take", take)]


# Files.


@mutation
def sync_is_skipped() -> list[Patch]:
    """Entries are written and never synced: only power cuts can tell."""
    return [(LogWriter, "sync", lambda _self, _name: None)]


@mutation
def vote_is_not_synced() -> list[Patch]:
    """Term and vote are written and never synced."""

    def write_first(self: SlotFile, numbers: Any) -> None:
        self._file.write(0, [self._encode(numbers)])

    return [(SlotFile, "write_first", write_first)]


@mutation
def snapshots_are_not_synced() -> list[Patch]:
    """A snapshot is named before its bytes are durable."""
    nothing = lambda _disk, _path: None  # noqa: E731
    return [(snapshots, "sync_file", nothing), (incoming, "sync_file", nothing)]


@mutation
def lost_promises_are_torn_tails() -> list[Patch]:
    """Recovery does not ask the marker, nor the records behind: whatever is bad is cut off."""
    original = Recovery.examine

    def examine(self: Recovery, _marker: Marker) -> None:
        original(self, Marker(Index(0), Index(0)))

    return [(Recovery, "examine", examine), (recovery, "later_headers", lambda *_, **__: ())]


@mutation
def damage_is_forgotten() -> list[Patch]:
    """Recovery finds damage and goes on with what is left of the log."""

    def damage(self: Recovery, name: str, position: int, problem: str, good: int) -> None:
        del self, name, position, problem, good

    return [(Recovery, "_damage", damage)]


@mutation
def rotten_records_are_believed() -> list[Patch]:
    """Checksums of payloads are not compared when entries are read."""
    original = Scan._check

    def check(self: Scan, header: Any, payload: memoryview) -> str:
        problem = original(self, header, payload)
        return "" if "CRC-32C" in problem else problem

    def read_slices(_home: Any, _name: str, file: Any, rows: Any) -> Any:
        for row in rows:
            yield row, memoryview(file.read(row.position, row.length))

    return [(Scan, "_check", check), (read_plan, "read_slices", read_slices)]


@mutation
def living_segments_are_removed() -> list[Patch]:
    """Reclaiming does not ask whether anything in a segment is alive."""
    return [(reclaim, "_has_life", lambda _index, _starts: False)]


@mutation
def rewriting_drops_the_living() -> list[Patch]:
    """A mostly dead segment is rewritten without what was alive in it."""
    original = reclaim._living_positions

    def living(index: Any, starts: Any, *, bytes_max: int) -> set[int] | None:
        found = original(index, starts, bytes_max=bytes_max)
        return found if not found else set(sorted(found)[:-1])

    return [(reclaim, "_living_positions", living)]
