"""A batch of one record that is nothing but a body: what messages are that come one by one.

    base offset  i64   length  i32   leader epoch  i32 -1   magic  i8 2   checksum  u32
    attributes  i16 0   last  i32 0   times  2 × i64   producer  i64, i16, i32   count  i32 1
    length of the record | 0 | 0 | 0 | no key | length of the body | body | no headers

All that stands around the body depends on its length only, and is looked up by it. So such a batch
is written without a list of records, and read by one comparison: whatever is not exactly this is
the business of `message_batches`.
"""

import struct
from functools import lru_cache
from typing import Final

from penstock.core.checksum import crc32c
from penstock.core.record_bodies import encode_varint
from penstock.core.records import BATCH_HEADER_BYTES

LENGTHS_REMEMBERED: Final = 1_024
_HEAD: Final = struct.Struct(">qiibI")
_REST: Final = struct.Struct(">hiqqqhii")
_FIELDS: Final = struct.Struct(">q13xhiqq14xi")
_LENGTH_FROM: Final = 12
_REST_FROM: Final = _HEAD.size
_NO_HEADERS: Final = b"\0"
_NO_KEY: Final = encode_varint(-1)

Lone = tuple[int, int, bytes]
"""Offset, time and body."""


def frame_lone(body: bytes, time_ms: int, producer: tuple[int, int, int]) -> bytes:
    """The batch of one body; `producer` is its id, epoch and sequence number."""
    rest = _REST.pack(0, 0, time_ms, time_ms, *producer, 1)
    rest = b"".join((rest, _before(len(body)), body, _NO_HEADERS))
    return _HEAD.pack(0, _REST_FROM - _LENGTH_FROM + len(rest), -1, 2, crc32c(rest)) + rest


def read_lone(batch: memoryview) -> Lone | None:
    """Read a stored batch if it has this form and nothing follows it; otherwise return None."""
    size = len(batch) - BATCH_HEADER_BYTES
    if size <= 0:
        return None
    offset, attributes, last, time_ms, _, count = _FIELDS.unpack_from(batch)
    if attributes or last or count != 1:
        return None
    record = bytes(batch[BATCH_HEADER_BYTES:])
    before = _before_in(size)
    if before is None or not record.startswith(before) or record[-1]:
        return None
    return offset, time_ms, record[len(before) : -1]


@lru_cache(maxsize=LENGTHS_REMEMBERED)
def _before(body_bytes: int) -> bytes:
    """The bytes of a record before its body."""
    inner = b"\0\0\0" + _NO_KEY + encode_varint(body_bytes)
    return encode_varint(len(inner) + body_bytes + len(_NO_HEADERS)) + inner


@lru_cache(maxsize=LENGTHS_REMEMBERED)
def _before_in(record_bytes: int) -> bytes | None:
    """The bytes before the body in a record of this length; None if no body has this length."""
    for around in range(7, 17):
        body_bytes = record_bytes - around
        if body_bytes >= 0 and len(_before(body_bytes)) + len(_NO_HEADERS) == around:
            return _before(body_bytes)
    return None
