"""Random clusters of bare `RaftNode`s: everything that may happen between two of them, happens.

The driver plays network (loss, duplication, any order, partitions), disk (each `Ready` becomes
durable later, or is lost in a crash; several at once), the caller (proposals, reads, transfers,
membership changes, snapshots) and bad luck (a node that loses its log and comes back quarantined).
After every event the promises of Raft are checked (figure 3 of the paper, and those of its
storage):

- ElectionSafety, LeaderCompleteness, StateMachineSafety, and LogMatching in the form: an (index,
  term) names one payload and one previous term, wherever it is found;
- one vote per node and term, terms never fall, both across crashes;
- a leader commits only what a majority of voters holds durably, itself included;
- a read is given an index at least as high as anything committed when it was asked.

Then the faults stop, and the cluster must agree again.

A failing seed repeats with `SEEDS=17 pytest tests/properties/test_raft_random.py`; more of them
with `SEEDS=0-5000`."""

import os
import random
from collections.abc import Callable

import pytest

from penstock.core.entries import Entry, EntryKind, Membership, SnapshotMark
from penstock.core.errors import MembershipRefused, NotLeader, Overloaded
from penstock.core.types import Index, NodeId, Term
from penstock.raft import (
    AnyMessage,
    RaftNode,
    RaftSettings,
    Ready,
    Role,
    SnapshotOffer,
    VoteResponse,
)
from penstock.raft.quorum import majority
from tests.raft_memory import MemoryLog

EVENTS = 3_000
SEEDS = range(150)
INTERNAL = (EntryKind.NOOP, EntryKind.MEMBERSHIP)


def seeds() -> range:
    wanted = os.environ.get("SEEDS")
    if not wanted:
        return SEEDS
    first, _, last = wanted.partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("seed", seeds())
def test_random_cluster_keeps_every_promise(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(EVENTS):
        cluster.disturb()
    cluster.recover()


class Member:
    """One node with its disk and the small part of a shell that Raft needs."""

    def __init__(self, node: NodeId, disk: MemoryLog) -> None:
        self.id = node
        self.disk = disk
        self.raft: RaftNode | None = None
        self.unwritten: list[Ready] = []
        self.states: dict[Index, int] = {}
        """A number for the whole history up to each applied index."""
        self.fetched: dict[Index, int] = {}
        self.reads: dict[int, Index] = {}
        self.commit: Index = Index(0)
        self.led: Term = Term(0)


class Cluster:
    """All nodes, the wire between them, and what must be true of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        count = self.random.choice([1, 2, 3, 3, 3, 5])
        self.founders = Membership(tuple(NodeId(i + 1) for i in range(count)))
        self.members = {NodeId(i + 1): Member(NodeId(i + 1), MemoryLog()) for i in range(count + 2)}
        self.wire: list[AnyMessage] = []
        self.cut: set[tuple[NodeId, NodeId]] = set()
        self.loss = self.random.choice([0.0, 0.05, 0.3])
        self.slow_disk = self.random.choice([0.5, 1.5, 4.0])
        self.payloads = 0
        self.leaders: dict[Term, NodeId] = {}
        self.votes: dict[tuple[NodeId, Term], NodeId] = {}
        self.terms: dict[NodeId, Term] = {}
        self.entries: dict[tuple[Index, Term], tuple[bytes, Term]] = {}
        self.committed: dict[Index, Term] = {}
        self.commit_max: Index = Index(0)
        self.applied: dict[Index, int] = {}
        for member in self.members.values():
            self.start(member)
        rare = self.random.choice([0.3, 1.0])
        unrest = self.random.choice([0.3, 1.0, 4.0])
        self.events: list[tuple[float, Callable[[], None]]] = [
            (self.random.choice([40, 80, 120]), self.deliver),
            (self.random.choice([4, 8, 14]), self.tick),
            (14 * self.slow_disk, self.write),
            (self.random.choice([5, 15]), self.propose),
            (2, self.ask),
            (0.6 * unrest, self.crash),
            (1 + 1.5 * unrest, self.requeue_dead),
            (1.0 * unrest, self.partition),
            (0.5 * unrest, self.transfer),
            (unrest, self.campaign),
            (1.0 * rare, self.take_snapshot),
            (1.0 * rare, self.change_members),
            (0.3 * rare, self.damage),
        ]
        self.weights = [weight for weight, _ in self.events]

    # Events.

    def disturb(self) -> None:
        ((_, event),) = self.random.choices(self.events, self.weights)
        event()

    def deliver(self) -> None:
        if not self.wire:
            self.random.choice([self.write, self.write, self.write, self.tick])()
            return
        position = self.random.randrange(len(self.wire))
        if self.random.random() < 0.5:
            position = 0
        message = self.wire[position]
        if self.random.random() >= 0.05:
            self.wire.pop(position)
        target = self.members[message.target]
        blocked = (message.source, message.target) in self.cut
        if target.raft is None or blocked or self.random.random() < self.loss:
            return
        target.raft.step(message)
        self.pump(target)

    def tick(self) -> None:
        member = self.alive()
        if member is not None and member.raft is not None:
            for _ in range(self.random.choice([1, 1, 1, 8])):
                member.raft.tick()
                self.pump(member)

    def write(self) -> None:
        busy = [m for m in self.members.values() if m.raft is not None and m.unwritten]
        if not busy:
            return
        member = self.random.choice(busy)
        count = self.random.randint(1, len(member.unwritten))
        self.persist(member, count)

    def propose(self) -> None:
        member = self.leading()
        if member is None or member.raft is None:
            return
        proposals = []
        for _ in range(self.random.randint(1, 3)):
            self.payloads += 1
            padding = b" " * self.random.choice([0, 0, 500])
            proposals.append((EntryKind.COMMAND, b"%d" % self.payloads + padding))
        try:
            member.raft.propose(proposals)
        except (NotLeader, Overloaded):
            return
        self.pump(member)

    def ask(self) -> None:
        member = self.leading()
        if member is not None and member.raft is not None:
            member.reads[member.raft.read()] = self.commit_max
            self.pump(member)

    def crash(self) -> None:
        member = self.alive()
        if member is None:
            return
        # Some of what was being written got to the disk, but nobody heard of it.
        for ready in member.unwritten[: self.random.randint(0, len(member.unwritten))]:
            self.to_disk(member, ready)
        member.raft = None
        member.unwritten.clear()

    def requeue_dead(self) -> None:
        down = [member for member in self.members.values() if member.raft is None]
        if down:
            self.start(self.random.choice(down))

    def partition(self) -> None:
        """Heal; or cut off the leader, split in two, or break links here and there."""
        self.cut.clear()
        kind = self.random.choice(["none", "none", "none", "leader", "leader", "halves", "links"])
        nodes = list(self.members)
        side = {node for node in nodes if self.random.random() < 0.5}
        if kind == "leader" and (leader := self.leading()) is not None:
            side = {leader.id}
        for source in nodes:
            for target in nodes:
                if kind == "links":
                    apart = self.random.random() < 0.4
                else:
                    apart = kind != "none" and (source in side) != (target in side)
                if source != target and apart:
                    self.cut.add((source, target))

    def take_snapshot(self, member: Member | None = None) -> None:
        member = member or self.alive()
        if member is None or member.raft is None or member.disk.damaged:
            return
        raft = member.raft
        index = raft.applied_index
        if index <= member.disk.snapshot.index or any(r.snapshot for r in member.unwritten):
            return
        mark = SnapshotMark(index, raft.term_at(index), raft.membership_at(index))
        member.disk.take_snapshot(mark, member.states[index])
        member.disk.compact(Index(index + 1 - self.random.choice([0, 0, 3])))
        raft.compacted()
        self.pump(member)

    def campaign(self) -> None:
        member = self.alive()
        if member is not None and member.raft is not None:
            member.raft.campaign()
            self.pump(member)

    def transfer(self) -> None:
        member = self.leading()
        if member is None or member.raft is None:
            return
        try:
            member.raft.transfer(self.random.choice(member.raft.membership.voters))
        except MembershipRefused:
            return
        self.pump(member)

    def change_members(self) -> None:
        # A shard that loses voters while one is damaged has lost more than it can bear.
        member = self.leading()
        if member is None or member.raft is None or self.damaged():
            return
        voters, learners = set(member.raft.membership.voters), set(member.raft.membership.learners)
        node = self.random.choice(list(self.members))
        if node in voters and len(voters) > 1:
            voters.discard(node)
            if self.random.random() < 0.5:
                learners.add(node)
        elif node in learners:
            learners.discard(node)
            if self.random.random() < 0.8:
                voters.add(node)
        else:
            learners.add(node)
        try:
            member.raft.propose_membership(
                Membership(tuple(sorted(voters)), tuple(sorted(learners)))
            )
        except (MembershipRefused, NotLeader):
            return
        self.pump(member)

    def damage(self) -> None:
        # At most one at a time, and never where one is already too many.
        if self.damaged():
            return
        for member in self.members.values():
            if member.raft is None or len(member.raft.membership.voters) == 2:
                return
        smallest = min(
            len(member.raft.membership.voters) or 9
            for member in self.members.values()
            if member.raft is not None
        )
        if smallest < 3:
            return
        victim = self.alive()
        if victim is not None:
            victim.raft = None
            victim.unwritten.clear()
            victim.disk.damage()
            self.start(victim)

    # The shell.

    def start(self, member: Member) -> None:
        disk = member.disk
        changes = disk.memberships()
        if disk.snapshot.index == 0 and member.id in self.founders.voters:
            changes.insert(0, (Index(0), self.founders))
        settings = RaftSettings(
            node=member.id,
            election_ticks=8,
            heartbeat_ticks=1,
            append_bytes_max=1_000,
            inflight_messages_max=4,
            inflight_bytes_max=3_000,
            uncommitted_bytes_max=20_000,
            cache_bytes_max=2_000,
            apply_bytes_max=1_500,
            prompt_commits=member.id % 2 == 0,
        )
        member.raft = RaftNode(
            settings,
            log=disk,
            hard_state=disk.hard_state,
            memberships=changes,
            random=random.Random(self.random.random()),
            damaged=disk.damaged,
        )
        member.states = {disk.snapshot.index: disk.snapshot_state}
        member.reads.clear()
        member.commit = disk.snapshot.index
        assert member.raft.term >= self.terms.get(member.id, 0) or disk.damaged
        self.pump(member)

    def pump(self, member: Member) -> None:
        """Do what a shell does after every call into the node, and check what must hold."""
        raft = member.raft
        assert raft is not None
        while (ready := raft.ready()) is not None:
            self.send(member, ready.messages)
            if ready.must_persist:
                member.unwritten.append(ready)
            else:
                assert not ready.promises
            for entry in ready.committed:
                self.apply(member, entry)
            if ready.committed:
                raft.applied(ready.committed[-1].index)
            for read in ready.reads:
                assert read.index >= member.reads.pop(read.read_id), "a stale read"
            if ready.offered is not None:
                self.fetch(member, ready.offered)
        self.check(member)
        if raft.snapshot_wanted:
            self.take_snapshot(member)

    def send(self, member: Member, messages: tuple[AnyMessage, ...]) -> None:
        for message in messages:
            if isinstance(message, VoteResponse) and message.granted and not message.pre:
                self.note_vote(message.source, message.term, message.target)
                durable = member.disk.hard_state
                assert (durable.term, durable.vote) == (message.term, message.target) or (
                    durable.term > message.term  # Several Readies were written at once.
                ), "a vote not on disk"
                assert not member.disk.damaged, "a damaged node voted"
            self.wire.append(message)
            if len(self.wire) > 60:
                self.wire.pop(self.random.randrange(len(self.wire)))

    def persist(self, member: Member, count: int) -> None:
        raft = member.raft
        assert raft is not None
        done, member.unwritten = member.unwritten[:count], member.unwritten[count:]
        for ready in done:
            self.to_disk(member, ready)
        for ready in done:
            self.send(member, ready.promises)
        if self.random.random() < 0.5:
            for ready in done:
                raft.persisted(ready.sequence)
        else:
            raft.persisted(done[-1].sequence)
        self.pump(member)

    def to_disk(self, member: Member, ready: Ready) -> None:
        state = 0
        if ready.snapshot is not None:
            state = member.fetched[ready.snapshot.index]
            member.states[ready.snapshot.index] = state
        member.disk.persist(ready, snapshot_state=state)
        for entry in ready.entries:
            previous = member.disk.term(Index(entry.index - 1))
            known = self.entries.setdefault((entry.index, entry.term), (entry.payload, previous))
            assert known == (entry.payload, previous), f"LogMatching at {entry.describe()}"

    def fetch(self, member: Member, offer: SnapshotOffer) -> None:
        source = self.members[offer.source].disk
        if source.snapshot != offer.mark or self.random.random() < 0.3 or member.raft is None:
            return
        member.fetched[offer.mark.index] = source.snapshot_state
        if member.raft.snapshot_fetched(offer.mark):
            member.states[offer.mark.index] = source.snapshot_state

    def apply(self, member: Member, entry: Entry) -> None:
        before = member.states[Index(entry.index - 1)]
        state = hash((before, entry.index, entry.term, entry.kind, entry.payload))
        member.states[entry.index] = state
        known = self.applied.setdefault(entry.index, state)
        assert known == state, f"StateMachineSafety at {entry.describe()} on node {member.id}"

    # What must be true.

    def note_vote(self, voter: NodeId, term: Term, candidate: NodeId) -> None:
        known = self.votes.setdefault((voter, term), candidate)
        assert known == candidate, f"node {voter} voted for {known} and {candidate} in {term}"

    def check(self, member: Member) -> None:
        raft = member.raft
        assert raft is not None
        assert raft.commit >= member.commit, "the commit index fell"
        assert raft.applied_index <= max(raft.commit, raft.applied_index if member.unwritten else 0)
        assert raft.commit <= raft.durable_index
        durable_term = member.disk.hard_state.term
        assert durable_term >= self.terms.get(member.id, 0), "the term fell"
        self.terms[member.id] = durable_term
        leads = raft.role is Role.LEADER
        first = max(member.commit, member.disk.first_index - 1)
        for number in range(first + 1, raft.commit + 1):
            index = Index(number)
            term = raft.term_at(index)
            if index not in self.committed:
                # A leader that commits its own removal is a follower when we look.
                assert leads or member.led == raft.term, (
                    f"{index} was committed by a {raft.role.value}"
                )
                self.check_durable(raft, index, term)
            known = self.committed.setdefault(index, term)
            assert known == term, f"{index} is committed with terms {known} and {term}"
        member.commit = raft.commit
        self.commit_max = max(self.commit_max, raft.commit)
        if leads and member.led != raft.term:
            member.led = raft.term
            self.check_leader(member, raft)

    def check_durable(self, raft: RaftNode, index: Index, term: Term) -> None:
        holders = [
            node
            for node in raft.membership.voters
            if (disk := self.members[node].disk).damaged  # It may have held it when asked.
            or disk.snapshot.index >= index
            or (disk.first_index <= index <= disk.last_index and disk.term(index) == term)
        ]
        assert len(holders) >= majority(len(raft.membership.voters)), (
            f"{index}/{term} committed, durable on {holders} of {raft.membership.describe()}"
        )

    def check_leader(self, member: Member, raft: RaftNode) -> None:
        known = self.leaders.setdefault(raft.term, member.id)
        assert known == member.id, f"ElectionSafety: {known} and {member.id} lead {raft.term}"
        assert not member.disk.damaged, "a damaged node leads"
        for index, term in self.committed.items():
            if index >= member.disk.first_index:
                assert index <= raft.last_index, f"LeaderCompleteness: {index} is missing"
                assert raft.term_at(index) == term, f"LeaderCompleteness: {index} differs"

    # Picking somebody.

    def damaged(self) -> bool:
        return any(member.disk.damaged for member in self.members.values())

    def alive(self) -> Member | None:
        members = [member for member in self.members.values() if member.raft is not None]
        return self.random.choice(members) if members else None

    def leading(self) -> Member | None:
        members = [m for m in self.members.values() if m.raft and m.raft.role is Role.LEADER]
        return self.random.choice(members) if members else None

    # The end.

    def recover(self) -> None:
        """No more faults: one leader, all members equal, nobody damaged, soon."""
        self.cut.clear()
        self.loss = 0
        for member in self.members.values():
            if member.raft is None:
                self.start(member)
        proposed: Index | None = None
        for _ in range(600):
            self.settle()
            leader = self.newest_leader()
            if leader is None or leader.raft is None:
                continue
            if proposed is None and leader.raft.established and not leader.raft.transfer_target:
                if leader.id not in leader.raft.membership.voters:
                    continue
                try:
                    proposed = leader.raft.propose([(EntryKind.COMMAND, b"last")])
                except Overloaded:
                    continue
                self.pump(leader)
            if proposed is not None and self.agreed(leader.raft, proposed):
                return
        raise AssertionError("no agreement: " + "; ".join(self.describe()))

    def settle(self) -> None:
        for member in self.members.values():
            assert member.raft is not None
            member.raft.tick()
            self.pump(member)
        for _ in range(6):
            wire, self.wire = self.wire, []
            for message in wire:
                target = self.members[message.target]
                assert target.raft is not None
                target.raft.step(message)
                self.pump(target)
            for member in self.members.values():
                if member.unwritten:
                    self.persist(member, len(member.unwritten))

    def newest_leader(self) -> Member | None:
        leaders = [m for m in self.members.values() if m.raft and m.raft.role is Role.LEADER]
        return max(leaders, key=lambda m: m.raft.term if m.raft else 0) if leaders else None

    def agreed(self, leader: RaftNode, index: Index) -> bool:
        for node in leader.membership.everyone():
            raft = self.members[node].raft
            assert raft is not None
            if raft.applied_index < index or raft.damaged:
                return False
        return True

    def describe(self) -> list[str]:
        return [
            member.raft.describe() + f" ({member.raft.membership.describe()})"
            for member in self.members.values()
            if member.raft is not None
        ]
