"""A snapshot file: the machines' state at one index, checked as a whole.

    byte 0   magic         8 bytes  "PENSTKSN"
         8   format        u32
        12   mark length   u32
        16   state length  u64
        24   state crc     u32      CRC-32C of the state
        28   header crc    u32      CRC-32C of bytes 0 to 28 and the mark
        32   mark          msgpack  SnapshotMark
        ..   state

Order: the file is written and synced under a name never used before, the
directory synced, the manifest that names it replaces the old one; only then may what it covers be
removed. A snapshot that no manifest names never happened.
"""

import struct
from typing import NamedTuple

import msgspec

from penstock.core.checksum import crc32c
from penstock.core.decoders import decode_msgpack
from penstock.core.entries import SnapshotMark
from penstock.core.limits import SNAPSHOT_BYTES_MAX
from penstock.storage.disk import Disk, File
from penstock.storage.identity import FORMAT

_MAGIC = b"PENSTKSN"
_HEADER = struct.Struct("<8sIIQI")
_CHECKSUM = struct.Struct("<I")
_MARK_BYTES_MAX = 1 << 20
_CHUNK_BYTES = 1 << 20


class SnapshotLayout(NamedTuple):
    """Where the state lies in a snapshot file, and its checksum."""

    mark: SnapshotMark
    start: int
    length: int
    checksum: int


def write_snapshot(disk: Disk, path: str, mark: SnapshotMark, state: bytes) -> None:
    """Write a snapshot file; the caller syncs it."""
    assert len(state) <= SNAPSHOT_BYTES_MAX, f"a snapshot of {len(state)} bytes"
    encoded = msgspec.msgpack.encode(mark)
    head = _HEADER.pack(_MAGIC, FORMAT, len(encoded), len(state), crc32c(state))
    checksum = _CHECKSUM.pack(crc32c(encoded, crc32c(head)))
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.write(0, [head, checksum, encoded, state])
    finally:
        file.close()


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
    checksum, position, end = 0, layout.start, layout.start + layout.length
    while position < end:
        chunk = file.read(position, min(_CHUNK_BYTES, end - position))
        if not chunk:
            return position, f"the snapshot ends {end - position} bytes early"
        checksum = crc32c(chunk, checksum)
        position += len(chunk)
    if checksum != layout.checksum:
        return layout.start, "the snapshot's state does not match its CRC-32C"
    return None
