"""The index of a segment: where each entry and each partition's batches lie in its file.

One row for each slice of each APPEND entry (see `core.append_payload`), kept by partition and in
order of offset, 36 bytes little-endian. A slice above 256 KiB gets several rows, each of whole
batches, so that a row is always worth reading at once:

    base offset        i64   of the slice's first message
    highest timestamp  i64   of this slice and all earlier ones of the partition in this segment
    bytes before       u32   of the partition's earlier slices in this segment
    span               u32   offsets from the first batch's base to the last one's end
    position           u32   of the slice's first batch in the file
    length             u32   of the slice
    checksum           u32   CRC-32C of the slice

All searches are binary: by offset, by bytes (sums are running), and by time. Timestamps come from
clients in any order, but the *running* maximum is sorted, and the first row at which it reaches a
time is exactly the first row that contains a message of that time or later.

Memory: the active segment's rows grow in one `bytearray` per partition. On sealing the same bytes
go to the side index file (`index_file`) and leave memory. The row is wide so that nothing else has
to be read to answer a fetch or to verify it: the checksum covers a slice's bytes wholly, including
the base offset and epoch that lie outside the batch's own checksum.

An index is a cache: it is made from verified records, can be made again, and is never the only
witness of anything.
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from penstock.core.append_payload import decode_append
from penstock.core.checksum import crc32c
from penstock.core.entries import EntryKind
from penstock.core.limits import KIB
from penstock.core.records import read_outline
from penstock.core.types import Index, Offset, PartitionId
from penstock.storage.record import RECORD_HEADER_BYTES

ROW = struct.Struct("<qqIIIII")
ROW_BYTES = ROW.size
BASE_OFFSET = struct.Struct("<q")
"""The first field of a row."""
_SLICE_BYTES_MAX = 256 * KIB


class Row(NamedTuple):
    """The position of one slice."""

    base_offset: Offset
    highest_timestamp: int
    bytes_before: int
    span: int
    """Of offsets. A compacted slice holds fewer records, and there are gaps between slices too."""
    position: int
    length: int
    checksum: int

    @property
    def end_offset(self) -> Offset:
        return Offset(self.base_offset + self.span)

    @property
    def bytes_through(self) -> int:
        """Bytes of the partition in this segment up to and with this slice."""
        return self.bytes_before + self.length


class Summary(NamedTuple):
    """The part of one partition in a segment."""

    first_offset: Offset
    end_offset: Offset
    size: int
    highest_timestamp: int


class SegmentIndex(Protocol):
    """The index of a segment, in memory or in a file."""

    memberships: list[tuple[Index, int]]
    """Index and position of the MEMBERSHIP entries."""

    def __contains__(self, partition: object) -> bool: ...

    def partitions(self) -> Sequence[PartitionId]:
        """Return the partitions in ascending order."""
        ...

    def summary(self, partition: PartitionId) -> Summary:
        """Only for a partition that is here."""
        ...

    def rows(self, partition: PartitionId) -> "Rows":
        """Only for a partition that is here; ordered by offset."""
        ...

    def position(self, index: Index) -> int:
        """Return the position of the first record with this index or a later one; the end if there
        is none."""
        ...


class Rows(Protocol):
    """The rows of one partition in one segment, as a sequence."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Row: ...

    def base_offset(self, number: int) -> int:
        """Of one row, at a third of what the whole row costs."""
        ...

    def packed(self, start: int, stop: int) -> bytes:
        """Several at once, as `unpack_rows` reads them."""
        ...

    def block(self, start: int, stop: int) -> list[Row]:
        """Return several rows at once."""
        ...


class _RowsOf:
    """Rows packed in bytes."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data) // ROW_BYTES

    def __getitem__(self, number: int, /) -> Row:
        if number < 0:
            number += len(self)
        return Row._make(ROW.unpack_from(self._data, number * ROW_BYTES))

    def base_offset(self, number: int) -> int:
        found: int = BASE_OFFSET.unpack_from(self._data, number * ROW_BYTES)[0]
        return found

    def packed(self, start: int, stop: int) -> bytes:
        return bytes(self._data[start * ROW_BYTES : stop * ROW_BYTES])

    def block(self, start: int, stop: int) -> list[Row]:
        return unpack_rows(self.packed(start, stop))


def unpack_rows(data: bytes) -> list[Row]:
    """Unpack consecutive rows."""
    return list(map(Row._make, ROW.iter_unpack(data)))


class GrowingIndex:
    """The index of the active segment, in memory."""

    def __init__(self, base: Index) -> None:
        self.base = base
        self.memberships: list[tuple[Index, int]] = []
        self.end = 0
        """The position after the last record."""
        self._rows: dict[PartitionId, bytearray] = {}
        self._entry_deltas = array("I")
        self._entry_positions = array("I")

    def add(self, index: Index, kind: int, payload: bytes | memoryview, position: int) -> None:
        """Take in the record at `position`, which is durable."""
        self._entry_deltas.append(index - self.base)
        self._entry_positions.append(position)
        self.end = position + RECORD_HEADER_BYTES + len(payload)
        if kind == EntryKind.APPEND:
            self._add_slices(payload, position + RECORD_HEADER_BYTES)
        elif kind == EntryKind.MEMBERSHIP:
            self.memberships.append((index, position))

    def _add_slices(self, payload: bytes | memoryview, position: int) -> None:
        _, slices, start = decode_append(payload)
        view = memoryview(payload)
        for partition, length, base_offset, span, batch_count, max_timestamp in slices:
            rows = self._rows.get(partition)
            if rows is None:
                rows = self._rows[partition] = bytearray()
            data = view[start : start + length]
            if length <= _SLICE_BYTES_MAX or batch_count == 1:
                _add_row(rows, base_offset, span, max_timestamp, position + start, data)
            else:
                _add_split(rows, position + start, data)
            start += length

    def cut(self, index: Index) -> None:
        """Forget the records from `index` on."""
        keep = bisect_left(self._entry_deltas, index - self.base)
        if keep == len(self._entry_deltas):
            return
        position = self.end = self._entry_positions[keep]
        del self._entry_deltas[keep:], self._entry_positions[keep:]
        self.memberships = [found for found in self.memberships if found[0] < index]
        for partition in list(self._rows):
            data = self._rows[partition]
            rows = _RowsOf(data)
            count = len(rows)
            while count and rows[count - 1].position >= position:
                count -= 1
            if not count:
                del self._rows[partition]
            elif count < len(rows):
                del data[count * ROW_BYTES :]

    def copy(self) -> "GrowingIndex":
        """Another that may be cut while this one is being written to a file."""
        twin = GrowingIndex(self.base)
        twin.memberships = list(self.memberships)
        twin.end = self.end
        twin._rows = {partition: bytearray(data) for partition, data in self._rows.items()}
        twin._entry_deltas = self._entry_deltas[:]
        twin._entry_positions = self._entry_positions[:]
        return twin

    @classmethod
    def from_parts(
        cls,
        base: Index,
        *,
        end: int,
        memberships: list[tuple[Index, int]],
        rows: Iterable[tuple[PartitionId, bytes]],
        entries: "tuple[array[int], array[int]]",
    ) -> "GrowingIndex":
        """Rebuild an index from the content of an index file."""
        made = cls(base)
        made.end = end
        made.memberships = memberships
        made._rows = {partition: bytearray(data) for partition, data in rows}
        made._entry_deltas, made._entry_positions = entries
        return made

    def __contains__(self, partition: object) -> bool:
        return partition in self._rows

    def partitions(self) -> Sequence[PartitionId]:
        return sorted(self._rows)

    def summary(self, partition: PartitionId) -> Summary:
        rows = _RowsOf(self._rows[partition])
        last = rows[-1]
        return Summary(
            rows[0].base_offset, last.end_offset, last.bytes_through, last.highest_timestamp
        )

    def rows(self, partition: PartitionId) -> Rows:
        return _RowsOf(self._rows[partition])

    def packed_rows(self, partition: PartitionId) -> bytearray:
        return self._rows[partition]

    def position(self, index: Index) -> int:
        number = bisect_left(self._entry_deltas, index - self.base)
        return self._entry_positions[number] if number < len(self._entry_deltas) else self.end

    def entries(self) -> "tuple[array[int], array[int]]":
        """Index (less the base) and position of every record."""
        return self._entry_deltas, self._entry_positions


def _add_row(
    rows: bytearray,
    base_offset: int,
    span: int,
    max_timestamp: int,
    position: int,
    data: memoryview,
) -> None:
    bytes_before = 0
    if rows:
        _, highest, before, _, _, length, _ = ROW.unpack_from(rows, len(rows) - ROW_BYTES)
        bytes_before = before + length
        max_timestamp = max(highest, max_timestamp)
    rows += ROW.pack(
        base_offset, max_timestamp, bytes_before, span, position, len(data), crc32c(data)
    )


def _add_split(rows: bytearray, position: int, data: memoryview) -> None:
    """Rows for a large slice: runs of batches up to the bound, or one batch above it."""
    start = stop = 0
    base_offset = end_offset = highest = -1
    while stop < len(data):
        offset, size, span, timestamp, _ = read_outline(data, stop)
        if stop > start and stop + size - start > _SLICE_BYTES_MAX:
            _add_row(
                rows,
                base_offset,
                end_offset - base_offset,
                highest,
                position + start,
                data[start:stop],
            )
            start = stop
        if start == stop:
            base_offset, highest = offset, timestamp
        highest = max(highest, timestamp)
        end_offset = offset + span
        stop += size
    _add_row(rows, base_offset, end_offset - base_offset, highest, position + start, data[start:])


def first_row_after(rows: Rows, offset: Offset) -> int:
    """The number of the first row that holds `offset` or something after it."""
    low, high = 0, len(rows)
    if high and rows.base_offset(high - 1) <= offset:
        low = high  # Most readers are near the end.
    while low < high:
        middle = (low + high) // 2
        if rows.base_offset(middle) <= offset:
            low = middle + 1
        else:
            high = middle
    # Row `low` begins after the offset; the one before it may hold it.
    return low - 1 if low and rows[low - 1].end_offset > offset else low


def first_row_at_time(rows: Rows, timestamp_ms: int) -> int:
    """The number of the first row with a message at `timestamp_ms` or later."""
    return bisect_left(rows, timestamp_ms, key=lambda row: row.highest_timestamp)
