"""A read that is planned on the loop and carried out elsewhere, whatever happens in between."""

import gc
import threading
import weakref
from random import Random

import pytest

from penstock.core.errors import DamagedFile
from penstock.core.types import Index, Offset, PartitionId
from penstock.storage import LogSettings, ReadPlan, ShardLog
from penstock.storage.files import Files
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.keyed import KeyedMaker, always, compact, living, snapshot
from tests.unit.storage.logs import (
    EVERYTHING,
    EntryMaker,
    Place,
    batches_of,
    complete,
    open_log,
    write,
)

ONE = PartitionId(1)
LARGE = LogSettings(segment_bytes=1 << 20, ballast_bytes=4096)


def plan_of(
    log: ShardLog, offset: int = 0, bytes_max: int = 1 << 30, end: int = 1 << 60
) -> ReadPlan:
    return log.read_plan(ONE, Offset(offset), bytes_max, Offset(end))


def test_a_plan_of_nothing(place: Place) -> None:
    log = place.open()
    plan = plan_of(log)
    assert (plan.bytes, plan.slices, plan.ranges, plan.recent) == (0, 0, 0, True)
    assert plan.load() == b""
    write(log, EntryMaker().run(1, 3))
    unknown = log.read_plan(PartitionId(9), Offset(0), 9, EVERYTHING)
    for plan in (plan_of(log, 3), plan_of(log, 0, end=0), unknown):
        assert (plan.bytes, plan.ranges) == (0, 0)
        assert plan.advance(1) == b""


@pytest.mark.parametrize("bytes_max", [1, 100, 500, 3_000, 1 << 30])
def test_all_at_once_and_bit_by_bit_are_the_same(place: Place, bytes_max: int) -> None:
    log = place.open()
    maker, random = EntryMaker(), Random(bytes_max)
    entries = [
        maker.append(index, 1, random.choice([(1,), (2,), (1, 2)]), count=random.randint(1, 3),
                     batches=random.randint(1, 3), value=b"v" * random.choice([1, 50, 700]))
        for index in range(1, 80)
    ]  # fmt: skip
    write(log, entries)
    end = maker.next_offset[ONE]
    for offset in range(0, end + 1, 3):
        for end_offset in (end, offset + 1, offset + 7):
            whole = plan_of(log, offset, bytes_max, end_offset)
            found = whole.load()
            assert found == batches_of(entries, 1, offset)[: len(found)]
            assert len(found) <= whole.bytes
            plan = plan_of(log, offset, bytes_max, end_offset)
            reads = 0
            while (part := plan.advance(1)) is None:
                reads += 1
            assert part == found
            assert reads <= plan.slices


def test_some_of_it_is_whole_batches_from_the_start(place: Place) -> None:
    log = place.open()
    maker = EntryMaker()
    big = b"v" * 5_000  # Too far apart for one read.
    entries = [maker.append(index, 1, (1 + index % 2,), value=big) for index in range(1, 40)]
    write(log, entries)
    everything = plan_of(log).load()
    some = plan_of(log).load_some(5)
    assert 0 < len(some) < len(everything)
    assert everything.startswith(some)
    assert plan_of(log).load_some(1_000) == everything


def test_thousands_of_slices_take_few_lookups(place: Place) -> None:
    log = place.open(settings=LARGE)
    maker = EntryMaker()
    entries = [maker.append(i, 1, (1, 2), value=b"v" * 10) for i in range(1, 4_000)]
    write(log, entries)
    snapshot(log)
    plan = plan_of(log)
    assert plan.slices == 3_999
    assert plan.ranges == 2, "one for each segment: what lies between costs less than a call"
    assert plan.load() == batches_of(entries, 1)
    apart = EntryMaker()
    first = log.last_index + 1
    entries = [
        apart.append(i, 1, (3, 4) if i % 2 else (4,), value=b"v" * (10 if i % 2 else 5_000))
        for i in range(first, first + 100)
    ]
    write(log, entries)
    plan = log.read_plan(PartitionId(3), Offset(0), 1 << 20, EVERYTHING)
    assert plan.ranges == plan.slices == 50
    assert plan.load() == batches_of(entries, 3)


def test_a_plan_is_bounded_in_rows(place: Place) -> None:
    log = place.open(settings=LogSettings(segment_bytes=4 << 20, ballast_bytes=4096))
    maker = EntryMaker()
    entries = [maker.append(i, 1, (1,), value=b"") for i in range(1, 10_001)]
    write(log, entries)
    data = plan_of(log).load()
    rest = plan_of(log, 8_200).load()
    assert data == batches_of(entries, 1)[: len(data)]
    assert len(data) > 8_000 * 70
    assert batches_of(entries, 1).endswith(rest)
    assert len(data) + len(rest) >= len(batches_of(entries, 1))


def test_what_is_recent(place: Place) -> None:
    log = place.open()
    write(log, EntryMaker().run(1, 60))
    assert not plan_of(log).recent
    assert plan_of(log, 55).recent


def test_a_plan_outlives_the_files_it_reads(place: Place) -> None:
    log = place.open()
    maker = KeyedMaker()
    for index in range(1, 60):
        write(log, [maker.entry(index, {1: [[(b"%d" % (index % 3), b"v" * 60)]]})])
    snapshot(log)
    before = log.read(ONE, Offset(0), 1 << 20, EVERYTHING)
    plans = [plan_of(log) for _ in range(3)]
    files = place.names(".log")
    compact(log, always(1), living(1))
    assert set(files) - set(place.names(".log")), "files were replaced"
    assert plans[0].load() == before
    assert len(log.read(ONE, Offset(0), 1 << 20, EVERYTHING)) < len(before)
    while (job := log.reclaim_job({}, Index(1 << 40))) is not None:
        segments = log.statistics().segments
        complete(log, job)
        if log.statistics().segments == segments:
            break
    assert plans[1].load() == before
    place.close()
    assert plans[2].load() == before


def test_a_plan_that_is_dropped_lets_its_files_go(place: Place) -> None:
    log = place.open()
    maker = EntryMaker()
    write(log, [maker.append(i, 1, (1,), value=b"v" * 6_000) for i in range(1, 20)])
    plan = plan_of(log)
    assert plan.advance(2) is None
    name = place.names(".log")[0]
    held = weakref.ref(log._home.files.hold(name))
    log._home.files.forget(name)
    assert held() is not None
    gc.disable()
    try:
        del plan
        assert held() is None, "at once, not when the collector comes by"
    finally:
        gc.enable()


def test_a_plan_may_be_loaded_on_another_thread(place: Place) -> None:
    log = place.open()
    entries = EntryMaker().run(1, 60)
    write(log, entries)
    found: list[bytes] = []
    plans = [plan_of(log, offset) for offset in range(0, 60, 10)]
    threads = [threading.Thread(target=lambda p=plan: found.append(p.load())) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [batches_of(entries, 1, offset) for offset in range(0, 60, 10)]
    assert sorted(found) == sorted(expected)


def test_rot_is_found_when_a_plan_is_loaded(place: Place) -> None:
    log = place.open()
    write(log, EntryMaker().run(1, 60))
    plan = plan_of(log)
    for position in range(300, 900, 50):
        place.flip(place.names(".log")[0], position)
    with pytest.raises(DamagedFile, match="do not match their CRC-32C"):
        plan.load()
    short = plan_of(log, 55)
    place.cut(place.names(".log")[-1], 140)
    with pytest.raises(DamagedFile, match="the file is cut short"):
        short.load()


def test_a_file_is_closed_when_the_last_holder_lets_go() -> None:
    disk = FaultyDisk()
    open_log(disk)
    path = next(path for path in disk.paths() if path.endswith(".log"))
    directory, name = path.rsplit("/", 1)
    files = Files(disk, directory, count_max=1)
    held = files.hold(name)
    file = held.file
    assert files.hold(name) is held
    files.get("manifest")
    assert file.read(0, 8) == b"PENSTKSG", "it is held, though no longer kept"
    assert files.hold(name) is not held
    disk.remove(path)
    files.close()
    assert file.read(0, 8) == b"PENSTKSG"
    used = disk.used_bytes
    del held
    assert disk.used_bytes < used, "closed, so the space of the removed file is free"
