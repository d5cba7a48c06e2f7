"""A read that is decided on the loop and may be carried out elsewhere.

    plan = log.read_plan(partition, offset, bytes_max, end_offset)      on the loop: indexes only
    data = plan.load()                                                  anywhere

Planning looks things up and reads no message; it costs some tens of microseconds however many
slices it finds. Loading reads them, verifies each and keeps whole batches. A plan needs nothing but
itself: it has copies of the rows, and it holds its files open, so that segments may be rewritten or
removed meanwhile and what it reads is still what was there (all of it is committed, and committed
bytes never change in a file). So it may be loaded on another thread, or bit by bit on the loop.

Which of them is the caller's to choose. One read from a recent segment is cheaper than handing it
to a thread. Many small ones keep the loop busy: `advance` does a few and comes back. What is not in
memory makes a thread wait for the disk, and that should not be the loop's. A thread is not better
at many small reads: each of them hands the interpreter's lock to the loop and must get it back.
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.core.types import Offset
from penstock.storage.directory import LogDirectory
from penstock.storage.files import HeldFile
from penstock.storage.index import ROW_BYTES, Row, unpack_rows
from penstock.storage.slices import GAP_BYTES_MAX, batch_headers, read_slices

_ROWS_PER_BLOCK = 1024


class Stretch(NamedTuple):
    """Rows of one segment that follow each other in its index."""

    name: str
    held: HeldFile
    rows: list[Row]
    more: bytes
    """The rows after them, packed: a plan of thousands of rows is made without looking at each."""


class ReadPlan:
    """The reads for one partition, in order."""

    __slots__ = ("_loading", "_parts", "_reached", "bytes", "ranges", "recent", "slices")

    def __init__(
        self,
        home: LogDirectory,
        stretches: list[Stretch],
        offset: Offset,
        bytes_max: int,
        end_offset: Offset,
        size: int,
        slices: int,
        ranges: int,
        recent: bool,
    ) -> None:
        self.bytes = size
        """About what loading returns: the slices' bytes, of which the ends may be left out."""
        self.slices = slices
        """The number of slices, each with its own checksum; 0 if there is nothing to load."""
        self.ranges = ranges
        """About how many reads that takes; never more than there are slices."""
        self.recent = recent
        """Everything lies in the newest segments, so in all likelihood in memory."""
        self._parts: list[memoryview] = []
        self._reached: list[Offset] = [offset]
        self._loading = _load(
            home, stretches, offset, bytes_max, end_offset, self._parts, self._reached
        )

    @property
    def end(self) -> Offset:
        """The offset behind the last message that was loaded."""
        return self._reached[0]

    def load(self) -> bytes:
        """All of it, once: verified whole batches, or `DamagedFile`; see `ShardLog.read`."""
        for _ in self._loading:
            pass
        return b"".join(self._parts)

    def load_some(self, reads_max: int) -> bytes:
        """Load at most `reads_max` reads; at least one batch, if there is any."""
        if self.ranges <= reads_max:
            return self.load()
        for _ in range(reads_max):
            next(self._loading, None)
        return b"".join(self._parts)

    def advance(self, ranges_max: int) -> bytes | None:
        """Do up to `ranges_max` reads; return the batches after the last one, else None: call it
        again."""
        for _ in range(ranges_max):
            if next(self._loading, _END) is _END:
                return b"".join(self._parts)
        return None


def _load(
    home: LogDirectory,
    stretches: list[Stretch],
    offset: Offset,
    room: int,
    end_offset: Offset,
    parts: list[memoryview],
    reached: list[Offset],
) -> Iterator[None]:
    """Read until there is no room; yields after each read. Knows nothing of the plan, so that the
    files are let go with it, finished or not."""
    for name, held, first, more in stretches:
        rows, start = first, 0
        while rows:
            for group in _groups(rows, room, end_offset):
                for row, data in read_slices(home, name, held.file, group):
                    if (
                        row.base_offset >= offset
                        and row.end_offset <= end_offset
                        and row.length <= room
                    ):
                        taken, complete, end = data, True, row.end_offset
                    else:
                        taken, complete, end = _take(
                            data, offset, room, end_offset, first=not parts
                        )
                    if taken:
                        parts.append(taken)
                        reached[0] = end
                        room -= len(taken)
                    if not complete or room <= 0:
                        return
                yield
            rows = unpack_rows(more[start : start + _ROWS_PER_BLOCK * ROW_BYTES])
            start += _ROWS_PER_BLOCK * ROW_BYTES


def _take(
    data: memoryview, offset: Offset, room: int, end_offset: Offset, *, first: bool
) -> tuple[memoryview, bool, Offset]:
    """Return the part of a slice to serve, whether the read may continue with the next slice, and
    the offset reached.

    If nothing was served before (`first`), one batch is served even where there is no room."""
    start = stop = 0
    end = offset
    for _, header in batch_headers(data):
        size, after = header.size, header.last_offset + 1
        if after <= offset:
            start = stop = stop + size
        elif after > end_offset or (stop + size - start > room and not (first and start == stop)):
            return data[start:stop], False, end
        else:
            stop += size
            end = Offset(after)
    return data[start:stop], True, end


def _groups(rows: list[Row], room: int, end_offset: Offset) -> Iterator[list[Row]]:
    """Runs of rows that are worth one read, until `room` bytes or `end_offset` are passed."""
    group: list[Row] = []
    for row in rows:
        if row.base_offset >= end_offset:
            break
        if group:
            gap = row.position - group[-1].position - group[-1].length
            if gap > GAP_BYTES_MAX or room <= 0:
                yield group
                group = []
        group.append(row)
        room -= row.length
    if group:
        yield group


_END = object()
