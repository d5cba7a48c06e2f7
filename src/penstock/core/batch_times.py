"""The times of the messages in a record batch, for requests that look up an offset by time.

The log knows the highest time of a batch. Which message has it, or is the first from a time on,
only the batch itself can tell.

    record   length varint | attributes i8 | time delta varint | offset delta varint | …

A compressed batch does not say how large it is when opened, and a small one may open to something
enormous, in very many parts, or to millions of records. It is opened and walked in a thread, within
bounds of bytes, parts, records and processor time, as in admission. If they do not do, or if what
is inside is no list of records, its first message stands for all: early, never late.
"""

from collections.abc import Iterator
from typing import Final

from penstock.core.clock import pause_thread, worked_seconds
from penstock.core.compression import decompress
from penstock.core.errors import InvalidBatch
from penstock.core.limits import (
    BATCH_UNPACKED_PARTS_MAX,
    BATCH_UNPACKED_RECORDS_MAX,
    CHECK_MS_MAX,
    KAFKA_BATCH_OPENED_BYTES_MAX,
)
from penstock.core.record_bodies import CODEC_MASK, read_varint
from penstock.core.records import BATCH_HEADER_BYTES, read_header

_LOG_APPEND_TIME: Final = 0x08
_PORTION_RECORDS: Final = 256
"""A thread keeps the interpreter for so many records, some 0.2 ms, before the loop gets it."""
_PAUSE_SECONDS: Final = 0.0001


def first_message_from(batches: bytes, time_ms: int, log_start: int = 0) -> tuple[int, int] | None:
    """Offset and time of the first message that is as late as `time_ms`, in the first batch, of
    those that are not deleted."""
    try:
        for offset, message_ms in _times(batches):
            if message_ms >= time_ms and offset >= log_start:
                return offset, message_ms
    except (InvalidBatch, IndexError):
        return None  # What is inside a batch is its producer's business.
    return None


def latest_message(batches: bytes) -> tuple[int, int] | None:
    """Offset and time of the first of the latest messages, in the first batch."""
    latest: tuple[int, int] | None = None
    try:
        for offset, message_ms in _times(batches):
            if latest is None or message_ms > latest[1]:
                latest = offset, message_ms
    except (InvalidBatch, IndexError):
        return None  # The latest may be behind what can be read.
    return latest


def _times(batches: bytes) -> Iterator[tuple[int, int]]:
    """(offset, time) of every message of the first batch."""
    if not batches:
        return
    header = read_header(batches)
    if header.attributes & _LOG_APPEND_TIME:
        yield header.base_offset, header.max_timestamp
        return
    if header.record_count > BATCH_UNPACKED_RECORDS_MAX:
        raise InvalidBatch(f"{header.record_count} records; {BATCH_UNPACKED_RECORDS_MAX} at most")
    began = worked_seconds()
    records = decompress(
        memoryview(batches)[BATCH_HEADER_BYTES : header.size],
        header.attributes & CODEC_MASK,
        BATCH_UNPACKED_PARTS_MAX,
        KAFKA_BATCH_OPENED_BYTES_MAX,
    )
    position = 0
    for number in range(1, header.record_count + 1):
        if number % _PORTION_RECORDS == 0:
            pause_thread(_PAUSE_SECONDS)
            if worked_seconds() - began >= CHECK_MS_MAX / 1_000:
                raise InvalidBatch(f"the batch takes more than {CHECK_MS_MAX} ms to read")
        size, position = read_varint(records, position)
        end = position + size
        time_delta, position = read_varint(records, position + 1)
        offset_delta, position = read_varint(records, position)
        if not position <= end <= len(records):
            raise InvalidBatch("a record is shorter or longer than it says")
        yield header.base_offset + offset_delta, header.base_timestamp + time_delta
        position = end
