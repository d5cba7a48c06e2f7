"""Scrubbing finds bit rot before the bytes are needed: one sealed segment at a time, going round.

Runs on a worker with files of its own. What it finds is reported, and nothing is changed: the
caller marks the log as damaged, so that the next start repairs it from the leader.
"""

from collections.abc import Sequence

from penstock.core.errors import DamagedFile, DiskFailed
from penstock.core.types import Index
from penstock.storage.copier import check_scan
from penstock.storage.directory import LogDirectory
from penstock.storage.job import LogJob
from penstock.storage.segment import Segment
from penstock.storage.segments import SegmentList


class Scrubber:
    """Verifies sealed segments in turn."""

    def __init__(self, home: LogDirectory, segments: SegmentList) -> None:
        self._home = home
        self._segments = segments
        self._next_base = Index(0)
        self.last_finding: DamagedFile | None = None

    def take_next(self, through: Index) -> Segment | None:
        """The next sealed segment in turn with nothing after `through`; None if there is none.

        `through` is durable and committed: a later segment may be sealed in memory and not written
        yet, or be cut by a truncation while it is read."""
        sealed = [s for s in self._segments if s.sealed and s.last <= through]
        if not sealed:
            return None
        following = [segment for segment in sealed if segment.base >= self._next_base] or sealed
        self._next_base = Index(following[0].base + 1)
        return following[0]

    def verify(self, segment: Segment) -> DamagedFile | None:
        """Read and verify all of a segment."""
        path = self._home.path(segment.name)
        try:
            file = self._home.disk.open(path)
        except DiskFailed:
            return None  # reclaimed since it was chosen; a lost file is noticed at the next start
        try:
            scan = segment.scan(file)
            for _ in scan:
                pass
            check_scan(self._home, segment.name, scan, segment.end)
            if (scan.last, scan.chain) != (segment.last, segment.chain):
                return self._home.damaged(
                    segment.name, scan.position, f"it ends with entry {scan.last}"
                )
        except DamagedFile as damage:
            return damage
        finally:
            file.close()
        return None

    def last_before(
        self, name: str, position: int, *, suspects: Sequence[Segment] = ()
    ) -> Index | None:
        """The last entry that lies wholly before a position of a file; None if it is no segment."""
        segments: list[Segment] = [*self._segments, *suspects]
        for segment in segments:
            if segment.name == name:
                file = self._home.files.get(name)
                scan = segment.scan(file, end=min(position, segment.end))
                for _ in scan:
                    pass
                return scan.last
        return None

    def job(self, through: Index) -> LogJob | None:
        """Return a job that verifies the next segment; `last_finding` has the result once it is
        complete."""
        segment = self.take_next(through)
        if segment is None:
            return None
        found: list[DamagedFile | None] = []

        def publish() -> None:
            self.last_finding = found[0]

        def abandon(_: Exception) -> None:
            self.last_finding = None

        return LogJob(
            "scrub", [lambda: found.append(self.verify(segment))], publish=publish, abandon=abandon
        )
