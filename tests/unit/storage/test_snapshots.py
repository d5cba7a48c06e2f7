"""Snapshots: when they count, what is kept, and how they travel."""

import pytest

from penstock.core.entries import Membership, SnapshotMark
from penstock.core.errors import DamagedFile, DiskFailed, DiskFull, Unavailable
from penstock.core.types import Index, NodeId, Term
from penstock.storage.job import run
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.logs import (
    DIRECTORY,
    EntryMaker,
    Place,
    complete,
    drain,
    membership,
    noop,
    open_log,
    write,
)


def mark(index: int) -> SnapshotMark:
    return SnapshotMark(Index(index), Term(1), Membership((NodeId(1),)))


def test_a_snapshot_counts_with_the_next_write_job(place: Place) -> None:
    log = place.open()
    write(log, EntryMaker().run(1, 20))
    job = log.snapshot_job(mark(10), b"the state")
    run(job)
    assert log.snapshot == SnapshotMark()
    log.complete(job)
    assert log.snapshot == SnapshotMark(), "no manifest names it yet"
    drain(log)
    assert log.snapshot == mark(10)
    assert log.load_snapshot() == (mark(10), b"the state")
    log = place.open(verify_all=True)
    assert log.load_snapshot() == (mark(10), b"the state")
    assert log.term(Index(10)) == 1


def test_memberships_before_the_snapshot_are_left_out(place: Place) -> None:
    log = place.open()
    write(log, [membership(1, 1, (1,)), noop(2), membership(3, 1, (1, 2)), noop(4)])
    complete(log, log.snapshot_job(mark(2), b""))
    for opened in (log, place.open()):
        if opened is log:
            assert [index for index, _ in log.memberships()] == [3]
        else:
            assert [index for index, _ in opened.memberships()] == [3]


def test_a_newer_one_replaces_an_older_one(place: Place) -> None:
    log = place.open()
    write(log, EntryMaker().run(1, 20))
    for index in (5, 10, 15):
        complete(log, log.snapshot_job(mark(index), b"state %d" % index))
    assert len(place.names(".snap")) == 1
    assert place.open().load_snapshot() == (mark(15), b"state 15")


def test_one_that_was_overtaken_is_forgotten(place: Place) -> None:
    log = place.open()
    write(log, EntryMaker().run(1, 20))
    slow = log.snapshot_job(mark(5), b"old")
    complete(log, log.snapshot_job(mark(10), b"new"))
    complete(log, slow)
    assert log.load_snapshot() == (mark(10), b"new")
    assert len(place.names(".snap")) == 1


def test_a_follower_may_go_on_fetching_the_one_before(place: Place) -> None:
    log = place.open()
    write(log, EntryMaker().run(1, 20))
    complete(log, log.snapshot_job(mark(5), b"0123456789"))
    assert log.snapshot_bytes(mark(5)) == 10
    assert log.read_snapshot(mark(5), 0, 4) == b"0123"
    complete(log, log.snapshot_job(mark(10), b"new"))
    assert log.read_snapshot(mark(5), 4, 100) == b"456789"
    assert log.read_snapshot(mark(5), 10, 100) == b""
    complete(log, log.snapshot_job(mark(15), b"newer"))
    with pytest.raises(Unavailable, match="replaced by one at 15"):
        log.read_snapshot(mark(5), 4, 100)


def test_a_damaged_snapshot_is_noticed(place: Place) -> None:
    log = place.open()
    write(log, EntryMaker().run(1, 20))
    complete(log, log.snapshot_job(mark(5), b"0123456789"))
    (name,) = place.names(".snap")
    place.flip(name, 45)
    with pytest.raises(DamagedFile, match="snapshot"):
        log.load_snapshot()
    place.close()
    with pytest.raises(DamagedFile, match="snapshot"):
        place.open()


def test_no_space_for_a_snapshot_gives_the_ballast_and_not_the_log() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    write(log, EntryMaker().run(1, 5))
    disk.fail_next("write", "*.snap", DiskFull)
    job = log.snapshot_job(mark(3), b"state")
    with pytest.raises(DiskFull) as failure:
        run(job)
    log.fail(job, failure.value)
    assert not log.poisoned
    drain(log)
    assert log.full
    assert not disk.exists(f"{DIRECTORY}/ballast")
    complete(log, log.snapshot_job(mark(3), b"state"))
    assert log.snapshot == mark(3)
    complete(log, log.regain())
    assert not log.full


def test_another_error_poisons() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    write(log, EntryMaker().run(1, 5))
    disk.fail_next("sync", "*.snap")
    job = log.snapshot_job(mark(3), b"state")
    with pytest.raises(DiskFailed) as failure:
        run(job)
    log.fail(job, failure.value)
    assert log.poisoned


# In pieces.


def test_a_snapshot_is_written_in_pieces_and_pieces_are_replaced(place: Place) -> None:
    log = place.open()
    write(log, EntryMaker().run(1, 20))
    snapshot = log.begin_snapshot(mark(10))
    for number in range(3_000):
        snapshot.stage(b"%04d" % number)
    snapshot.stage(b"<<<<", 4)
    complete(log, snapshot.take_job())
    assert snapshot.staged_bytes == 0
    snapshot.stage(b">>>>", 8)
    snapshot.stage(b"the end")
    complete(log, snapshot.finish_job())
    drain(log)
    _, state = place.open(verify_all=True).load_snapshot()
    assert state.startswith(b"0000<<<<>>>>0003")
    assert state.endswith(b"2999the end")
    assert len(state) == snapshot.length == 4 * 3_000 + 7


def test_a_snapshot_that_is_given_up_leaves_the_one_before(place: Place) -> None:
    log = place.open()
    write(log, EntryMaker().run(1, 20))
    complete(log, log.snapshot_job(mark(5), b"before"))
    drain(log)
    snapshot = log.begin_snapshot(mark(10))
    snapshot.stage(b"half of it")
    complete(log, snapshot.take_job())
    snapshot.give_up()
    drain(log)
    assert log.load_snapshot() == (mark(5), b"before")
    assert place.open().load_snapshot() == (mark(5), b"before")
    names = [name for name in place.disk.list(log.directory) if name.endswith(".snap")]
    assert len(names) == 1


def test_a_disk_that_fills_up_between_two_pieces_leaves_the_one_before(place: Place) -> None:
    log = place.open()
    write(log, EntryMaker().run(1, 20))
    complete(log, log.snapshot_job(mark(5), b"before"))
    drain(log)
    snapshot = log.begin_snapshot(mark(10))
    snapshot.stage(b"x" * 1_000)
    complete(log, snapshot.take_job())
    snapshot.stage(b"x" * 1_000)
    log.fail(snapshot.take_job(), DiskFull("no space"))
    drain(log)
    assert not log.poisoned
    assert log.load_snapshot() == (mark(5), b"before")


@pytest.mark.parametrize("replaced", [False, True], ids=["read for the checksum", "patched"])
def test_a_bit_that_flips_in_an_unfinished_snapshot_is_noticed(replaced: bool) -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    write(log, EntryMaker().run(1, 20))
    complete(log, log.snapshot_job(mark(5), b"before"))
    drain(log)
    snapshot = log.begin_snapshot(mark(10))
    snapshot.stage(b"x" * 1_000)
    complete(log, snapshot.take_job())
    path = max(name for name in disk.list(log.directory) if name.endswith(".snap"))
    disk.flip_bit(f"{log.directory}/{path}", 500, 3)
    if replaced:
        snapshot.stage(b"yyyy", 100)
    job = snapshot.finish_job()
    with pytest.raises(DamagedFile, match="check this node's disk") as failure:
        run(job)
    log.fail(job, failure.value)
    drain(log)
    assert "does not hold" in snapshot.failure
    assert not log.poisoned
    assert log.load_snapshot() == (mark(5), b"before")
