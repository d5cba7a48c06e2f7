"""The index in memory and its twin in a file answer alike."""

from array import array
from random import Random

import pytest

from penstock.core.entries import EntryKind
from penstock.core.types import Index, Offset, PartitionId, Term
from penstock.storage.files import Files, PageDamaged, Pages
from penstock.storage.index import GrowingIndex, SegmentIndex, first_row_after, first_row_at_time
from penstock.storage.index_file import IndexFile, encode_index, load_index, write_index
from penstock.storage.record import RECORD_HEADER_BYTES
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.logs import EntryMaker, membership

PARTITIONS = (1, 2, 3, 500, 70_000)


def grown(count: int = 200, first: int = 10) -> GrowingIndex:
    """An index over entries with one to three partitions each, and some memberships."""
    random = Random(4)
    maker = EntryMaker()
    index = GrowingIndex(Index(first))
    position = 128
    for number in range(first, first + count):
        if number % 50 == 0:
            entry = membership(number)
        else:
            chosen = random.sample(PARTITIONS, random.randint(1, 3))
            entry = maker.append(
                number, 1, sorted(chosen), count=2, timestamp=random.randint(1, 10_000)
            )
        index.add(entry.index, entry.kind, entry.payload, position)
        position += RECORD_HEADER_BYTES + len(entry.payload)
    return index


def filed(index: GrowingIndex, cache_bytes: int = 1 << 16) -> IndexFile:
    disk = FaultyDisk()
    disk.make_directory("/d")
    buffers = encode_index(
        index,
        number=3,
        last=Index(209),
        chain=7,
        terms=[(Index(10), Term(1)), (Index(80), Term(2))],
    )
    write_index(disk, "/d/x.index", buffers)
    files = Files(disk, "/d")
    found = load_index(files, Pages(files, bytes_max=cache_bytes), "x.index")
    assert found is not None
    header, file = found
    assert (header.number, header.last, header.chain) == (3, 209, 7)
    assert header.terms == [(10, 1), (80, 2)]
    return file


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_the_file_answers_as_the_memory_does(cache_bytes: int) -> None:
    memory = grown()
    file = filed(memory, cache_bytes)
    twins: tuple[SegmentIndex, SegmentIndex] = (memory, file)
    assert twins[0].partitions() == twins[1].partitions() == list(PARTITIONS)
    assert twins[0].memberships == twins[1].memberships != []
    for number in range(5, 220):
        assert memory.position(Index(number)) == file.position(Index(number))
    for partition in map(PartitionId, PARTITIONS):
        assert memory.summary(partition) == file.summary(partition)
        ours, theirs = memory.rows(partition), file.rows(partition)
        assert len(ours) == len(theirs) > 20
        assert ours.block(0, 1000) == theirs.block(0, 1000)
        assert ours[-1] == theirs[-1]
        assert ours[3] == theirs[3] == ours.block(3, 4)[0]
        for offset in range(0, 300, 7):
            found = first_row_after(ours, Offset(offset))
            assert found == first_row_after(theirs, Offset(offset))
        for time in range(0, 11_000, 111):
            assert first_row_at_time(ours, time) == first_row_at_time(theirs, time)
    for stranger in (0, 4, 499, 501, 69_999, 70_001, 1 << 31):
        assert stranger not in memory
        assert stranger not in file


def test_searches_find_the_row() -> None:
    rows = grown().rows(PartitionId(2))
    assert first_row_after(rows, Offset(-1)) == 0
    assert first_row_after(rows, Offset(0)) == first_row_after(rows, Offset(1)) == 0
    assert first_row_after(rows, Offset(2)) == 1
    assert first_row_after(rows, Offset(1 << 40)) == len(rows)
    assert first_row_at_time(rows, 1 << 40) == len(rows)
    number = first_row_at_time(rows, rows[0].highest_timestamp + 1)
    assert rows[number].highest_timestamp > rows[0].highest_timestamp
    assert rows[number - 1].highest_timestamp == rows[0].highest_timestamp


@pytest.mark.parametrize("index", [1, 10, 11, 60, 209, 300])
def test_cutting_forgets_what_comes_after(index: int) -> None:
    whole, cut = grown(), grown()
    cut.cut(Index(index))
    shorter = grown(max(0, min(index, 210) - 10))
    assert cut.partitions() == shorter.partitions()
    for partition in map(PartitionId, cut.partitions()):
        assert cut.packed_rows(PartitionId(partition)) == shorter.packed_rows(
            PartitionId(partition)
        )
    assert cut.memberships == shorter.memberships
    assert cut.entries() == shorter.entries()
    assert whole.entries() != (array("I"), array("I"))


def test_a_file_can_be_thawed_and_goes_on() -> None:
    memory = grown()
    thawed = filed(memory).thaw()
    entry = EntryMaker().append(210)
    end = memory.end
    for index in (memory, thawed):
        index.add(entry.index, EntryKind.APPEND, entry.payload, end)
    assert thawed.partitions() == memory.partitions()
    assert thawed.entries() == memory.entries()
    assert thawed.packed_rows(PartitionId(1)) == memory.packed_rows(PartitionId(1))


def test_a_copy_is_independent() -> None:
    memory = grown()
    twin = memory.copy()
    twin.cut(Index(11))
    assert len(memory.rows(PartitionId(2))) > 20


def test_an_empty_index_has_a_file_too() -> None:
    file = filed(GrowingIndex(Index(10)))
    assert file.partitions() == []
    assert 1 not in file
    assert file.thaw().entries() == (array("I"), array("I"))


def test_a_rotten_page_is_noticed() -> None:
    disk = FaultyDisk()
    disk.make_directory("/d")
    index = grown()
    write_index(
        disk, "/d/x.index", encode_index(index, number=3, last=Index(209), chain=7, terms=[])
    )
    disk.flip_bit("/d/x.index", len(disk.image("/d/x.index")) - 5, 1)
    files = Files(disk, "/d")
    found = load_index(files, Pages(files, bytes_max=1 << 20), "x.index")
    assert found is not None
    with pytest.raises(PageDamaged):
        found[1].rows(PartitionId(70_000)).block(0, 1000)


@pytest.mark.parametrize("size", [0, 10, 16, 100, -1])
def test_a_file_of_another_size_is_no_index(size: int) -> None:
    disk = FaultyDisk()
    disk.make_directory("/d")
    index = grown()
    write_index(
        disk, "/d/x.index", encode_index(index, number=3, last=Index(209), chain=7, terms=[])
    )
    whole = len(disk.image("/d/x.index"))
    disk.truncate_file("/d/x.index", size if size >= 0 else whole - 1)
    files = Files(disk, "/d")
    assert load_index(files, Pages(files, bytes_max=1 << 20), "x.index") is None
    assert load_index(files, Pages(files, bytes_max=1 << 20), "y.index") is None
