"""Reading partitions: from (partition, offset), or a time, to batches.

A partition's offsets grow along the log, so the segments that hold it, in order, hold rising ranges
of its offsets. Which segments those are is known in memory (`partition_set`); among them the right
one is found by binary search over their directories, and in it the right row by binary search over
its rows.

Bytes are verified before they are handed out: a row's slice is read whole and checked against the
checksum in the row. A slice is at most some hundred kilobytes, or one batch (see `index`).
"""

from bisect import bisect_right
from collections.abc import Iterator

from crc32c import crc32c

from penstock.core.records import BatchHeader, read_header
from penstock.core.types import Offset, PartitionId
from penstock.storage.directory import LogDirectory
from penstock.storage.index import Row, first_row_after, first_row_at_time
from penstock.storage.segment import Segment
from penstock.storage.segments import SegmentList

_ROWS_PER_BLOCK_MIN = 8
_ROWS_PER_BLOCK_MAX = 1024
_GAP_BYTES_MAX = 4096
"""Slices with no more than this between them are read at once: a gap costs less than a call."""


class PartitionReader:
    """Answers questions about partitions from the segments' indexes."""

    def __init__(self, home: LogDirectory, segments: SegmentList) -> None:
        self._home = home
        self._segments = segments

    def _holding(self, partition: PartitionId) -> list[Segment]:
        return [segment for segment in self._segments if partition in segment.index]

    def _holding_from(self, partition: PartitionId, offset: Offset) -> list[Segment]:
        """Segments of the partition from the one that may hold `offset` on."""
        holding = self._holding(partition)
        if holding and holding[-1].index.summary(partition).first_offset <= offset:
            return holding[-1:]
        start = bisect_right(
            holding, offset, key=lambda segment: segment.index.summary(partition).first_offset
        )
        return holding[max(0, start - 1) :]

    def _rows_from(
        self, partition: PartitionId, offset: Offset
    ) -> Iterator[tuple[Segment, list[Row]]]:
        """Blocks of rows in order, from the one that holds `offset`, or the first after it."""
        count = _ROWS_PER_BLOCK_MIN
        for segment in self._holding_from(partition, offset):
            rows = segment.index.rows(partition)
            number = first_row_after(rows, offset)
            while number < len(rows):
                block = rows.block(number, min(number + count, len(rows)))
                yield segment, block
                number += len(block)
                count = min(4 * count, _ROWS_PER_BLOCK_MAX)

    # Batches.

    def read(
        self, partition: PartitionId, offset: Offset, *, bytes_max: int, end_offset: Offset
    ) -> bytes:
        """Whole batches from the one that holds `offset` on; see `ShardLog.read`."""
        parts: list[memoryview] = []
        room = bytes_max
        for segment, rows in self._rows_from(partition, offset):
            for group in _groups(rows, room, end_offset):
                for row, data in self._load(segment, group):
                    taken, complete = _take(row, data, offset, room, end_offset, first=not parts)
                    if taken:
                        parts.append(taken)
                        room -= len(taken)
                    if not complete or room <= 0:
                        return b"".join(parts)
            if rows[-1].end_offset >= end_offset:
                break
        return b"".join(parts)

    def _load(self, segment: Segment, rows: list[Row]) -> Iterator[tuple[Row, memoryview]]:
        """The verified slices of rows that lie close together, in one read."""
        start = rows[0].position
        length = rows[-1].position + rows[-1].length - start
        data = memoryview(self._home.files.get(segment.name).read(start, length))
        for row in rows:
            at = row.position - start
            part = data[at : at + row.length]
            if len(part) < row.length:
                raise self._home.damaged(segment.name, start + len(data), "the file is cut short")
            if crc32c(part) != row.checksum:
                raise self._home.damaged(
                    segment.name,
                    row.position,
                    f"the batches of offset {row.base_offset} do not match their CRC-32C",
                )
            yield row, part

    # Time and size.

    def at_time(self, partition: PartitionId, timestamp_ms: int) -> tuple[Offset, int] | None:
        """Base offset and highest timestamp of the first batch with `timestamp_ms` or later."""
        found = self._row_at_time(partition, timestamp_ms)
        if found is None:
            return None
        segment, row = found
        for _, data in self._load(segment, [row]):
            for header in _headers(data):
                if header.max_timestamp >= timestamp_ms:
                    return Offset(header.base_offset), header.max_timestamp
        # The directory of the payload claimed a time that no batch of it has: keep to the claim.
        return row.base_offset, row.highest_timestamp

    def _row_at_time(self, partition: PartitionId, timestamp_ms: int) -> tuple[Segment, Row] | None:
        for segment in self._holding(partition):
            if segment.index.summary(partition).highest_timestamp >= timestamp_ms:
                rows = segment.index.rows(partition)
                return segment, rows[first_row_at_time(rows, timestamp_ms)]
        return None

    def size_from(self, partition: PartitionId, offset: Offset) -> int:
        """Bytes of the partition from the slice that holds `offset` on."""
        total = 0
        for position, segment in enumerate(self._holding_from(partition, offset)):
            total += segment.index.summary(partition).size
            if position == 0:
                rows = segment.index.rows(partition)
                number = first_row_after(rows, offset)
                total -= rows[number].bytes_before if number < len(rows) else total
        return total

    def start_for_size(self, partition: PartitionId, keep_bytes: int) -> Offset | None:
        """The latest slice boundary with at least `keep_bytes` from it on; None: nothing stored."""
        oldest: Offset | None = None
        for segment in reversed(self._holding(partition)):
            summary = segment.index.summary(partition)
            oldest = summary.first_offset
            if summary.size >= keep_bytes:
                rows = segment.index.rows(partition)
                if keep_bytes <= 0:
                    return summary.end_offset
                number = bisect_right(rows, summary.size - keep_bytes, key=_bytes_before) - 1
                return rows[number].base_offset
            keep_bytes -= summary.size
        return oldest

    def start_for_time(self, partition: PartitionId, timestamp_ms: int) -> Offset | None:
        """Where the first slice with `timestamp_ms` or later begins; the end if all are older."""
        found = self._row_at_time(partition, timestamp_ms)
        if found is not None:
            return found[1].base_offset
        holding = self._holding(partition)
        return holding[-1].index.summary(partition).end_offset if holding else None


def _bytes_before(row: Row) -> int:
    return row.bytes_before


def _groups(rows: list[Row], room: int, end_offset: Offset) -> Iterator[list[Row]]:
    """Runs of rows that are worth one read, until `room` bytes or `end_offset` are passed."""
    group: list[Row] = []
    for row in rows:
        if row.base_offset >= end_offset:
            break
        if group:
            gap = row.position - group[-1].position - group[-1].length
            if gap > _GAP_BYTES_MAX or room <= 0:
                yield group
                group = []
        group.append(row)
        room -= row.length
    if group:
        yield group


def _take(
    row: Row, data: memoryview, offset: Offset, room: int, end_offset: Offset, *, first: bool
) -> tuple[memoryview, bool]:
    """What to serve of a slice, and whether the reader may go on to the next.

    If nothing was served before (`first`), one batch is served even where there is no room."""
    if row.base_offset >= offset and row.end_offset <= end_offset and row.length <= room:
        return data, True
    start = stop = 0
    for header in _headers(data):
        size, after = header.size, header.last_offset + 1
        if after <= offset:
            start = stop = stop + size
        elif after > end_offset or (stop + size - start > room and not (first and start == stop)):
            return data[start:stop], False
        else:
            stop += size
    return data[start:stop], True


def _headers(data: memoryview) -> Iterator[BatchHeader]:
    """The headers of the batches in a verified slice."""
    position = 0
    while position < len(data):
        header = read_header(data, position)
        yield header
        position += header.size
