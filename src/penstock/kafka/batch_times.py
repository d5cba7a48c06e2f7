"""Times inside a record batch: the one place of the Kafka front-end where records are decoded.

The log knows the highest time of a batch. Which message has it, or is the first from a time on,
only the batch itself can tell.

    record   length varint | attributes i8 | time delta varint | offset delta varint | …

A compressed batch does not say how large it is when opened, and a small one may open to something
enormous. It is opened into a buffer of fixed size; if that does not do, or if what is inside is no
list of records, its first message stands for all: early, never late.
"""

import zlib
from collections.abc import Iterator
from typing import Final

import cramjam

from penstock.core.limits import KAFKA_BATCH_OPENED_BYTES_MAX
from penstock.core.records import BATCH_HEADER_BYTES, read_header

_CODECS: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD_BYTES: Final = 16
_VARINT_BYTES_MAX: Final = 10


def first_message_from(batches: bytes, time_ms: int, log_start: int = 0) -> tuple[int, int] | None:
    """Offset and time of the first message that is as late as `time_ms`, in the first batch, of
    those that are not deleted."""
    for offset, message_ms in _times(batches):
        if message_ms >= time_ms and offset >= log_start:
            return offset, message_ms
    return None


def latest_message(batches: bytes) -> tuple[int, int] | None:
    """Offset and time of the first of the latest messages, in the first batch."""
    latest: tuple[int, int] | None = None
    for offset, message_ms in _times(batches):
        if latest is None or message_ms > latest[1]:
            latest = offset, message_ms
    return latest


def _times(batches: bytes) -> Iterator[tuple[int, int]]:
    """(offset, time) of every message of the first batch; nothing if it cannot be opened."""
    if not batches:
        return
    header = read_header(batches)
    if header.attributes & _LOG_APPEND_TIME:
        yield header.base_offset, header.max_timestamp
        return
    records = _open(header.attributes & _CODECS, batches[BATCH_HEADER_BYTES : header.size])
    position = 0
    try:
        for _ in range(header.record_count):
            size, position = _varint(records, position)
            end = position + size
            time_delta, position = _varint(records, position + 1)
            offset_delta, position = _varint(records, position)
            if not position <= end <= len(records):
                return
            yield header.base_offset + offset_delta, header.base_timestamp + time_delta
            position = end
    except (IndexError, ValueError):
        return  # What is inside a batch is its producer's business.


def _open(codec: int, data: bytes) -> bytes | bytearray:
    """The records of a batch; empty if they are too many or no codec makes sense of them."""
    if codec == 0:
        return data
    out = bytearray(KAFKA_BATCH_OPENED_BYTES_MAX)
    try:
        if codec == 1:
            size = cramjam.gzip.decompress_into(data, out)
        elif codec == 2:
            return _open_snappy(data)
        elif codec == 3:
            size = cramjam.lz4.decompress_into(data, out)
        else:
            size = cramjam.zstd.decompress_into(data, out)
    except (cramjam.DecompressionError, OSError, ValueError, zlib.error):
        return b""
    return out[:size]


def _open_snappy(data: bytes) -> bytes:
    """Snappy comes plain, or in the blocks of the xerial library."""
    if not data.startswith(_XERIAL):
        return _open_snappy_block(data)
    blocks: list[bytes] = []
    position = _XERIAL_HEAD_BYTES
    while position < len(data) and sum(map(len, blocks)) < KAFKA_BATCH_OPENED_BYTES_MAX:
        end = position + 4 + int.from_bytes(data[position : position + 4], "big")
        blocks.append(_open_snappy_block(data[position + 4 : end]))
        position = end
    return b"".join(blocks)


def _open_snappy_block(data: bytes) -> bytes:
    if cramjam.snappy.decompress_raw_len(data) > KAFKA_BATCH_OPENED_BYTES_MAX:
        raise ValueError("a block of snappy that is too large")
    return bytes(cramjam.snappy.decompress_raw(data))


def _varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    """A signed number of seven bits a byte, in zigzag."""
    value = 0
    for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), position
    raise ValueError("a number that does not end")
