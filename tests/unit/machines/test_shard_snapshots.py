"""`machines.shard_machine`: snapshots in pieces, in the layout of every release since 0.1.0."""

from collections.abc import Callable
from itertools import islice

import msgspec
import pytest

from penstock.core.entries import Entry, EntryKind
from penstock.core.message_batches import build_messages
from penstock.core.queue_rules import Deduplication, QueueRules, WorkRules
from penstock.core.types import EARLIEST, LATEST, Index, Offset, PartitionId, Term
from penstock.machines import (
    AppendBatch,
    CreatePartition,
    DeletePartition,
    TrimPartition,
    shard_machine,
)
from penstock.machines.machine import Propose
from penstock.machines.queue_commands import (
    Acquire,
    CloseWork,
    ConfigureQueue,
    OpenWork,
    Purge,
    ResetWork,
    TurnClock,
    UseQueuesVersion,
)
from penstock.machines.queue_copy import QueueCopy
from penstock.machines.queues import Queues
from penstock.machines.shard_machine import ShardMachine
from penstock.machines.state_pieces import Patch, joined
from tests.groups import join, store
from tests.unit.machines.queue_shard import GROUP, ONE, QueueShard, message


class Layout(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A shard's snapshot as release 0.1.0 reads it."""

    partitions: bytes
    groups: bytes
    catalog: bytes
    queues: bytes = b""
    moves: bytes = b""
    publications: bytes = b""


def filled(groups: int = 50) -> ShardMachine:
    machine = ShardMachine()
    commands = [store(3, group=f"g{number}") for number in range(groups)]
    for index, command in enumerate([join("a", new=True), *commands], start=1):
        plan = machine.plan(command, now_ms=1_000, term=Term(1))
        assert isinstance(plan, Propose)
        machine.apply(Entry(Index(index), Term(1), EntryKind.COMMAND, plan.payload))
    return machine


def test_the_first_release_reads_it() -> None:
    machine = filled()
    state = msgspec.msgpack.decode(machine.snapshot(), type=Layout)
    assert state.groups == machine.groups.snapshot()
    version, _, groups = msgspec.msgpack.decode(state.groups)
    assert version == 1
    assert len(groups) == 51


def test_what_one_encoding_would_give_comes_out() -> None:
    """Byte for byte, so that a release that encodes all at once has the same snapshot."""
    groups = filled().groups
    records = {name: groups.groups[name].record() for name in sorted(groups.groups)}
    assert groups.snapshot() == msgspec.msgpack.encode([1, 1_000, records])


def test_a_snapshot_shows_the_moment_at_which_it_was_asked_for() -> None:
    machine = filled()
    before = machine.snapshot()
    pieces = machine.snapshot_pieces()
    plan = machine.plan(store(9, group="g7"), now_ms=2_000, term=Term(1))
    assert isinstance(plan, Propose)
    machine.apply(Entry(Index(100), Term(1), EntryKind.COMMAND, plan.payload))
    assert joined(pieces) == before != machine.snapshot()


WORK = WorkRules()
RULES = QueueRules(delivery_headers=True, deduplication=Deduplication.ID)
FIRST, LAST = PartitionId(1), PartitionId(40)
WITHOUT_TIMERS, SHORT = PartitionId(20), PartitionId(30)


def with_queues() -> QueueShard:
    """A queue with messages, ids and leases in each of many partitions."""
    shard = QueueShard(None, None)
    shard.do(UseQueuesVersion(version=2))
    for number in range(FIRST, LAST + 1):
        partition = PartitionId(number)
        if partition != ONE:
            shard.do(CreatePartition(partition=partition))
        shard.do(ConfigureQueue(partition=partition, rules=RULES))
        shard.do(OpenWork(partition=partition, group=GROUP, start=EARLIEST, rules=WORK))
        send(shard, partition, delay_ms=0 if partition == WITHOUT_TIMERS else 9)
        if partition != WITHOUT_TIMERS:
            lease(shard, partition)
    shard.do(ConfigureQueue(partition=SHORT, rules=QueueRules(length_max=1, drops_oldest=True)))
    return shard


def send(shard: QueueShard, partition: PartitionId, delay_ms: int = 9) -> None:
    ids = [b"%d" % (shard.index + one) for one in range(5)]
    sent = [message(dedup=one, delay_ms=delay_ms) for one in ids]
    shard.do(AppendBatch(partition, build_messages(sent, 1_000)))


def lease(shard: QueueShard, partition: PartitionId) -> None:
    shard.do(Acquire(partition=partition, group=GROUP, messages_max=2, lease_ms=50))


def later(shard: QueueShard) -> None:
    shard.now_ms += 2 * RULES.deduplication_ms
    shard.do(TurnClock())


CHANGES: dict[str, Callable[[QueueShard, PartitionId], object]] = {
    "send": send,
    "drop": lambda shard, _: send(shard, SHORT),
    "lease": lease,
    "time": lambda shard, _: later(shard),
    "rules": lambda shard, one: shard.do(
        ConfigureQueue(partition=one, rules=QueueRules(fifo=True))
    ),
    "open": lambda shard, one: shard.do(
        OpenWork(partition=one, group="other", start=EARLIEST, rules=WORK)
    ),
    "close": lambda shard, one: shard.do(CloseWork(partition=one, group=GROUP)),
    "reset": lambda shard, one: shard.do(ResetWork(partition=one, group=GROUP, start=LATEST)),
    "purge": lambda shard, one: shard.do(Purge(partition=one, group=GROUP)),
    "trim": lambda shard, one: shard.do(TrimPartition(partition=one, before=Offset(3))),
    "delete": lambda shard, one: shard.do(DeletePartition(partition=one)),
    "no queue": lambda shard, one: shard.do(CloseWork(partition=one, group="")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("pieces_before", [0, 60])
def test_queues_are_shown_as_they_were_whatever_becomes_of_them(
    change: Callable[[QueueShard, PartitionId], object], pieces_before: int
) -> None:
    shard = with_queues()
    queues = shard.machine.queues
    before, pieces = queues.snapshot(), queues.snapshot_pieces()
    seen = list(islice(pieces, pieces_before))
    for number in (FIRST, 7, LAST):
        change(shard, PartitionId(number))
        seen += islice(pieces, 1)
    new = PartitionId(LAST + 1)
    shard.do(CreatePartition(partition=new))
    shard.do(ConfigureQueue(partition=new, rules=RULES))
    seen += pieces
    assert joined(iter(seen)) == before != queues.snapshot()
    assert not queues._copies


def test_the_moment_of_a_snapshot_encodes_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = with_queues()
    whole = shard.machine.snapshot()
    copied: list[PartitionId] = []
    copy = Queues._copy

    def counted(queues: Queues, partition: PartitionId) -> QueueCopy:
        copied.append(partition)
        return copy(queues, partition)

    monkeypatch.setattr(Queues, "_copy", counted)
    pieces = shard.machine.snapshot_pieces()
    assert copied == []
    send(shard, LAST)
    assert copied == [LAST]
    assert joined(pieces) == whole
    assert sorted(copied) == list(range(FIRST, LAST + 1))


def test_a_snapshot_that_is_not_wanted_any_more_leaves_nothing_behind() -> None:
    shard = with_queues()
    queues = shard.machine.queues
    pieces = queues.snapshot_pieces()
    next(islice(pieces, 30, None))
    send(shard, LAST)
    del pieces
    assert not queues._copies
    for number in range(FIRST, LAST + 1):
        assert not queues.groups(PartitionId(number))[GROUP]._runs._copies


def test_a_machine_that_does_not_fit_goes_on_behind_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = filled()
    whole = machine.snapshot()
    monkeypatch.setattr(shard_machine, "SNAPSHOT_SECTION_BYTES_MAX", 300)
    split = machine.snapshot()
    assert len(split) > len(whole)
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(split, type=Layout)
    again = ShardMachine()
    again.restore(split)
    monkeypatch.undo()
    assert again.snapshot() == whole
    assert again.state_bytes() == machine.state_bytes()


def test_pieces_are_small() -> None:
    pieces = [one for one in filled(5_000).snapshot_pieces() if not isinstance(one, Patch)]
    assert max(map(len, pieces)) < 64 * 1024


def test_the_old_state_is_in_force_until_the_new_one_is_complete() -> None:
    state, machine = filled().snapshot(), filled(3)
    before = machine.snapshot()
    restoring = machine.restoring(state)
    for _ in range(20):
        next(restoring)
        assert machine.snapshot() == before
    while True:
        try:
            next(restoring)
        except StopIteration as end:
            end.value()
            break
    assert machine.snapshot() == state
