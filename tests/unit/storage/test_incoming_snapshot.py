"""Installing a leader's snapshot, in health and in quarantine."""

from random import Random

import pytest

from penstock.core.entries import Entry, HardState, Membership, SnapshotMark
from penstock.core.errors import DamagedFile, DiskFailed
from penstock.core.types import Index, NodeId, Offset, PartitionId, Term
from penstock.storage.job import run
from penstock.storage.log import ShardLog
from penstock.testing.disk import FaultyDisk, PowerCut
from tests.unit.storage.logs import (
    DIRECTORY,
    EVERYTHING,
    EntryMaker,
    Place,
    batches_of,
    complete,
    drain,
    everything,
    open_log,
    scrub,
    write,
)

MARK = SnapshotMark(Index(60), Term(1), Membership((NodeId(1), NodeId(2))))
LEADERS = EntryMaker().run(1, 70)


def install(log: ShardLog, mark: SnapshotMark = MARK) -> None:
    """Fetch what is missing from the leader and put it in place."""
    if log.hard_state.term < mark.term:
        log.stage(hard_state=HardState(mark.term, NodeId(0)))
        drain(log)
    incoming = log.begin_install(mark, Index(min(log.trusted_index, mark.index)))
    for entry in LEADERS[incoming.trusted : mark.index]:
        incoming.stage([entry])
        if entry.index % 7 == 0:
            job = incoming.take_job()
            assert job is not None
            assert incoming.take_job() is None
            run(job)
            log.complete(job)
    complete(log, incoming.finish_job(b"the leader's state"))


def check(log: ShardLog, entries: list[Entry], start: int = 0) -> None:
    assert log.snapshot == MARK
    assert log.load_snapshot()[1] == b"the leader's state"
    assert log.term(Index(60)) == 1
    read = log.read(PartitionId(1), Offset(start), 1 << 20, EVERYTHING)
    assert read == batches_of(entries, 1, start)


def test_a_follower_far_behind_starts_again_at_the_mark(place: Place) -> None:
    log = place.open()
    write(log, LEADERS[:20])
    log.note_commit(Index(15))
    assert log.trusted_index == 15
    install(log)
    assert (log.first_index, log.last_index, log.durable_index) == (61, 60, 60)
    check(log, LEADERS[:60])
    write(log, LEADERS[60:])
    for verify_all in (False, True):
        log = place.open(verify_all=verify_all)
        assert everything(log) == LEADERS[60:]
        check(log, LEADERS)


def test_an_empty_log_takes_everything(place: Place) -> None:
    log = place.open()
    install(log)
    check(log, LEADERS[:60])
    check(place.open(verify_all=True), LEADERS[:60])
    assert place.open().memberships() == []


def test_what_is_not_committed_here_goes(place: Place) -> None:
    log = place.open()
    others = EntryMaker()
    others.rewind(LEADERS[:10])
    write(log, LEADERS[:10])
    log.note_commit(Index(10))
    write(log, others.run(11, 40))
    install(log)
    check(log, LEADERS[:60])
    check(place.open(verify_all=True), LEADERS[:60])


def test_a_log_that_is_trusted_to_the_mark_goes_on(place: Place) -> None:
    log = place.open()
    write(log, LEADERS[:60])
    log.note_commit(Index(60))
    install(log)
    check(log, LEADERS[:60])
    write(log, LEADERS[60:])
    log = place.open(verify_all=True)
    check(log, LEADERS)
    assert everything(log)[-10:] == LEADERS[60:]


def test_one_that_is_given_up_leaves_nothing_behind(place: Place) -> None:
    log = place.open()
    write(log, LEADERS[:20])
    names = place.names(".log")
    incoming = log.begin_install(MARK, Index(0))
    incoming.stage(LEADERS[:40])
    job = incoming.take_job()
    assert job is not None
    run(job)
    log.complete(job)
    assert len(place.names(".log")) > len(names)
    log.begin_install(MARK, Index(0))
    drain(log)
    assert place.names(".log") == names
    assert everything(log) == LEADERS[:20]


def test_a_failed_receive_is_the_end_of_it() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    write(log, LEADERS[:20])
    incoming = log.begin_install(MARK, Index(0))
    incoming.stage(LEADERS[:3])
    job = incoming.take_job()
    assert job is not None
    disk.fail_next("write")
    with pytest.raises(DiskFailed) as failure:
        run(job)
    log.fail(job, failure.value)
    assert log.poisoned
    assert incoming.closed


def test_the_sender_gives_what_still_exists(place: Place) -> None:
    log = place.open()
    write(log, LEADERS)
    complete(log, log.snapshot_job(MARK, b"state"))
    complete(log, log.reclaim_job({PartitionId(1): Offset(30)}, Index(100)))
    after = Index(0)
    found: list[Entry] = []
    for _ in range(100):
        entries, after = log.live_records(after, MARK.index, 1000)
        found += entries
        assert sum(len(entry.payload) for entry in entries) < 1200
        if after == MARK.index:
            break
    assert 10 < found[0].index <= 31, "what is dead may be gone, what lives is not"
    assert found == LEADERS[found[0].index - 1 : 60]
    assert log.live_records(Index(59), Index(60), 1000) == (tuple(LEADERS[59:60]), 60)


def damaged(place: Place) -> ShardLog:
    """A replica that lost a durable entry in its second segment."""
    log = place.open()
    write(log, LEADERS[:50])
    log.note_commit(Index(45))
    place.close()
    place.flip(place.names(".log")[1], 1000)
    return place.open(solo=False, verify_all=True)


def test_a_damaged_replica_is_quarantined_and_shows_an_empty_log(place: Place) -> None:
    log = damaged(place)
    assert log.quarantine is not None
    assert log.quarantine.file == place.path(place.names(".log")[1])
    assert 10 < log.trusted_index < 30
    assert (log.first_index, log.last_index, log.durable_index) == (1, 0, 0)
    assert log.snapshot == SnapshotMark()
    assert log.term(Index(0)) == 0
    assert log.memberships() == []
    assert log.reclaim_job({}, Index(100)) is None
    assert "QUARANTINE" in place.names()
    with pytest.raises(AssertionError, match="installed before"):
        log.stage(entries=LEADERS[:1])
    log.stage(hard_state=HardState(Term(5), NodeId(0)))
    drain(log)
    again = place.open(solo=False)
    assert again.quarantine == log.quarantine, "a restart does not forget, nor a shallow one"
    assert again.hard_state == HardState(Term(5), NodeId(0))


def test_a_quarantine_ends_with_the_leaders_word(place: Place) -> None:
    log = damaged(place)
    trusted = log.trusted_index
    install(log)
    assert log.quarantine is not None
    assert log.quarantine.repaired
    assert log.last_index == 60
    check(log, LEADERS[:60])
    assert place.names(".damaged"), "the damaged file is kept for people"
    write(log, LEADERS[60:])
    log = place.open(solo=False, verify_all=True)
    assert log.quarantine is not None, "whole again, but the leader has not said so"
    assert log.quarantine.repaired
    assert log.last_index == 70
    assert log.trusted_index >= trusted
    log.stage(healed=True)
    assert log.statistics().quarantined, "not before it is durable"
    drain(log)
    assert not log.statistics().quarantined
    log = place.open(solo=True, verify_all=True)
    check(log, LEADERS)


def test_a_cluster_of_one_refuses_and_says_why(place: Place) -> None:
    damaged(place)
    place.close()
    with pytest.raises(DamagedFile, match="penstock log repair"):
        place.open(solo=True)


def test_a_lost_marker_is_damage(place: Place) -> None:
    log = place.open()
    write(log, LEADERS[:50])
    log.note_commit(Index(45))
    place.close()
    place.disk.remove(place.path("marker"))
    log = place.open(solo=False)
    assert log.quarantine is not None
    assert log.quarantine.file == place.path("marker")
    install(log)
    log.stage(healed=True)
    drain(log)
    check(place.open(solo=True, verify_all=True), LEADERS[:60])


def test_rot_found_at_run_time_is_repaired_at_the_next_start(place: Place) -> None:
    log = place.open(solo=False)
    write(log, LEADERS[:50])
    log.note_commit(Index(45))
    place.flip(place.names(".log")[1], 1000)
    findings = [damage for _ in range(10) if (damage := scrub(log)) is not None]
    assert findings
    assert "leader" in findings[0].way_out
    log.mark_damaged(findings[0])
    log = place.open(solo=False)
    assert log.quarantine is not None
    assert 10 < log.trusted_index < 30
    install(log)
    check(log, LEADERS[:60])


def test_a_scrub_runs_as_a_job(place: Place) -> None:
    log = place.open()
    assert log.scrub_job() is None, "nothing is sealed"
    write(log, LEADERS[:50])
    for _ in range(6):
        log.note_commit(log.last_index)
        complete(log, log.scrub_job())
        assert log.scrub_finding is None
    place.flip(place.names(".log")[0], 1000)
    for _ in range(6):
        complete(log, log.scrub_job())
        if log.scrub_finding is not None:
            break
    assert log.scrub_finding is not None
    assert log.scrub_finding.path == place.path(place.names(".log")[0])


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.parametrize("quarantined", [False, True])
def test_a_power_cut_anywhere_leaves_the_old_log_or_the_new(quarantined: bool) -> None:
    cuts = 0
    for operations in range(1, 400):
        disk = FaultyDisk()
        place = Place(disk, DIRECTORY)
        log = damaged(place) if quarantined else open_log(disk)
        if not quarantined:
            write(log, LEADERS[:50])
            log.note_commit(Index(30))
        trusted = log.trusted_index
        disk.cut_power_after(operations)
        try:
            install(log)
        except PowerCut:
            cuts += 1
        else:
            break
        disk.crash(Random(operations))
        log = open_log(disk, solo=False, verify_all=True)
        if log.snapshot == MARK:
            assert log.last_index == 60
            check(log, LEADERS[:60])
        elif quarantined:
            assert log.quarantine is not None
            assert log.trusted_index == trusted
        else:
            assert log.quarantine is None
            assert everything(log) == LEADERS[:50]
        install(log)
        check(log, LEADERS[:60])
    assert cuts > 30
