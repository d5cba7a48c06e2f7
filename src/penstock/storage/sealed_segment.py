"""A sealed segment as a background job reads it: through handles of its own.

The loop's files and pages belong to the loop. Once open, this reads on even if the segment is
replaced and removed. A side index that is missing or rotten is made again here, in memory, and left
for the loop to mend.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from penstock.core.types import Offset, PartitionId
from penstock.storage.copier import check_scan
from penstock.storage.directory import LogDirectory
from penstock.storage.files import Files, PageDamaged, Pages
from penstock.storage.index import GrowingIndex, Row, SegmentIndex, Summary, first_row_after
from penstock.storage.index_file import load_index
from penstock.storage.record import Scan
from penstock.storage.segment import Segment
from penstock.storage.slices import neighbours, read_slices

_PAGES_BYTES_MAX = 1 << 20
_READ_BYTES_MAX = 1 << 20
_ROWS_PER_BLOCK = 1024

T = TypeVar("T")


class SealedReader:
    """Reads one sealed segment; close it."""

    def __init__(self, home: LogDirectory, segment: Segment) -> None:
        self.segment = segment
        self._home = home
        self._files = Files(home.disk, home.root)
        self._file = self._files.hold(segment.name).file
        pages = Pages(self._files, bytes_max=_PAGES_BYTES_MAX)
        found = load_index(self._files, pages, segment.index_name)
        fits = found is not None and (found[0].number, found[0].chain) == (
            segment.header.number,
            segment.chain,
        )
        self._index: SegmentIndex = found[1] if found and fits else self._remake()

    def close(self) -> None:
        self._files.close()

    def scan(self) -> Scan:
        """A walk over all records; afterwards `check` that it reached the end."""
        return self.segment.scan(self._file)

    def check(self, scan: Scan) -> None:
        check_scan(self._home, self.segment.name, scan, self.segment.end)

    def _remake(self) -> GrowingIndex:
        index = GrowingIndex(self.segment.base)
        scan = self.scan()
        for position, header, payload in scan:
            index.add(header.index, header.kind, payload, position)
        self.check(scan)
        return index

    def _ask(self, question: Callable[[SegmentIndex], T]) -> T:
        try:
            return question(self._index)
        except PageDamaged:
            self._index = self._remake()
            return question(self._index)

    def holds(self, partition: PartitionId) -> bool:
        return partition in self._index

    def summary(self, partition: PartitionId) -> Summary:
        """Only for a partition that is here."""
        return self._ask(lambda index: index.summary(partition))

    def first_row_after(self, partition: PartitionId, offset: Offset) -> Row | None:
        """The first row that holds `offset` or something later, of a partition that is here."""
        block = self._block(partition, self._number(partition, offset), 1)
        return block[0] if block else None

    def slices(
        self, partition: PartitionId, from_offset: Offset, until: Offset
    ) -> Iterator[memoryview]:
        """The verified slices of a partition that is here, from one offset until before another;
        the first and the last may reach beyond."""
        number = self._number(partition, from_offset)
        while block := self._block(partition, number, _ROWS_PER_BLOCK):
            wanted = [row for row in block if row.base_offset < until]
            for run in neighbours(wanted, _READ_BYTES_MAX):
                for _, data in read_slices(self._home, self.segment.name, self._file, run):
                    yield data
            if len(wanted) < len(block):
                return
            number += len(block)

    def _number(self, partition: PartitionId, offset: Offset) -> int:
        return self._ask(lambda index: first_row_after(index.rows(partition), offset))

    def _block(self, partition: PartitionId, number: int, count: int) -> list[Row]:
        return self._ask(lambda index: index.rows(partition).block(number, number + count))
