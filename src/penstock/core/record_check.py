"""Checks that the records of a batch are what its header says, without reading them.

So many records as claimed follow each other without a gap, each at the next offset and of the
length it names, with key, value and headers inside it (`record_bodies` has the layout). What passes
can be read by every client.

Most batches hold stretches of records whose numbers stand in the same places: bodies and keys of
equal sizes. Of such a stretch the bytes that say how long something is form columns, equal from
record to record, which are cut out and compared as a whole; this costs about as much as a checksum.
All other records are walked one by one, and how many of them is bounded by the caller: a
caller on the event loop leaves long walks to a thread.
"""

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from penstock.core.errors import InvalidBatch
from penstock.core.record_bodies import read_varint

STRETCH_MIN: Final = 6
"""Fewer records are walked in the time it takes to compare columns."""
_WALK_FIRST: Final = 4
_WALK_MOST: Final = 512
_HIGH: Final = bytes(range(0x80, 0x100))
_RECORD_COLUMNS_MAX: Final = 64
"""A record with more numbers than this, in its headers, is walked."""


def check_records(body: bytes, count: int, may_walk: Callable[[int], bool]) -> bool:
    """Raise `InvalidBatch` if the records are wrong. `may_walk` is called before records are walked
    one by one; if it refuses, return False: the rest was not checked."""
    position = number = 0
    size, walk = len(body), _WALK_FIRST
    try:
        while number < count:
            if count - number >= STRETCH_MIN:
                found = _stretch(body, position, number, count)
                if found is not None:
                    position, number = found
                    continue
                # Records of different sizes: look for a stretch ever less often.
                walk = min(2 * walk, _WALK_MOST)
            end = min(number + walk, count)
            if not may_walk(end - number):
                return False
            position = _walk(body, position, number, end)
            number = end
    except IndexError:
        raise InvalidBatch("the records end in the middle of one") from None
    if position != size:
        raise InvalidBatch(f"{size - position} bytes follow the last record")
    return True


def check_few_records(batch: bytes | bytearray | memoryview, position: int, count: int) -> None:
    """`check_records` for records that are not compressed, and fewer than `STRETCH_MIN`: they begin
    at `position` of the batch, and are checked where they lie."""
    try:
        position = _walk(batch, position, 0, count)
    except IndexError:
        raise InvalidBatch("the records end in the middle of one") from None
    if position != len(batch):
        raise InvalidBatch(f"{len(batch) - position} bytes follow the last record")


def _walk(body: bytes | bytearray | memoryview, position: int, number: int, end: int) -> int:
    """Check records one by one; the position after them."""
    size = len(body)
    for expected in range(number, end):
        length = body[position]
        if length < 0x80:
            position += 1
        elif (high := body[position + 1]) < 0x80:
            length += (high - 1) << 7
            position += 2
        else:
            length, position = read_varint(body, position)
            length <<= 1
        if length < 0 or length & 1:
            raise InvalidBatch(f"record {expected} has a length below 0")
        stop = position + (length >> 1)
        if stop > size:
            raise InvalidBatch("the records end in the middle of one")
        position += 1  # The attributes.
        position += 1 if body[position] < 0x80 else _width(body, position)
        delta = body[position]
        if delta < 0x80:
            position += 1
        elif (high := body[position + 1]) < 0x80:
            delta += (high - 1) << 7
            position += 2
        else:
            delta, position = read_varint(body, position)
            delta <<= 1
        if delta != expected << 1:
            raise InvalidBatch(f"record {expected} says it is at offset {delta / 2:g}")
        for _ in range(2):  # Key and value.
            length = body[position]
            if length < 0x80:
                position += 1 if length & 1 else 1 + (length >> 1)
            elif (high := body[position + 1]) < 0x80:
                length += (high - 1) << 7
                position += 2 if length & 1 else 2 + (length >> 1)
            else:
                length, position = read_varint(body, position)
                position += max(length, 0)
            if position >= stop:
                raise InvalidBatch(f"record {expected} is shorter than its key and value")
        if body[position]:
            position = _headers_end(body, position, stop)
        else:
            position += 1
        if position != stop:
            raise InvalidBatch(f"record {expected} is longer or shorter than what is in it")
    return position


def _headers_end(body: bytes | bytearray | memoryview, position: int, stop: int) -> int:
    count, position = read_varint(body, position)
    if not 0 <= count <= stop - position:
        raise InvalidBatch(f"a record says it has {count} headers")
    for _ in range(count):
        length, position = read_varint(body, position)
        if length < 0:
            raise InvalidBatch("a header of a record has no name")
        length, position = read_varint(body, position + length)
        position += max(length, 0)
        if position > stop:
            raise InvalidBatch("a header of a record is longer than the record")
    return position


def _width(body: bytes | bytearray | memoryview, position: int) -> int:
    return read_varint(body, position)[1] - position


# Stretches.


def _stretch(body: bytes, position: int, number: int, count: int) -> tuple[int, int] | None:
    """The position and number after a stretch of equal records; None if there is none worth it."""
    after = _walk(body, position, number, number + 1)
    step = after - position
    room = (len(body) - position) // step
    n = min(count, _same_width_until(number)) - number
    n = min(n, room)
    while n >= STRETCH_MIN:
        # The cheapest question first: does the next record, and the last, have the same length?
        if body[position] == body[after] == body[position + (n - 1) * step] and _is_stretch(
            body, position, step, number, n
        ):
            return position + n * step, number + n
        n //= 8
    return None


def _is_stretch(body: bytes, position: int, step: int, number: int, n: int) -> bool:
    """Whether the next `n` records are as long as the first and have their numbers where it has
    them. The first was walked."""
    stop = position + n * step
    lengths, times, offsets = _columns(body, position)
    if len(lengths) > _RECORD_COLUMNS_MAX:
        return False
    for first in lengths:
        if body[first:stop:step] != body[first : first + 1] * n:
            return False
    for first in range(times.start, times.stop - 1):
        if body[first:stop:step].translate(None, _HIGH):
            return False
    if not body[times.stop - 1 : stop : step].isascii():
        return False
    start = number - _OFFSETS_FROM[len(offsets)]
    for first, expected in zip(offsets, _offset_columns(len(offsets)), strict=True):
        if body[first:stop:step] != expected[start : start + n]:
            return False
    return True


def _columns(body: bytes, position: int) -> tuple[list[int], range, range]:
    """Where the numbers of a record stand that was walked: the bytes of all lengths and of the
    number of headers, of the time, and of the offset."""
    _, at = read_varint(body, position)
    lengths = list(range(position, at))
    times = range(at + 1, read_varint(body, at + 1)[1])
    _, at = read_varint(body, times.stop)
    offsets = range(times.stop, at)
    for _ in range(2):  # Key and value.
        length, end = read_varint(body, at)
        lengths += range(at, end)
        at = end + length if length > 0 else end
    headers, end = read_varint(body, at)
    lengths += range(at, end)
    at = end
    for _ in range(2 * min(headers, _RECORD_COLUMNS_MAX)):
        length, end = read_varint(body, at)
        lengths += range(at, end)
        at = end + length if length > 0 else end
    return lengths, times, offsets


_OFFSETS_FROM: Final = (0, 0, 64, 8_192, 1 << 20, 1 << 27)
"""The smallest offset delta whose varint has a given number of bytes."""


def _same_width_until(number: int) -> int:
    return _OFFSETS_FROM[bisect_right(_OFFSETS_FROM, number, 2)]


@lru_cache(maxsize=4)
def _offset_columns(width: int) -> tuple[bytes, ...]:
    """The first, second … bytes of the numbers of this width, in order."""
    start, end = _OFFSETS_FROM[width], min(_OFFSETS_FROM[width + 1], 1 << 20)
    columns = []
    for place in range(width):
        repeat = 1 << (7 * place - 1) if place else 1
        last = 0 if place == width - 1 else 0x80
        if place == 0:
            period = b"".join(bytes([2 * low | last]) for low in range(64))
        else:
            period = b"".join(bytes([value | last]) * repeat for value in range(128))
        columns.append((period * (end // len(period) + 1))[start:end])
    return tuple(columns)
