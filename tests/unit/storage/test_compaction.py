"""Of all records with one key the last one stays, offsets stay, and nothing else changes."""

from random import Random

import pytest

from penstock.core.entries import Entry
from penstock.core.errors import DamagedFile, DiskFailed, DiskFull
from penstock.core.types import Index, Offset, PartitionId
from penstock.storage import (
    CompactionPolicy,
    LogJob,
    LogSettings,
    ShardLog,
    run,
)
from penstock.storage.repair import verify_directory
from penstock.testing.disk import FaultyDisk
from tests.batches import with_bytes
from tests.unit.storage.keyed import (
    AT_ONCE,
    LATEST,
    Content,
    KeyedMaker,
    Seen,
    always,
    compact,
    latest,
    living,
    pack,
    seen,
    snapshot,
    survivors,
)
from tests.unit.storage.logs import (
    EVERYTHING,
    SETTINGS,
    Place,
    batches_of,
    complete,
    drain,
    everything,
    open_log,
    scrub,
    write,
)

ONE = PartitionId(1)
DAY = 24 * 60 * 60 * 1000


def keys(*names: str, value: str = "v") -> Content:
    """Records with these keys; `name-` is a tombstone."""
    return [
        (name.rstrip("-").encode(), None if name.endswith("-") else value.encode())
        for name in names
    ]


def fill(
    log: ShardLog, maker: KeyedMaker, count: int, *, codec: int = 0, first: int | None = None
) -> None:
    """Entries of ten records of seven keys each, for partition 1, and some for partition 2."""
    begin = log.last_index + 1 if first is None else first
    for index in range(begin, begin + count):
        batches = [
            [(b"key %d" % ((index * 3 + n) % 7), b"value %d.%d" % (index, n)) for n in range(5)]
            for _ in range(2)
        ]
        content = {1: batches, 2: [[(b"same", b"%d" % index)]]} if index % 2 else {1: batches}
        write(log, [maker.entry(index, content, codec=codec)])


def clean_to(log: ShardLog) -> int:
    """How far partition 1 is compacted."""
    return log._home.cleaned[ONE]


@pytest.mark.parametrize("codec", range(5))
def test_only_the_last_record_of_a_key_stays(place: Place, codec: int) -> None:
    log = place.open()
    maker = KeyedMaker()
    fill(log, maker, 20, codec=codec)
    snapshot(log)
    before = log.statistics()
    compact(log, always(1), living(1, 2))
    after = log.statistics()
    assert after.compaction_rounds == 1
    assert after.compacted_bytes == before.size_bytes - after.size_bytes > 0
    point = clean_to(log)
    assert 150 < point < 200, "the active segment is left alone"
    expected = survivors(maker.records[1], point)
    for verify_all in (False, True):
        assert seen(log, 1) == expected
        assert latest(seen(log, 1)) == latest(maker.records[1])
        assert seen(log, 2) == maker.records[2], "it is not compacted"
        assert all(scrub(log) is None for _ in range(8))
        log = place.open(verify_all=verify_all)
        assert clean_to(log) == point
    place.close()
    assert verify_directory(place.disk, place.directory) == []


def test_a_reader_in_a_gap_gets_what_comes_next(place: Place) -> None:
    log = place.open()
    maker = KeyedMaker()
    fill(log, maker, 20)
    snapshot(log)
    compact(log, always(1), living(1, 2))
    expected = survivors(maker.records[1], clean_to(log))
    for offset in range(205):
        for bytes_max in (1, 300, 1 << 20):
            found = seen(log, 1, offset, bytes_max=bytes_max)
            assert found == [record for record in expected if record.offset >= offset]
    assert log.read(ONE, Offset(0), 1 << 20, Offset(50)) == b"", "all of it is superseded"


def test_a_second_round_cleans_what_has_come_since(place: Place) -> None:
    log = place.open()
    maker = KeyedMaker()
    for rounds in range(1, 5):
        fill(log, maker, 20)
        snapshot(log)
        compact(log, always(1, 2), living(1, 2))
        assert log.statistics().compaction_rounds == rounds
        assert seen(log, 1) == survivors(maker.records[1], clean_to(log))
        assert seen(log, 2) == survivors(maker.records[2], log._home.cleaned[PartitionId(2)])
    assert log.statistics().segments <= 4, "what is left of neighbours becomes one"
    assert compact(log, always(1, 2), living(1, 2)) == 1, "a look, and nothing to do"


def test_more_keys_than_fit_take_more_rounds(place: Place) -> None:
    settings = LogSettings(segment_bytes=2048, ballast_bytes=4096, compaction_keys_max=10)
    log = place.open(settings=settings)
    maker = KeyedMaker()
    for index in range(1, 60):
        write(log, [maker.entry(index, {1: [[(b"%d" % (index % 40), b"%d" % index)]]})])
    snapshot(log)
    compact(log, always(1), living(1))
    assert log.statistics().compaction_rounds >= 2
    assert seen(log, 1) == survivors(maker.records[1], clean_to(log))
    assert clean_to(log) > 20


def test_a_batch_with_more_keys_than_fit_is_cleaned_in_parts(place: Place) -> None:
    settings = LogSettings(segment_bytes=2048, ballast_bytes=4096, compaction_keys_max=10)
    log = place.open(settings=settings)
    maker = KeyedMaker()
    many = [(b"%d" % (n % 25), b"value %d" % n) for n in range(60)]
    write(log, [maker.entry(1, {1: [many]}), maker.entry(2, {1: [many]})])
    fill(log, maker, 5)
    snapshot(log)
    compact(log, always(1), living(1, 2))
    assert log.statistics().compaction_rounds > 3
    assert seen(log, 1) == survivors(maker.records[1], clean_to(log))


def test_a_little_work_at_a_time(place: Place) -> None:
    settings = LogSettings(segment_bytes=2048, ballast_bytes=4096, compaction_job_bytes=1)
    log = place.open(settings=settings)
    maker = KeyedMaker()
    fill(log, maker, 20)
    snapshot(log)
    assert compact(log, always(1), living(1, 2)) > 40
    assert seen(log, 1) == survivors(maker.records[1], clean_to(log))


def test_records_without_a_key_and_batches_that_cannot_be_read_stay(place: Place) -> None:
    log = place.open()
    maker = KeyedMaker()
    plain = pack(keys("a", value="w"))
    lie = with_bytes(plain, 61, b"\xff")
    entries = []
    for index in range(1, 40):
        content: dict[int, list[Content]] = {
            1: [[(None, b"x" * 50)]] * 2,
            3: [keys("a", "b")],
            4: [keys("a", value="w")],
        }
        made = maker.entry(index, content)
        payload = bytes(made.payload).replace(bytes(plain[16:]), bytes(lie[16:]))
        assert payload != made.payload
        entries.append(Entry(made.index, made.term, made.kind, payload))
    write(log, entries)
    snapshot(log)
    compact(log, always(1, 3, 4), living(1, 3, 4))
    assert seen(log, 1) == maker.records[1]
    assert len(seen(log, 3)) < len(maker.records[3])
    assert log.read(PartitionId(4), Offset(0), 1 << 30, EVERYTHING) == batches_of(entries, 4)
    assert log._home.cleaned[PartitionId(4)] > 20, "it was looked at"


def test_nothing_above_the_snapshot_or_still_needed_is_touched(place: Place) -> None:
    log = place.open()
    maker = KeyedMaker()
    fill(log, maker, 40)
    entries = everything(log)
    assert compact(log, always(1), living(1, 2)) == 0, "there is no snapshot yet"
    snapshot(log, 20)
    assert compact(log, always(1), living(1, 2), keep_from=Index(1)) == 0, "a follower needs it"
    compact(log, always(1), living(1, 2), keep_from=Index(10))
    assert 1 < log.first_index <= 10
    assert everything(log) == entries[log.first_index - 1 :]
    compact(log, always(1), living(1, 2))
    assert log.first_index <= 21
    assert everything(log) == entries[log.first_index - 1 :]
    assert batches_of(entries[20:], 1) in log.read(ONE, Offset(0), 1 << 30, EVERYTHING)


def test_a_follower_that_comes_back_stops_a_round(place: Place) -> None:
    settings = LogSettings(segment_bytes=2048, ballast_bytes=4096, compaction_job_bytes=1)
    log = place.open(settings=settings)
    maker = KeyedMaker()
    fill(log, maker, 40)
    snapshot(log)
    policies, live = always(1), living(1, 2)
    for _ in range(30):
        complete(log, log.compaction_job(policies, live, LATEST, 0))
    assert log.compacting
    first = log.first_index
    for _ in range(10):
        assert log.compaction_job(policies, live, Index(2), 0) is None
    assert log.first_index == first
    compact(log, policies, live)
    assert seen(log, 1) == survivors(maker.records[1], clean_to(log))


def test_dead_partitions_and_records_go_on_the_way(place: Place) -> None:
    log = place.open()
    maker = KeyedMaker()
    for index in range(1, 40):
        write(log, [maker.entry(index, {1: [keys("a", "b")], 2: [keys("x")], 3: [keys("y")]})])
    snapshot(log)
    compact(log, always(1), living(1, p3=30))
    assert seen(log, 2)[0].offset > 20, "partition 2 is deleted"
    assert seen(log, 3)[0].offset == 30
    assert seen(log, 1) == survivors(maker.records[1], clean_to(log))
    with_start = living(3, p1=60)
    compact(log, always(1), with_start)
    assert seen(log, 1, 60) == survivors(maker.records[1], clean_to(log))[-18:]


# Tombstones.


def tombstoned(place: Place) -> tuple[ShardLog, KeyedMaker]:
    """A log in which `a` and `b` were deleted, and much was written since."""
    log = place.open()
    maker = KeyedMaker()
    write(log, [maker.entry(1, {1: [keys("a", "b", "c")]})])
    write(log, [maker.entry(2, {1: [keys("a-", "b-")]})])
    more(log, maker)
    return log, maker


def more(log: ShardLog, maker: KeyedMaker, count: int = 30) -> None:
    """Enough for a segment or two, and a snapshot."""
    begin = log.last_index + 1
    for index in range(begin, begin + count):
        write(log, [maker.entry(index, {1: [keys("d", "e", value="x" * 40)]})])
    snapshot(log)


def test_a_tombstone_stays_as_long_as_it_must_and_then_goes(place: Place) -> None:
    log, maker = tombstoned(place)
    policies = {ONE: CompactionPolicy(dirty_ratio=0.0, delete_retention_ms=DAY)}
    compact(log, policies, living(1), now_ms=10 * DAY)
    assert seen(log, 1)[:3] == [Seen(2, b"c", b"v"), Seen(3, b"a", None), Seen(4, b"b", None)]
    assert log.erased_through == 0
    for now in (10 * DAY + 1, 11 * DAY - 1):
        more(log, maker)
        compact(log, policies, living(1), now_ms=now)
        assert Seen(3, b"a", None) in seen(log, 1)
    log = place.open()
    more(log, maker)
    compact(log, policies, living(1), now_ms=11 * DAY)
    assert [record.key for record in seen(log, 1)][:2] == [b"c", b"d"]
    assert latest(seen(log, 1)) == latest(maker.records[1])
    assert log.erased_through == 2
    assert place.open().erased_through == 2


def test_what_was_never_cleaned_is_marked_anew(place: Place) -> None:
    """A client may have written anything where a horizon would stand."""
    log = place.open()
    maker = KeyedMaker()
    forged = maker.entry(1, {1: [keys("a-")]})
    plain = pack(keys("a-"))
    bad = with_bytes(with_bytes(plain, 21, b"\0\x40"), 27, (0).to_bytes(8, "big"))
    payload = bytes(forged.payload).replace(bytes(plain[16:]), bytes(bad[16:]))
    assert payload != forged.payload
    write(log, [Entry(forged.index, forged.term, forged.kind, payload)])
    more(log, maker)
    compact(log, always(1), living(1), now_ms=5 * DAY)
    assert seen(log, 1)[0].key == b"a"
    more(log, maker)
    compact(log, always(1), living(1), now_ms=5 * DAY + 5)
    assert seen(log, 1)[0].key == b"a"
    more(log, maker)
    compact(log, always(1), living(1), now_ms=6 * DAY)
    assert seen(log, 1)[0].key != b"a"


def test_the_newest_record_stays_even_if_it_is_a_tombstone(place: Place) -> None:
    log = place.open()
    maker = KeyedMaker()
    write(log, [maker.entry(1, {1: [keys("a", "a-")]})])
    for turn in range(4):
        for index in range(log.last_index + 1, log.last_index + 40):
            write(log, [maker.entry(index, {2: [keys("x", value="y" * 40)]})])
        snapshot(log)
        compact(log, always(1, 2), living(1, 2), now_ms=turn * 2 * DAY)
        assert seen(log, 1) == [Seen(1, b"a", None)]
    more(log, maker)
    compact(log, always(1, 2), living(1, 2), now_ms=20 * DAY)
    assert seen(log, 1)[0].key == b"d"


def test_a_key_that_comes_back_loses_its_tombstone(place: Place) -> None:
    log, maker = tombstoned(place)
    compact(log, always(1), living(1))
    write(log, [maker.entry(log.last_index + 1, {1: [keys("a", value="again")]})])
    more(log, maker)
    compact(log, always(1), living(1), now_ms=100 * DAY)
    assert [record for record in seen(log, 1) if record.key == b"a"] == [Seen(65, b"a", b"again")]
    assert log.erased_through == 2, "of b"


# When.


def test_a_partition_is_due_by_its_share_of_new_bytes(place: Place) -> None:
    log = place.open()
    maker = KeyedMaker()
    policies = {ONE: CompactionPolicy(dirty_ratio=0.6)}
    for index in range(1, 60):
        write(log, [maker.entry(index, {1: [[(b"key %d" % index, b"v" * 40)]]})])
    snapshot(log)
    compact(log, policies, living(1))
    assert log.statistics().compaction_rounds == 1, "everything was new"
    rounds = []
    for index in range(60, 180):
        write(log, [maker.entry(index, {1: [[(b"key %d" % index, b"v" * 40)]]})])
        if index % 10 == 0:
            snapshot(log)
            compact(log, policies, living(1))
            rounds.append(log.statistics().compaction_rounds)
    assert rounds[0] == 1
    assert rounds[-1] == 2


def test_what_is_new_waits_no_longer_than_it_may(place: Place) -> None:
    log = place.open()
    maker = KeyedMaker()
    policies = {ONE: CompactionPolicy(dirty_ratio=1.1, max_lag_ms=DAY)}
    fill(log, maker, 20)
    snapshot(log)
    compact(log, policies, living(1, 2), now_ms=DAY + 999)
    assert log.statistics().compaction_rounds == 0
    assert log.compaction_job(policies, living(1, 2), LATEST, DAY + 999) is None
    compact(log, policies, living(1, 2), now_ms=DAY + 1_000)
    assert log.statistics().compaction_rounds == 1


def test_what_is_young_is_left_alone(place: Place) -> None:
    log = place.open()
    maker = KeyedMaker()
    for index in range(1, 80):
        content = {1: [keys("a", "b", value=f"{index}")]}
        write(log, [maker.entry(index, content, timestamp=index * 1_000)])
    snapshot(log)
    policies = {ONE: CompactionPolicy(dirty_ratio=0.0, min_lag_ms=10_000)}
    compact(log, policies, living(1), now_ms=10_999)
    assert log.statistics().compaction_rounds == 0, "all is young"
    compact(log, policies, living(1), now_ms=30_500)
    assert clean_to(log) == 40, "entry 21, with offsets 40 and 41, is too young"
    assert seen(log, 1) == survivors(maker.records[1], 40)
    compact(log, policies, living(1), now_ms=90_000)
    assert clean_to(log) > 120


def test_a_policy_that_is_taken_away_ends_it_for_the_partition(place: Place) -> None:
    settings = LogSettings(segment_bytes=2048, ballast_bytes=4096, compaction_job_bytes=1)
    log = place.open(settings=settings)
    maker = KeyedMaker()
    for index in range(1, 80):
        write(log, [maker.entry(index, {1: [keys("a", "b")], 2: [keys("a", "b")]})])
    snapshot(log)
    policies = always(1, 2)
    while seen(log, 1) == maker.records[1]:
        complete(log, log.compaction_job(policies, living(1, 2), LATEST, 0))
    reached = seen(log, 1)
    compact(log, always(2), living(1, 2))
    assert seen(log, 1) == reached
    assert ONE not in log._home.cleaned
    assert seen(log, 2) == survivors(maker.records[2], log._home.cleaned[PartitionId(2)])
    compact(log, always(1), living(1, 2))
    assert seen(log, 1) == survivors(maker.records[1], clean_to(log))


# Together with other things.


def test_beside_reclaiming(place: Place) -> None:
    settings = LogSettings(segment_bytes=2048, ballast_bytes=4096, compaction_job_bytes=2_000,
                           rewrite_live_percent_max=90)  # fmt: skip
    log = place.open(settings=settings)
    maker = KeyedMaker()
    random = Random(4)
    policies, start = always(1), 0
    for index in range(1, 200):
        content: dict[int, list[Content]] = {
            1: [keys(*random.choices("abcdefgh", k=3))],
            2: [[(b"k", b"v" * 60)]],
        }
        write(log, [maker.entry(index, content)])
        if index % 7 == 0:
            snapshot(log)
            start = max(0, index - random.randrange(60))
        live = living(1, p2=start)
        job = log.compaction_job(policies, live, LATEST, index)
        if job is not None:
            assert log.reclaim_job(live(), LATEST) is None, "one at a time"
            complete(log, job)
        job = log.reclaim_job(live(), LATEST)
        if job is not None:
            assert log.compaction_job(policies, live, LATEST, index) is None, "one at a time"
            complete(log, job)
    live = living(1, p2=start)
    compact(log, policies, live)
    log = place.open(settings=settings, verify_all=True)
    assert seen(log, 1) == survivors(maker.records[1], clean_to(log))
    assert seen(log, 2, start) == maker.records[2][start:]


def cleaning_job(log: ShardLog) -> LogJob:
    """The job that writes the first new segment: a survey and the gathering come before it."""
    policies = always(1)
    complete(log, log.compaction_job(policies, living(1, 2), LATEST, 0))
    complete(log, log.compaction_job(policies, living(1, 2), LATEST, 0))
    job = log.compaction_job(policies, living(1, 2), LATEST, 0)
    assert job is not None
    return job


def test_no_space_is_no_harm() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    maker = KeyedMaker()
    fill(log, maker, 20)
    snapshot(log)
    job = cleaning_job(log)
    disk.fail_next("write", "*-*.log", DiskFull)
    with pytest.raises(DiskFull) as failure:
        run(job)
    before = len(disk.paths())
    log.fail(job, failure.value)
    drain(log)
    assert len(disk.paths()) == before - 1, "what was begun is removed"
    assert not log.poisoned
    assert not log.compacting
    assert seen(log, 1) == maker.records[1]
    assert log.compaction_job(always(1), living(1, 2), LATEST, 1) is None, "not again at once"
    compact(log, always(1), living(1, 2), now_ms=100_000)
    assert seen(log, 1) == survivors(maker.records[1], clean_to(log))


def test_rot_is_reported(place: Place) -> None:
    log = place.open()
    maker = KeyedMaker()
    fill(log, maker, 20)
    snapshot(log)
    for position in range(200, 1_500, 100):
        place.flip(place.names(".log")[1], position)
    policies = always(1)
    complete(log, log.compaction_job(policies, living(1, 2), LATEST, 0))
    job = log.compaction_job(policies, living(1, 2), LATEST, 0)
    assert job is not None
    with pytest.raises(DamagedFile) as failure:
        run(job)
    log.fail(job, failure.value)
    assert not log.poisoned
    assert not log.compacting


def test_an_error_of_the_disk_poisons() -> None:
    disk = FaultyDisk()
    log = open_log(disk)
    maker = KeyedMaker()
    fill(log, maker, 20)
    snapshot(log)
    job = cleaning_job(log)
    disk.fail_next("sync", "*-*.log", DiskFailed)
    with pytest.raises(DiskFailed) as failure:
        run(job)
    log.fail(job, failure.value)
    assert log.poisoned


def test_a_lost_side_index_is_no_hindrance(place: Place) -> None:
    log = place.open()
    maker = KeyedMaker()
    fill(log, maker, 20)
    snapshot(log)
    names = place.names(".index")
    place.disk.remove(place.path(names[0]))
    place.flip(names[1], 300)
    place.cut(names[2], 60)
    compact(log, always(1), living(1, 2))
    assert seen(log, 1) == survivors(maker.records[1], clean_to(log))


def test_what_a_round_left_behind_is_swept(place: Place) -> None:
    settings = LogSettings(segment_bytes=2048, ballast_bytes=4096, compaction_job_bytes=1)
    log = place.open(settings=settings)
    maker = KeyedMaker()
    fill(log, maker, 40)
    snapshot(log)
    policies = always(1)
    for _ in range(200):
        complete(log, log.compaction_job(policies, living(1, 2), LATEST, 0))
        if len(place.names(".log")) > log.statistics().segments:
            break
    assert len(place.names(".log")) > log.statistics().segments
    log = place.open(settings=settings)
    assert len(place.names(".log")) == log.statistics().segments
    compact(log, policies, living(1, 2))
    assert seen(log, 1) == survivors(maker.records[1], clean_to(log))


def test_times_and_sizes_of_a_compacted_partition(place: Place) -> None:
    log = place.open()
    maker = KeyedMaker()
    for index in range(1, 80):
        content = {1: [keys("a", f"once {index}" if index % 10 == 0 else "b")]}
        write(log, [maker.entry(index, content, timestamp=index * 1_000)])
    snapshot(log)
    compact(log, always(1), living(1))
    assert log.offset_for_time(ONE, 5_000) == (18, 10_000)
    assert log.offset_for_time(ONE, 10_001) == (38, 20_000)
    assert log.entry_of(ONE, Offset(39)) == (20, 1), "what is left of its entry"
    assert log.entry_of(ONE, Offset(20)) is None, "it was cleaned away"
    whole = log.read(ONE, Offset(0), 1 << 30, EVERYTHING)
    assert log.partition_bytes(ONE, Offset(0)) == len(whole)
    assert log.partition_bytes(ONE, Offset(19)) == len(whole)
    assert log.partition_bytes(ONE, Offset(20)) == len(
        log.read(ONE, Offset(20), 1 << 30, EVERYTHING)
    )
    assert log.offset_before_time(ONE, 15_000) == 38
    assert log.offset_before_bytes(ONE, len(whole)) == 18


def test_the_default_policy_is_kafka_s() -> None:
    policy = CompactionPolicy()
    assert (policy.dirty_ratio, policy.delete_retention_ms) == (0.5, DAY)
    assert (policy.min_lag_ms, policy.max_lag_ms) == (0, None)
    assert AT_ONCE.dirty_ratio == 0
    assert SETTINGS.compaction_keys_max == 250_000
