"""The side index of a sealed segment: its rows in a file, read a page at a time.

    byte 0   magic u32, format u32, header length u32, header CRC-32C u32
         16  header (msgpack): what the segment is, its terms, memberships and set of partitions,
             where the tables begin, and a CRC-32C for each page
         ..  pages of 8 KiB, the last one shorter: three tables one after the other
               entries     8 bytes each: index less base u32, position u32
               directory  40 bytes a partition, in order of id: id u32, row count u32, first row
                          u32, bytes u32, first offset i64, end offset i64, highest timestamp i64
               rows       36 bytes each, by partition, then by offset: see `index`

A start reads only headers: a few kilobytes a segment. A lookup reads one page of the directory (its
row is the partition's rank in the set), then a few of the rows by binary search.

The file is a cache. It counts only if it says exactly what the manifest says of the segment: same
number, size, last index and chain. Whatever is wrong with it, it is made again from the segment.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator

import msgspec

from penstock.core.checksum import crc32c
from penstock.core.decoders import decode_msgpack
from penstock.core.types import Index, Offset, PartitionId, Term
from penstock.storage.disk import Disk, File
from penstock.storage.files import PAGE_BYTES, Files, PageDamaged, Pages
from penstock.storage.identity import FORMAT
from penstock.storage.index import (
    BASE_OFFSET,
    ROW,
    ROW_BYTES,
    GrowingIndex,
    Row,
    Rows,
    Summary,
    unpack_rows,
)
from penstock.storage.partition_set import PartitionSet

_PREFIX = struct.Struct("<IIII")
_MAGIC = 0x58444E49
_DIRECTORY = struct.Struct("<IIIIqqq")
_ENTRY = struct.Struct("<II")
_HEADER_BYTES_MAX = 64 << 20


class IndexHeader(msgspec.Struct, frozen=True, array_like=True):
    """The facts about a segment that a start needs."""

    number: int
    base: Index
    last: Index
    end: int
    chain: int
    terms: list[tuple[Index, Term]]
    memberships: list[tuple[Index, int]]
    entry_count: int
    partition_count: int
    row_count: int
    partitions: bytes
    checksums: bytes


def encode_index(
    index: GrowingIndex, *, number: int, last: Index, chain: int, terms: list[tuple[Index, Term]]
) -> list[bytes]:
    """The bytes of an index file, as buffers to be written one after the other."""
    deltas, positions = index.entries()
    partitions = index.partitions()
    tables = [_interleave(deltas, positions)]
    first_row = 0
    rows: list[bytes | bytearray] = []
    directory = bytearray()
    for partition in partitions:
        packed = index.packed_rows(partition)
        summary = index.summary(partition)
        count = len(packed) // ROW_BYTES
        directory += _DIRECTORY.pack(
            partition,
            count,
            first_row,
            summary.size,
            summary.first_offset,
            summary.end_offset,
            summary.highest_timestamp,
        )
        first_row += count
        rows.append(packed)
    body = b"".join([*tables, directory, *rows])
    view = memoryview(body)
    checksums = array(
        "I", [crc32c(view[i : i + PAGE_BYTES]) for i in range(0, len(body), PAGE_BYTES)]
    )
    header = msgspec.msgpack.encode(
        IndexHeader(
            number=number,
            base=index.base,
            last=last,
            end=index.end,
            chain=chain,
            terms=terms,
            memberships=index.memberships,
            entry_count=len(deltas),
            partition_count=len(partitions),
            row_count=first_row,
            partitions=PartitionSet(partitions).encode(),
            checksums=checksums.tobytes(),
        )
    )
    return [_PREFIX.pack(_MAGIC, FORMAT, len(header), crc32c(header)), header, body]


def _interleave(deltas: "array[int]", positions: "array[int]") -> bytes:
    both = array("I", bytes(8 * len(deltas)))
    both[0::2] = deltas
    both[1::2] = positions
    return both.tobytes()


def write_index(disk: Disk, path: str, buffers: list[bytes]) -> None:
    """Write an index file. No sync: if a crash tears it, it is made again."""
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.write(0, buffers)
    finally:
        file.close()


def read_index_header(file: File) -> tuple[IndexHeader, int] | None:
    """The header and where the pages begin; None if the file is not a whole index."""
    prefix = file.read(0, _PREFIX.size)
    if len(prefix) < _PREFIX.size:
        return None
    magic, fmt, length, checksum = _PREFIX.unpack(prefix)
    if magic != _MAGIC or fmt != FORMAT or length > _HEADER_BYTES_MAX:
        return None
    data = file.read(_PREFIX.size, length)
    if len(data) < length or crc32c(data) != checksum:
        return None
    try:
        header = decode_msgpack(data, IndexHeader)
    except msgspec.DecodeError:
        return None
    start = _PREFIX.size + length
    size = (
        header.entry_count * _ENTRY.size
        + header.partition_count * _DIRECTORY.size
        + header.row_count * ROW_BYTES
    )
    return (header, start) if file.size() == start + size else None


class IndexFile:
    """The index of a sealed segment, read from its file when asked."""

    def __init__(self, pages: Pages, name: str, header: IndexHeader, start: int) -> None:
        self._pages = pages
        self._name = name
        self._start = start
        self._checksums = array("I", header.checksums)
        self._set = PartitionSet.decode(header.partitions)
        self._entry_count = header.entry_count
        self._partition_count = header.partition_count
        self._directory_at = header.entry_count * _ENTRY.size
        self._rows_at = self._directory_at + header.partition_count * _DIRECTORY.size
        self._row_count = header.row_count
        self.base = header.base
        self.end = header.end
        self.memberships = header.memberships

    def read(self, position: int, length: int) -> bytes:
        """Verified bytes of the tables."""
        number, at = divmod(position, PAGE_BYTES)
        page = self._page(number)
        if at + length <= len(page):
            return page[at : at + length]
        parts = [page[at:]]
        have = len(parts[0])
        while have < length:
            number += 1
            page = self._page(number)
            parts.append(page[: length - have])
            have += len(parts[-1])
        return b"".join(parts)

    def _page(self, number: int) -> bytes:
        if number >= len(self._checksums):
            raise PageDamaged(self._name)
        return self._pages.page(
            self._name, number, start=self._start, checksum=self._checksums[number]
        )

    def __contains__(self, partition: object) -> bool:
        return partition in self._set

    def _directory(self, rank: int) -> tuple[int, int, int, int, int, int, int]:
        data = self.read(self._directory_at + rank * _DIRECTORY.size, _DIRECTORY.size)
        row: tuple[int, int, int, int, int, int, int] = _DIRECTORY.unpack(data)
        return row

    def partitions(self) -> list[PartitionId]:
        return [partition for partition, _, _ in self.directory()]

    def summary(self, partition: PartitionId) -> Summary:
        found, _, _, size, first, end, highest = self._directory(self._set.rank(partition))
        assert found == partition, f"{self._name}: {found} stands in the place of {partition}"
        return Summary(Offset(first), Offset(end), size, highest)

    def rows(self, partition: PartitionId) -> Rows:
        _, count, first_row, *_ = self._directory(self._set.rank(partition))
        return _PagedRows(self, self._rows_at + first_row * ROW_BYTES, count)

    def position(self, index: Index) -> int:
        wanted = max(index - self.base, 0)
        low, high = 0, self._entry_count
        # In a dense segment the guess is exact; in a sparse one an entry is never later than that.
        if wanted < high and self._entry(wanted)[0] == wanted:
            return self._entry(wanted)[1]
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[0] < wanted:
                low = middle + 1
            else:
                high = middle
        return self._entry(low)[1] if low < self._entry_count else self.end

    def _entry(self, number: int) -> tuple[int, int]:
        row: tuple[int, int] = _ENTRY.unpack(self.read(number * _ENTRY.size, _ENTRY.size))
        return row

    def directory(self) -> Iterator[tuple[PartitionId, Offset, int]]:
        """Every partition, its end offset and its bytes, in order of id."""
        step = _DIRECTORY.size * 1024
        for start in range(self._directory_at, self._rows_at, step):
            data = self.read(start, min(step, self._rows_at - start))
            for partition, _, _, size, _, end_offset, _ in _DIRECTORY.iter_unpack(data):
                yield PartitionId(partition), Offset(end_offset), size

    def entry_positions(self) -> "array[int]":
        """The position of every record, in order."""
        both = array("I", self.read(0, self._directory_at) if self._entry_count else b"")
        return both[1::2]

    def thaw(self) -> GrowingIndex:
        """The whole index in memory again, for a segment that is to be written once more."""
        both = array("I", self.read(0, self._directory_at) if self._entry_count else b"")
        return GrowingIndex.from_parts(
            self.base,
            end=self.end,
            memberships=list(self.memberships),
            rows=self._packed_rows(),
            entries=(both[0::2], both[1::2]),
        )

    def _packed_rows(self) -> Iterable[tuple[PartitionId, bytes]]:
        for rank in range(self._partition_count):
            partition, count, first_row, *_ = self._directory(rank)
            at = self._rows_at + first_row * ROW_BYTES
            yield PartitionId(partition), self.read(at, count * ROW_BYTES)

    @property
    def memory_bytes(self) -> int:
        return self._set.size_bytes + len(self._checksums) * 4


class _PagedRows:
    """The rows of one partition, as a sequence over pages."""

    __slots__ = ("_at", "_count", "_file")

    def __init__(self, file: IndexFile, at: int, count: int) -> None:
        self._file = file
        self._at = at
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int, /) -> Row:
        if number < 0:
            number += self._count
        return Row._make(ROW.unpack(self._file.read(self._at + number * ROW_BYTES, ROW_BYTES)))

    def base_offset(self, number: int) -> int:
        data = self._file.read(self._at + number * ROW_BYTES, BASE_OFFSET.size)
        found: int = BASE_OFFSET.unpack(data)[0]
        return found

    def packed(self, start: int, stop: int) -> bytes:
        stop = min(stop, self._count)
        if start >= stop:
            return b""
        return self._file.read(self._at + start * ROW_BYTES, (stop - start) * ROW_BYTES)

    def block(self, start: int, stop: int) -> list[Row]:
        return unpack_rows(self.packed(start, stop))


def load_index(files: Files, pages: Pages, name: str) -> tuple[IndexHeader, IndexFile] | None:
    """The index file `name` if it is there and whole; the segment must still be compared."""
    if not files.disk.exists(files.path(name)):
        return None
    files.forget(name)
    pages.forget(name)
    found = read_index_header(files.get(name))
    if found is None:
        files.forget(name)
        return None
    header, start = found
    return header, IndexFile(pages, name, header, start)
