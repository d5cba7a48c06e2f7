"""The invariants, each a small object with a name, checked after every event.

`Watch` sees what every node does (its Readies, what it wrote, applied and sent) and keeps a view of
each node's log that does not depend on the node's own bookkeeping. After an event it compares the
touched nodes with what was true before and asks every invariant that cares. All checks are
incremental: an event costs what it changed.

The names are those of the Raft thesis and of etcd's and Kafka's specifications.
"""

import hashlib
import zlib
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.entries import Entry, EntryKind, HardState, Membership
from penstock.core.types import Index, Term
from penstock.engine.replica.network import PeerMessage
from penstock.engine.replica.pending_writes import PendingWrite
from penstock.raft import Role
from penstock.raft.messages import AppendResponse, Ready, VoteRequest, VoteResponse
from tests.simulation.node import ObservedMachine, SimulatedNode

if TYPE_CHECKING:
    from tests.simulation.publishing_watch import PublishingWatch
    from tests.simulation.queue_watch import QueueWatch

STATE_COMPARED_EVERY = 8


class Violation(AssertionError):
    """An invariant does not hold; the message starts with its name."""


def broken(name: str, what: str) -> Violation:
    return Violation(f"{name}: {what}")


class View(NamedTuple):
    """What can be seen of a running node from outside."""

    term: Term
    leading: bool
    commit: Index
    applied: Index
    durable: Index
    last: Index
    snapshot: Index
    first: Index


class LogView:
    """Terms by index, from `start` + 1 on; everything up to `start` is covered by a snapshot."""

    __slots__ = ("start", "terms")

    def __init__(self, start: int, terms: list[int]) -> None:
        self.start = start
        self.terms = terms

    @property
    def last(self) -> int:
        return self.start + len(self.terms)

    def term(self, index: int) -> int | None:
        position = index - self.start - 1
        return self.terms[position] if 0 <= position < len(self.terms) else None

    def holds(self, index: int, term: int) -> bool:
        return index <= self.start or self.term(index) == term

    def put(self, index: int, term: int) -> None:
        del self.terms[max(index - self.start - 1, 0) :]
        assert index == self.last + 1, f"entry {index} after {self.last} leaves a hole"
        self.terms.append(term)

    def copy(self) -> "LogView":
        return LogView(self.start, self.terms.copy())


class Watch:
    """Everything the invariants know."""

    def __init__(self) -> None:
        self.nodes: list[SimulatedNode] = []
        self.touched: list[SimulatedNode] = []
        self.views: dict[int, View] = {}
        self.logs: dict[int, LogView] = {}
        self.durable: dict[int, LogView] = {}
        self.replacing: dict[int, int] = {}
        """From which index on a write that is under way replaces a node's log."""
        self.promised: dict[int, HardState] = {}
        """Term and vote as they are on each node's disk."""
        self.entries: dict[tuple[int, int], tuple[int, int | None]] = {}
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, int], int] = {}
        self.committed: dict[int, int] = {}
        self.commit = 0
        self.states: dict[int, str] = {}
        self.applied_payloads: dict[int, int] = {}
        self.queue: QueueWatch | None = None
        self.publishing: PublishingWatch | None = None

    # What nodes do.

    def saw_start(self, node: SimulatedNode) -> None:
        """A restart forgets nothing it promised: the recovered log is compared at once."""
        assert node.replica is not None
        raft, log = node.replica.raft, node.replica.log
        if raft.term < self.promised.get(node.number, HardState()).term:
            raise broken("MonotonicTerm", f"{node.name} restarts in an older term {raft.term}")
        if log.quarantine is not None and not node.rotten:
            raise broken(
                "DamageHasACause", f"{node.name} found damage and none was done: {log.quarantine}"
            )
        start = log.first_index - 1
        recovered = LogView(
            start, [log.term(Index(i)) for i in range(start + 1, log.last_index + 1)]
        )
        before = self.durable.get(node.number)
        if log.quarantine is None and before is not None:
            # A write that was under way may have replaced the end of the log, as it was told to.
            last = min(before.last, self.replacing.pop(node.number, before.last + 1) - 1)
            for index in range(max(before.start, recovered.start) + 1, last + 1):
                if recovered.term(index) != before.term(index):
                    raise broken(
                        "DurableSurvives",
                        f"{node.name} lost entry {index}/{before.term(index)}, which was durable",
                    )
        self.promised[node.number] = log.hard_state
        self.logs[node.number] = recovered
        self.durable[node.number] = recovered.copy()
        self.touched.append(node)

    def saw_death(self, node: SimulatedNode) -> None:
        self.views.pop(node.number, None)

    def saw_ready(self, node: SimulatedNode, ready: Ready) -> None:
        assert node.replica is not None
        view = self.logs[node.number]
        if ready.snapshot is not None:
            self.logs[node.number] = view = LogView(ready.snapshot.index, [])
        leading = node.replica.raft.role is Role.LEADER
        for entry in ready.entries:
            if leading and entry.index <= view.last:
                raise broken("LeaderAppendOnly", f"{node.name} overwrites its entry {entry.index}")
            if entry.index <= min(self.commit_of(node), view.last):
                raise broken("CommittedIsKept", f"{node.name} overwrites committed {entry.index}")
            self._match(node, entry, view)
            view.put(entry.index, entry.term)

    def _match(self, node: SimulatedNode, entry: Entry, view: LogView) -> None:
        previous = view.term(entry.index - 1)
        fact = (zlib.crc32(entry.payload, entry.kind), previous)
        known = self.entries.setdefault((entry.index, entry.term), fact)
        if known[0] != fact[0] or (None not in (known[1], previous) and known[1] != previous):
            raise broken(
                "LogMatching",
                f"{node.name} holds another {entry.index}/{entry.term} than some other node",
            )

    def saw_writing(self, node: SimulatedNode, duties: list[PendingWrite]) -> None:
        firsts = [duty.entries[0].index for duty in duties if duty.entries]
        installing = any(duty.fetch is not None for duty in duties)
        self.replacing.pop(node.number, None)
        if installing or firsts:
            self.replacing[node.number] = 1 if installing else min(firsts)

    def saw_written(
        self, node: SimulatedNode, duties: list[PendingWrite], error: Exception | None
    ) -> None:
        if error is not None:
            return
        self.replacing.pop(node.number, None)
        durable = self.durable[node.number]
        for duty in duties:
            if duty.hard_state is not None:
                self.promised[node.number] = duty.hard_state
            if duty.fetch is not None:
                self.durable[node.number] = durable = LogView(duty.fetch.mark.index, [])
            for entry in duty.entries:
                durable.put(entry.index, entry.term)

    def saw_applied(self, node: SimulatedNode, entry: Entry) -> None:
        assert node.replica is not None
        fact = zlib.crc32(entry.payload, (entry.kind << 20) + entry.term)
        if self.applied_payloads.setdefault(entry.index, fact) != fact:
            raise broken("StateMachineSafety", f"{node.name} applies another entry {entry.index}")
        if self.queue is not None:
            machine = node.replica.machine
            assert isinstance(machine, ObservedMachine), f"{machine} tells nothing"
            self.queue.saw_applied(node.name, machine, entry, machine.applied)
        if self.publishing is not None:
            machine = node.replica.machine
            assert isinstance(machine, ObservedMachine), f"{machine} tells nothing"
            self.publishing.saw_applied(entry, machine.applied)
        if entry.index % STATE_COMPARED_EVERY == 0:
            self.compare_state(node, entry.index)

    def compare_state(self, node: SimulatedNode, index: int) -> None:
        """Replicas that have applied the same index are in the same state, byte for byte, and have
        counted its bytes alike, whether they applied all of it or restored some."""
        assert node.replica is not None
        machine = node.replica.machine
        counts = sorted(machine.state_bytes().items())
        state = hashlib.sha256(b"%s%r" % (machine.snapshot(), counts)).hexdigest()
        failure = node.replica.snapshot_failure
        if failure and failure != "the disk is full":
            raise broken("SnapshotsAreTaken", f"{node.name} cannot take one: {failure}")
        if self.states.setdefault(index, state) != state:
            raise broken("EqualStates", f"{node.name} has another state after entry {index}")

    def saw_send(self, node: SimulatedNode, message: PeerMessage) -> None:
        assert node.replica is not None
        raft = node.replica.raft
        if isinstance(message, VoteResponse | VoteRequest | AppendResponse):
            pre = getattr(message, "pre", False)
            if not pre and message.term > raft.term:
                raise broken("MessageTerm", f"{node.name} sends {message} from the future")
        if isinstance(message, VoteResponse) and message.granted and not message.pre:
            self._saw_vote(node, message.term, message.target)
        elif isinstance(message, VoteRequest) and not message.pre:
            self._saw_vote(node, message.term, message.source)
        elif isinstance(message, AppendResponse) and message.match and not message.rejected:
            self._saw_ack(node, message)

    def _saw_vote(self, node: SimulatedNode, term: int, candidate: int) -> None:
        if self.votes.setdefault((node.number, term), candidate) != candidate:
            raise broken("OneVotePerTerm", f"{node.name} votes twice in term {term}")
        durable = self.promised.get(node.number, HardState())
        # A later term may have become durable in the same write; then this vote binds nobody.
        if durable.term < term or (durable.term == term and durable.vote != candidate):
            raise broken("VoteIsDurable", f"{node.name} votes in term {term}, durable {durable}")

    def _saw_ack(self, node: SimulatedNode, message: AppendResponse) -> None:
        """An acknowledgement speaks only of what is on disk. (A damaged node's does not count.)"""
        durable = self.durable[node.number]
        # A later leader's entries may have become durable in the same write, over those that are
        # acknowledged here to an earlier one; it was elected by others, who refuse that one.
        later = message.term < self.promised.get(node.number, HardState()).term
        if not message.damaged and not later and message.match > durable.last:
            raise broken(
                "AckIsDurable", f"{node.name} acknowledges {message.match}, durable {durable.last}"
            )

    # After every event.

    def commit_of(self, node: SimulatedNode) -> int:
        view = self.views.get(node.number)
        return view.commit if view is not None else 0

    def check(self) -> None:
        """Look at the nodes the last event touched."""
        touched, self.touched = self.touched, []
        for node in touched:
            replica = node.replica
            if replica is None or replica.halted is not None:
                continue
            raft, log = replica.raft, replica.log
            now = View(
                raft.term,
                raft.role is Role.LEADER,
                raft.commit,
                replica.applied_index,
                raft.durable_index,
                raft.last_index,
                log.snapshot.index,
                log.first_index,
            )
            before = self.views.get(node.number)
            if now != before:
                self.views[node.number] = now
                self._check_view(node, before, now)

    def _check_view(self, node: SimulatedNode, before: View | None, now: View) -> None:
        name = node.name
        if before is not None and now.term < before.term:
            raise broken("MonotonicTerm", f"{name} goes back to term {now.term}")
        if before is not None and now.commit < before.commit:
            raise broken("MonotonicCommit", f"{name} goes back to commit {now.commit}")
        if now.applied > max(now.commit, now.snapshot):
            raise broken("AppliedIsCommitted", f"{name} {now}")
        if now.commit > now.durable:
            raise broken("CommittedIsDurable", f"{name} {now}")
        if now.snapshot > max(now.applied, now.commit) or now.first > now.snapshot + 1:
            raise broken("SnapshotInPlace", f"{name} {now}")
        if now.leading:
            if self.leaders.setdefault(now.term, node.number) != node.number:
                raise broken("ElectionSafety", f"{name} also leads in term {now.term}")
            if before is None or not before.leading or before.term != now.term:
                self._check_new_leader(node, now)
        if before is None or now.commit > before.commit:
            self._check_commit(node, now.commit)
            if before is not None and now.leading and before.leading:
                self._check_own_term(node, now)

    def _check_new_leader(self, node: SimulatedNode, now: View) -> None:
        log = self.logs[node.number]
        if self.commit and not log.holds(self.commit, self.committed[self.commit]):
            raise broken(
                "LeaderCompleteness",
                f"{node.name} leads term {now.term} without committed entry"
                f" {self.commit}/{self.committed[self.commit]}",
            )

    def _check_own_term(self, node: SimulatedNode, now: View) -> None:
        """Raft §5.4.2: only an entry of the leader's own term is committed by counting."""
        if self.logs[node.number].term(now.commit) != now.term:
            raise broken("CommitInOwnTerm", f"{node.name} commits {now.commit} in term {now.term}")

    def _check_commit(self, node: SimulatedNode, commit: int) -> None:
        log = self.logs[node.number]
        known = self.commit
        for index in range(max(log.start, min(self.commit, commit - 20)) + 1, commit + 1):
            term = log.term(index)
            assert term is not None, f"{node.name} has committed {index} without holding it"
            if index in self.committed:
                if self.committed[index] != term:
                    raise broken(
                        "CommittedAgree", f"{node.name} commits {index}/{term} against another"
                    )
                continue
            self.committed[index] = term
            self.commit = index
        if commit > max(known, log.start) and node.replica is not None:
            self._check_quorum(node, commit, node.replica.raft.membership)

    def _check_quorum(self, node: SimulatedNode, index: int, membership: Membership) -> None:
        term = self.committed[index]
        holders = [n for n in membership.voters if self._holds_durably(n, index, term)]
        if len(holders) <= len(membership.voters) // 2:
            raise broken(
                "QuorumHoldsCommitted",
                f"{node.name} commits {index}/{term}, durable only on {holders} of {membership}",
            )

    def _holds_durably(self, number: int, index: int, term: int) -> bool:
        durable = self.durable.get(number)
        return durable is not None and durable.holds(index, term)

    def check_converged(self, membership: Membership) -> None:
        """At the end: every member runs, and all are in one state."""
        running = [node for node in self.nodes if node.number in membership.everyone()]
        applied = {node.name: node.replica.applied_index for node in running if node.replica}
        if len(set(applied.values())) != 1:
            raise broken("Converged", f"replicas stop at different entries: {applied}")
        for node in running:
            self.compare_state(node, next(iter(applied.values())))


__all__ = ["EntryKind", "LogView", "View", "Violation", "Watch", "broken"]
