"""Records that are nothing but bodies of one length: the fast way in and out of a batch.

Most batches are like this: no keys, no headers, one time, and bodies of equal size. Between two
bodies there is then a row of bytes that depends only on the record's number and the size:

    … body | headers 0 | length | attributes 0 | time 0 | number | key none | size | body | …

Those rows are made once for a size and kept. Building a batch is joining two rows of bytes, and
reading it is the reverse: bodies are cut out at the places where they must be, and all bytes
between them are compared with what must be there. A batch that differs is read record by record.
Both directions cost a tenth of going through records one by one.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from penstock.core.record_bodies import encode_varint

SIZES_REMEMBERED: Final = 32
STEPS: Final = (16, 128, 1_024, 4_096, 16_384)
"""The numbers of records for which rows are prepared."""
RECORDS_MAX: Final = STEPS[-1]
"""A bound on the rows cached for one size: about a megabyte."""
BODY_BYTES_MAX: Final = 64 * 1024
"""Larger bodies cost more to copy than to go through."""
RECORD_BYTES_MIN: Final = 7
_NO_HEADERS: Final = b"\0"
_NO_KEY: Final = encode_varint(-1)


def _rows(size: int, count: int) -> tuple[bytes, ...]:
    """The bytes between one body and the next, for `count` records or more."""
    return _made_rows(size, next(step for step in STEPS if step >= count))


@lru_cache(maxsize=SIZES_REMEMBERED)
def _made_rows(size: int, count: int) -> tuple[bytes, ...]:
    written = encode_varint(size)
    rows = []
    for number in range(count):
        inner = b"\0\0" + encode_varint(number) + _NO_KEY + written
        length = encode_varint(len(inner) + size + len(_NO_HEADERS))
        rows.append((_NO_HEADERS if number else b"") + length + inner)
    return tuple(rows)


def pack_plain(bodies: Sequence[bytes], first: int = 0) -> bytes | None:
    """The records of these bodies, numbered from `first` on; None if they are not of one length,
    or too many or too large."""
    size, end = len(bodies[0]), first + len(bodies)
    if size > BODY_BYTES_MAX or end > RECORDS_MAX or len(set(map(len, bodies))) > 1:
        return None
    # Joined at one go: whatever is put to the end of half a megabyte copies it.
    parts = [_NO_HEADERS] * (2 * len(bodies) + 1)
    parts[:-1:2] = _rows(size, end)[first:end]
    parts[1::2] = bodies
    if first:
        parts[0] = parts[0][len(_NO_HEADERS) :]
    return b"".join(parts)


def unpack_plain(records: bytes, count: int, first: int = 0) -> list[bytes] | None:
    """Return the bodies of `count` records, numbered from `first`, if the records consist of bodies
    of one length only."""
    if count < 2 or first + count > RECORDS_MAX or len(records) < RECORD_BYTES_MIN * count:
        return None
    size = _size_of_first(records)
    if size < 0 or size > BODY_BYTES_MAX:
        return None
    rows = _rows(size, first + count)
    bodies: list[bytes] = []
    # The first row lacks the end of the record before it.
    position, number, end = -len(_NO_HEADERS) if first else 0, first, first + count
    while number < end:
        # The rows are equally long as long as the number's own length stays the same.
        length = len(rows[number])
        stop = min(end, _next_longer(number))
        step = length + size
        after = position + step * (stop - number)
        if after > len(records):
            return None
        seen = [records[max(0, at) : at + length] for at in range(position, after, step)]
        if position < 0:
            seen[0] = _NO_HEADERS + seen[0]
        if seen != list(rows[number:stop]):
            return None
        starts = range(position + length, after + length, step)
        bodies += [records[at : at + size] for at in starts]
        position, number = after, stop
    return bodies if records[position:] == _NO_HEADERS else None


def _next_longer(number: int) -> int:
    """The first number after this one from which on rows may be longer: the very first row has no
    record before it, and numbers take a byte more from 64 and from 8,192 on."""
    for bound in (1, 64, 8_192):
        if number < bound:
            return bound
    return RECORDS_MAX


def _size_of_first(records: bytes) -> int:
    """The size of the first record's body, if the record is nothing else; -1 otherwise."""
    position = _after_number(records, 0)
    if records[position : position + 2] != b"\0\0":
        return -1
    position = _after_number(records, position + 2)
    if records[position : position + 1] != _NO_KEY:
        return -1
    end = _after_number(records, position + 1)
    written = 0
    for byte in reversed(records[position + 1 : end]):
        written = written << 7 | byte & 0x7F
    return -1 if written & 1 or end == position + 1 else written >> 1


def _after_number(records: bytes, position: int) -> int:
    """The position after a number of variable length, of five bytes at most."""
    for end in range(position, min(position + 5, len(records))):
        if not records[end] & 0x80:
            return end + 1
    return position
