"""Writing records into a new segment: the rewrite of a mostly dead one, what compaction leaves of
some, and the part of a segment that stays when an installation replaces the rest.

Records are verified as they are read. One that is copied keeps everything but its salt: term,
index, chain. One whose payload changes begins a chain of the new segment's own, which is why such a
segment is sparse: nothing links it to its neighbours. The new file has a name never used before and
no manifest names it yet. Runs on a worker, with files of its own.
"""

from collections.abc import Callable

from penstock.core.checksum import crc32c
from penstock.core.types import Index, Term
from penstock.storage.appender import index_step
from penstock.storage.directory import LogDirectory
from penstock.storage.disk import Buffer, File
from penstock.storage.index import GrowingIndex
from penstock.storage.record import (
    RECORD_HEADER_BYTES,
    Scan,
    Scanned,
    copy_header,
    encode_header,
)
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
        writer: SegmentWriter | None = None
        for found in scan:
            if keep(found):
                writer = writer or SegmentWriter(
                    home,
                    SegmentHeader.make(
                        home.identity,
                        base=found.header.index,
                        number=number,
                        previous_term=source.term(Index(found.header.index - 1)),
                        previous_chain=found.header.previous_chain,
                        sparse=sparse,
                    ),
                )
                writer.copy(found)
        check_scan(home, source.name, scan, end)
        return writer.finish() if writer else None
    finally:
        file.close()


def check_scan(home: LogDirectory, name: str, scan: Scan, end: int) -> None:
    """Raise `DamagedFile` if a scan stopped before its end."""
    if scan.position != end:
        problem = scan.problem or f"there are zeros where entry {scan.last + 1} was written"
        raise home.damaged(name, scan.position, problem)


class SegmentWriter:
    """A sealed segment under construction."""

    def __init__(self, home: LogDirectory, header: SegmentHeader) -> None:
        self._home = home
        self._index = GrowingIndex(header.base)
        self.segment = Segment(header, index=self._index, capacity=0)
        self.segment.sealed = True
        self._file: File = home.disk.open(home.path(header.name), create=True)
        self._file.truncate(0)
        self._run: list[Buffer] = [header.encode()]
        self._run_position = 0
        self._run_bytes = SEGMENT_HEADER_BYTES

    def copy(self, found: Scanned) -> None:
        """Copy a record unchanged."""
        header = found.header
        encoded = copy_header(header, self.segment.salt)
        self._add(
            encoded, header.index, header.term, header.kind, header.chain, found.payload.tobytes()
        )

    def append(self, index: Index, term: Term, kind: int, payload: bytes) -> None:
        """A record with another payload than it had, in the chain of this segment."""
        segment = self.segment
        checksum = crc32c(payload)
        encoded, chain = encode_header(
            kind, len(payload), term, index, segment.chain, checksum, 0, segment.salt
        )
        self._add(encoded, index, term, kind, chain, payload)

    def _add(
        self, header: bytes, index: Index, term: Term, kind: int, chain: int, payload: bytes
    ) -> None:
        size = RECORD_HEADER_BYTES + len(payload)
        self._run += (header, payload)
        self._run_bytes += size
        self._index.add(index, kind, payload, self.segment.end)
        self.segment.note(index, term, size, chain)
        if self._run_bytes >= _RUN_BYTES_MAX:
            self._flush()

    def _flush(self) -> None:
        self._file.write(self._run_position, self._run)
        self._run_position += self._run_bytes
        self._run, self._run_bytes = [], 0

    def finish(self) -> Segment:
        """Make it durable, with its side index."""
        try:
            self._flush()
            self._file.sync()
        finally:
            self._file.close()
        index_step(self._home, self.segment)()
        self._home.disk.sync_directory(self._home.root)
        return self.segment

    def close(self) -> None:
        """Let go of a file that will not be finished; the caller removes it."""
        self._file.close()
