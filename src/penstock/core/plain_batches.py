"""Records that are nothing but bodies of one length: the fast way in and out of a batch.

Most batches are like this: no keys, no headers, one time, and bodies of equal size. Between two
bodies there is then a row of bytes that depends only on the record's number and the size:

    … body | headers 0 | length | attributes 0 | time 0 | number | key none | size | body | …

Those rows are made once for a size and kept. Building a batch is joining two rows of bytes, and
reading it is the reverse: the bodies are cut out where they must be, put together again, and if
that makes the very bytes that came, they were what they seemed. Nothing is believed that was not
compared, and both directions cost a tenth of going through records one by one.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from penstock.core.record_bodies import encode_varint

SIZES_REMEMBERED: Final = 16
RECORDS_MAX: Final = 16_384
"""What is kept for one size is bounded by this: about a megabyte."""
BODY_BYTES_MAX: Final = 64 * 1024
"""Larger bodies cost more to copy than to go through."""
RECORD_BYTES_MIN: Final = 7
_NO_HEADERS: Final = b"\0"
_NO_KEY: Final = encode_varint(-1)


@lru_cache(maxsize=SIZES_REMEMBERED)
def _rows(size: int) -> tuple[bytes, ...]:
    """What stands before each body, from the end of the one before on."""
    written = encode_varint(size)
    rows = []
    for number in range(RECORDS_MAX):
        inner = b"\0\0" + encode_varint(number) + _NO_KEY + written
        length = encode_varint(len(inner) + size + len(_NO_HEADERS))
        rows.append((_NO_HEADERS if number else b"") + length + inner)
    return tuple(rows)


def pack_plain(bodies: Sequence[bytes]) -> bytes | None:
    """The records of these bodies; None if they are not of one length, or too many or too large."""
    size = len(bodies[0])
    if size > BODY_BYTES_MAX or len(bodies) > RECORDS_MAX or len(set(map(len, bodies))) > 1:
        return None
    joined = b"".join(chain.from_iterable(zip(_rows(size), bodies, strict=False)))
    return joined + _NO_HEADERS


def unpack_plain(records: bytes, count: int) -> list[bytes] | None:
    """The bodies of so many records, if they are nothing else and of one length."""
    if not 2 <= count <= RECORDS_MAX or len(records) < RECORD_BYTES_MIN * count:
        return None
    size = _size_of_first(records)
    if size < 0 or size > BODY_BYTES_MAX:
        return None
    rows = _rows(size)
    bodies: list[bytes] = []
    position, number = 0, 0
    while number < count:
        # The rows are equally long as long as the number's own length stays the same.
        length = len(rows[number])
        stop = min(count, 1 if number == 0 else _next_longer(number))
        start = position + length
        step = length + size
        after = position + step * (stop - number)
        if after > len(records):
            return None
        bodies += [records[at : at + size] for at in range(start, after + length, step)]
        position, number = after, stop
    if position + 1 != len(records) or pack_plain(bodies) != records:
        return None
    return bodies


def _next_longer(number: int) -> int:
    """The first number after this one from which on rows may be longer."""
    for bound in (64, 8_192, 1_048_576):
        if number < bound:
            return bound
    return RECORDS_MAX


def _size_of_first(records: bytes) -> int:
    """The size of the first record's body, if the record is nothing else; -1 otherwise."""
    position = 0
    while records[position] & 0x80:
        position += 1
        if position > 4:
            return -1
    position += 1
    if records[position : position + 4] != b"\0\0\0" + _NO_KEY:
        return -1
    position += 4
    written, shift = 0, 0
    while True:
        byte = records[position]
        written |= (byte & 0x7F) << shift
        position += 1
        if not byte & 0x80:
            break
        shift += 7
        if shift > 28:
            return -1
    return -1 if written & 1 else written >> 1
