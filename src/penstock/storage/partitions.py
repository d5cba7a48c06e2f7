"""Questions about partitions: from (partition, offset), a time or a size to places in segments.

A partition's offsets grow along the log, so the segments that hold it, in order, hold rising ranges
of its offsets. Which segments those are is known in memory (`partition_set`); among them the right
one is found by binary search over their directories, and in it the right row by binary search over
its rows. After a compaction there are gaps between and within rows; an offset in one stands for the
next that is there.

Where a read ends is found the same way, since rows have running sums: planning a read (`read_plan`)
takes a few lookups, however many rows lie between.
"""

from bisect import bisect_left, bisect_right

from penstock.core.types import Index, Offset, PartitionId, Term
from penstock.storage.directory import LogDirectory
from penstock.storage.entry_reader import EntryReader
from penstock.storage.index import Row, Rows, first_row_after, first_row_at_time
from penstock.storage.read_plan import ReadPlan, Stretch
from penstock.storage.segment import Segment
from penstock.storage.segments import SegmentList
from penstock.storage.slices import GAP_BYTES_MAX, batch_headers, read_slices

_ROWS_PER_PLAN_MAX = 8192
"""Of one segment. What is asked for beyond it is left to the next read."""
_ROWS_PER_BLOCK = 8
_RECENT_SEGMENTS = 2


class PartitionReader:
    """Answers questions about partitions from the segments' indexes."""

    def __init__(self, home: LogDirectory, segments: SegmentList, entries: EntryReader) -> None:
        self._home = home
        self._segments = segments
        self._entries = entries
        self._append_times: dict[PartitionId, tuple[str, int, int]] = {}
        """For each partition the last answer of `_append_time`: segment, position, time."""

    def _holding(self, partition: PartitionId) -> list[Segment]:
        return [segment for segment in self._segments if partition in segment.index]

    def _holding_from(self, partition: PartitionId, offset: Offset) -> list[Segment]:
        """Segments of the partition from the one that may hold `offset` on."""
        for newest in reversed(self._segments):  # Most readers are near the end.
            if partition in newest.index:
                if newest.index.summary(partition).first_offset <= offset:
                    return [newest]
                break
        holding = self._holding(partition)
        start = bisect_right(
            holding, offset, key=lambda segment: segment.index.summary(partition).first_offset
        )
        return holding[max(0, start - 1) :]

    # Batches.

    def plan(
        self, partition: PartitionId, offset: Offset, *, bytes_max: int, end_offset: Offset
    ) -> ReadPlan:
        """Whole batches from the one that holds `offset` on; see `ShardLog.read`."""
        stretches: list[Stretch] = []
        files = self._home.files
        room, size, slices, ranges = bytes_max, 0, 0, 0
        holding = self._holding_from(partition, offset)
        for segment in holding:
            rows = segment.index.rows(partition)
            start = first_row_after(rows, offset)
            block = rows.block(start, start + _ROWS_PER_BLOCK)
            if not block:
                continue
            first = block[0]
            if first.base_offset >= end_offset:
                break
            if first.base_offset < offset:
                room += first.length  # Perhaps nearly all of it is before the offset.
            bytes_stop = first.bytes_before + room
            count = _count(block, bytes_stop, end_offset)
            last, more = block[count - 1], b""
            if count == _ROWS_PER_BLOCK:
                stop = _stop(rows, start + count, bytes_stop, end_offset)
                if stop > start + count:
                    last, more = rows[stop - 1], rows.packed(start + count, stop)
                    count = stop - start
            stretches.append(Stretch(segment.name, files.hold(segment.name), block, more))
            length = last.bytes_before + last.length - first.bytes_before
            room, size = room - length, size + length
            slices += count
            gaps = last.position + last.length - first.position - length
            # As if all gaps were alike: then one read passes over all of them, or over none.
            ranges += 1 if gaps <= GAP_BYTES_MAX * (count - 1) else count
            if room <= 0 or start + count < len(rows):
                break
        recent = not holding or holding[0].last >= self._segments.newest(_RECENT_SEGMENTS).base
        return ReadPlan(
            self._home, stretches, offset, bytes_max, end_offset, size, slices, ranges, recent
        )

    # Entries.

    def entry_of(self, partition: PartitionId, offset: Offset) -> tuple[Index, Term] | None:
        """The entry that brought a message; None if the message is not there."""
        for segment in self._holding_from(partition, offset)[:1]:
            rows = segment.index.rows(partition)
            number = first_row_after(rows, offset)
            if number < len(rows) and rows[number].base_offset <= offset:
                index = _index_at(segment, rows[number].position)
                return index, segment.term(index)
        return None

    # Time and size.

    def at_time(self, partition: PartitionId, timestamp_ms: int) -> tuple[Offset, int] | None:
        """Base offset and highest timestamp of the first batch with `timestamp_ms` or later."""
        found = self._row_at_time(partition, timestamp_ms)
        if found is None:
            return None
        segment, row = found
        file = self._home.files.get(segment.name)
        for _, data in read_slices(self._home, segment.name, file, [row]):
            for _, header in batch_headers(data):
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
        """Return the offset of the first slice with `timestamp_ms` or later; the end if all are
        older.

        A message is never younger than its append: one that is dated ahead, by mistake or by a
        wrong clock, would otherwise keep itself and all that follow until that date."""
        end: Offset | None = None
        for segment in self._holding(partition):
            summary = segment.index.summary(partition)
            end = summary.end_offset
            if summary.highest_timestamp >= timestamp_ms:
                rows = segment.index.rows(partition)
                number = self._first_appended(partition, segment, rows, timestamp_ms)
                if number < len(rows):
                    return rows[number].base_offset
        return end

    def _first_appended(
        self, partition: PartitionId, segment: Segment, rows: Rows, timestamp_ms: int
    ) -> int:
        """The number of the first row with a message, and an append, at this time or later."""
        dated = first_row_at_time(rows, timestamp_ms)
        position = rows[dated].position
        known = self._append_times.get(partition)
        if known is None or known[:2] != (segment.name, position):
            appended_ms = self._append_time(segment, rows[dated])
            known = self._append_times[partition] = segment.name, position, appended_ms
        if known[2] >= timestamp_ms:
            return dated
        # The index has the highest timestamp so far, which says nothing from here on; but log time
        # never decreases.
        number = bisect_left(
            range(len(rows)),
            timestamp_ms,
            dated + 1,
            key=lambda one: self._append_time(segment, rows[one]),
        )
        # Deletion is for good, so the time that decides comes from a verified entry.
        deciding = _index_at(segment, rows[number - 1].position)
        return number if self._entries.append_time(segment, deciding) < timestamp_ms else dated

    def _append_time(self, segment: Segment, row: Row) -> int:
        """The log time of the entry that brought a slice, not verified."""
        return self._entries.peek_append_time(segment, _index_at(segment, row.position))


def _index_at(segment: Segment, position: int) -> Index:
    """The index of the entry whose record contains this position of the file."""
    indexes = range(segment.base, segment.last + 1)
    after = bisect_right(indexes, position, key=lambda one: segment.index.position(Index(one)))
    return Index(indexes[after - 1])


def _bytes_before(row: Row) -> int:
    return row.bytes_before


def _count(block: list[Row], bytes_stop: int, end_offset: Offset) -> int:
    """The number of rows that a read takes."""
    for number, row in enumerate(block):
        if row.bytes_before >= bytes_stop or row.base_offset >= end_offset:
            return number
    return len(block)


def _stop(rows: Rows, low: int, bytes_stop: int, end_offset: Offset) -> int:
    """The row from `low` on at which a read ends: out of room, or at the end."""
    most = min(len(rows), low + _ROWS_PER_PLAN_MAX)

    def beyond(row: Row) -> bool:
        return row.bytes_before >= bytes_stop or row.base_offset >= end_offset

    # In strides that grow: most reads end a few rows on.
    stride = _ROWS_PER_BLOCK
    while low + stride < most and not beyond(rows[low + stride]):
        low, stride = low + stride, 4 * stride
    return bisect_left(rows, True, low, min(low + stride, most), key=beyond)
