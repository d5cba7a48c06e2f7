"""The partitions machine against a model that knows no plans, no overlay and no bytes.

Hypothesis plays a leader's shell: it plans requests, joins appends into entries, applies entries
late, loses its leadership with any part of its log uncommitted, restarts from snapshots. The model
carries out each request at once. Whatever is under way, the machine must plan what the model does.

Beside the leader run a follower, which applies the same log and never plans, and a replica that
starts again and again from the follower's snapshot: all three must be equal, byte for byte.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.core.append_payload import decode_append
from penstock.core.entries import Entry, EntryKind
from penstock.core.errors import (
    OffsetOutOfRange,
    OutOfOrderSequence,
    PartitionExists,
    PenstockError,
    ProducerFenced,
    UnknownPartition,
)
from penstock.core.records import read_header
from penstock.core.types import NO_PRODUCER, Index, Offset, PartitionId, ProducerId, Term
from penstock.machines import (
    Append,
    AppendBatch,
    Appended,
    CreatePartition,
    DeletePartition,
    ExpireProducers,
    Known,
    Partitions,
    PartitionTrimmed,
    Propose,
    Request,
    TrimPartition,
    join_appends,
)
from tests.batches import build_batch
from tests.slow_snapshot import SlowSnapshot

pytestmark = pytest.mark.slow

WRAP = 1 << 31
NUMBERS = st.sampled_from([PartitionId(1), PartitionId(2)])
MORTAL = st.just(PartitionId(2))
"""Partition 1 lives for ever, so that something grows old."""
PRODUCERS = st.sampled_from([7, 8])


class Model:
    """What partitions are, said as simply as possible.

    {number: [log start, end, {producer: [epoch, stamp, {(first, last sequence): base offset}]}]}
    """

    def __init__(self) -> None:
        self.partitions: dict[int, list[Any]] = {}

    def create(self, number: int) -> object:
        return PartitionExists if number in self.partitions else self._put(number, [0, 0, {}])

    def delete(self, number: int) -> object:
        return "written" if self.partitions.pop(number, None) else UnknownPartition

    def trim(self, number: int, before: int) -> object:
        if number not in self.partitions:
            return UnknownPartition
        start, end, producers = self.partitions[number]
        if before > end:
            return OffsetOutOfRange
        return start if before <= start else self._put(number, [before, end, producers])

    def expire(self, before_ms: int) -> object:
        for partition in self.partitions.values():
            partition[2] = {key: one for key, one in partition[2].items() if one[1] >= before_ms}
        return "written"

    def append(self, number: int, count: int, who: int, epoch: int, first: int) -> object:
        if number not in self.partitions:
            return UnknownPartition
        partition = self.partitions[number]
        base, known = partition[1], partition[2].get(who)
        if who >= 0:
            batch = (first, (first + count - 1) % WRAP)
            if known and known[0] == epoch and batch in known[2]:
                return known[2][batch]
            if known and epoch < known[0]:
                return ProducerFenced
            if known and first != (self.next_sequence(known) if epoch == known[0] else 0):
                return OutOfOrderSequence
            window = dict(list(known[2].items())[-4:]) if known and epoch == known[0] else {}
            partition[2][who] = [epoch, None, {**window, batch: base}]
        partition[1] += count
        return ("at", base)

    def producer(self, number: int, who: int) -> list[Any] | None:
        return self.partitions[number][2].get(who) if number in self.partitions else None

    def next_sequence(self, known: list[Any]) -> int:
        return int((list(known[2])[-1][1] + 1) % WRAP)

    def _put(self, number: int, partition: list[Any]) -> str:
        self.partitions[number] = partition
        return "written"

    def view(self) -> object:
        """The state in the layout of a snapshot."""
        return {
            number: (
                start,
                end,
                {who: (one[0], list(one[2].items())) for who, one in table.items()},
            )
            for number, (start, end, table) in self.partitions.items()
        }


class PartitionsPlay(RuleBasedStateMachine):
    """One leader, one follower, one replica restored over and over; a model of what is planned."""

    def __init__(self) -> None:
        super().__init__()
        self.leader, self.follower, self.restored = Partitions(), Partitions(), Partitions()
        self.slow = SlowSnapshot(lambda: self.leader, Partitions)
        self.planned = Model()
        self.applied = Model()
        self.gathered: list[Append] = []
        self.under_way: list[tuple[Entry, Model]] = []
        self.index = 0
        self.term = 1
        self.now_ms = 1_000
        for number in (1, 2):
            self.create(PartitionId(number))
        self.apply_everything()

    # What a caller may ask for.

    @rule(number=MORTAL)
    def create(self, number: PartitionId) -> None:
        self.ask(CreatePartition(partition=number), lambda model: model.create(number))

    @rule(number=MORTAL)
    def delete(self, number: PartitionId) -> None:
        self.ask(DeletePartition(partition=number), lambda model: model.delete(number))

    @rule(number=NUMBERS, before=st.integers(-1, 30))
    def trim(self, number: PartitionId, before: int) -> None:
        request = TrimPartition(partition=number, before=Offset(before))
        self.ask(request, lambda model: model.trim(number, before))

    @rule(age=st.sampled_from([0, 0, 1, 6, 40]))
    def expire(self, age: int) -> None:
        before_ms = self.leader.time_ms - age
        self.ask(ExpireProducers(before_ms=before_ms), lambda model: model.expire(before_ms))

    @rule(number=NUMBERS, count=st.integers(1, 3))
    def append(self, number: PartitionId, count: int) -> None:
        self.send(number, count, NO_PRODUCER, -1, -1)

    @rule(number=NUMBERS, who=PRODUCERS, counts=st.lists(st.integers(1, 3), min_size=1, max_size=7))
    def produce_next(self, number: PartitionId, who: int, counts: list[int]) -> None:
        for count in counts:
            known = self.planned.producer(number, who)
            first = self.planned.next_sequence(known) if known else 0
            self.send(number, count, who, known[0] if known else 1, first)

    @rule(number=NUMBERS, who=PRODUCERS, older=st.integers(0, 4), shorter=st.integers(0, 1))
    def produce_again(self, number: PartitionId, who: int, older: int, shorter: int) -> None:
        known = self.planned.producer(number, who)
        if known and older < len(known[2]):
            first, last = list(known[2])[-1 - older]
            count = max(1, (last - first) % WRAP + 1 - shorter)
            self.send(number, count, who, known[0], first)

    @rule(
        number=NUMBERS,
        who=PRODUCERS,
        bump=st.sampled_from([-1, 0, 0, 1]),
        step=st.sampled_from([-11, -1, 0, 1]),
        absolute=st.sampled_from([None, None, 0, WRAP - 2]),
    )
    def produce_beside(
        self, number: PartitionId, who: int, bump: int, step: int, absolute: int | None
    ) -> None:
        """Near what is due: another epoch, a gap, a step back; or just before numbers wrap."""
        known = self.planned.producer(number, who)
        following = self.planned.next_sequence(known) if known else 0
        first = following + step if absolute is None else absolute
        self.send(number, 1, who, max(0, known[0] + bump) if known else 1, first % WRAP)

    # What a shell does.

    @rule(step=st.sampled_from([-20, 0, 1, 5, 40]))
    def let_time_pass(self, step: int) -> None:
        self.now_ms += step

    @rule()
    def grow_old(self) -> None:
        """Log time moves on, and everything before is applied: now producers can expire."""
        self.now_ms = max(self.now_ms, self.leader.time_ms) + 50
        self.append(PartitionId(1), 1)
        self.close_entry()
        self.apply_everything()

    @rule()
    def close_entry(self) -> None:
        """Plans that are joined share the last one's stamp."""
        for plan in self.gathered:
            producers = self.planned.partitions[plan.partition][2]
            who = read_header(plan.batch).producer_id
            if who >= 0:
                producers[who][1] = self.gathered[-1].stamp_ms
        if self.gathered:
            self.write(EntryKind.APPEND, join_appends(self.gathered))
            self.gathered = []

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def apply_some(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(1, len(self.under_way)))):
            self.apply_next()

    @rule(data=st.data())
    def change_leader(self, data: st.DataObject) -> None:
        """Some of what is under way was committed; the new leader knows nothing of the rest."""
        self.close_entry()
        for _ in range(data.draw(st.integers(0, len(self.under_way)))):
            self.apply_next()
        self.index -= len(self.under_way)
        self.under_way = []
        self.planned = deepcopy(self.applied)
        if data.draw(st.booleans()):
            self.leader, self.follower = self.follower, self.leader
        self.leader.forget_plans()
        self.follower.forget_plans()
        self.term += 1

    @rule()
    def restore_from_snapshot(self) -> None:
        state = self.follower.snapshot()
        self.restored = Partitions()
        self.restored.restore(state)
        assert self.restored.snapshot() == state

    # What must hold.

    @invariant()
    def replicas_are_equal(self) -> None:
        state = self.leader.snapshot()
        assert self.follower.snapshot() == state
        assert self.restored.snapshot() == state
        self.slow.step()

    @invariant()
    def the_applied_state_is_the_models(self) -> None:
        view = {}
        for number in self.leader.log_starts():
            producers = {}
            for who, producer in self.leader.producers(number).items():
                window = [((one[0], one[1]), one[2]) for one in producer.batches]
                producers[who] = (producer.epoch, window)
            view[number] = (*self.leader.bounds(number), producers)
        assert view == self.applied.view()

    @invariant()
    def nothing_stays_planned_when_all_is_applied(self) -> None:
        if not self.under_way and not self.gathered:
            assert self.leader.describe().endswith(" planned 0")
        assert self.follower.describe().endswith(" planned 0")

    # The machinery.

    def send(self, number: PartitionId, count: int, who: int, epoch: int, first: int) -> None:
        batch = build_batch(count, producer_id=ProducerId(who), epoch=epoch, sequence=first)
        sent = bytes(batch)
        plan = self.ask(
            AppendBatch(number, batch),
            lambda model: model.append(number, count, who, epoch, first),
        )
        assert isinstance(plan, Append) or batch == sent, "only what is planned is stamped"

    def ask(self, request: Request, on_model: Callable[[Model], object]) -> object:
        """Plan, compare with what the model does, and keep the plan for its entry."""
        if not isinstance(request, AppendBatch):
            self.close_entry()
        expected = on_model(self.planned)
        try:
            plan = self.leader.plan(request, now_ms=self.now_ms, term=Term(self.term))
        except PenstockError as error:
            self.expect(type(error), expected)
            return None
        match plan:
            case Append(base_offset=base):
                self.expect(("at", base), expected)
                assert plan.stamp_ms >= self.now_ms
                self.gathered.append(plan)
            case Propose():
                self.expect("written", expected)
                self.write(EntryKind.COMMAND, plan.payload)
            case Known(reply=Appended(base_offset=base)):
                self.expect(base, expected)
            case Known(reply=PartitionTrimmed(log_start=start)):
                self.expect(start, expected)
            case _:
                raise AssertionError(plan)
        return plan

    def expect(self, outcome: object, expected: object) -> None:
        assert outcome == expected, f"the machine says {outcome}, the model {expected}"

    def write(self, kind: EntryKind, payload: bytes) -> None:
        self.index += 1
        entry = Entry(Index(self.index), Term(self.term), kind, payload)
        self.under_way.append((entry, deepcopy(self.planned)))

    def apply_next(self) -> None:
        entry, self.applied = self.under_way.pop(0)
        results = [one.apply(entry) for one in (self.leader, self.follower, self.restored)]
        assert results[0] == results[1] == results[2]
        if entry.kind == EntryKind.APPEND:
            assert len(results[0].replies) == len(decode_append(entry.payload).slices)

    def apply_everything(self) -> None:
        while self.under_way:
            self.apply_next()


TestPartitions = PartitionsPlay.TestCase
TestPartitions.settings = settings(
    derandomize=True, deadline=None, database=None, max_examples=200, stateful_step_count=60
)
