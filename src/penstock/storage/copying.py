"""Copying records from one segment to a new one: the rewrite of a mostly dead segment, and the part
of a segment that stays when an installation replaces the rest.

Records are verified as they are read and keep everything but their salt: term, index, chain. The
new file has a name never used before and no manifest names it yet. Runs on a worker, with files of
its own.
"""

from collections.abc import Callable

from penstock.core.types import Index
from penstock.storage.appender import index_step
from penstock.storage.directory import LogDirectory
from penstock.storage.disk import Buffer, File
from penstock.storage.index import GrowingIndex
from penstock.storage.record import Scan, Scanned, copy_header
from penstock.storage.segment import SEGMENT_HEADER_BYTES, Segment, SegmentHeader

_RUN_BYTES_MAX = 1 << 20


def copy_records(
    home: LogDirectory,
    source: Segment,
    *,
    end: int,
    number: int,
    sparse: bool,
    keep: Callable[[Scanned], bool],
) -> Segment | None:
    """A new sealed and durable segment with those records before `end` that are to be kept.

    None, and no file, if there are none."""
    file = home.disk.open(home.path(source.name))
    try:
        scan = source.scan(file, end=end)
        copy: _Copy | None = None
        for found in scan:
            if keep(found):
                copy = copy or _Copy(home, source, found, number=number, sparse=sparse)
                copy.add(found)
        check_scan(home, source.name, scan, end)
        return copy.finish() if copy else None
    finally:
        file.close()


def check_scan(home: LogDirectory, name: str, scan: Scan, end: int) -> None:
    """Raise `DamagedFile` if a scan stopped before its end."""
    if scan.position != end:
        problem = scan.problem or f"there are zeros where entry {scan.last + 1} was written"
        raise home.damaged(name, scan.position, problem)


class _Copy:
    """The file under construction."""

    def __init__(
        self, home: LogDirectory, source: Segment, first: Scanned, *, number: int, sparse: bool
    ) -> None:
        header = SegmentHeader.make(
            home.identity,
            base=first.header.index,
            number=number,
            previous_term=source.term(Index(first.header.index - 1)),
            previous_chain=first.header.previous_chain,
            sparse=sparse,
        )
        self._home = home
        self._index = GrowingIndex(header.base)
        self._segment = Segment(header, index=self._index, capacity=0)
        self._segment.sealed = True
        self._file: File = home.disk.open(home.path(header.name), create=True)
        self._file.truncate(0)
        self._run: list[Buffer] = [header.encode()]
        self._run_position = 0
        self._run_bytes = SEGMENT_HEADER_BYTES

    def add(self, found: Scanned) -> None:
        segment, header = self._segment, found.header
        payload = found.payload.tobytes()
        self._run += (copy_header(header, segment.salt), payload)
        self._run_bytes += header.size
        self._index.add(header.index, header.kind, payload, segment.end)
        segment.note(header.index, header.term, header.size, header.chain)
        if self._run_bytes >= _RUN_BYTES_MAX:
            self._flush()

    def _flush(self) -> None:
        self._file.write(self._run_position, self._run)
        self._run_position += self._run_bytes
        self._run, self._run_bytes = [], 0

    def finish(self) -> Segment:
        try:
            self._flush()
            self._file.sync()
        finally:
            self._file.close()
        index_step(self._home, self._segment)()
        self._home.disk.sync_directory(self._home.root)
        return self._segment
