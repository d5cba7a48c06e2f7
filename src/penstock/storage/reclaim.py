"""Giving space back: dead segments are removed, mostly dead ones rewritten.

A sealed segment whose entries are all covered by the snapshot, and which no follower needs any
more, is only data: it lives as long as some partition has messages in it that are not deleted. If
none has, it goes. If few have, the living are copied to a sparse segment that takes its place.

What is alive is found out in the job, from the side index: for each partition, whether its last
offset there lies beyond its log start. A segment of 100,000 partitions takes tens of milliseconds,
too long for the loop. A job looks at a few segments, going round, and rewrites at most one.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.core.errors import DiskFull
from penstock.core.types import Index, Offset, PartitionId
from penstock.storage.appender import Appender, adopt_index
from penstock.storage.copier import copy_records
from penstock.storage.directory import LogDirectory
from penstock.storage.files import Files, PageDamaged, Pages
from penstock.storage.index import first_row_after
from penstock.storage.index_file import IndexFile, load_index
from penstock.storage.job import LogJob
from penstock.storage.segment import Segment
from penstock.storage.segments import SegmentList

_SEGMENTS_PER_JOB_MAX = 16
_PAGES_BYTES_MAX = 1 << 20


@dataclass(slots=True)
class _Findings:
    """The results of a job's steps; not read by other code until they are done."""

    dead: list[Segment] = field(default_factory=list)
    rewritten: list[tuple[Segment, Segment | None]] = field(default_factory=list)


class Reclaimer:
    """Plans the removal and rewriting of segments."""

    def __init__(self, home: LogDirectory, segments: SegmentList, appender: Appender) -> None:
        self._home = home
        self._segments = segments
        self._appender = appender
        self._next_base = Index(0)
        self.out = False
        self.rewritten_segments = 0
        self.removed_segments = 0
        self.reclaimed_bytes = 0

    def job(
        self,
        live: Mapping[PartitionId, Offset],
        *,
        below: Index,
        on_error: Callable[[Exception], None],
    ) -> LogJob | None:
        """A job over segments with nothing at or above `below`; None if there is none."""
        candidates = self._candidates(below)
        if not candidates:
            return None
        starts = dict(live)
        findings = _Findings()
        number = self._home.take_number()
        self._home.borrowed.add(number)
        self.out = True

        def publish() -> None:
            self.out = False
            self._home.borrowed.discard(number)
            self._publish(findings)

        def abandon(error: Exception) -> None:
            self.out = False
            self._home.borrowed.discard(number)
            made = [new for _, new in findings.rewritten if new]
            self._appender.plan_removal([n for new in made for n in (new.name, new.index_name)])
            if not isinstance(error, DiskFull):
                on_error(error)

        steps = [
            lambda: self._examine(candidates, starts, findings),
            lambda: self._rewrite(candidates, starts, findings, number),
        ]
        return LogJob("reclaim", steps, publish=publish, abandon=abandon)

    def _candidates(self, below: Index) -> list[Segment]:
        """The next few segments in turn; those without a side index file yet must wait."""
        ready = [
            segment
            for segment in list(self._segments)[:-1]
            if segment.last < below and isinstance(segment.index, IndexFile)
        ]
        start = bisect_right([segment.base for segment in ready], self._next_base)
        chosen = (ready[start:] + ready[:start])[:_SEGMENTS_PER_JOB_MAX]
        if chosen:
            self._next_base = chosen[-1].base
        return chosen

    # In the steps.

    def _open_index(self, segment: Segment) -> tuple[Files, IndexFile] | None:
        """The side index through files of the job's own."""
        files = Files(self._home.disk, self._home.root)
        found = load_index(files, Pages(files, bytes_max=_PAGES_BYTES_MAX), segment.index_name)
        if found is None:
            files.close()
            return None
        return files, found[1]

    def _examine(
        self,
        candidates: list[Segment],
        starts: dict[PartitionId, Offset],
        findings: _Findings,
    ) -> None:
        for segment in candidates:
            opened = self._open_index(segment)
            if opened is None:
                continue
            files, index = opened
            try:
                if not _has_life(index, starts):
                    findings.dead.append(segment)
            except PageDamaged:
                pass
            finally:
                files.close()

    def _rewrite(
        self,
        candidates: list[Segment],
        starts: dict[PartitionId, Offset],
        findings: _Findings,
        number: int,
    ) -> None:
        percent = self._home.settings.rewrite_live_percent_max
        for segment in candidates:
            if segment in findings.dead:
                continue
            opened = self._open_index(segment)
            if opened is None:
                continue
            files, index = opened
            try:
                bound = segment.end * percent // 100
                positions = _living_positions(index, starts, bytes_max=bound)
            except PageDamaged:
                continue
            finally:
                files.close()
            if positions is not None:
                findings.rewritten.append((segment, self._copy(segment, positions, number)))
                return

    def _copy(self, segment: Segment, positions: set[int], number: int) -> Segment | None:
        return copy_records(
            self._home,
            segment,
            end=segment.end,
            number=number,
            sparse=True,
            keep=lambda found: found.position in positions,
        )

    # Back on the loop.

    def _publish(self, findings: _Findings) -> None:
        present = {segment.name for segment in self._segments}
        old = findings.dead + [source for source, _ in findings.rewritten]
        new = [copy for _, copy in findings.rewritten if copy is not None]
        if self._appender.frozen or any(segment.name not in present for segment in old):
            self._appender.plan_removal([n for s in new for n in (s.name, s.index_name)])
            return
        if not old:
            return
        self._segments.replace(old, new)
        for segment in new:
            adopt_index(self._home, segment)
        self._appender.plan_manifest()
        self._appender.plan_removal([name for s in old for name in (s.name, s.index_name)])
        self.removed_segments += len(findings.dead)
        self.rewritten_segments += len(findings.rewritten)
        self.reclaimed_bytes += sum(s.end for s in old) - sum(s.end for s in new)


def _has_life(index: IndexFile, starts: Mapping[PartitionId, Offset]) -> bool:
    """Whether any partition has a message beyond its log start here."""
    return any(
        end_offset > starts.get(partition, end_offset)
        for partition, end_offset, _ in index.directory()
    )


def _living_positions(
    index: IndexFile, starts: Mapping[PartitionId, Offset], *, bytes_max: int
) -> set[int] | None:
    """Positions of the records with something alive; None if they are more than `bytes_max`."""
    records = index.entry_positions()
    living: set[int] = set()
    total = 0
    for partition, end_offset, _ in index.directory():
        start = starts.get(partition, end_offset)
        if end_offset <= start:
            continue
        rows = index.rows(partition)
        for row in rows.block(first_row_after(rows, start), len(rows)):
            number = bisect_right(records, row.position) - 1
            position = records[number]
            if position not in living:
                living.add(position)
                total += _size(records, number, index.end)
                if total > bytes_max:
                    return None
    return living


def _size(records: "array[int]", number: int, end: int) -> int:
    after = records[number + 1] if number + 1 < len(records) else end
    return after - records[number]
