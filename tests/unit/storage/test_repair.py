"""The tools for people: describe, verify, and the way out of damage to an only copy."""

import pytest

from penstock.core.entries import HardState, Membership, SnapshotMark
from penstock.core.errors import DamagedFile, DirectoryInUse, DirectoryRefused
from penstock.core.types import Index, Offset, PartitionId, Term
from penstock.storage.repair import describe_directory, repair_directory, verify_directory
from tests.unit.storage.logs import (
    EVERYTHING,
    SETTINGS,
    EntryMaker,
    Place,
    batches_of,
    complete,
    everything,
    noop,
    write,
)

ENTRIES = EntryMaker().run(1, 60)


def make(place: Place, snapshot: int = 0) -> None:
    log = place.open()
    write(log, ENTRIES)
    log.note_commit(Index(55))
    if snapshot:
        mark = SnapshotMark(Index(snapshot), Term(1), Membership())
        complete(log, log.snapshot_job(mark, b"state"))
    place.close()


def test_a_directory_describes_itself(place: Place) -> None:
    make(place, snapshot=30)
    place.disk.open(place.path("00000000000000000099-000099.log"), create=True).close()
    rows = {row.name: row for row in describe_directory(place.disk, place.directory)}
    assert rows["vote"].facts == "term 1, vote 1"
    assert rows["marker"].facts == "durable 60, committed 55"
    assert rows["identity"].facts == "node 1 of shard 0 of cluster 'test-cluster'"
    assert rows["00000000000000000001-000001.log"].facts.startswith("sealed, entries 1 to ")
    assert [row.facts for row in rows.values() if row.kind == "snapshot"] == [
        "state at 30, 5 bytes"
    ]
    assert sum(row.facts.startswith("active") for row in rows.values()) == 1
    assert rows["00000000000000000099-000099.log"].facts == "not part of the log"
    assert rows["ballast"].size_bytes == SETTINGS.ballast_bytes


def test_a_whole_log_is_verified_and_left_alone(place: Place) -> None:
    make(place, snapshot=30)
    assert verify_directory(place.disk, place.directory) == []
    report = repair_directory(place.disk, place.directory)
    assert report.describe() == ["nothing is damaged, nothing was changed"]
    place.open()
    with pytest.raises(DirectoryInUse):
        verify_directory(place.disk, place.directory)


def test_damage_above_the_snapshot_cuts_the_log(place: Place) -> None:
    make(place)
    name = place.names(".log")[2]
    place.flip(name, 1000)
    (finding,) = verify_directory(place.disk, place.directory)
    assert finding.path == place.path(name)
    report = repair_directory(place.disk, place.directory, settings=SETTINGS)
    kept = report.kept_through
    assert 20 < kept < 40
    lines = report.describe()
    assert lines[0].startswith(f"damaged: {place.path(name)} at byte ")
    assert lines[-1] == f"the log now ends with entry {kept}"
    assert f"lost: entries {kept + 1} to " in "\n".join(lines)
    assert report.lost[-1][1] == 60
    assert place.path(name) + ".damaged" in report.set_aside
    log = place.open(verify_all=True)
    assert everything(log) == ENTRIES[:kept]
    write(log, [noop(kept + 1)])
    assert place.open(verify_all=True).last_index == kept + 1


def test_damage_below_the_snapshot_costs_only_the_messages_in_it(place: Place) -> None:
    make(place, snapshot=50)
    place.flip(place.names(".log")[1], 1000)
    report = repair_directory(place.disk, place.directory, settings=SETTINGS)
    assert report.kept_through == 60
    ((first, last),) = report.lost
    assert 10 < first <= last < 30
    log = place.open(verify_all=True)
    assert log.last_index == 60
    assert log.load_snapshot()[1] == b"state"
    after = log.read(PartitionId(1), Offset(last), 1 << 20, EVERYTHING)
    assert after == batches_of(ENTRIES, 1, last)
    assert log.read(PartitionId(1), Offset(0), 1, EVERYTHING) == batches_of(ENTRIES[:1], 1)


def test_a_lost_vote_becomes_a_later_term(place: Place) -> None:
    make(place)
    for name in ("vote", "vote.copy"):
        place.disk.remove(place.path(name))
    with pytest.raises(DamagedFile, match="vote"):
        place.open()
    repair_directory(place.disk, place.directory, settings=SETTINGS)
    log = place.open(verify_all=True)
    assert log.hard_state == HardState(Term(2))
    assert everything(log) == ENTRIES


def test_a_lost_manifest_is_guessed_from_the_files(place: Place) -> None:
    make(place, snapshot=30)
    place.disk.remove(place.path("manifest"))
    place.cut("manifest.copy", 20)
    with pytest.raises(DamagedFile, match="manifest"):
        place.open()
    report = repair_directory(place.disk, place.directory, settings=SETTINGS)
    assert report.kept_through == 60
    log = place.open(verify_all=True)
    assert everything(log)[-20:] == ENTRIES[-20:]
    assert log.snapshot.index == 30


def test_a_lost_snapshot_can_be_done_without_if_the_log_is_whole(place: Place) -> None:
    make(place, snapshot=30)
    place.disk.remove(place.path(place.names(".snap")[0]))
    repair_directory(place.disk, place.directory, settings=SETTINGS)
    log = place.open(verify_all=True)
    assert everything(log) == ENTRIES
    assert log.snapshot == SnapshotMark()
    complete(log, log.snapshot_job(SnapshotMark(Index(30), Term(1), Membership()), b"state"))
    complete(log, log.reclaim_job({}, Index(100)))
    assert log.first_index > 1
    place.close()
    place.disk.remove(place.path(place.names(".snap")[0]))
    with pytest.raises(DirectoryRefused, match="restore it from a backup"):
        repair_directory(place.disk, place.directory, settings=SETTINGS)


def test_what_is_no_log_is_refused(place: Place) -> None:
    place.disk.make_directory(place.directory)
    with pytest.raises(DirectoryRefused, match="no Penstock log"):
        describe_directory(place.disk, place.directory)
