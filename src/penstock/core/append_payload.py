"""The payload of an APPEND entry: record batches of one or many partitions under one log time.

    byte 0   stamp         i64   the leader's log time in ms; never decreases along the log
         8   slice count   u32
        12   slices        count times 32 bytes:
               partition      u32
               length         u32   bytes of this slice's batches
               base offset    i64   of its first message
               record count   u32   offsets it spans; as written every one has a record
               batch count    u32   at least 1
               max timestamp  i64
        ..   the slices' batches, in the order of the slices, without gaps

A slice is a run of batches of one partition that lie side by side: one index row, one read. What
compaction leaves of one has gaps between and within its batches, and still says which span of
offsets it is.

The directory comes first so that storage can index, and a machine can apply, without walking
batches it does not care about. Everything is little-endian but the batches, which are Kafka's.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from penstock.core.errors import InvalidBatch
from penstock.core.limits import ENTRY_PAYLOAD_BYTES_MAX, ENTRY_SLICES_MAX, GATHER_BYTES_MAX
from penstock.core.types import Offset, PartitionId

Batch = bytes | bytearray | memoryview

STAMP_BYTES = 8
_STAMP = struct.Struct("<q")
_HEAD = struct.Struct("<qI")
_SLICE = struct.Struct("<IIqIIq")
_REMEMBERED_BYTES_MAX = GATHER_BYTES_MAX
"""The size up to which a directory is cached, and with it one payload."""


class Slice(NamedTuple):
    """One partition's part of an APPEND payload."""

    partition: PartitionId
    length: int
    base_offset: Offset
    record_count: int
    """The number of offsets it spans; compaction may have left fewer records."""
    batch_count: int
    max_timestamp: int

    @property
    def end_offset(self) -> Offset:
        """The offset after the slice's last message."""
        return Offset(self.base_offset + self.record_count)


class AppendPayload(NamedTuple):
    """A decoded directory; `start` is where the first slice's batches begin in the payload."""

    stamp_ms: int
    slices: list[Slice]
    start: int


def encode_append(stamp_ms: int, parts: Iterable[tuple[Slice, Iterable[Batch]]]) -> bytes:
    """Join slices and their stamped batches into one payload."""
    directory: list[bytes] = []
    bodies: list[Batch] = []
    for slice_, batches in parts:
        directory.append(_SLICE.pack(*slice_))
        bodies.extend(batches)
    return b"".join([_HEAD.pack(stamp_ms, len(directory)), *directory, *bodies])


def read_stamp(payload: bytes | memoryview) -> int:
    """The log time at the start of a payload; 0 if not even that is there."""
    return int(_STAMP.unpack_from(payload)[0]) if len(payload) >= STAMP_BYTES else 0


def check_append(payload: bytes | memoryview) -> AppendPayload:
    """Read the directory of an untrusted payload; raises `InvalidBatch`. The
    batches themselves are not looked at."""
    size = len(payload)
    if not _HEAD.size + _SLICE.size <= size <= ENTRY_PAYLOAD_BYTES_MAX:
        raise InvalidBatch(f"an APPEND payload of {size} bytes")
    stamp_ms, count = _HEAD.unpack_from(payload)
    start = _HEAD.size + count * _SLICE.size
    if not (0 < count <= ENTRY_SLICES_MAX and start <= size and stamp_ms >= 0):
        raise InvalidBatch(f"an APPEND payload of {size} bytes with {count} slices")
    directory = decode_append(payload)
    if sum(part.length for part in directory.slices) != size - start:
        raise InvalidBatch(f"the slices of an APPEND payload do not fill its {size} bytes")
    for part in directory.slices:
        if part.base_offset < 0 or not 0 < part.batch_count <= part.record_count:
            raise InvalidBatch(f"an APPEND payload with {part}")
    return directory


def decode_append(payload: bytes | memoryview) -> AppendPayload:
    """Read the directory of a payload whose checksum has been verified. The last result is cached,
    because the index, the partitions and the queues read the same payload one after the other. Do
    not change it."""
    global _last  # noqa: PLW0603 - one pair, replaced as a whole; any thread may read it
    known, directory = _last
    if known is payload:
        return directory
    stamp_ms, count = _HEAD.unpack_from(payload)
    assert 0 < count <= ENTRY_SLICES_MAX, f"an APPEND payload with {count} slices"
    assert len(payload) <= ENTRY_PAYLOAD_BYTES_MAX, f"an APPEND payload of {len(payload)} bytes"
    start = _HEAD.size + count * _SLICE.size
    slices = [
        Slice._make(row) for row in _SLICE.iter_unpack(memoryview(payload)[_HEAD.size : start])
    ]
    directory = AppendPayload(stamp_ms, slices, start)
    if type(payload) is bytes and len(payload) <= _REMEMBERED_BYTES_MAX:
        _last = payload, directory
    return directory


_last: tuple[bytes, AppendPayload] = (b"", AppendPayload(0, [], 0))
