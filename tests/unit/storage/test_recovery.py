"""Torn tail, lost promise, corruption in the middle: three things a bad record can be."""

from collections.abc import Callable
from contextlib import suppress
from random import Random

import msgspec
import pytest

from penstock.core.append_payload import Slice, encode_append
from penstock.core.entries import Entry, EntryKind, HardState
from penstock.core.errors import DamagedFile
from penstock.core.types import Index, NodeId, Offset, PartitionId, Term
from penstock.storage.job import run
from penstock.storage.log import ShardLog
from penstock.storage.record import RECORD_HEADER_BYTES
from penstock.storage.segment import SEGMENT_HEADER_BYTES
from penstock.storage.settings import LogSettings
from penstock.testing.disk import FaultyDisk, PowerCut
from tests.batches import build_batch
from tests.unit.storage.logs import (
    DIRECTORY,
    EVERYTHING,
    EntryMaker,
    Place,
    batches_of,
    everything,
    noop,
    open_log,
    scrub,
    write,
)

ONE_SEGMENT = LogSettings(segment_bytes=1 << 16, ballast_bytes=0)
ACTIVE = "00000000000000000001-000001.log"


def positions(entries: list[Entry]) -> list[int]:
    """Where the entries lie in a first segment, and where the last one ends."""
    found = [SEGMENT_HEADER_BYTES]
    for entry in entries:
        found.append(found[-1] + RECORD_HEADER_BYTES + len(entry.payload))
    return found


def killed_with_tail(place: Place, durable: int, written: int) -> list[Entry]:
    """A log whose process died after a write of more entries, before their sync."""
    log = place.open(settings=ONE_SEGMENT)
    entries = EntryMaker().run(1, written)
    write(log, entries[:durable])
    log.stage(entries=entries[durable:])
    job = log.take_job()
    assert job is not None
    job.steps[0]()
    log.close()  # a job is out: nothing is tidied up
    return entries


def test_a_tail_that_nobody_was_promised_is_cut(place: Place) -> None:
    entries = killed_with_tail(place, durable=10, written=14)
    place.flip(ACTIVE, positions(entries)[12] + 60)
    log = place.open(settings=ONE_SEGMENT)
    assert everything(log) == entries[:12], "whole records before the torn one stay"
    assert log.durable_index == 12
    torn = positions(entries)[14] - positions(entries)[12]
    assert log.statistics().torn_bytes == torn - 1, "a last byte that is zero is not missed"
    assert place.names(".broken") == [ACTIVE + ".broken"]
    write(log, [noop(13)])
    assert everything(place.open(settings=ONE_SEGMENT)) == [*entries[:12], noop(13)]


def forged_append(batches: bytes, batch_count: int = 1) -> bytes:
    part = Slice(PartitionId(1), len(batches), Offset(0), batch_count, batch_count, 0)
    return encode_append(1, [(part, [batches])])


BATCH = bytes(build_batch(1))
FORGED = [
    (EntryKind.APPEND, b"garbage"),
    (EntryKind.APPEND, forged_append(b"no batch")),
    (EntryKind.APPEND, forged_append(BATCH[:-1])),
    (EntryKind.APPEND, forged_append(BATCH + b"x")),
    (EntryKind.APPEND, forged_append(BATCH, batch_count=2)),
    (EntryKind.APPEND, forged_append(BATCH + BATCH, batch_count=2)),
    (EntryKind.COMMAND, b""),
    (EntryKind.COMMAND, b"garbage"),
    (EntryKind.COMMAND, msgspec.msgpack.encode([])),
    (EntryKind.COMMAND, msgspec.msgpack.encode([1, "tag"])),
    (EntryKind.COMMAND, b"\x91" * 100_000),
    (EntryKind.MEMBERSHIP, b"\xc1"),
]


@pytest.mark.parametrize("promised", [True, False])
@pytest.mark.parametrize(("kind", "payload"), FORGED)
def test_an_entry_that_cannot_be_read_is_damage_if_it_was_promised(
    place: Place, kind: EntryKind, payload: bytes, promised: bool
) -> None:
    """It is what was written, and its checksums are right: a peer has sent it."""
    log = place.open(settings=ONE_SEGMENT)
    entries = EntryMaker().run(1, 10)
    write(log, entries)
    log.stage(entries=[Entry(Index(11), Term(1), kind, payload)])
    job = log.take_job()
    assert job is not None
    for step in job.steps if promised else job.steps[:1]:
        step()
    log.close()
    if promised:
        with pytest.raises(DamagedFile, match="entry 11 cannot be read.*penstock log repair"):
            place.open(settings=ONE_SEGMENT, solo=True)
    else:
        log = place.open(settings=ONE_SEGMENT)
        assert everything(log) == entries
        write(log, [noop(11)])


def test_a_command_of_a_later_release_is_no_damage(place: Place) -> None:
    """Only its machine can say so: see `command_codec`."""
    log = place.open(settings=ONE_SEGMENT)
    later = msgspec.msgpack.encode(["a later command", 1, {"with": b"anything"}])
    entries = [noop(1), Entry(Index(2), Term(1), EntryKind.COMMAND, later)]
    write(log, entries)
    assert everything(place.open(settings=ONE_SEGMENT)) == entries


def test_a_later_sector_of_a_lost_write_is_no_damage(place: Place) -> None:
    """The disk kept 13 and lost 11 and 12: still nobody was promised any of them."""
    entries = killed_with_tail(place, durable=10, written=13)
    at = positions(entries)
    file = place.disk.open(place.path(ACTIVE))
    file.write(at[10], [bytes(at[12] - at[10])])
    file.close()
    log = place.open(settings=ONE_SEGMENT)
    assert everything(log) == entries[:10]
    write(log, [noop(11)])
    assert everything(place.open(settings=ONE_SEGMENT)) == [*entries[:10], noop(11)]


def test_a_bad_record_below_the_marker_is_a_lost_promise(place: Place) -> None:
    entries = killed_with_tail(place, durable=10, written=10 + 1)
    at = positions(entries)
    place.cut(ACTIVE, at[9] + 20)
    with pytest.raises(DamagedFile, match="entry 10 is missing, but 10 was durable") as error:
        place.open(settings=ONE_SEGMENT)
    assert error.value.path.endswith(ACTIVE)
    assert error.value.position == at[9]
    assert f"penstock log repair {place.directory}" in str(error.value)


def test_zeros_in_the_place_of_a_durable_record_are_a_lost_promise(place: Place) -> None:
    entries = killed_with_tail(place, durable=10, written=11)
    at = positions(entries)
    file = place.disk.open(place.path(ACTIVE))
    file.write(at[7], [bytes(at[11] - at[7])])
    file.close()
    with pytest.raises(DamagedFile, match="entry 8 is missing, but 10 was durable"):
        place.open(settings=ONE_SEGMENT)


def test_later_records_testify_even_without_the_marker(place: Place) -> None:
    """The marker is older than the damage, but a later record knew what was durable."""
    log = place.open(settings=ONE_SEGMENT)
    entries = EntryMaker().run(1, 12)
    write(log, entries[:6])
    file = place.disk.open(place.path("marker"))
    old_marker = file.read(0, 8192)
    write(log, entries[6:10])
    write(log, entries[10:])
    place.close()
    file.write(0, [old_marker])
    file.close()
    for name in place.names(".index"):
        place.disk.remove(place.path(name))
    place.flip(ACTIVE, positions(entries)[8] + 50)
    with pytest.raises(DamagedFile, match="and whole ones follow") as error:
        place.open(settings=ONE_SEGMENT)
    assert error.value.position == positions(entries)[8]


def test_a_process_that_died_left_what_it_wrote(place: Place) -> None:
    entries = killed_with_tail(place, durable=10, written=14)
    log = place.open(settings=ONE_SEGMENT)
    assert everything(log) == entries
    assert log.durable_index == 14, "and now it is durable"


def test_found_records_are_durable_before_they_are_believed() -> None:
    disk = FaultyDisk()
    entries = killed_with_tail(Place(disk, DIRECTORY), durable=10, written=14)
    disk.kill()
    open_log(disk, settings=ONE_SEGMENT)
    disk.crash(Random(1))
    assert everything(open_log(disk, settings=ONE_SEGMENT)) == entries


def sealed_log(place: Place) -> list[Entry]:
    log = place.open()
    entries = EntryMaker().run(1, 60)
    write(log, entries)
    place.close()
    return entries


def test_a_start_does_not_read_sealed_segments(place: Place) -> None:
    entries = sealed_log(place)
    name = place.names(".log")[1]
    place.flip(name, positions(entries)[3] + 100)
    log = place.open()
    assert log.last_index == 60
    with pytest.raises(DamagedFile) as error:
        everything(log)
    assert error.value.path.endswith(name)
    with pytest.raises(DamagedFile, match="CRC-32C"):
        log.read(PartitionId(1), Offset(0), 1 << 20, EVERYTHING)
    good = log.read(PartitionId(1), Offset(50), 1 << 20, EVERYTHING)
    assert good == batches_of(entries, 1, 50)
    place.close()
    with pytest.raises(DamagedFile):
        place.open(verify_all=True)


@pytest.mark.parametrize("harm", ["flip header", "flip page", "cut", "remove"])
def test_side_indexes_are_made_again(place: Place, harm: str) -> None:
    entries = sealed_log(place)
    name = place.names(".index")[1]
    if harm == "remove":
        place.disk.remove(place.path(name))
    elif harm == "cut":
        place.cut(name, 100)
    else:
        file = place.disk.open(place.path(name))
        size = file.size()
        file.close()
        place.flip(name, 30 if harm == "flip header" else size - 10)
    log = place.open()
    assert everything(log) == entries
    read = log.read(PartitionId(1), Offset(0), 1 << 20, EVERYTHING)
    assert read == batches_of(entries, 1)
    assert scrub(log) is None
    assert name in place.names(".index")


@pytest.mark.parametrize("harm", ["remove", "cut", "header", "swap"])
def test_a_segment_that_is_not_what_the_manifest_says_is_damage(place: Place, harm: str) -> None:
    sealed_log(place)
    first, second = place.names(".log")[1:3]
    if harm == "remove":
        place.disk.remove(place.path(first))
    elif harm == "cut":
        place.cut(first, 500)
    elif harm == "header":
        place.flip(first, 40)
    else:
        place.disk.rename(place.path(first), place.path("aside"))
        place.disk.rename(place.path(second), place.path(first))
        place.disk.rename(place.path("aside"), place.path(second))
    with pytest.raises(DamagedFile) as error:
        place.open()
    assert error.value.path == place.path(first)


def test_an_old_vote_put_back_is_noticed(place: Place) -> None:
    log = place.open()
    files = [place.disk.open(place.path(name)) for name in ("vote", "vote.copy")]
    old = [file.read(0, 8192) for file in files]
    write(log, EntryMaker().run(1, 3, term=4))
    place.close()
    for file, content in zip(files, old, strict=True):
        file.write(0, [content])
        file.close()
    with pytest.raises(DamagedFile, match="old copy"):
        place.open()


def test_a_crash_while_a_log_is_made_leaves_room_for_another_try() -> None:
    for operations in range(1, 40):
        for seed in range(3):
            disk = FaultyDisk()
            disk.cut_power_after(operations)
            with suppress(PowerCut):
                open_log(disk)
            disk.crash(Random(seed))
            log = open_log(disk)
            assert (log.last_index, log.hard_state) == (0, HardState())


def test_a_log_that_was_made_survives_a_power_cut() -> None:
    """Nothing is synced a second time when a log that was just made is opened."""
    for seed in range(20):
        disk = FaultyDisk()
        log = open_log(disk, settings=ONE_SEGMENT)
        disk.crash(Random(seed))
        log = open_log(disk, settings=ONE_SEGMENT)
        assert (log.last_index, log.hard_state) == (0, HardState())
        log.close()
        disk = FaultyDisk()
        log = open_log(disk, settings=ONE_SEGMENT)
        entries = EntryMaker().run(1, 3)
        write(log, entries)
        disk.crash(Random(seed))
        assert everything(open_log(disk, settings=ONE_SEGMENT)) == entries


def test_making_a_log_syncs_each_file_once() -> None:
    disk = FaultyDisk()
    open_log(disk, settings=LogSettings(segment_bytes=1 << 16, ballast_bytes=4096))
    files = ("vote", "vote.copy", "marker", "segment", "manifest", "manifest.copy", "identity")
    assert disk.counts["sync"] == len((*files, "ballast"))


@pytest.mark.parametrize("written", [1, 20])
def test_a_start_does_not_read_what_was_reserved_and_never_written(written: int) -> None:
    reads = []
    for segment_bytes in (1 << 16, 1 << 23):
        disk = FaultyDisk()
        settings = LogSettings(segment_bytes=segment_bytes, ballast_bytes=0)
        log = open_log(disk, settings=settings)
        write(log, EntryMaker().run(1, written))
        disk.kill()
        disk.counts.clear()
        open_log(disk, settings=settings)
        reads.append(disk.counts["read"])
    assert reads[0] == reads[1]


def test_what_lies_beyond_a_gap_of_zeros_is_found(place: Place) -> None:
    """A later sector of an unsynced write that was lost: it would be in the way of what comes."""
    killed_with_tail(place, durable=2, written=4)
    file = place.disk.open(place.path(ACTIVE))
    file.write(40_000, [b"rubble"])
    file.close()
    log = place.open(settings=ONE_SEGMENT)
    assert log.last_index == 4
    broken = place.disk.open(place.path(place.names(".broken")[0]))
    assert broken.read(0, 1 << 16).endswith(b"rubble")
    broken.close()
    file = place.disk.open(place.path(ACTIVE))
    assert not any(file.read(40_000, 1 << 16))
    file.close()


def test_a_vote_survives_the_loss_of_one_copy(place: Place) -> None:
    losses: list[Callable[[], None]] = [
        lambda: place.flip("vote", 10),
        lambda: place.flip("vote.copy", 10),
        lambda: place.cut("vote", 0),
        lambda: place.disk.remove(place.path("vote.copy")),
    ]
    for lose in losses:
        log = place.open()
        state = HardState(Term(log.hard_state.term + 1), NodeId(7))
        log.stage(hard_state=state)
        job = log.take_job()
        assert job is not None
        run(job)
        log.complete(job)
        place.close()
        lose()
        assert place.open().hard_state == state


@pytest.mark.parametrize("solo", [True, False])
def test_a_node_without_its_vote_does_not_start(place: Place, solo: bool) -> None:
    """Repaired from a leader of an old term it might break a promise made in a newer one."""
    write(place.open(solo=solo), EntryMaker().run(1, 3))
    place.close()
    for name in ("vote", "vote.copy"):
        place.disk.remove(place.path(name))
    with pytest.raises(DamagedFile, match="penstock log repair" if solo else "new id"):
        place.open(solo=solo)


def test_the_active_segment_is_scanned_from_where_a_clean_stop_left_it(place: Place) -> None:
    log = place.open(settings=ONE_SEGMENT)
    entries = EntryMaker().run(1, 10)
    write(log, entries)
    log = place.open(settings=ONE_SEGMENT)
    assert_reads(log, entries)
    maker = EntryMaker()
    maker.rewind(entries[:6])
    write(log, maker.run(7, 9, 2))
    newer = everything(log)
    log._poison = DamagedFile(path="", position=0, problem="", way_out="")  # no clean stop
    log = place.open(settings=ONE_SEGMENT)
    assert_reads(log, newer)


def assert_reads(log: ShardLog, entries: list[Entry]) -> None:
    assert log.last_index == Index(len(entries))
    assert everything(log) == entries
    read = log.read(PartitionId(1), Offset(0), 1 << 20, EVERYTHING)
    assert read == batches_of(entries, 1)
