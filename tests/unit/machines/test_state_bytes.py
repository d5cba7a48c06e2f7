"""`machines.state_bytes`: what state counts for, and what is refused when there is no room."""

import pytest

from penstock.core import delivery_headers
from penstock.core.entries import Entry, EntryKind
from penstock.core.errors import GroupFull, StateFull
from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.queue_rules import Deduplication, QueueRules, WorkRules
from penstock.core.types import EARLIEST, Index, Offset, PartitionId, ProducerId, Term
from penstock.core.verdicts import Verdict
from penstock.machines import (
    Append,
    AppendBatch,
    CreatePartition,
    DeletePartition,
    Propose,
    Refused,
    Reply,
    Request,
    join_appends,
)
from penstock.machines.group_commands import CompleteJoin, DeleteGroup, RemoveMembers, StoreOffsets
from penstock.machines.queue_commands import (
    Acquire,
    ConfigureQueue,
    OpenWork,
    Settle,
    Settlement,
)
from penstock.machines.queues import Acquired
from penstock.machines.shard_machine import ShardMachine
from penstock.machines.state_bytes import SHARES, StateBudget, StateKind
from tests.batches import build_batch
from tests.groups import ORDERS, assign, join

ONE = PartitionId(1)


class Shard:
    """A machine with a small budget and one partition."""

    def __init__(self, bytes_max: int) -> None:
        self.machine = ShardMachine(StateBudget(bytes_max))
        self.index = 0
        self.now_ms = 1_000
        self.do(CreatePartition(partition=ONE))

    def do(self, request: Request) -> Reply:
        plan = self.machine.plan(request, now_ms=self.now_ms, term=Term(1))
        self.index += 1
        if isinstance(plan, Append):
            kind, payload = EntryKind.APPEND, join_appends([plan])
        else:
            assert isinstance(plan, Propose)
            kind, payload = EntryKind.COMMAND, plan.payload
        entry = Entry(Index(self.index), Term(1), kind, payload)
        reply = self.machine.apply(entry).replies[0]
        assert not isinstance(reply, Refused), reply
        return reply

    def bytes(self, kind: StateKind) -> int:
        return self.machine.state_bytes()[kind]

    def send(self, count: int, *, group: str | None = None, dedup: str | None = None) -> None:
        headers = []
        if group is not None:
            headers.append((delivery_headers.GROUP, group.encode()))
        if dedup is not None:
            headers.append((delivery_headers.DEDUP_ID, dedup.encode()))
        messages = [NewMessage(b"body", None, tuple(headers))] * count
        batch = bytearray(build_messages(messages, self.now_ms))
        self.do(AppendBatch(ONE, batch))


def store(name: str, count: int, metadata: str = "", *, generation: int = -1) -> StoreOffsets:
    offsets = tuple((ORDERS, partition, 7, -1, metadata) for partition in range(count))
    return StoreOffsets(
        group=name, member="", instance=None, generation=generation, offsets=offsets
    )


def test_the_shares_are_the_whole() -> None:
    assert set(SHARES) == set(StateKind)
    assert sum(SHARES.values()) == 1


def test_offsets_count_by_their_metadata_and_are_refused_when_there_is_no_room() -> None:
    shard = Shard(100_000)  # of which groups may take 25,000
    shard.do(store("g", 10, "x" * 1_000))
    assert shard.bytes(StateKind.GROUPS) == 64 + 1 + 10 * (24 + 1_000)
    with pytest.raises(StateFull, match="delete consumer groups or offsets"):
        shard.do(store("other", 20, "x" * 1_000))
    shard.do(store("other", 10))
    shard.do(DeleteGroup(group="g"))
    shard.do(store("other", 20, "x" * 1_000))


def test_a_commit_that_adds_nothing_is_never_refused() -> None:
    shard = Shard(100_000)
    shard.do(store("g", 24, "x" * 1_000))
    with pytest.raises(StateFull):
        shard.do(store("g", 24, "x" * 1_100))
    shard.do(store("g", 24, "y" * 1_000))
    shard.do(store("g", 24))
    assert shard.bytes(StateKind.GROUPS) == 64 + 1 + 24 * 24


def test_one_group_has_a_bound_of_its_own() -> None:
    shard = Shard(1 << 30)
    with pytest.raises(StateFull, match="group g takes"):
        shard.do(store("g", 9_000, "x" * 4_096))


def test_a_new_member_finds_no_room_and_an_old_one_may_join_again() -> None:
    shard = Shard(100_000)
    shard.do(join("a", new=True, protocols=(("range", b"m" * 20_000),)))
    with pytest.raises(GroupFull):
        shard.do(join("b", new=True, protocols=(("range", b"m" * 20_000),)))
    shard.do(join("a", new=False, protocols=(("range", b"m" * 30_000),)))
    shard.do(RemoveMembers(group="g", members=(("a", None),)))
    assert shard.bytes(StateKind.GROUPS) == 64 + 1


def test_assignments_count_while_their_generation_lasts() -> None:
    shard = Shard(1 << 20)
    shard.do(join("a", new=True))
    machine = shard.machine.groups
    assert machine.groups["g"].round_open(1)
    shard.do(CompleteJoin(group="g", rebalance=1))
    before = shard.bytes(StateKind.GROUPS)
    shard.do(assign("a", 1, {"a": b"w" * 500}))
    assert shard.bytes(StateKind.GROUPS) == before + 500
    shard.do(join("a", new=False, protocols=(("range", b"other"),)))
    assert shard.bytes(StateKind.GROUPS) < before + 500


def test_new_producers_are_refused_and_known_ones_are_not() -> None:
    shard = Shard(8 * 1_000)  # producers may take 1,000 bytes: eight of them
    for producer in range(8):
        batch = build_batch(producer_id=ProducerId(producer), epoch=0, sequence=0)
        shard.do(AppendBatch(ONE, batch))
    assert shard.bytes(StateKind.PRODUCERS) == 8 * 120
    with pytest.raises(StateFull, match="idempotent producers"):
        shard.do(AppendBatch(ONE, build_batch(producer_id=ProducerId(8), epoch=0, sequence=0)))
    shard.do(AppendBatch(ONE, build_batch(producer_id=ProducerId(3), epoch=0, sequence=1)))
    shard.do(AppendBatch(ONE, build_batch()))


def test_a_full_group_table_does_not_stop_the_queue() -> None:
    shard = Shard(100_000)
    shard.do(store("g", 24, "x" * 1_000))
    shard.do(OpenWork(partition=ONE, group="queue", start=EARLIEST, rules=WorkRules()))
    shard.send(3)
    reply = shard.do(Acquire(partition=ONE, group="queue", messages_max=3))
    assert isinstance(reply, Acquired)
    assert reply.runs


def fifo(bytes_max: int) -> Shard:
    shard = Shard(bytes_max)
    shard.do(ConfigureQueue(partition=ONE, rules=QueueRules(fifo=True, delivery_headers=True)))
    shard.do(OpenWork(partition=ONE, group="queue", start=EARLIEST, rules=WorkRules()))
    return shard


def test_a_fifo_queue_is_full_and_is_worked_off() -> None:
    shard = fifo(4 * 1_000)  # messages may take 1,000 bytes
    shard.send(20, group="g")
    assert shard.bytes(StateKind.MESSAGES) == 20 * (48 + 1)
    shard.send(1, group="g")
    with pytest.raises(StateFull, match="let workers settle"):
        shard.send(1, group="g")
    reply = shard.do(Acquire(partition=ONE, group="queue", messages_max=5))
    assert isinstance(reply, Acquired)
    settled = tuple(Settlement(run[0], run[1], reply.epoch, Verdict.ACK) for run in reply.runs)
    shard.do(Settle(partition=ONE, group="queue", settlements=settled))
    shard.send(1, group="g")


def test_leases_of_a_standard_queue_are_refused_only_if_they_add_state() -> None:
    shard = Shard(4 * 500)  # messages may take 500 bytes: ten runs
    shard.do(OpenWork(partition=ONE, group="queue", start=EARLIEST, rules=WorkRules()))
    shard.send(30)
    acquire = Acquire(partition=ONE, group="queue", messages_max=1, lease_ms=1_000)
    for _ in range(11):
        shard.do(acquire)
    with pytest.raises(StateFull):
        shard.do(acquire)
    with pytest.raises(StateFull):
        shard.do(OpenWork(partition=ONE, group="other", start=EARLIEST, rules=WorkRules()))
    shard.send(1)  # A message like all others costs nothing.
    shard.now_ms += 5_000
    settlement = Settlement(Offset(0), Offset(1), 1, Verdict.ACK)
    shard.do(Settle(partition=ONE, group="queue", settlements=(settlement,)))
    shard.do(acquire)  # Leases that have ended are delivered again, and shrink the state.


def test_ids_fill_their_share_and_leave_with_their_window() -> None:
    shard = Shard(4 * 300)  # ids may take 300 bytes: ten of them
    rules = QueueRules(deduplication=Deduplication.ID, deduplication_ms=1_000)
    shard.do(ConfigureQueue(partition=ONE, rules=rules))
    for number in range(10):
        shard.send(1, dedup=f"id {number}")
    assert shard.bytes(StateKind.DEDUPLICATION) == 300
    with pytest.raises(StateFull, match="deduplication window"):
        shard.send(1, dedup="another")
    shard.do(CreatePartition(partition=PartitionId(2)))
    shard.do(AppendBatch(PartitionId(2), build_batch()))


def test_what_is_gone_counts_no_more() -> None:
    shard = fifo(1 << 20)
    shard.send(20, group="g")
    shard.do(DeletePartition(partition=ONE))
    assert not any(shard.machine.state_bytes().values())
