"""A shard without Raft or disk: plans become entries, entries are applied when the test says so."""

from penstock.core.entries import Entry, EntryKind
from penstock.core.types import Index, Offset, PartitionId, ProducerId, Term
from penstock.machines import (
    Append,
    AppendBatch,
    Applied,
    CreatePartition,
    Partitions,
    PartitionsSettings,
    Plan,
    Propose,
    Request,
    join_appends,
)
from penstock.machines.partitions import DEFAULT_SETTINGS
from tests.batches import build_batch


class Shard:
    """One leader's machine, its log, and how much of it has been applied."""

    def __init__(self, settings: PartitionsSettings = DEFAULT_SETTINGS) -> None:
        self.machine = Partitions(settings)
        self.log: list[Entry] = []
        self.applied = 0
        self.now_ms = 1_000
        self.term = Term(1)

    def create(self, *numbers: int) -> None:
        for number in numbers:
            self.do(CreatePartition(partition=PartitionId(number)))

    def plan(self, request: Request) -> Plan:
        """Plan, and write the entry."""
        plan = self.plan_only(request)
        if isinstance(plan, Append):
            self.write(EntryKind.APPEND, join_appends([plan]))
        elif isinstance(plan, Propose):
            self.write(EntryKind.COMMAND, plan.payload)
        return plan

    def plan_only(self, request: Request) -> Plan:
        return self.machine.plan(request, now_ms=self.now_ms, term=self.term)

    def write(self, kind: EntryKind, payload: bytes) -> None:
        self.log.append(Entry(Index(len(self.log) + 1), self.term, kind, payload))

    def apply(self) -> Applied:
        """Apply the next entry."""
        entry = self.log[self.applied]
        self.applied += 1
        return self.machine.apply(entry)

    def apply_all(self) -> None:
        while self.applied < len(self.log):
            self.apply()

    def do(self, request: Request) -> Applied:
        """Plan, write and apply, with nothing else under way."""
        self.plan(request)
        return self.apply()

    def lose_leadership(self) -> None:
        """What is not applied is lost; the machine forgets what it planned."""
        del self.log[self.applied :]
        self.machine.forget_plans()


def append(number: int = 1, count: int = 1, timestamp: int = 1_000) -> AppendBatch:
    """Append `count` messages of no producer."""
    return AppendBatch(PartitionId(number), build_batch(count, timestamp=timestamp))


def produce(
    sequence: int,
    *,
    number: int = 1,
    count: int = 1,
    producer: int = 7,
    epoch: int = 0,
) -> AppendBatch:
    """Append as an idempotent producer does."""
    batch = build_batch(count, producer_id=ProducerId(producer), epoch=epoch, sequence=sequence)
    return AppendBatch(PartitionId(number), batch)


def offsets(plan: Plan) -> tuple[Offset, Offset]:
    """Where an `Append` will be."""
    assert isinstance(plan, Append)
    return plan.base_offset, plan.end_offset
