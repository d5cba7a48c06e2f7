"""The log as the engine sees it: staging, jobs, reading, truncating, poisoning."""

import pytest

from penstock.core.entries import HardState, Membership, SnapshotMark
from penstock.core.errors import (
    DamagedFile,
    DirectoryInUse,
    DiskFailed,
    ForeignDirectory,
    LogPoisoned,
    NewerFormat,
)
from penstock.core.types import Index, NodeId, Offset, PartitionId, ShardId, Term
from penstock.storage.envelope import replace_whole, seal
from penstock.storage.identity import Identity, StoredIdentity
from penstock.storage.job import run
from penstock.storage.log import ShardLog
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.logs import (
    DIRECTORY,
    EVERYTHING,
    IDENTITY,
    SETTINGS,
    EntryMaker,
    Place,
    batches_of,
    complete,
    drain,
    everything,
    membership,
    noop,
    open_log,
    write,
)


def test_a_new_log_is_empty(place: Place) -> None:
    log = place.open()
    assert (log.first_index, log.last_index, log.durable_index) == (1, 0, 0)
    assert log.hard_state == HardState()
    assert log.snapshot == SnapshotMark()
    assert log.load_snapshot() == (SnapshotMark(), b"")
    assert log.term(Index(0)) == 0
    assert log.memberships() == []
    assert log.take_job() is None
    assert log.quarantine is None
    assert log.read(PartitionId(1), Offset(0), 100, EVERYTHING) == b""
    assert log.offset_for_time(PartitionId(1), 0) is None
    assert log.offset_before_bytes(PartitionId(1), 10) is None
    assert log.offset_before_time(PartitionId(1), 10) is None
    assert log.partition_bytes(PartitionId(1), Offset(0)) == 0


def test_what_is_staged_is_durable_after_the_job(place: Place) -> None:
    log = place.open()
    entries = EntryMaker().run(1, 3)
    log.stage(hard_state=HardState(Term(1), NodeId(2)), entries=entries)
    assert (log.last_index, log.durable_index) == (3, 0)
    assert log.entries(Index(1), Index(4), 10_000) == tuple(entries)
    job = log.take_job()
    assert job is not None
    run(job)
    assert log.durable_index == 0, "durable only when the loop says so"
    assert log.read(PartitionId(1), Offset(0), 1000, EVERYTHING) == b""
    log.complete(job)
    assert log.durable_index == 3
    assert log.read(PartitionId(1), Offset(0), 10_000, EVERYTHING) == batches_of(entries, 1)


def test_entries_gather_while_a_job_is_out(place: Place) -> None:
    log = place.open()
    maker = EntryMaker()
    log.stage(hard_state=HardState(Term(1), NodeId(1)), entries=maker.run(1, 2))
    first = log.take_job()
    log.stage(entries=maker.run(3, 4))
    assert log.take_job() is None, "one write job at a time"
    assert first is not None
    run(first)
    log.complete(first)
    assert log.durable_index == 2
    drain(log)
    assert log.durable_index == 4


@pytest.mark.parametrize("verify_all", [False, True])
def test_everything_is_there_after_reopening(place: Place, verify_all: bool) -> None:
    log = place.open()
    maker = EntryMaker()
    entries = [membership(1, 1, (1, 2)), *maker.run(2, 40), noop(41, 2), *maker.run(42, 60, 2)]
    log.stage(hard_state=HardState(Term(2), NodeId(3)))
    write(log, entries)
    log.note_commit(Index(55))
    for _ in range(2):
        log = place.open(verify_all=verify_all)
        assert log.hard_state == HardState(Term(2), NodeId(3))
        assert everything(log) == entries
        assert [log.term(Index(i)) for i in (0, 1, 40, 41, 60)] == [0, 1, 1, 2, 2]
        assert log.memberships() == [(1, Membership((NodeId(1), NodeId(2))))]
        assert log.committed_hint == 55
        assert log.statistics().segments > 3
        read = log.read(PartitionId(1), Offset(0), 1 << 20, EVERYTHING)
        assert read == batches_of(entries, 1)


def test_entries_come_up_to_a_bound_but_at_least_one(place: Place) -> None:
    log = place.open()
    entries = EntryMaker().run(1, 50)
    write(log, entries)
    size = len(entries[0].payload)
    assert log.entries(Index(5), Index(51), 0) == tuple(entries[4:5])
    assert log.entries(Index(5), Index(51), 3 * size) == tuple(entries[4:7])
    assert log.entries(Index(5), Index(7), 1 << 20) == tuple(entries[4:6])
    log.stage(entries=EntryMaker().run(51, 53))
    assert [e.index for e in log.entries(Index(49), Index(54), 1 << 20)] == [49, 50, 51, 52, 53]


def test_a_read_starts_with_the_batch_that_holds_the_offset(place: Place) -> None:
    log = place.open()
    maker = EntryMaker()
    entries = [maker.append(i, 1, (1, 2), count=3, batches=2) for i in range(1, 41)]
    write(log, entries)
    one = PartitionId(1)
    for offset in (0, 1, 2, 3, 5, 6, 100, 239):
        expected = batches_of(entries, 1, offset)
        assert log.read(one, Offset(offset), 1 << 20, EVERYTHING) == expected
    assert log.read(one, Offset(240), 1 << 20, EVERYTHING) == b""
    first = log.read(one, Offset(4), 1, EVERYTHING)
    assert first == batches_of(entries, 1, 4)[: len(first)]
    assert 0 < len(first) < 200
    assert log.read(one, Offset(0), 1 << 20, Offset(6)) == batches_of(entries[:1], 1)
    assert log.read(one, Offset(0), 1 << 20, Offset(5)) == first_batch(log, 0)
    assert log.read(one, Offset(0), 1 << 20, Offset(2)) == b"", "no batch is wholly below 2"
    two = log.read(one, Offset(0), 2 * len(first), EVERYTHING)
    assert len(two) == 2 * len(first)


def first_batch(log: ShardLog, offset: int) -> bytes:
    return log.read(PartitionId(1), Offset(offset), 1, EVERYTHING)


def test_the_entry_that_brought_a_message(place: Place) -> None:
    log = place.open()
    maker = EntryMaker()
    entries = [
        maker.append(i, 1 + i // 20, (1, 2) if i % 3 else (2,), count=3, batches=2)
        for i in range(1, 61)
    ]
    write(log, entries)
    assert log.statistics().segments > 1, "some are read from an index file"
    bringing = [entry for entry in entries if entry.index % 3]
    for number, entry in enumerate(bringing):
        for offset in (6 * number, 6 * number + 5):
            found = log.entry_of(PartitionId(1), Offset(offset))
            assert found == (entry.index, entry.term), offset
    assert log.entry_of(PartitionId(1), Offset(6 * len(bringing))) is None
    assert log.entry_of(PartitionId(9), Offset(0)) is None


def test_a_message_dated_ahead_is_not_younger_than_its_append(place: Place) -> None:
    log = place.open()
    maker = EntryMaker()
    ahead = {3: 1 << 40, 20: 1 << 41, 40: 1 << 62}
    entries = [
        maker.append(i, timestamp=ahead.get(i, 1000 * i), appended_ms=1000 * i)
        for i in range(1, 61)
    ]
    write(log, entries)
    assert log.statistics().segments > 2, "some are read from an index file"
    one = PartitionId(1)
    for index in range(1, 61):
        assert log.offset_before_time(one, 1000 * index) == index - 1
        assert log.offset_before_time(one, 1000 * index + 1) == index
    assert log.offset_before_time(one, 1 << 62) == 60, "the last one, too"
    assert log.offset_for_time(one, 1 << 40) == (2, 1 << 40), "it is found by the time it has"
    reopened = place.open()
    assert reopened.offset_before_time(one, 30_000) == 29


def test_a_message_dated_back_is_as_old_as_it_says(place: Place) -> None:
    log = place.open()
    maker = EntryMaker()
    write(log, [maker.append(i, timestamp=i, appended_ms=10_000 + i) for i in range(1, 11)])
    assert log.offset_before_time(PartitionId(1), 6) == 5
    assert log.offset_before_time(PartitionId(1), 5_000) == 10


def test_rot_in_the_time_of_an_append_deletes_nothing(place: Place) -> None:
    """Where to look is found by reads that are not verified; what may go is verified."""
    log = place.open()
    maker = EntryMaker()
    entries = [maker.append(i, timestamp=1 << 40, appended_ms=0x1000 * i) for i in range(1, 4)]
    write(log, entries)
    (name,) = place.names(".log")
    file = place.disk.open(place.path(name))
    position = file.read(0, file.size()).index(entries[2].payload[:8])
    file.close()
    place.flip(name, position + 1)
    log = place.open()
    with pytest.raises(DamagedFile):
        log.offset_before_time(PartitionId(1), 0x2800)


def test_offsets_are_found_by_time_and_size(place: Place) -> None:
    log = place.open()
    maker = EntryMaker()
    times = [1000, 3000, 2000, 5000, 4000, *range(6000, 46_000, 1000)]
    entries = [maker.append(i, timestamp=time) for i, time in enumerate(times, 1)]
    write(log, entries)
    one = PartitionId(1)
    assert log.offset_for_time(one, 0) == (0, 1000)
    assert log.offset_for_time(one, 1500) == (1, 3000)
    assert log.offset_for_time(one, 3001) == (3, 5000)
    assert log.offset_for_time(one, 30_000) == (29, 30_000)
    assert log.offset_for_time(one, 45_001) is None
    assert log.offset_before_time(one, 3001) == 3
    assert log.offset_before_time(one, 99_000) == 45
    size = len(batches_of(entries[-1:], 1))
    total = log.partition_bytes(one, Offset(0))
    assert total == len(batches_of(entries, 1))
    assert log.partition_bytes(one, Offset(44)) == size
    assert log.partition_bytes(one, Offset(45)) == 0
    assert log.offset_before_bytes(one, total) == 0
    assert log.offset_before_bytes(one, 2 * total) == 0
    assert log.offset_before_bytes(one, size) == 44
    assert log.offset_before_bytes(one, size + 1) == 43
    assert log.offset_before_bytes(one, 0) == 45


@pytest.mark.parametrize("first", [1, 20, 45, 59, 60])
def test_new_entries_replace_old_ones(place: Place, first: int) -> None:
    log = place.open()
    maker = EntryMaker()
    old = maker.run(1, 60)
    write(log, old)
    maker.rewind(old[: first - 1])
    new = maker.run(first, first + 2, 2)
    write(log, new)
    expected = old[: first - 1] + new
    for opened in (log, place.open(verify_all=True)):
        assert opened.last_index == first + 2
        if opened is log:
            place.close()
            continue
        assert everything(opened) == expected
        read = opened.read(PartitionId(1), Offset(0), 1 << 20, EVERYTHING)
        assert read == batches_of(expected, 1)


def test_a_truncation_overtakes_the_job_that_writes_the_doomed(place: Place) -> None:
    log = place.open()
    maker = EntryMaker()
    old = maker.run(1, 30)
    log.stage(hard_state=HardState(Term(1), NodeId(1)), entries=old)
    job = log.take_job()
    assert job is not None
    maker.rewind(old[:9])
    new = maker.run(10, 11, 2)
    log.stage(hard_state=HardState(Term(2), NodeId(1)), entries=new)
    run(job)
    log.complete(job)
    assert (log.durable_index, log.last_index) == (9, 11), "what was given up is not durable"
    drain(log)
    assert log.durable_index == 11
    assert everything(place.open()) == old[:9] + new


def test_what_is_committed_is_never_truncated(place: Place) -> None:
    log = place.open()
    write(log, EntryMaker().run(1, 5))
    log.note_commit(Index(3))
    with pytest.raises(AssertionError, match="committed"):
        log.stage(entries=[noop(3)])


def test_an_entry_is_never_ahead_of_the_vote(place: Place) -> None:
    log = place.open()
    with pytest.raises(AssertionError, match="term 1"):
        log.stage(entries=[noop(1)])


def test_an_entry_larger_than_a_segment_has_one_of_its_own(place: Place) -> None:
    log = place.open()
    maker = EntryMaker()
    entries = [
        maker.append(1, value=b"x" * 20_000),
        maker.append(2),
        maker.append(3, value=b"y" * 20_000),
        maker.append(4),
    ]
    write(log, entries)
    log = place.open(verify_all=True)
    assert everything(log) == entries


def test_a_large_slice_is_read_in_parts(place: Place) -> None:
    log = place.open()
    entry = EntryMaker().append(1, count=2, batches=12, value=b"z" * 40_000)
    write(log, [entry])
    whole = batches_of([entry], 1)
    assert log.read(PartitionId(1), Offset(0), 1 << 30, EVERYTHING) == whole
    assert log.read(PartitionId(1), Offset(13), 1 << 30, EVERYTHING) == batches_of([entry], 1, 13)
    part = log.read(PartitionId(1), Offset(13), 200_000, EVERYTHING)
    assert part == batches_of([entry], 1, 13)[: len(part)]
    assert 80_000 < len(part) <= 200_000


def test_two_processes_cannot_open_one_directory(place: Place) -> None:
    place.open()
    with pytest.raises(DirectoryInUse, match="LOCK"):
        open_log(place.disk, place.directory)


def test_another_nodes_log_is_refused(place: Place) -> None:
    place.open()
    place.close()
    other = Identity(IDENTITY.cluster_id, ShardId(0), NodeId(9))
    with pytest.raises(ForeignDirectory, match="node 1 of shard 0.*opened as node 9"):
        ShardLog.open(place.disk, place.directory, identity=other, settings=SETTINGS, solo=True)
    place.open()  # the lock was let go


def test_a_directory_with_other_things_is_refused(place: Place) -> None:
    place.disk.make_directory(place.directory)
    place.disk.open(place.path("holiday.jpg"), create=True).close()
    with pytest.raises(ForeignDirectory, match=r"holiday\.jpg.*directory of its own"):
        place.open()


def test_a_newer_format_is_refused(place: Place) -> None:
    place.open()
    place.close()
    newer = StoredIdentity(format=2, identity=IDENTITY)
    replace_whole(place.disk, place.path("identity"), seal(newer))
    with pytest.raises(NewerFormat, match="format 2"):
        place.open()


def test_a_lost_identity_is_restored(place: Place) -> None:
    write(place.open(), EntryMaker().run(1, 3))
    place.close()
    place.disk.remove(place.path("identity"))
    assert place.open().last_index == 3
    assert "identity" in place.names()


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_failed_write_poisons_the_log(operation: str) -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    write(log, EntryMaker().run(1, 3))
    log.stage(entries=[noop(4)])
    disk.fail_next(operation, "*.log")
    job = log.take_job()
    assert job is not None
    with pytest.raises(DiskFailed) as failure:
        run(job)
    log.fail(job, failure.value)
    assert log.poisoned
    assert log.durable_index == 3
    with pytest.raises(LogPoisoned, match="restart the node"):
        log.stage(entries=[noop(5)])
    with pytest.raises(LogPoisoned):
        log.take_job()
    assert len(everything(log)) == 4, "reading goes on"
    log.close()
    assert open_log(disk).last_index in (3, 4)


def test_what_a_failed_sync_left_in_the_cache_is_written_again() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    write(log, EntryMaker().run(1, 3))
    log.stage(entries=[noop(4)])
    disk.fail_next("sync", "*.log")
    job = log.take_job()
    assert job is not None
    with pytest.raises(DiskFailed):
        run(job)
    disk.kill()
    log = open_log(disk)
    assert log.last_index == 4, "it is in the page cache, so it is found"
    path = f"{DIRECTORY}/{next(n for n in disk.list(DIRECTORY) if n.endswith('.log'))}"
    assert disk.durable_image(path) == disk.image(path)


def test_statistics_count(place: Place) -> None:
    log = place.open()
    write(log, EntryMaker().run(1, 40))
    statistics = log.statistics()
    assert statistics.appended_records == 40
    assert statistics.rolls == statistics.segments - 1 > 1
    assert statistics.syncs > 0
    assert statistics.size_bytes > 40 * 100
    complete(log, log.snapshot_job(SnapshotMark(Index(7), Term(1), Membership()), b"s"))
    assert log.statistics().snapshot_index == 7


def test_somebody_can_be_told_when_entries_are_written_and_not_yet_synced() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    log.stage(hard_state=HardState(Term(1), NodeId(1)), entries=EntryMaker().run(1, 30))
    syncs: list[int] = []
    job = log.take_job(lambda: syncs.append(disk.counts["sync"]))
    assert job is not None
    run(job)
    assert len(syncs) == 1
    active = max(path for path in disk.paths() if path.endswith(".log"))
    log.complete(job)
    drain(log)
    assert disk.image(active) != bytes(len(disk.image(active)))
    assert syncs[0] < disk.counts["sync"], "the sync of the last write comes after it"
    log.stage(hard_state=HardState(Term(2), NodeId(1)))
    job = log.take_job(lambda: syncs.append(0))
    assert job is not None
    run(job)
    log.complete(job)
    assert len(syncs) == 1, "a vote alone has no entries to be told of"


def test_what_was_written_is_there_when_it_is_told() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    entries = EntryMaker().run(1, 5)
    images: list[bytes] = []
    path = next(path for path in disk.paths() if path.endswith(".log"))
    log.stage(hard_state=HardState(Term(1), NodeId(1)), entries=entries)
    job = log.take_job(lambda: images.append(disk.image(path)))
    assert job is not None
    run(job)
    assert all(bytes(entry.payload) in images[0] for entry in entries)
    assert not any(bytes(entry.payload) in images[0][:128] for entry in entries)


def test_a_segment_is_sealed_when_asked(place: Place) -> None:
    log = place.open()
    assert log.seal() == 0
    drain(log)
    assert log.statistics().segments == 1, "there was nothing in it"
    entries = EntryMaker().run(1, 3)
    write(log, entries)
    assert log.active_holds(PartitionId(1))
    assert not log.active_holds(PartitionId(2))
    assert log.seal() == 3
    drain(log)
    assert log.active_base == 4
    assert log.statistics().segments == 2
    write(log, [noop(4)])
    log = place.open(verify_all=True)
    assert everything(log) == [*entries, noop(4)]
