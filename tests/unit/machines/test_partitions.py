"""`machines.partitions`: what is refused, what is planned, what is applied, what is remembered."""

import msgspec
import pytest

from penstock.core.entries import EntryKind
from penstock.core.errors import (
    InvalidBatch,
    LocalError,
    OffsetOutOfRange,
    OutOfOrderSequence,
    Overloaded,
    PartitionExists,
    ProducerFenced,
    UnknownPartition,
    UnsupportedBatch,
    UnsupportedVersion,
)
from penstock.core.records import check_batch, read_header
from penstock.core.types import Offset, PartitionId, ProducerId, Term
from penstock.machines import (
    Append,
    AppendBatch,
    Appended,
    Applied,
    Bounds,
    CreatePartition,
    DeletePartition,
    ExpireProducers,
    Known,
    PartitionCreated,
    PartitionDeleted,
    Partitions,
    PartitionsSettings,
    PartitionTrimmed,
    ProducersExpired,
    Propose,
    Request,
    TrimPartition,
    UseVersion,
    VersionInUse,
    WakeReaders,
    join_appends,
)
from penstock.machines.commands import decode_command, encode_command
from tests.batches import build_batch, with_bytes
from tests.unit.machines.shard import Shard, append, offsets, produce

ONE, TWO = PartitionId(1), PartitionId(2)


@pytest.fixture
def shard() -> Shard:
    """A leader with the empty partitions 1 and 2."""
    shard = Shard()
    shard.create(1, 2)
    return shard


def trim(before: int, number: PartitionId = ONE) -> TrimPartition:
    return TrimPartition(partition=number, before=Offset(before))


def delete(number: PartitionId = ONE) -> DeletePartition:
    return DeletePartition(partition=number)


# Appending.


def test_offsets_are_dense(shard: Shard) -> None:
    plans = [shard.plan(append(count=count)) for count in (3, 1, 2)]
    assert [offsets(plan) for plan in plans] == [(0, 3), (3, 4), (4, 6)]
    assert shard.machine.bounds(ONE) == (0, 0), "nothing is there before it is applied"
    shard.apply_all()
    assert shard.machine.bounds(ONE) == Bounds(Offset(0), Offset(6))
    assert shard.machine.bounds(TWO) == (0, 0)


def test_the_batch_is_stamped_in_place(shard: Shard) -> None:
    shard.do(append(count=5))
    shard.term = Term(4)
    request = append(count=2)
    plan = shard.plan(request)
    assert isinstance(plan, Append)
    assert plan.batch is request.batch
    header = check_batch(plan.batch)
    assert (header.base_offset, header.leader_epoch) == (5, 4)


def test_a_plan_says_what_the_slice_needs(shard: Shard) -> None:
    plan = shard.plan(append(count=3, timestamp=5_000))
    assert isinstance(plan, Append)
    assert (plan.partition, plan.record_count, plan.max_timestamp) == (1, 3, 5_002)


def test_applying_answers_once_per_slice_and_wakes_readers(shard: Shard) -> None:
    plans = [shard.plan_only(one) for one in (append(1), append(2, 4), append(1, 2))]
    appends = [plan for plan in plans if isinstance(plan, Append)]
    shard.write(EntryKind.APPEND, join_appends(appends))
    assert shard.apply() == Applied(
        (Appended(ONE, Offset(0), Offset(3)), Appended(TWO, Offset(0), Offset(4))),
        (WakeReaders(ONE, Offset(3)), WakeReaders(TWO, Offset(4))),
    )
    assert [plan.reply for plan in appends] == [
        Appended(ONE, Offset(0), Offset(1)),
        Appended(TWO, Offset(0), Offset(4)),
        Appended(ONE, Offset(1), Offset(3)),
    ]


def test_entries_of_other_kinds_mean_nothing(shard: Shard) -> None:
    before = shard.machine.snapshot()
    shard.write(EntryKind.NOOP, b"")
    shard.write(EntryKind.MEMBERSHIP, b"not looked at")
    assert shard.apply() == shard.apply() == Applied()
    assert shard.machine.snapshot() == before


ATTRIBUTES = 21
REFUSED_BATCHES = {
    "damaged": (build_batch()[:-1], InvalidBatch),
    "transactional": (build_batch(transactional=True), UnsupportedBatch),
    "control": (with_bytes(build_batch(), ATTRIBUTES, b"\0\x20"), UnsupportedBatch),
    "codec 5": (with_bytes(build_batch(), ATTRIBUTES, b"\0\x05"), UnsupportedBatch),
    "more records than bytes": (
        with_bytes(with_bytes(build_batch(), 23, b"\0\0\0\x63"), 57, b"\0\0\0\x64"),
        UnsupportedBatch,
    ),
    "two billion compressed records": (
        with_bytes(
            with_bytes(build_batch(compression=1), 23, b"\x7f\xff\xff\xfe"), 57, b"\x7f\xff\xff\xff"
        ),
        UnsupportedBatch,
    ),
}


@pytest.mark.parametrize("name", REFUSED_BATCHES)
def test_a_refused_batch_changes_nothing(shard: Shard, name: str) -> None:
    batch, error = REFUSED_BATCHES[name]
    sent = bytearray(batch)
    with pytest.raises(error):
        shard.plan(AppendBatch(ONE, sent))
    assert sent == batch
    assert shard.machine.describe() == "version 1 time 1000 partitions 2 planned 0"
    assert offsets(shard.plan(append())) == (0, 1)


def test_as_many_tiny_records_as_fit_are_accepted(shard: Shard) -> None:
    assert offsets(shard.plan(AppendBatch(ONE, build_batch(60, value=b"")))) == (0, 60)


def test_an_unknown_partition_is_refused(shard: Shard) -> None:
    for request in (append(9), trim(0, PartitionId(9)), delete(PartitionId(9))):
        with pytest.raises(UnknownPartition, match="no partition 9"):
            shard.plan(request)
    with pytest.raises(UnknownPartition):
        shard.machine.bounds(PartitionId(9))
    with pytest.raises(UnknownPartition):
        shard.machine.producers(PartitionId(9))


def test_a_stranger_is_no_request(shard: Shard) -> None:
    with pytest.raises(LocalError, match="Request is no request"):
        shard.plan(Request())


# Producers.


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "planned"])
def test_a_retry_gets_the_same_answer(shard: Shard, applied: bool) -> None:
    shard.plan(append(count=5))
    shard.plan(produce(0, count=3))
    if applied:
        shard.apply_all()
    assert shard.plan(produce(0, count=3)) == Known(Appended(ONE, Offset(5), Offset(8)))
    shard.apply_all()
    assert shard.machine.bounds(ONE) == (0, 8)


def test_the_window_reaches_over_applied_and_planned(shard: Shard) -> None:
    for sequence in range(4):
        shard.plan(produce(sequence))
    shard.apply()
    shard.apply()
    for sequence in range(4, 7):
        shard.plan(produce(sequence))
    for sequence in (2, 3, 4, 5, 6):
        plan = shard.plan(produce(sequence))
        assert plan == Known(Appended(ONE, Offset(sequence), Offset(sequence + 1)))
    with pytest.raises(OutOfOrderSequence):
        shard.plan(produce(1))
    shard.apply_all()
    assert [
        batch.first_sequence for batch in shard.machine.producers(ONE)[ProducerId(7)].batches
    ] == [
        2,
        3,
        4,
        5,
        6,
    ]


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "planned"])
def test_gaps_and_old_epochs_are_refused(shard: Shard, applied: bool) -> None:
    shard.plan(produce(0, epoch=1))
    if applied:
        shard.apply_all()
    with pytest.raises(OutOfOrderSequence):
        shard.plan(produce(2, epoch=1))
    with pytest.raises(ProducerFenced):
        shard.plan(produce(1, epoch=0))
    assert offsets(shard.plan(produce(1, epoch=1))) == (1, 2)
    assert offsets(shard.plan(produce(0, epoch=2))) == (2, 3)


def test_partitions_and_producers_do_not_mix(shard: Shard) -> None:
    for request in (produce(0), produce(0, number=2), produce(0, producer=8)):
        assert isinstance(shard.plan(request), Append)
    shard.apply_all()
    assert list(shard.machine.producers(ONE)) == [7, 8]
    assert list(shard.machine.producers(TWO)) == [7]


def test_a_producer_not_known_may_start_anywhere(shard: Shard) -> None:
    assert offsets(shard.plan(produce(4_711))) == (0, 1)
    assert offsets(shard.plan(produce(4_712))) == (1, 2)


def test_many_batches_of_one_producer_in_one_slice(shard: Shard) -> None:
    plans = [shard.plan_only(produce(sequence)) for sequence in range(7)]
    shard.write(EntryKind.APPEND, join_appends([one for one in plans if isinstance(one, Append)]))
    shard.apply_all()
    remembered = shard.machine.producers(ONE)[ProducerId(7)].batches
    assert [batch.base_offset for batch in remembered] == [2, 3, 4, 5, 6]
    assert shard.machine.describe().endswith("planned 0")


def test_producers_are_bounded() -> None:
    shard = Shard(PartitionsSettings(producers_per_partition_max=3))
    shard.create(1)
    shard.do(produce(0, producer=1))
    shard.plan(produce(0, producer=2))
    shard.plan(produce(1, producer=1))
    shard.plan(produce(0, producer=3))
    for _ in range(2):
        with pytest.raises(Overloaded, match="3 producers"):
            shard.plan(produce(0, producer=4))
        shard.apply_all()
    assert isinstance(shard.plan(produce(2, producer=1)), Append), "those known go on"
    assert isinstance(shard.plan(append()), Append), "and so do those without an id"


def test_producers_expire_by_log_time(shard: Shard) -> None:
    shard.do(produce(0, producer=1))
    shard.now_ms = 2_000
    shard.do(produce(0, producer=2))
    shard.do(produce(0, producer=2, number=2))
    shard.now_ms = 9_000
    assert shard.do(ExpireProducers(before_ms=1_000)).replies == (ProducersExpired(0),)
    assert shard.do(ExpireProducers(before_ms=1_001)).replies == (ProducersExpired(1),)
    assert list(shard.machine.producers(ONE)) == [2]
    assert shard.do(ExpireProducers(before_ms=2_001)).replies == (ProducersExpired(2),)
    assert offsets(shard.plan(produce(8, producer=2))) == (2, 3)


def test_a_planned_expiry_counts(shard: Shard) -> None:
    shard.do(produce(0, producer=1))
    shard.now_ms = 2_000
    shard.do(append())
    shard.plan(ExpireProducers(before_ms=1_500))
    assert offsets(shard.plan(produce(50, producer=1))) == (2, 3), "as of a stranger"
    with pytest.raises(OutOfOrderSequence):
        shard.plan(produce(1, producer=1))
    shard.apply_all()
    assert len(shard.machine.producers(ONE)[ProducerId(1)].batches) == 1


def test_a_batch_under_way_keeps_its_producer(shard: Shard) -> None:
    shard.plan(produce(0))
    shard.now_ms = 9_000
    shard.plan(ExpireProducers(before_ms=8_000))
    assert decode_command(shard.log[-1].payload) == ExpireProducers(stamp_ms=9_000, before_ms=1_000)
    assert isinstance(shard.plan(produce(0)), Known)
    shard.apply_all()
    assert isinstance(shard.plan(produce(0)), Known)


# Life and log start of a partition.


def test_create_and_delete(shard: Shard) -> None:
    three = PartitionId(3)
    create = CreatePartition(partition=three)
    assert shard.do(create) == Applied((PartitionCreated(three),))
    with pytest.raises(PartitionExists, match="partition 3"):
        shard.plan(create)
    shard.do(append(3, 5))
    assert shard.do(delete(three)) == Applied(
        (PartitionDeleted(three),), (WakeReaders(three, Offset(5)),)
    )
    assert shard.machine.log_starts() == {1: 0, 2: 0}


def test_planned_creates_and_deletes_count(shard: Shard) -> None:
    create = CreatePartition(partition=PartitionId(3))
    shard.plan(create)
    with pytest.raises(PartitionExists):
        shard.plan(create)
    assert offsets(shard.plan(append(3, 2))) == (0, 2)
    shard.plan(delete(PartitionId(3)))
    with pytest.raises(UnknownPartition):
        shard.plan(append(3))
    shard.apply_all()
    assert shard.machine.log_starts() == {1: 0, 2: 0}


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "planned"])
def test_a_partition_made_again_starts_afresh(shard: Shard, applied: bool) -> None:
    shard.plan(produce(0))
    if applied:
        shard.apply()
    shard.plan(delete())
    shard.plan(CreatePartition(partition=ONE))
    assert offsets(shard.plan(produce(0))) == (0, 1), "no duplicate: another life"
    assert isinstance(shard.plan(produce(0)), Known)
    while shard.applied < len(shard.log):
        shard.apply()
        assert isinstance(shard.plan(produce(0)), Known)
    assert shard.machine.bounds(ONE) == (0, 1)


@pytest.mark.parametrize("number", [-1, 2**32])
def test_a_partition_has_32_bits(shard: Shard, number: int) -> None:
    with pytest.raises(LocalError, match="32 bits"):
        shard.plan(CreatePartition(partition=PartitionId(number)))


def test_partitions_are_bounded() -> None:
    shard = Shard(PartitionsSettings(partitions_max=2))
    shard.create(1)
    shard.plan(CreatePartition(partition=TWO))
    for _ in range(2):
        with pytest.raises(Overloaded, match="the bound is 2"):
            shard.plan(CreatePartition(partition=PartitionId(3)))
        shard.apply_all()


def test_trimming_moves_the_log_start_up_only(shard: Shard) -> None:
    shard.do(append(count=10))
    assert shard.do(trim(4)) == Applied((PartitionTrimmed(ONE, Offset(4)),))
    assert shard.machine.bounds(ONE) == (4, 10)
    for before in (4, 3, 0, -1):
        assert shard.plan(trim(before)) == Known(PartitionTrimmed(ONE, Offset(4)))
    with pytest.raises(OffsetOutOfRange, match="ends at offset 10"):
        shard.plan(trim(11))
    shard.do(trim(10))
    assert shard.machine.bounds(ONE) == (10, 10)
    assert shard.machine.log_starts() == {1: 10, 2: 0}
    assert offsets(shard.plan(append())) == (10, 11)


def test_trimming_sees_what_is_planned(shard: Shard) -> None:
    shard.plan(append(count=3))
    shard.plan(trim(3))
    assert shard.plan(trim(2)) == Known(PartitionTrimmed(ONE, Offset(3)))
    shard.apply_all()
    assert shard.machine.bounds(ONE) == (3, 3)


def test_trimming_keeps_producers(shard: Shard) -> None:
    shard.do(produce(0))
    shard.do(trim(1))
    assert isinstance(shard.plan(produce(0)), Known)


# Time.


def test_stamps_never_decrease(shard: Shard) -> None:
    shard.now_ms = 5_000
    first = shard.plan(append())
    shard.now_ms = 3_000
    second, third = shard.plan(append()), shard.plan(delete(TWO))
    assert not isinstance(first, Known)
    assert not isinstance(second, Known)
    assert not isinstance(third, Known)
    assert [first.stamp_ms, second.stamp_ms, third.stamp_ms] == [5_000] * 3
    assert shard.machine.time_ms == 1_000, "a plan does not move the time"
    shard.apply_all()
    assert shard.machine.time_ms == 5_000
    shard.lose_leadership()
    last = shard.plan(append())
    assert isinstance(last, Append)
    assert last.stamp_ms == 5_000, "the next leader's clock may be behind"


def test_a_refused_or_known_request_does_not_move_the_planned_time(shard: Shard) -> None:
    shard.do(produce(0))
    shard.now_ms = 9_000
    assert isinstance(shard.plan(produce(0)), Known)
    with pytest.raises(OutOfOrderSequence):
        shard.plan(produce(5))
    shard.now_ms = 2_000
    plan = shard.plan(append())
    assert isinstance(plan, Append)
    assert plan.stamp_ms == 2_000


def test_a_stamp_that_goes_back_is_a_broken_promise(shard: Shard) -> None:
    payload = encode_command(delete(), stamp_ms=999)
    shard.write(EntryKind.COMMAND, payload)
    with pytest.raises(AssertionError, match="back from 1000 to 999"):
        shard.apply()


# Leadership.


def test_lost_plans_leave_no_trace(shard: Shard) -> None:
    shard.do(produce(0))
    before = shard.machine.snapshot()
    shard.now_ms = 7_000
    for request in (produce(1), append(2, 9), trim(1), delete(TWO), ExpireProducers(before_ms=900)):
        shard.plan(request)
    shard.lose_leadership()
    assert shard.machine.snapshot() == before
    shard.now_ms = 1_500
    plan = shard.plan(produce(1))
    assert offsets(plan) == (1, 2)
    assert isinstance(plan, Append)
    assert plan.stamp_ms == 1_500
    assert offsets(shard.plan(append(2))) == (0, 1)


def test_a_lost_expiry_forgets_nobody(shard: Shard) -> None:
    shard.do(produce(0))
    shard.now_ms = 2_000
    shard.do(append())
    shard.plan(ExpireProducers(before_ms=1_500))
    shard.lose_leadership()
    assert isinstance(shard.plan(produce(0)), Known)
    with pytest.raises(OutOfOrderSequence):
        shard.plan(produce(50))


def test_the_overlay_is_empty_when_everything_is_applied(shard: Shard) -> None:
    for request in (produce(0), produce(1), append(2), trim(1), delete(TWO)):
        shard.plan(request)
    assert shard.machine.describe().endswith("planned 2")
    shard.apply_all()
    assert shard.machine.describe() == "version 1 time 1000 partitions 1 planned 0"


def test_an_entry_at_the_wrong_offset_is_a_broken_promise(shard: Shard) -> None:
    plan = shard.plan(append())
    assert isinstance(plan, Append)
    shard.apply()
    shard.write(EntryKind.APPEND, join_appends([plan]))
    with pytest.raises(AssertionError, match="does not start at offset 1"):
        shard.apply()


# Versions.


def test_a_version_this_build_does_not_know(shard: Shard) -> None:
    with pytest.raises(UnsupportedVersion, match="version 2 .* knows up to 1"):
        shard.plan(UseVersion(version=2))
    assert shard.plan(UseVersion(version=1)) == Known(VersionInUse(1))
    before = shard.machine.snapshot()
    shard.write(EntryKind.COMMAND, encode_command(UseVersion(version=2), stamp_ms=5_000))
    with pytest.raises(UnsupportedVersion, match="start this node with a later version"):
        shard.apply()
    assert shard.machine.snapshot() == before


def test_all_switch_at_the_same_index_and_never_back() -> None:
    shard = Shard(PartitionsSettings(newest_version=3))
    shard.create(1)
    shard.plan(UseVersion(version=3))
    with pytest.raises(UnsupportedVersion, match="never go back"):
        shard.plan(UseVersion(version=2))
    shard.lose_leadership()
    assert isinstance(shard.plan(UseVersion(version=2)), Propose)
    assert shard.plan(UseVersion(version=2)) == Known(VersionInUse(2))
    assert shard.machine.version == 1
    assert shard.apply().replies == (VersionInUse(2),)
    assert shard.machine.version == 2
    for version in (1, 0):
        with pytest.raises(UnsupportedVersion):
            shard.plan(UseVersion(version=version))
    with pytest.raises(UnsupportedVersion, match="this build knows up to 1"):
        Partitions().restore(shard.machine.snapshot())
    newer = Partitions(PartitionsSettings(newest_version=3))
    newer.restore(shard.machine.snapshot())
    assert newer.version == 2


def test_a_command_of_the_future_changes_nothing(shard: Shard) -> None:
    before = shard.machine.snapshot()
    shard.write(EntryKind.COMMAND, msgspec.msgpack.encode(["paint_partition", 5_000, 1]))
    with pytest.raises(UnsupportedVersion, match="paint_partition"):
        shard.apply()
    assert shard.machine.snapshot() == before


# Snapshots.


def test_a_snapshot_holds_everything(shard: Shard) -> None:
    for sequence in range(7):
        shard.do(produce(sequence))
    shard.do(append(2, 4))
    shard.do(trim(3))
    other = Partitions()
    other.restore(shard.machine.snapshot())
    assert other.snapshot() == shard.machine.snapshot()
    assert other.producers(ONE) == shard.machine.producers(ONE)
    assert (other.bounds(ONE), other.bounds(TWO)) == ((3, 7), (0, 4))
    assert other.time_ms == 1_000
    again = other.plan(produce(2), now_ms=0, term=Term(2))
    assert again == Known(Appended(ONE, Offset(2), Offset(3)))


def test_a_snapshot_does_not_tell_how_the_state_came_about() -> None:
    first, second = Shard(), Shard()
    first.create(1, 2, 300)
    second.create(300, 2, 4, 1)
    second.do(delete(PartitionId(4)))
    first.do(produce(0, producer=5))  # Forgotten by the epoch after.
    second.do(append())
    for shard in (first, second):
        shard.do(produce(0, producer=9))
        shard.do(produce(0, producer=5, epoch=1))
    assert list(first.machine.log_starts()) != list(second.machine.log_starts()), "other orders"
    assert first.machine.snapshot() == second.machine.snapshot()


def test_forgotten_producers_leave_no_trace(shard: Shard) -> None:
    other = Shard()
    other.create(1, 2)
    shard.do(produce(0))
    other.do(append())
    for one in (shard, other):
        one.now_ms = 2_000
        one.do(append())
        one.do(ExpireProducers(before_ms=1_500))
    assert shard.machine.snapshot() == other.machine.snapshot()


def test_a_snapshot_leaves_plans_out(shard: Shard) -> None:
    before = shard.machine.snapshot()
    shard.plan(produce(0))
    assert shard.machine.snapshot() == before


def test_restoring_forgets_state_and_plans(shard: Shard) -> None:
    empty = Partitions().snapshot()
    shard.do(append())
    shard.plan(append())
    shard.machine.restore(empty)
    assert shard.machine.describe() == "version 1 time 0 partitions 0 planned 0"
    assert shard.machine.snapshot() == empty


@pytest.mark.parametrize("data", [b"", b"\x01", b"noise", msgspec.msgpack.encode([1, 2])])
def test_what_is_no_snapshot_changes_nothing(shard: Shard, data: bytes) -> None:
    before = shard.machine.snapshot()
    with pytest.raises(UnsupportedVersion, match="no snapshot of partitions"):
        shard.machine.restore(data)
    assert shard.machine.snapshot() == before


def test_the_layout_of_a_snapshot_never_changes(shard: Shard) -> None:
    shard.do(produce(3, count=2))
    assert msgspec.msgpack.decode(shard.machine.snapshot(), strict=True) == [
        1,
        1_000,
        {1: [0, 2, {7: [0, 1_000, [[3, 4, 0]]]}], 2: [0, 0, None]},
    ]


def test_a_batch_in_the_log_reads_as_planned(shard: Shard) -> None:
    plan = shard.plan(append(count=2))
    assert isinstance(plan, Append)
    header = read_header(shard.log[-1].payload, len(shard.log[-1].payload) - len(plan.batch))
    assert (header.base_offset, header.record_count) == (0, 2)
