"""The segments of a log in order, and what follows from their order.

Two kinds of segment stand in one list. The *contiguous log* is the longest run of dense segments up
to the active one in which each begins where the one before ends: what Raft may ask for. Before it
stand *data segments*: their entries lie at or below the snapshot, they may have gaps between and
within them, and they are there only because some partition still has messages in them.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from penstock.core.types import Index
from penstock.storage.directory import LogDirectory
from penstock.storage.index import GrowingIndex
from penstock.storage.manifest import ActiveRow, Manifest, SegmentRow, SnapshotRow
from penstock.storage.segment import Segment


class SegmentList:
    """All segments, oldest first; the last is the active one unless the log is quarantined."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = list(segments)
        self._bases: list[Index] = []
        self.contiguous_from = 0
        """Position in the list of the first segment of the contiguous log."""
        self._settle()

    def _settle(self) -> None:
        self._bases = [segment.base for segment in self._segments]
        start = len(self._segments)
        for number in range(len(self._segments) - 1, -1, -1):
            segment = self._segments[number]
            if segment.sparse:
                break
            if start < len(self._segments) and self._segments[start].base != segment.last + 1:
                break
            start = number
        self.contiguous_from = start

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __reversed__(self) -> Iterator[Segment]:
        return reversed(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    def newest(self, count: int) -> Segment:
        """The oldest of the `count` newest."""
        return self._segments[-min(count, len(self._segments))]

    @property
    def first_index(self) -> Index:
        """The first index of the contiguous log; 1 if there is none."""
        if self.contiguous_from == len(self._segments):
            return Index(1)
        return self._segments[self.contiguous_from].base

    def find(self, index: Index) -> Segment:
        """The segment of the contiguous log that holds `index` (or would hold it next)."""
        return self._segments[bisect_right(self._bases, index) - 1]

    def after(self, index: Index) -> list[Segment]:
        """The segments that hold something later than `index`, in order."""
        return [segment for segment in self._segments if segment.last > index]

    def append(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base)

    def drop_after(self, segment: Segment) -> list[Segment]:
        """Remove and return what stands behind `segment`."""
        keep = self._segments.index(segment) + 1
        dropped = self._segments[keep:]
        del self._segments[keep:]
        self._settle()
        return dropped

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Put `new` in the place of `old`, in order of base."""
        gone = {segment.name for segment in old}
        kept = [segment for segment in self._segments if segment.name not in gone]
        self._segments = sorted([*kept, *new], key=lambda segment: segment.base)
        self._settle()

    def manifest(self, home: LogDirectory, snapshot: SnapshotRow | None) -> Manifest:
        """The manifest that names these files, one generation on."""
        home.generation += 1
        rows = [
            SegmentRow(
                number=segment.header.number,
                base=segment.base,
                last=segment.last,
                end=segment.end,
                chain=segment.chain,
                sparse=segment.sparse,
            )
            for segment in self._segments[:-1]
        ]
        active = ActiveRow(number=self.active.header.number, base=self.active.base)
        return Manifest(
            generation=home.generation,
            identity=home.identity,
            next_number=home.next_number,
            segments=rows,
            active=active,
            snapshot=snapshot,
            compaction=home.compaction,
        )


def growing(segment: Segment) -> GrowingIndex:
    """The index of a segment that is being written."""
    assert isinstance(segment.index, GrowingIndex), f"{segment.name} has its index in a file"
    return segment.index
