"""A snapshot file: the machines' state at one index, checked as a whole.

    byte 0   magic         8 bytes  "PENSTKSN"
         8   format        u32
        12   mark length   u32
        16   state length  u64
        24   state crc     u32      CRC-32C of the state
        28   header crc    u32      CRC-32C of bytes 0 to 28 and the mark
        32   mark          msgpack  SnapshotMark
        ..   state

The state may have any size; it is written, read and checked in pieces. The checksum of the whole is
known only when the last piece is there, so the file is read once more for it; what was written is
held against checksums of the pieces in memory on the way, or bits that flip meanwhile would become
part of a state that looks whole.

Order: the file is written and synced under a name never used before, the
directory synced, the manifest that names it replaces the old one; only then may what it covers be
removed. A snapshot that no manifest names never happened.
"""

import struct
from bisect import bisect_right
from typing import NamedTuple

import msgspec

from penstock.core.checksum import crc32c
from penstock.core.decoders import decode_msgpack
from penstock.core.entries import SnapshotMark
from penstock.core.errors import DamagedFile
from penstock.storage.disk import Buffer, Disk, File
from penstock.storage.identity import FORMAT
from penstock.storage.job import Step

_MAGIC = b"PENSTKSN"
_HEADER = struct.Struct("<8sIIQI")
_CHECKSUM = struct.Struct("<I")
_MARK_BYTES_MAX = 1 << 20
_CHUNK_BYTES = 1 << 20
_PIECES_AT_ONCE = 1_000


class SnapshotLayout(NamedTuple):
    """The position of the state in a snapshot file, and its checksum."""

    mark: SnapshotMark
    start: int
    length: int
    checksum: int


class _Extent(NamedTuple):
    """A stretch of the state that was written at once, and the checksum it had in memory."""

    position: int
    length: int
    checksum: int


class SnapshotWriter:
    """A snapshot file that is written in pieces of any number and size.

    `stage` and `take_steps` belong to the loop, the steps to a worker. The header comes last: until
    then the file is not a snapshot, and no manifest names it."""

    def __init__(self, disk: Disk, path: str, mark: SnapshotMark) -> None:
        self._disk = disk
        self._path = path
        self._mark = msgspec.msgpack.encode(mark)
        self._start = _HEADER.size + _CHECKSUM.size + len(self._mark)
        self._staged: list[tuple[int, list[Buffer]]] = []
        self._patched = False
        """The last that was staged replaces something."""
        self._extents: list[_Extent] = []
        """The written extents, in order of position. Belongs to the worker."""
        self._written = 0
        self._file: File | None = None
        self.length = 0
        """The length of the state that was staged so far."""
        self.staged_bytes = 0
        """The bytes that no step has taken yet."""

    def stage(self, piece: Buffer, position: int | None = None) -> None:
        """Gather a piece that follows the last, or that replaces what is at a position of the
        state."""
        if not piece:
            return
        self.staged_bytes += len(piece)
        if position is not None:
            assert position + len(piece) <= self.length, f"{position} has not been written"
            self._staged.append((position, [piece]))
            self._patched = True
            return
        if self._staged and not self._patched:
            begin, pieces = self._staged[-1]
            if begin + sum(map(len, pieces)) == self.length and len(pieces) < _PIECES_AT_ONCE:
                pieces.append(piece)
                self.length += len(piece)
                return
        self._staged.append((self.length, [piece]))
        self._patched = False
        self.length += len(piece)

    def take_steps(self) -> list[Step]:
        """Return the steps that write the staged bytes."""
        staged, self._staged, self.staged_bytes = self._staged, [], 0
        return [lambda: self._write(staged)] if staged else []

    def sync(self) -> None:
        """A step: make durable what was written so far. A large file that is synced at its end only
        keeps the disk from the log for as long as that takes."""
        self._open().sync()

    def final_steps(self) -> list[Step]:
        """Write the rest, and the header; the caller syncs the file."""
        return [*self.take_steps(), self._finish]

    def close(self) -> None:
        """Close the file, finished or not. No step may be running."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self._path, create=True)
            self._file.truncate(0)
        return self._file

    def _write(self, staged: list[tuple[int, list[Buffer]]]) -> None:
        file = self._open()
        for position, pieces in staged:
            if position < self._written:
                self._replace(file, position, b"".join(pieces))
                continue
            file.write(self._start + position, pieces)
            checksum = 0
            for piece in pieces:
                checksum = crc32c(piece, checksum)
            self._extents.append(_Extent(position, sum(map(len, pieces)), checksum))
            self._written = position + self._extents[-1].length

    def _replace(self, file: File, position: int, data: bytes) -> None:
        number = bisect_right(self._extents, position, key=lambda extent: extent.position) - 1
        extent = self._extents[number]
        begin = position - extent.position
        assert begin + len(data) <= extent.length, "what is replaced was staged in one piece"
        whole = bytearray(file.read(self._start + extent.position, extent.length))
        self._check(extent, crc32c(whole))
        whole[begin : begin + len(data)] = data
        file.write(self._start + position, [data])
        self._extents[number] = extent._replace(checksum=crc32c(whole))

    def _check(self, extent: _Extent, checksum: int) -> None:
        if checksum != extent.checksum:
            raise DamagedFile(
                path=self._path,
                position=self._start + extent.position,
                problem="the disk does not hold what was just written to a new snapshot",
                way_out="The snapshot before and the log stay; check this node's disk",
            )

    def _finish(self) -> None:
        file = self._open()
        total = 0
        for extent in self._extents:
            checksum, position, end = 0, extent.position, extent.position + extent.length
            while position < end:
                size = min(_CHUNK_BYTES, end - position)
                chunk = file.read(self._start + position, size)
                checksum, total = crc32c(chunk, checksum), crc32c(chunk, total)
                position += size
            self._check(extent, checksum)
        head = _HEADER.pack(_MAGIC, FORMAT, len(self._mark), self.length, total)
        file.write(0, [head, _CHECKSUM.pack(crc32c(self._mark, crc32c(head))), self._mark])
        self.close()


def sync_file(disk: Disk, path: str) -> None:
    """Make a file that another writer wrote durable."""
    file = disk.open(path)
    try:
        file.sync()
    finally:
        file.close()


def read_layout(file: File) -> SnapshotLayout | None:
    """The verified header; None if it is damaged."""
    head = file.read(0, _HEADER.size + _CHECKSUM.size)
    if len(head) < _HEADER.size + _CHECKSUM.size:
        return None
    magic, _, mark_length, length, checksum = _HEADER.unpack_from(head)
    if magic != _MAGIC or mark_length > _MARK_BYTES_MAX:
        return None
    encoded = file.read(len(head), mark_length)
    wanted = _CHECKSUM.unpack_from(head, _HEADER.size)[0]
    if crc32c(encoded, crc32c(head[: _HEADER.size])) != wanted:
        return None
    mark = decode_msgpack(encoded, SnapshotMark)
    return SnapshotLayout(mark, len(head) + mark_length, length, checksum)


def find_snapshot_damage(file: File, mark: SnapshotMark) -> tuple[int, str] | None:
    """Position and problem if the file is not a whole snapshot at `mark`."""
    layout = read_layout(file)
    if layout is None:
        return 0, "the snapshot's header is damaged"
    if layout.mark != mark:
        return 0, f"this is a snapshot at {layout.mark.index}, not at {mark.index}"
    checksum, missing = _checksum_of(file, layout.start, layout.length)
    if missing:
        end = layout.start + layout.length
        return end - missing, f"the snapshot ends {missing} bytes early"
    if checksum != layout.checksum:
        return layout.start, "the snapshot's state does not match its CRC-32C"
    return None


def _checksum_of(file: File, start: int, length: int) -> tuple[int, int]:
    """The CRC-32C of a stretch, and how many bytes of it are missing."""
    checksum, position, end = 0, start, start + length
    while position < end:
        chunk = file.read(position, min(_CHUNK_BYTES, end - position))
        if not chunk:
            break
        checksum = crc32c(chunk, checksum)
        position += len(chunk)
    return checksum, end - position
