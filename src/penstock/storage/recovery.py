"""The opening of a log: which files exist, whether they are complete, and the repair if not.

A start reads the manifest, then asks each file whether it is what the manifest says. Sealed
segments are not read again: their header, size and side index must agree with the manifest
(`verify_all` reads them too). The active segment is scanned to its end, and looked through from
there as far as it was ever written; the rest of what is reserved is zeros, says the file system. At
the first thing in it that is not the next record, the question is whether a client or leader was
promised what is missing:

1. *Corruption in the middle*: a later record, or a later segment, says that the missing one was
   durable when it was written. Not merely that a later record exists: the disk may lose any sector
   of an unsynced write and keep a later one, and that is case 3.
2. *Lost promise*: the durable marker (or the commit hint, or the snapshot) is at or beyond the
   missing index.
3. *Torn tail*: it was never acknowledged. The bytes are copied to a `.broken` file and cut.

1 and 2 are damage, like any file that is missing or does not match. In a cluster of one the log
refuses to open and names file, position and way out. Elsewhere it opens quarantined (see
`quarantine`).

What a start finds in the page cache may never have reached the disk, if only the process died. So
before anything is believed, the tail beyond the marker is written again and synced: a sync alone
would not do after a sync that failed.
"""

from dataclasses import dataclass

from penstock.core.types import NO_INDEX, Index
from penstock.storage.appender import adopt_index, index_step
from penstock.storage.copier import check_scan
from penstock.storage.directory import BROKEN_SUFFIX, LogDirectory
from penstock.storage.disk import File
from penstock.storage.files import PageDamaged
from penstock.storage.identity import check_format
from penstock.storage.index import GrowingIndex
from penstock.storage.index_file import load_index
from penstock.storage.manifest import ActiveRow, Manifest, SegmentRow
from penstock.storage.marker import Marker
from penstock.storage.names import segment_name
from penstock.storage.record import RECORD_HEADER_BYTES, Scan, decode_header, later_headers
from penstock.storage.segment import SEGMENT_HEADER_BYTES, Segment, decode_segment_header
from penstock.storage.segments import SegmentList
from penstock.storage.snapshot import find_snapshot_damage

_CHUNK_BYTES = 1 << 20
_ZEROS = bytes(_CHUNK_BYTES)


@dataclass(frozen=True, slots=True)
class Damage:
    """A broken promise found on disk."""

    name: str
    position: int
    problem: str
    good_through: Index
    """Entries up to here are not touched by it."""


class Recovery:
    """Examines the segments and the snapshot of one directory."""

    def __init__(
        self,
        home: LogDirectory,
        manifest: Manifest,
        *,
        verify_all: bool,
        write_indexes: bool = True,
    ) -> None:
        self._home = home
        self._write_indexes = write_indexes
        self._manifest = manifest
        self._verify_all = verify_all
        self.damages: list[Damage] = []
        self.segments: list[Segment] = []
        self.torn: tuple[Segment, int, int] | None = None
        """The active segment, and from where to where it holds a torn tail."""

    def examine(self, marker: Marker) -> None:
        """Fill `segments` and `damages`; changes nothing but side indexes, which are caches."""
        before: Segment | None = None
        for row in self._manifest.segments:
            segment = self._sealed(row)
            if segment is not None:
                self._check_link(before, segment)
                self.segments.append(segment)
            before = segment
        active = self._active(self._manifest.active, marker)
        if active is not None:
            self._check_link(before, active)
            self.segments.append(active)
        self._check_snapshot()

    def _damage(self, name: str, position: int, problem: str, good_through: int) -> None:
        self.damages.append(Damage(name, position, problem, Index(good_through)))

    def _check_link(self, before: Segment | None, segment: Segment) -> None:
        if before is None or before.sparse or segment.sparse or before.last + 1 != segment.base:
            return
        if segment.header.previous_chain != before.chain:
            problem = f"it does not continue the chain of {before.name}"
            self._damage(segment.name, 0, problem, before.last)

    def _check_snapshot(self) -> None:
        row = self._manifest.snapshot
        if row is None:
            return
        good = self.segments[-1].last if self.segments else row.mark.index
        path = self._home.path(row.name)
        if not self._home.disk.exists(path):
            self._damage(row.name, 0, "the file is missing", good)
            return
        file = self._home.disk.open(path)
        try:
            found = find_snapshot_damage(file, row.mark)
        finally:
            file.close()
        if found is not None:
            self._damage(row.name, *found, good)

    # Segments.

    def _open(self, number: int, base: Index, *, sparse: bool) -> Segment | None:
        """The segment of a row of the manifest, if its file begins as it must."""
        name = segment_name(base, number)
        good = Index(base - 1)
        if not self._home.disk.exists(self._home.path(name)):
            self._damage(name, 0, "the file is missing", good)
            return None
        header = decode_segment_header(self._home.files.get(name).read(0, SEGMENT_HEADER_BYTES))
        if header is None:
            self._damage(name, 0, "the segment's header is damaged", good)
            return None
        check_format(self._home.path(name), header.format)
        right = (number, base, sparse) == (header.number, header.base, header.sparse)
        if not right or not header.belongs_to(self._home.identity):
            self._damage(name, 0, "the file is another segment than its name says", good)
            return None
        return Segment(header, index=GrowingIndex(base), capacity=0)

    def _sealed(self, row: SegmentRow) -> Segment | None:
        segment = self._open(row.number, row.base, sparse=row.sparse)
        if segment is None:
            return None
        segment.sealed = True
        size = self._home.files.get(segment.name).size()
        if size >= row.end and not self._verify_all and self._use_index(segment, row):
            return segment
        self._rescan(segment, row, size)
        return segment

    def _use_index(self, segment: Segment, row: SegmentRow) -> bool:
        found = load_index(self._home.files, self._home.pages, segment.index_name)
        if found is None:
            return False
        header, index = found
        if (header.number, header.end, header.last, header.chain) != (
            row.number,
            row.end,
            row.last,
            row.chain,
        ):
            return False
        segment.restore(end=row.end, last=row.last, chain=row.chain, terms=header.terms)
        segment.index = index
        return True

    def _rescan(self, segment: Segment, row: SegmentRow, size: int) -> None:
        """Read all of a sealed segment and make its side index again."""
        scan = scan_into(segment, segment.scan(self._file(segment), end=min(size, row.end)))
        if (scan.position, scan.last, scan.chain) != (row.end, row.last, row.chain):
            problem = scan.problem or f"it ends with entry {scan.last} and not with {row.last}"
            self._damage(segment.name, scan.position, problem, scan.last)
            return
        if self._write_indexes:
            index_step(self._home, segment)()
            adopt_index(self._home, segment)

    def _file(self, segment: Segment) -> File:
        return self._home.files.get(segment.name)

    # The active segment.

    def _active(self, row: ActiveRow, marker: Marker) -> Segment | None:
        segment = self._open(row.number, row.base, sparse=False)
        if segment is None:
            return None
        file = self._file(segment)
        size = file.size()
        # Asked before the scan: to some systems, what was read is no hole any more.
        written = min(file.written_end() + RECORD_HEADER_BYTES, size)
        segment.capacity = size
        scan = self._scan_active(segment, size)
        snapshot = self._manifest.snapshot
        promised = max(marker.durable, marker.committed, snapshot.mark.index if snapshot else 0)
        later = [
            header
            for header in later_headers(
                file, position=scan.position, end=written, salt=segment.salt
            )
            if header.index > scan.last
        ]
        witness = max((header.durable for header in later), default=NO_INDEX)
        if witness > scan.last:
            problem = scan.problem or f"there are zeros in the place of entry {scan.last + 1}"
            self._damage(
                segment.name, scan.position, f"{problem}, and whole ones follow", scan.last
            )
        elif promised > scan.last:
            problem = scan.problem or "the records end"
            self._damage(
                segment.name,
                scan.position,
                f"{problem}; entry {scan.last + 1} is missing, but {promised} was durable",
                scan.last,
            )
        else:
            end = _last_nonzero(file, scan.position, written)
            if end > scan.position:
                self.torn = (segment, scan.position, end)
        return segment

    def _scan_active(self, segment: Segment, size: int) -> Scan:
        """Scan it all, or from where the index written at a clean stop ends."""
        if not self._verify_all:
            self._resume(segment, size)
        scan = Scan(
            self._file(segment),
            position=segment.end,
            end=size,
            salt=segment.salt,
            sparse=False,
            last=segment.last,
            chain=segment.chain,
        )
        return scan_into(segment, scan)

    def _resume(self, segment: Segment, size: int) -> None:
        """Take over the index of a clean stop, if the record it ends with is still there.

        The chain makes that record vouch for all before it, so an index that is older than a
        truncation cannot pass."""
        found = load_index(self._home.files, self._home.pages, segment.index_name)
        if found is None or found[0].number != segment.header.number or found[0].end > size:
            return
        header, index = found
        try:
            position = index.position(header.last)
            data = self._file(segment).read(position, RECORD_HEADER_BYTES)
            record = decode_header(data, 0, segment.salt)
            if record is None or (record.index, record.chain) != (header.last, header.chain):
                return
            if position + record.size != header.end:
                return
            segment.index = index.thaw()
        except PageDamaged:
            return
        segment.restore(end=header.end, last=header.last, chain=header.chain, terms=header.terms)


def scan_into(segment: Segment, scan: Scan) -> Scan:
    """Walk the scan to its end, taking every record into the segment and its index."""
    index = segment.index
    assert isinstance(index, GrowingIndex), f"{segment.name} has its index in a file"
    for position, header, payload in scan:
        index.add(header.index, header.kind, payload, position)
        segment.note(header.index, header.term, header.size, header.chain)
    return scan


def _last_nonzero(file: File, position: int, end: int) -> int:
    """The position after the last byte that is not zero; `position` if there is none."""
    found = position
    while position < end:
        chunk = file.read(position, min(_CHUNK_BYTES, end - position))
        if not chunk:
            break
        if chunk != _ZEROS[: len(chunk)]:
            found = position + len(chunk.rstrip(b"\0"))
        position += len(chunk)
    return found


def cut_torn_tail(home: LogDirectory, segment: Segment, start: int, end: int) -> None:
    """Keep the bytes of a torn tail in a file for people, then destroy them in the segment."""
    file = home.files.get(segment.name)
    broken = home.disk.open(home.path(segment.name) + BROKEN_SUFFIX, create=True)
    try:
        broken.truncate(0)
        for position in range(start, end, _CHUNK_BYTES):
            chunk = file.read(position, min(_CHUNK_BYTES, end - position))
            broken.write(position - start, [chunk])
        broken.sync()
    finally:
        broken.close()
    home.disk.sync_directory(home.root)
    file.truncate(start)
    file.sync()


def settle_active(home: LogDirectory, segment: Segment, durable: Index) -> None:
    """Make what a scan found durable for certain, and the allocated rest zeros again.

    Records beyond the marker may be in the page cache only. If an earlier sync failed, the system
    may even take them for written; writing them again makes it write them."""
    file = home.files.get(segment.name)
    position = segment.index.position(Index(durable + 1)) if durable >= segment.base else 0
    while position < segment.end:
        chunk = file.read(position, min(_CHUNK_BYTES, segment.end - position))
        assert chunk, f"{segment.name} became shorter while it was opened"
        file.write(position, [chunk])
        position += len(chunk)
    capacity = max(home.settings.segment_bytes, segment.end)
    file.allocate(capacity)
    segment.capacity = capacity
    file.sync()


def remake_index(home: LogDirectory, segments: SegmentList, name: str) -> None:
    """A side index proved rotten while in use: read its segment again."""
    for segment in segments:
        if segment.index_name == name:
            fresh = Segment(segment.header, index=GrowingIndex(segment.base), capacity=0)
            scan = fresh.scan(home.files.get(segment.name), end=segment.end)
            scan_into(fresh, scan)
            check_scan(home, segment.name, scan, segment.end)
            segment.index = fresh.index
            index_step(home, segment)()
            adopt_index(home, segment)
            return
    raise AssertionError(f"no segment has the index {name}")
