"""One shard on one node: agreement, files and meaning joined.

    request -> plan -> gather -> propose -> Ready -> send  \\
                                             |        `-> peers
                                             +-> disk -> promises -> peers
                                             `-> apply -> answers, effects

Rule 1: the order of disk, network and apply is decided here and nowhere else. What must not be said
before it is durable (a vote, an acknowledgement) leaves this node only in `_written`.
Rule 2: this code is the same in production and in the simulator. It never waits, reads no clock and
opens no file: clock, disk, network, chance and the two workers are handed in, and whatever happens
comes in as a call: `tick`, `receive`, `submit`, or a worker's completion.
Rule 3: after a failed write or sync nothing is promised any more. The replica halts, its log is
poisoned, and only a restart, which verifies what the disk really holds, brings it back.

Theory of operation. Every call ends in a turn: gathered plans are proposed if the disk is free,
Raft's duties are carried out until there are none, and if the disk is free all duties to persist
that have piled up become one job. While that job runs, the next requests gather; that is the group
commit. A fast disk would make the groups small, and each costs the processor as much as several
requests; so a leader lets the loop turn a few times after a write before it proposes again, and
requests of clients that were just answered, or that are just arriving, take part. An idle loop
turns in no time, a busy one gathers the more the busier it is. After a write that one client waited
for, or two, the loop does not turn for nothing: the next request is proposed as it comes.

A leader plans only over a state that holds everything earlier leaders may have committed: not
before the no-op of its own term is applied (Raft §8). Until then requests are answered
`Unavailable`.

Long because of rule 1: what is decided here is decided in one place.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from penstock.core.entries import Entry, Membership
from penstock.core.errors import (
    BatchTooLarge,
    DamagedFile,
    DiskFull,
    InvalidBatch,
    LocalError,
    LogPoisoned,
    MembershipRefused,
    NotLeader,
    OffsetOutOfRange,
    Overloaded,
    PenstockError,
    StorageError,
    StorageFull,
    Unavailable,
    UnsupportedBatch,
)
from penstock.core.limits import (
    ENTRY_PAYLOAD_BYTES_MAX,
    KIB,
    PROPOSALS_WAITING_MAX,
)
from penstock.core.types import NO_INDEX, NO_NODE, Index, NodeId, Offset, PartitionId, Term
from penstock.engine.replica.batcher import Answer, Batcher, Promise
from penstock.engine.replica.compaction import Compaction
from penstock.engine.replica.environment import Environment, ReplicaSettings
from penstock.engine.replica.network import PeerMessage, SnapshotPart, SnapshotRequest
from penstock.engine.replica.pending_writes import PendingWrite, pending_writes_of
from penstock.engine.replica.proposals import CommitTimes, Proposals
from penstock.engine.replica.retention import Retention
from penstock.engine.replica.snapshot_transfer import (
    SnapshotFetch,
    SnapshotReceiver,
    SnapshotSource,
)
from penstock.engine.replica.upkeep import Upkeep
from penstock.machines.machine import Append, Known, Reply, Request
from penstock.machines.partitions import AppendBatch, HoldsPartitions
from penstock.machines.state_pieces import Restoring
from penstock.raft import RaftNode, Role
from penstock.raft.messages import Ready
from penstock.storage import LogJob, ShardLog

RETENTION_TICKS = 100
"""How often the leader looks for messages that are too old or too many."""
GATHER_TURNS = 4
"""Of the loop, between two writes of a leader."""
GATHER_WAITERS = 3
"""If fewer had waited for a write, waiting for more before the next one is not worth it."""
GATHER_BYTES = 64 * KIB
"""With so much at hand, the next write need not wait for more."""
APPLY_SECONDS = 0.01
"""If applying takes longer, the loop turns before the next entry: others have something to do, too.
How long one entry may take is for the batcher: see `ENTRY_APPLY_US_MAX`."""
RESTORE_STEPS = 64
"""How many parts of an installed state are taken over before the loop turns."""
FETCH_READS_MAX = 64
"""How many reads a fetch may take: about half a millisecond."""
STATELESS_REFUSALS = (BatchTooLarge, InvalidBatch, UnsupportedBatch)


class Done(Reply, frozen=True):
    """It has happened and there is nothing more to say."""


class Replica:
    """Drives one shard on one node; see the top of this module."""

    def __init__(
        self,
        node: NodeId,
        *,
        log: ShardLog,
        machine: HoldsPartitions,
        settings: ReplicaSettings,
        world: Environment,
        bootstrap: Membership,
    ) -> None:
        """`bootstrap` is who is a member as long as neither log nor snapshot says otherwise."""
        self.node = node
        self.log = log
        self.machine = machine
        self.halted: Exception | None = None
        self._settings = settings
        self._world = world
        self._batcher = Batcher()
        self._gathered_bytes = 0
        self._proposals = Proposals()
        self.commit_times = CommitTimes(world.seconds)
        self._pending_writes: deque[PendingWrite] = deque()
        self._unapplied: deque[Entry] = deque()
        """Committed entries that wait until the loop has turned."""
        self._gathering = self._resting = self._last_waiters = 0
        self._writing = self._turn_due = False
        self._reads: dict[int, Answer] = {}
        self._reads_waiting: deque[tuple[Index, Answer]] = deque()
        self.applied_index = NO_INDEX
        mark = log.snapshot
        if mark.index:
            machine.restore(log.load_snapshot()[1])
            self.applied_index = mark.index
        self.raft = _raft_node(log, settings, world, bootstrap)
        self._source = SnapshotSource(log, settings.snapshot_part_bytes)
        self._receiver = SnapshotReceiver(
            node,
            log=log,
            raft=self.raft,
            send=world.network.send,
            run=self._in_background,
            announce=world.announce,
        )
        self.compaction = Compaction(log, machine)
        self._upkeep = Upkeep(
            log,
            machine,
            self.raft,
            settings.snapshot_log_bytes,
            compaction=self.compaction,
            run=self._in_background,
            soon=self._soon,
            seconds=world.seconds,
            announce=world.announce,
            slice_bytes=settings.snapshot_slice_bytes,
            snapshot_write_bytes=settings.snapshot_write_bytes,
        )
        self.retention = Retention(log, machine)
        self._ticks = 0
        self._heard_ms = world.clock.wall_ms()
        """About when a leader was last heard."""
        self._leading: Term | None = None
        self._plan_from = NO_INDEX
        self._leader_ready = False
        self._heir, self._heir_until = NO_NODE, 0
        self._holder, self._held_until = "", 0
        self._retiring: Answer | None = None

    @property
    def leads(self) -> bool:
        """This replica leads and has applied everything that was committed before its term."""
        return self._leader_ready

    @property
    def snapshot_failure(self) -> str:
        """Why the last snapshot could not be taken; empty if it could."""
        return self._upkeep.snapshot_failure

    @property
    def waiting_requests(self) -> int:
        """How many wait to be proposed or committed."""
        return self._batcher.waiters + self._proposals.waiters

    # What happens to a replica.

    def tick(self) -> None:
        """A tick of Raft's clock has passed."""
        if self.halted is not None:
            return
        if not self.raft.election_notes.quiet_ticks:
            self._heard_ms = self._world.clock.wall_ms()
        self.raft.tick()
        self._receiver.tick()
        if not self._receiver.busy:
            self._upkeep.tick()
        self._ticks += 1
        if self._heir and self._ticks >= self._heir_until:
            self._heir = NO_NODE
        if self._ticks % RETENTION_TICKS == 0 and self._leading is not None:
            self._guard(self._forget_old_messages)
        self._turn()

    def receive(self, message: PeerMessage) -> None:
        """A message of a peer has arrived."""
        if self.halted is not None:
            return
        if isinstance(message, SnapshotRequest):
            self._guard(lambda: self._world.network.send(self._source.answer(message)))
        elif isinstance(message, SnapshotPart):
            self._receiver.take(message)
        else:
            self.raft.step(message)
        self._turn()

    def submit(
        self, request: Request, answer: Answer, promise: Promise = Promise.COMMITTED
    ) -> bool:
        """Ask for a change; `answer` is called exactly once, perhaps before this returns. True: it
        is going to be written.

        Only appends may ask for a lesser promise than a commit."""
        try:
            self._refuse_if_not_ready(request)
            term = self.raft.term
            plan = self.machine.plan(request, now_ms=self._world.clock.wall_ms(), term=term)
        except PenstockError as refusal:
            self._refuse(refusal, answer)
            return False
        if isinstance(plan, Known):
            if not self._ride(plan.reply, answer):
                answer(plan.reply)
            return False
        if promise is Promise.PLANNED and isinstance(plan, Append):
            answer(plan.reply)
            answer, promise = _ignore, Promise.COMMITTED
        self._gathered_bytes += self._batcher.add(plan, answer, promise)
        if not self._gathering:
            self._turn_soon()
        return True

    def read_barrier(self, answer: Answer) -> None:
        """Answer `Done` once this node is sure to lead and to have applied everything that any
        leader acknowledged before this call (Raft §6.4)."""
        try:
            self._refuse_if_halted()
            self._refuse_if_crowded()
            read_id = self.raft.read()
        except PenstockError as refusal:
            answer(refusal)
            return
        self._reads[read_id] = answer
        self._turn_soon()

    def change_membership(self, membership: Membership, answer: Answer) -> None:
        """Make this the membership; answered when it is committed."""
        try:
            self._refuse_if_halted()
            if self.held:
                raise Unavailable("a backup is marking its moment; try again")
            self._propose_gathered(self._gathered_bytes)
            index = self.raft.propose_membership(membership)
        except PenstockError as refusal:
            answer(refusal)
            return
        self._proposals.file_one(index, self.raft.term, Done(), answer)
        self._turn_soon()

    def transfer(self, target: NodeId) -> None:
        """Hand leadership over, as soon as everything under way is answered.

        A request that is still under way when leadership goes has an unknown outcome, and its
        sender must send it again. So requests are refused from now on, with "try again", and
        leadership goes when the last answer has been given; or not at all, if that takes as long
        as an election would."""
        self._refuse_if_halted()
        if target == self.node:
            self._heir = NO_NODE
            self.raft.transfer(target)  # Takes back what was asked before.
            return
        if target not in self.raft.membership.voters:
            raise MembershipRefused(f"node {target} cannot lead: it is no voter")
        self._heir = target
        self._heir_until = self._ticks + self._settings.raft.election_ticks
        self._turn_soon()

    def _hand_over_when_idle(self) -> None:
        """Leadership goes, unless something is under way, or the heir has become unfit; then all
        stays as it is."""
        if self._batcher or self._proposals:
            return
        heir, self._heir = self._heir, NO_NODE
        try:
            self.raft.transfer(heir)
        except PenstockError as refusal:
            self._world.announce(f"keeps its leadership: {refusal}")

    @property
    def held(self) -> bool:
        """Nothing is proposed here for now, since `hold`."""
        return self._ticks < self._held_until

    def hold(self, holder: str, ticks: int) -> None:
        """Propose nothing for this many ticks at most: a backup cut is being taken (see `cut`).
        Requests wait; what is under way goes on."""
        self._refuse_if_halted()
        if not self.leads:
            raise NotLeader(f"node {self.node} does not lead this shard", leader=self.raft.leader)
        if self.held:
            raise Unavailable("another backup is marking its moment; try again")
        self._holder, self._held_until = holder, self._ticks + ticks

    def is_held_by(self, holder: str) -> bool:
        """It has been held by this one without a break."""
        return self.held and self._holder == holder

    def release(self, holder: str) -> None:
        """Go on."""
        if self.is_held_by(holder):
            self._held_until = 0
            self._turn_soon()

    def campaign(self) -> None:
        """Stand for election without waiting for the timeout: a cluster of one need not wait."""
        self.raft.campaign()
        self._turn_soon()

    def retire(self, answer: Answer) -> None:
        """Answer `Done` when nothing is under way any more and the state is in a snapshot, so that
        the next start has nothing to replay. Requests are refused from now on."""
        self._retiring = answer
        self._turn_soon()

    def stop(self) -> None:
        """Let go of everything at once; waiters do not learn the outcome."""
        self.halted = Unavailable(f"node {self.node} is stopping")
        if self._leading is not None:
            self._lose_leadership()

    # Reading.

    def fetch(self, partition: PartitionId, offset: Offset, bytes_max: int) -> bytes:
        """Whole batches from the one that holds `offset` on, as far as they are committed.

        Of messages that lie scattered only so many are read that the loop is not held up; the
        reader comes again for more."""
        return self.fetch_stretch(partition, offset, bytes_max)[0]

    def fetch_stretch(
        self, partition: PartitionId, offset: Offset, bytes_max: int
    ) -> tuple[bytes, Offset]:
        """The same, and the offset behind the last message of it."""
        self._refuse_if_halted()
        bounds = self.machine.bounds(partition)
        if not bounds.log_start <= offset <= bounds.high_watermark:
            raise OffsetOutOfRange(
                f"partition {partition} holds {bounds.log_start} to {bounds.high_watermark},"
                f" offset {offset} was asked for"
            )
        try:
            plan = self.log.read_plan(partition, offset, bytes_max, bounds.high_watermark)
            return plan.load_some(FETCH_READS_MAX), max(offset, plan.end)
        except DamagedFile as damage:
            self._halt(damage)
            raise

    def describe(self) -> str:
        """One line on where this replica stands."""
        return self.raft.describe() + (" halted" * (self.halted is not None))

    def _forget_old_messages(self) -> None:
        for trim in self.retention.due(self._world.clock.wall_ms()):
            # Refused or unknown, it is simply looked at again.
            self.submit(trim, _ignore)

    # Refusals.

    def _refuse_if_halted(self) -> None:
        if self.halted is not None:
            raise LogPoisoned(f"node {self.node} has stopped: {self.halted}")

    def _refuse_if_not_ready(self, request: Request) -> None:
        self._refuse_if_halted()
        raft = self.raft
        if raft.role is not Role.LEADER or self._leading != raft.term:
            raise NotLeader(f"node {self.node} does not lead this shard", leader=raft.leader)
        if self._retiring is not None:
            raise Unavailable("this node is stopping")
        if self._heir or raft.transfer_target or self.node not in raft.membership.voters:
            raise Unavailable("leadership is being handed over")
        if self.applied_index < self._plan_from:
            raise Unavailable("the new leader is still catching up with its predecessor")
        if self._gathered_bytes + self._proposals.bytes > self._settings.waiting_bytes_max:
            raise Overloaded("too many bytes wait to be replicated; slow down")
        self._refuse_if_crowded()
        if self.log.full and isinstance(request, AppendBatch):
            raise StorageFull("the disk is full; delete data or add space", retry_after_ms=1_000)

    def _refuse_if_crowded(self) -> None:
        waiting = self._batcher.waiters + self._proposals.waiters
        if waiting + len(self._reads) + len(self._reads_waiting) >= PROPOSALS_WAITING_MAX:
            raise Overloaded("too many requests wait for an answer; slow down")

    def _ride(self, reply: Reply | PenstockError, answer: Answer) -> bool:
        """Let an answer wait until everything planned so far is applied; False: nothing is."""
        return self._batcher.ride(reply, answer) or self._proposals.ride(reply, answer)

    def _refuse(self, refusal: PenstockError, answer: Answer) -> None:
        """A refusal that rests on state is given only when that state is committed and this node
        is proven to lead. A leader that was replaced without knowing it would tell a producer
        that its sequence is wrong, which ends it; one that plans ahead would call a partition
        existing that never comes to be."""
        if not isinstance(refusal, LocalError) or isinstance(refusal, STATELESS_REFUSALS):
            answer(refusal)
        elif not self._ride(refusal, answer):
            self.read_barrier(
                lambda reply: answer(reply if isinstance(reply, PenstockError) else refusal)
            )

    # A turn.

    def _soon(self, action: Callable[[], None]) -> None:
        """Call back when the loop has turned, unless this replica halts before."""

        def act() -> None:
            if self.halted is None:
                self._guard(action)

        self._world.soon(act)

    def _turn_soon(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            self._world.soon(self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        if self.halted is None:
            self._guard(self._carry_on)

    def _guard(self, action: Callable[[], None]) -> None:
        """Damage met on the way, or an entry of a later version, ends this replica's part."""
        try:
            action()
        except PenstockError as error:
            self._halt(error)

    def _carry_on(self) -> None:
        self._observe_leadership()
        if self._heir:
            self._hand_over_when_idle()
        if self._batcher.waiters and not self._writing and not self._gathering and not self.held:
            self._propose_gathered(self._settings.write_bytes_max)
        if self._unapplied and not self._resting:
            self._apply_some()
        while (ready := self.raft.ready()) is not None:
            self._carry_out(ready)
            self._observe_leadership()
            if self._heir:
                self._hand_over_when_idle()
        if self._leading is not None and not self._leader_ready:
            self._begin_leading()
        if not self._writing:
            self._write()
        if not self._upkeep.busy and not self._receiver.busy:
            self._upkeep.keep_log_short(self.applied_index, now=self._retiring is not None)
        if self._retiring is not None:
            self._retire_when_idle()

    def _retire_when_idle(self) -> None:
        busy = (
            self._writing
            or self._resting
            or self._upkeep.busy
            or self._batcher
            or self._pending_writes
        )
        if self._retiring is not None and not busy and not self._proposals:
            answer, self._retiring = self._retiring, None
            answer(Done())

    def _observe_leadership(self) -> None:
        """Plans and waiters belong to one term of leadership; settle them when it ends."""
        raft = self.raft
        leading = raft.term if raft.role is Role.LEADER else None
        if leading == self._leading:
            return
        if self._leading is not None:
            self._lose_leadership()
        self._leading = leading
        if leading is not None:
            self.machine.forget_plans()
            self._plan_from = raft.last_index
            self._world.announce(f"leads in term {leading}{self._election(leading)}")

    def _election(self, term: Term) -> str:
        """How it came to lead, and for how long there was no leader."""
        won = self.raft.election_notes.won
        if won is None or won.term != term:
            return ""
        text = f": {won.describe()}"
        if won.handed_over or len(won.voters) == 1:
            return text
        quiet_ms = self._world.clock.wall_ms() - self._heard_ms
        return f"{text}; {max(0, quiet_ms) / 1_000:.1f} s without a leader"

    def _begin_leading(self) -> None:
        if self.applied_index >= self._plan_from:
            self._leader_ready = True
            self._world.on_leadership(True)

    def _lose_leadership(self) -> None:
        if self._leader_ready:
            self._leader_ready = False
            self._world.on_leadership(False)
        why = self.raft.election_notes.resigned if self.raft.role is not Role.LEADER else ""
        reason = f": {why}" if why else ""
        self._world.announce(f"no longer leads in term {self._leading}{reason}")
        self._heir, self._held_until = NO_NODE, 0
        self.machine.forget_plans()
        refusal = NotLeader("leadership was lost before this was proposed", leader=self.raft.leader)
        for entry in self._batcher.take(self._gathered_bytes):
            for waiter in entry.waiters:
                waiter.answer(refusal)
        self._gathered_bytes = 0
        self._proposals.abandon("leadership was lost while this was being replicated")
        self.commit_times.forget()
        reads, self._reads = self._reads, {}
        waiting, self._reads_waiting = self._reads_waiting, deque()
        for answer in [*reads.values(), *(answer for _, answer in waiting)]:
            answer(refusal)

    def _propose_gathered(self, bytes_max: int) -> None:
        waiting = self._batcher.waiters
        entries = self._batcher.take(bytes_max)
        if not entries:
            return
        self._gathered_bytes -= sum([entry.size for entry in entries])
        self._last_waiters = waiting - self._batcher.waiters
        first = self.raft.propose([entry.encode() for entry in entries])
        self._proposals.file(first, self.raft.term, entries)
        self.commit_times.proposed(self.raft.last_index)

    def _carry_out(self, ready: Ready) -> None:
        send = self._world.network.send
        for message in ready.messages:
            send(message)
        if ready.must_persist:
            fetch = None
            if ready.snapshot is not None:
                fetch = self._receiver.hand_over(ready.snapshot)
                self._unapplied.clear()  # The snapshot includes them.
            self._pending_writes += pending_writes_of(ready, fetch)
        if ready.committed:
            self._unapplied += ready.committed
            if not self._resting:
                self._apply_some()
        for read in ready.reads:
            answer = self._reads.pop(read.read_id, None)
            if answer is not None:
                self._reads_waiting.append((read.index, answer))
        if self._reads_waiting:
            self._answer_reads()
        if ready.offered is not None:
            self._receiver.offered(ready.offered)

    def _answer_reads(self) -> None:
        while self._reads_waiting and self._reads_waiting[0][0] <= self.applied_index:
            self._reads_waiting.popleft()[1](Done())

    def _apply_some(self) -> None:
        """Apply entries until that has taken long enough; the others wait until the loop has
        turned. Raft hands over further entries when all of them are applied."""
        unapplied, seconds = self._unapplied, self._world.seconds
        until = seconds() + APPLY_SECONDS
        late = False
        while unapplied and not late:
            self._apply(unapplied.popleft())
            late = seconds() > until
        self.raft.applied(self.applied_index)
        self.log.note_commit(self.applied_index)
        self.commit_times.applied(self.applied_index)
        if late:
            self._rest(GATHER_TURNS)
        if self._reads_waiting:
            self._answer_reads()

    def _apply(self, entry: Entry) -> None:
        assert entry.index == self.applied_index + 1, f"applied {entry.index} out of order"
        applied = self.machine.apply(entry)
        self.applied_index = entry.index
        self._upkeep.log_bytes += len(entry.payload)
        self._world.on_applied(entry, applied.replies)
        self._proposals.applied(entry, applied.replies)
        if self._leading is not None:
            for effect in applied.effects:
                self._world.on_effect(effect)

    def _rest(self, turns: int) -> None:
        """Apply nothing more until the loop has turned so often. Everything else goes on: a leader
        that has much to apply must still send heartbeats, and a follower acknowledge."""
        self._resting = turns
        if turns:
            self._world.soon(lambda: self._rest(turns - 1))
        else:
            self._turn()

    # Disk.

    def _write(self) -> None:
        """One job for all duties that have piled up; installing a snapshot is a job of its own."""
        if not self._pending_writes and not self.log.has_work:
            return
        pending: list[PendingWrite] = []
        job: LogJob | None
        fetch = self._pending_writes[0].fetch if self._pending_writes else None
        if fetch is not None:
            if self._upkeep.busy:
                return  # Both change which segments there are; the turn after the upkeep goes on.
            pending.append(self._pending_writes.popleft())
            job = fetch.incoming.finish_job()
        else:
            while self._pending_writes and self._pending_writes[0].fetch is None:
                one = self._pending_writes.popleft()
                pending.append(one)
                self.log.stage(hard_state=one.hard_state, entries=one.entries, healed=one.healed)
            job = self.log.take_job(self._written_hook())
        if job is not None:
            self._submit_write(job, pending)
        else:
            assert not pending, "duties without anything to write"

    def _written_hook(self) -> Callable[[], None] | None:
        """A callback to the loop when bytes are written and not yet synced, if a proposal waits for
        it."""
        if not self._proposals.awaits_writing:
            return None
        last = self.log.last_index

        def tell() -> None:
            if self.halted is None:
                self._proposals.reached(Promise.WRITTEN, last)

        def tell_from_worker() -> None:
            self._world.from_worker(tell)

        return tell_from_worker

    def _submit_write(self, job: LogJob, pending: list[PendingWrite]) -> None:
        self._writing = True
        self._world.writer.submit(job, lambda error: self._written(job, pending, error))

    def _written(self, job: LogJob, pending: list[PendingWrite], error: Exception | None) -> None:
        self._writing = False
        if self.halted is not None:
            return
        if error is not None:
            self.log.fail(job, error)
            self._halt(error)
            return
        self.log.complete(job)
        if self._proposals.early:
            self._proposals.reached(Promise.WRITTEN, self.log.durable_index)
            self._proposals.reached(Promise.DURABLE, self.log.durable_index)
        if pending and (fetch := pending[0].fetch) is not None:
            self._writing = True  # Nothing is written, nor applied, before the machine is there.
            restoring = self.machine.restoring(fetch.incoming.stored_state)
            self._guard(lambda: self._restore(restoring, lambda: self._installed(fetch, pending)))
        else:
            self._keep_promises(pending)

    def _restore(self, restoring: Restoring, then: Callable[[], None]) -> None:
        """Put a state in the place of the machine's, a part each time the loop turns."""
        try:
            for _ in range(RESTORE_STEPS):
                next(restoring)
        except StopIteration as end:
            end.value()
            then()
            return
        self._soon(lambda: self._restore(restoring, then))

    def _keep_promises(self, pending: list[PendingWrite]) -> None:
        """What waited for a write is said now."""
        for one in pending:
            if one.sequence is not None:
                self.raft.persisted(one.sequence)
            for message in one.promises:
                self._world.network.send(message)
            if one.healed:
                self._world.announce("is repaired and counts again")
        self._upkeep.after_write()
        few = self._gathered_bytes < GATHER_BYTES
        many = max(self._last_waiters, self._batcher.waiters) >= GATHER_WAITERS
        if few and many and self._leading is not None and not self._gathering:
            self._gather(GATHER_TURNS)
        self._turn()

    def _gather(self, turns: int) -> None:
        """Propose nothing until the loop has turned so often."""
        self._gathering = turns
        if turns:
            self._world.soon(lambda: self._gather(turns - 1))
        else:
            self._turn()

    def _installed(self, fetch: SnapshotFetch, pending: list[PendingWrite]) -> None:
        self._writing = False
        fetch.incoming.stored_state = b""
        self.applied_index = fetch.mark.index
        self._receiver.installed()
        self._world.announce(f"installed the snapshot at {fetch.mark.index}")
        self._keep_promises(pending)

    def _halt(self, error: Exception) -> None:
        """Stop for good: nothing is promised any more."""
        if self.halted is not None:
            return
        self.halted = error
        self._world.announce(f"halts: {error}")
        if isinstance(error, DamagedFile):
            try:
                self.log.mark_damaged(error)
            except StorageError as failure:
                self._world.announce(
                    f"cannot note the damage, so it must be found again: {failure}"
                )
        if self._leading is not None:
            self._lose_leadership()
            self._leading = None
        if self._retiring is not None:
            self._retiring(LogPoisoned(f"node {self.node} has stopped: {error}"))
            self._retiring = None
        self._world.on_halt(error)

    def _in_background(self, job: LogJob, done: Callable[[bool], None]) -> None:
        """Run a background job; `done` is called on the loop with whether it worked.

        For want of space it is given up and tried again some time. Anything else is the end."""

        def finished(error: Exception | None) -> None:
            if self.halted is not None:
                return
            if error is None:
                self.log.complete(job)
            else:
                self.log.fail(job, error)
                if self.log.poisoned or not isinstance(error, DiskFull):
                    self._halt(error)
                    return
            done(error is None)
            if self.log.scrub_finding is not None:
                self._halt(self.log.scrub_finding)
            self._turn()

        self._world.background.submit(job, finished)


def _ignore(_answer: Reply | PenstockError) -> None:
    """The answer is not needed."""


def _raft_node(
    log: ShardLog, settings: ReplicaSettings, world: Environment, bootstrap: Membership
) -> RaftNode:
    # What is planned must fit: the bound is kept before planning, not by Raft after it.
    uncommitted_bytes_max = 2 * settings.waiting_bytes_max + ENTRY_PAYLOAD_BYTES_MAX
    return RaftNode(
        msgspec.structs.replace(settings.raft, uncommitted_bytes_max=uncommitted_bytes_max),
        log=log,
        hard_state=log.hard_state,
        memberships=[(NO_INDEX, bootstrap), *log.memberships()],
        random=world.random,
        damaged=log.quarantine is not None,
        committed=NO_INDEX if log.quarantine is not None else log.committed_hint,
    )
