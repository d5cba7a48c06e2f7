"""Planted bugs of queues; see `tests/simulation/planting.py`."""

from collections.abc import Callable
from typing import Any

import msgspec

from penstock.core.entries import Entry, EntryKind
from penstock.core.types import Index, Offset, PartitionId
from penstock.core.verdicts import Outcome, Verdict
from penstock.engine.replica.replica import Replica
from penstock.machines import timers
from penstock.machines.cursor import Cursor
from penstock.machines.machine import Applied, Plan, Propose, Request
from penstock.machines.queue_commands import Acquire, CumulativeAck, Settlement
from penstock.machines.queues import Queues
from penstock.machines.recent_ids import IdsView, RecentIds
from penstock.machines.run import Run, State
from penstock.machines.shard_machine import ShardMachine
from penstock.machines.turn_order import FifoOrder
from penstock.machines.work import WorkGroup
from penstock.machines.work_records import WorkRecord
from tests.simulation.planting import Patch, mutation

# Leases.


@mutation
def lease_epochs_are_not_compared() -> list[Patch]:
    """Whoever once had a message may settle it, although somebody else has it now."""
    original = WorkGroup._look_up

    def look_up(self: WorkGroup, one: Settlement, now_ms: int) -> Outcome:
        run = self.run_at(one.first)
        epoch = one.epoch if run is None else run.epoch
        return original(self, msgspec.structs.replace(one, epoch=epoch), now_ms)

    return [(WorkGroup, "_look_up", look_up)]


@mutation
def acks_count_after_the_lease() -> list[Patch]:
    """A message that waits to be delivered again is acked by whoever had it last."""
    original = WorkGroup.settle

    def settle(self: WorkGroup, one: Settlement, now_ms: int) -> Outcome:
        outcome = original(self, one, now_ms)
        run = self.run_at(one.first)
        if outcome is not Outcome.STALE or one.verdict is not Verdict.ACK or run is None:
            return outcome
        if run.epoch != one.epoch or run.state is not State.READY or run.end < one.end:
            return outcome
        for part in self._cut_out(one.first, one.end):
            self._remove(part)
            self.tally.acked += part.length
        return Outcome.DONE

    return [(WorkGroup, "settle", settle)]


@mutation
def leases_end_by_the_local_clock() -> list[Patch]:
    """What is over is decided by the time this node has, not by the log's."""
    plan_before = Queues.plan

    def plan(self: Any, request: Request, **options: Any) -> Plan:
        self.local_ms = options["now_ms"]
        return plan_before(self, request, **options)

    def turn(self: Any, partition: Any, group: str) -> tuple[WorkGroup, bool]:
        work = self._require(partition, group)
        return work, work.turn(max(self._time_ms, getattr(self, "local_ms", 0)))[1]

    return [(Queues, "plan", plan), (Queues, "_turn", turn)]


@mutation
def leases_are_answered_when_planned() -> list[Patch]:
    """A worker gets its messages before the lease is committed."""
    original = Replica.submit

    def submit(self: Replica, request: Request, answer: Any, *rest: Any) -> None:
        if not isinstance(request, Acquire) or not self.leads:
            original(self, request, answer, *rest)
            return
        guess = ShardMachine()
        guess.restore(self.machine.snapshot())
        plan = guess.plan(request, now_ms=self._world.clock.wall_ms(), term=self.raft.term)
        assert isinstance(plan, Propose)
        entry = Entry(Index(1), self.raft.term, EntryKind.COMMAND, plan.payload)
        original(self, request, lambda _: None, *rest)
        answer(guess.apply(entry).replies[0])

    return [(Replica, "submit", submit)]


@mutation
def a_reset_begins_with_old_epochs() -> list[Patch]:
    """Receipts of before a reset fit leases of after it."""
    original = Queues._open_at

    def open_at(self: Queues, partition: Any, group: str, start: Offset, rules: Any) -> None:
        original(self, partition, group, start, rules)
        self._queues[partition].groups[group].epoch = 0

    return [(Queues, "_open_at", open_at)]


# Order and time.


@mutation
def one_of_a_line_unblocks_it() -> list[Patch]:
    """A line moves when one of the messages that are in flight has come back, not all."""

    def returned(self: FifoOrder, run: Run) -> None:
        message_group = run.message_group or b""
        self._queues[message_group].leased = 0
        self._offer(message_group, self._queues[message_group])

    return [(FifoOrder, "returned", returned)]


@mutation
def the_cursor_goes_too_far() -> list[Patch]:
    """Of several new messages one is passed over."""
    original = Cursor.take

    def take(self: Cursor, most: int) -> tuple[Offset, Offset]:
        first, end = original(self, most)
        if end - first > 1 and self.next is not None:
            original(self, 1)
        return first, end

    return [(Cursor, "take", take)]


@mutation
def death_comes_one_delivery_late() -> list[Patch]:
    """Off by one: a message is delivered once more than it may be."""
    original = WorkGroup._fail

    def fail(self: WorkGroup, run: Run, now_ms: int, *, delay_ms: int, since_ms: int) -> None:
        rules = self.rules
        if rules.deliveries_max:
            more = rules.deliveries_max + 1
            self.rules = msgspec.structs.replace(rules, deliveries_max=more)
        try:
            original(self, run, now_ms, delay_ms=delay_ms, since_ms=since_ms)
        finally:
            self.rules = rules

    return [(WorkGroup, "_fail", fail)]


@mutation
def messages_expire_only_when_asked_for() -> list[Patch]:
    """Nobody is told when a message is not worth delivering any more."""
    original = timers._times

    def times(run: Run) -> tuple[int, ...]:
        return original(msgspec.structs.replace(run, expire_ms=-1))

    return [(timers, "_times", times)]


# Ids.


@mutation
def duplicates_are_delivered() -> list[Patch]:
    """A message with an id that was seen is as good as any other."""
    original = RecentIds.note

    def note(self: RecentIds, one: bytes, offset: Offset, *times_ms: int) -> bool:
        original(self, one, offset, *times_ms)
        return True

    return [(RecentIds, "note", note)]


@mutation
def ids_are_forgotten_early() -> list[Patch]:
    """An id is remembered for a fraction of the time that is promised."""

    def forget_ids(self: Queues, partition: PartitionId, ids_max: int) -> int:
        queue = self.partitions[partition]
        after_ms = self._time_ms - queue.rules.deduplication_ms // 1_000
        return int(queue.ids.forget(after_ms, ids_max))

    return [(Queues, "_forget_ids", forget_ids)]


# Snapshots.


def _recorded(change: Callable[[WorkRecord], WorkRecord]) -> list[Patch]:
    """What is restored is not what was there."""
    original = WorkGroup.restore

    def restore(record: WorkRecord, *rest: Any, **rules: Any) -> WorkGroup:
        return original(change(record), *rest, **rules)

    return [(WorkGroup, "restore", restore)]


def _runs(change: Callable[[Run], Run]) -> list[Patch]:
    def changed(record: WorkRecord) -> WorkRecord:
        runs = [change(msgspec.structs.replace(run)) for run in record.runs]
        return msgspec.structs.replace(record, runs=runs)

    return _recorded(changed)


def _readied(run: Run, state: State) -> Run:
    if run.state is state:
        run.state, run.at_ms = State.READY, -1
    return run


@mutation
def snapshot_without_leases() -> list[Patch]:
    """After a restart everything that is in flight is delivered again."""
    return _runs(lambda run: _readied(run, State.LEASED))


@mutation
def snapshot_without_delays() -> list[Patch]:
    """After a restart nothing waits any more."""
    return _runs(lambda run: _readied(run, State.DELAYED))


@mutation
def snapshot_without_deliveries() -> list[Patch]:
    """After a restart every message is delivered as if for the first time."""

    def forget(run: Run) -> Run:
        run.deliveries = 0
        return run

    return _runs(forget)


@mutation
def snapshot_without_turns() -> list[Patch]:
    """After a restart nobody remembers whose turn it was."""
    return _recorded(lambda record: msgspec.structs.replace(record, credits=[]))


@mutation
def snapshot_of_queues_that_have_changed() -> list[Patch]:
    """A queue that changes before a snapshot gets to it is shown as it became."""
    return [(Queues, "_changing", lambda _self, _partition: None)]


@mutation
def snapshot_without_ids() -> list[Patch]:
    """After a restart duplicates are new."""
    return [(RecentIds, "view", lambda _self: IdsView([]))]


@mutation
def timers_are_not_restored() -> list[Patch]:
    """After a restart leases and delays never end."""
    original = WorkGroup.restore

    def restore(cls: type[WorkGroup], *arguments: Any, **rules: Any) -> WorkGroup:
        work: WorkGroup = original.__func__(cls, *arguments, **rules)  # type: ignore[attr-defined]
        work._timers.watch_all(())
        return work

    return [(WorkGroup, "restore", classmethod(restore))]


# Cumulative acks.


@mutation
def batches_are_covered_again() -> list[Patch]:
    """A batch that a stream repeats is covered once more, with what lives again in it."""
    original = Queues._cumulative_ack

    def ack_cumulatively(self: Queues, command: CumulativeAck) -> Applied:
        work = self.work(command.partition, command.group)
        if work is not None:
            work.batch = -1
        return original(self, command)

    return [(Queues, "_cumulative_ack", ack_cumulatively)]


@mutation
def covered_leases_live_on() -> list[Patch]:
    """Whoever has leased a message keeps it, although it was covered."""
    original = WorkGroup.ack_cumulatively

    def ack_cumulatively(
        self: WorkGroup, first: Offset, end: Offset, *rest: Any
    ) -> tuple[int, Offset]:
        leased = (run.first for run in self.runs_from(first) if run.state is State.LEASED)
        stop = min(end, max(first, next(leased, end)))
        return original(self, first, stop, *rest)[0], end

    return [(WorkGroup, "ack_cumulatively", ack_cumulatively)]
