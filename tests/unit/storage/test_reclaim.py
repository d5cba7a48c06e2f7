"""Space comes back: dead segments go, mostly dead ones are rewritten, the living stay."""

import pytest

from penstock.core.entries import Membership, SnapshotMark
from penstock.core.errors import DamagedFile, DiskFull
from penstock.core.types import Index, Offset, PartitionId, Term
from penstock.storage.job import run
from penstock.storage.log import ShardLog
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.logs import (
    EVERYTHING,
    EntryMaker,
    Place,
    batches_of,
    complete,
    drain,
    everything,
    noop,
    open_log,
    scrub,
    write,
)

LATEST = Index(1 << 40)


def snapshot(log: ShardLog, index: int) -> None:
    mark = SnapshotMark(Index(index), log.term(Index(index)), Membership())
    complete(log, log.snapshot_job(mark, b"state"))


def live(**starts: int) -> dict[PartitionId, Offset]:
    return {PartitionId(int(name[1:])): Offset(start) for name, start in starts.items()}


def test_dead_segments_are_removed(place: Place) -> None:
    log = place.open()
    entries = EntryMaker().run(1, 60)
    write(log, entries)
    snapshot(log, 40)
    before = log.statistics()
    complete(log, log.reclaim_job(live(p1=30), LATEST))
    after = log.statistics()
    assert after.removed_segments > 0
    assert after.segments < before.segments
    assert after.reclaimed_bytes == before.size_bytes - after.size_bytes > 0
    assert 1 < log.first_index <= 41
    assert len(place.names(".log")) == after.segments
    for verify_all in (False, True):
        log = place.open(verify_all=verify_all)
        assert everything(log) == entries[log.first_index - 1 :]
        read = log.read(PartitionId(1), Offset(30), 1 << 20, EVERYTHING)
        assert read == batches_of(entries, 1, 30)
        assert log.term(Index(log.first_index - 1)) == 1


def test_nothing_above_the_snapshot_or_still_needed_goes(place: Place) -> None:
    log = place.open()
    write(log, EntryMaker().run(1, 60))
    assert log.reclaim_job({}, LATEST) is None, "there is no snapshot yet"
    snapshot(log, 40)
    assert log.reclaim_job({}, Index(1)) is None, "a follower needs it all"
    complete(log, log.reclaim_job({}, Index(20)))
    assert 1 < log.first_index <= 20
    complete(log, log.reclaim_job({}, LATEST))
    assert 20 < log.first_index <= 41
    assert log.last_index == 60


def test_a_mostly_dead_segment_is_rewritten(place: Place) -> None:
    log = place.open()
    maker = EntryMaker()
    entries = [maker.append(i, 1, (2 if i % 10 == 3 else 1,)) for i in range(1, 61)]
    write(log, entries)
    snapshot(log, 50)
    for _ in range(8):
        if (job := log.reclaim_job(live(p1=45, p2=0), LATEST)) is not None:
            complete(log, job)
    statistics = log.statistics()
    assert statistics.rewritten_segments > 2
    assert log.first_index > 30
    for verify_all in (False, True):
        log = place.open(verify_all=verify_all)
        for partition, start in ((1, 45), (2, 0)):
            read = log.read(PartitionId(partition), Offset(start), 1 << 20, EVERYTHING)
            assert read == batches_of(entries, partition, start)
        assert log.offset_for_time(PartitionId(2), 0) == (0, 1000)
        assert everything(log) == entries[log.first_index - 1 :]
        assert all(scrub(log) is None for _ in range(8))


def test_a_rewrite_is_not_repeated(place: Place) -> None:
    log = place.open()
    maker = EntryMaker()
    write(log, [maker.append(i, 1, (2 if i % 10 == 3 else 1,)) for i in range(1, 61)])
    snapshot(log, 50)
    for _ in range(20):
        complete(log, log.reclaim_job(live(p2=0), LATEST))
    before = log.statistics().rewritten_segments
    for _ in range(5):
        complete(log, log.reclaim_job(live(p2=0), LATEST))
    assert log.statistics().rewritten_segments == before


def test_one_job_at_a_time(place: Place) -> None:
    log = place.open()
    write(log, EntryMaker().run(1, 60))
    snapshot(log, 40)
    job = log.reclaim_job({}, LATEST)
    assert log.reclaim_job({}, LATEST) is None
    complete(log, job)
    assert log.first_index > 1


def test_no_space_for_a_rewrite_is_no_harm() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    maker = EntryMaker()
    write(log, [maker.append(i, 1, (2 if i == 3 else 1,)) for i in range(1, 61)])
    snapshot(log, 50)
    job = log.reclaim_job(live(p2=0), LATEST)
    assert job is not None
    disk.fail_next("write", "*-*.log", DiskFull)
    with pytest.raises(DiskFull) as failure:
        run(job)
    log.fail(job, failure.value)
    drain(log)
    assert not log.poisoned
    complete(log, log.reclaim_job(live(p2=0), LATEST))
    assert log.statistics().rewritten_segments == 1


def test_rot_met_while_rewriting_is_reported(place: Place) -> None:
    log = place.open()
    maker = EntryMaker()
    write(log, [maker.append(i, 1, (2 if i == 3 else 1,)) for i in range(1, 61)])
    snapshot(log, 50)
    place.flip(place.names(".log")[0], 1000)
    job = log.reclaim_job(live(p2=0), LATEST)
    assert job is not None
    with pytest.raises(DamagedFile) as failure:
        run(job)
    log.fail(job, failure.value)
    assert not log.poisoned
    log.note_commit(log.last_index)
    assert scrub(log) is not None


def test_a_log_without_append_entries_is_reclaimed(place: Place) -> None:
    log = place.open()
    write(log, [noop(i) for i in range(1, 200)])
    snapshot(log, 150)
    complete(log, log.reclaim_job({}, LATEST))
    assert log.first_index > 50
    assert place.open().term(Index(150)) == Term(1)
