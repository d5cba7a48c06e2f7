"""Finds the start of each record in a batch, without examining every record where possible.

A record starts with its length, so records can only be found one after the other. But most logs are
dull: records of one size, or runs of them. So the length of a record is taken for that of the ones
behind it, all places that follow from this guess are looked at in one go, and as far as every place
has the same length written in it, the guess was right: each record there begins where the one
before it ends. Where runs are short, the lengths are walked one by one.

Checked: no record begins or ends outside of its batch, and the last one ends where the batch does.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.core.errors import InvalidBatch

Octets = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]
Body = bytes | memoryview

_WINDOW_FIRST: Final = 64
"""The number of records on which a guess is first tried; four times as many each time it holds."""
_RUN_WORTH: Final = 24
"""A shorter run takes longer to guess than to walk."""
_WALK_FIRST: Final = 64
_WALK_MAX: Final = 4096
"""The number of records that are walked before the next guess."""
_LENGTH_BYTES_MAX: Final = 10


def find_starts(octets: Octets, start: int, end: int, count: int) -> list[Positions]:
    """Return the positions of `count` records between `start` and `end`, in pieces, in order."""
    own = octets[start:end]
    view: Body = own.data
    body: bytes | None = None
    size = end - start
    pieces: list[Positions] = []
    at, left = 0, count
    walk = _WALK_FIRST
    while left:
        if left >= _RUN_WORTH:
            run, at = _find_run(own, view, at, left)
            pieces.append(run + start)
            left -= len(run)
            if len(run) >= _RUN_WORTH:
                walk = _WALK_FIRST
                continue
        if left:
            if body is None:  # Single bytes are read faster from `bytes` than from a view.
                view = body = own.tobytes()
            number = min(left, walk)
            walked, at = _walk(body, at, number)
            pieces.append(np.array(walked, dtype=np.int64) + start)
            left -= number
            walk = min(2 * walk, _WALK_MAX)
    if at != size:
        raise InvalidBatch(f"{size - at} bytes follow the last record")
    return pieces


def _find_run(octets: Octets, body: Body, at: int, most: int) -> tuple[Positions, int]:
    """Return the consecutive records of equal size from here on, at least one, and their end."""
    after, place = _after(body, at)
    stride = after - at
    most = min(most, (len(body) - at) // stride)
    found, window = 1, _WINDOW_FIRST
    while found < most:
        tried = min(window, most - found)
        same = _same(octets, at + found * stride, stride, tried, bytes(body[at:place]))
        if not same.all():
            found += int(same.argmin())
            break
        found += tried
        window *= 4
    end = at + found * stride
    return np.arange(at, end, stride, dtype=np.int64), end


def _same(
    octets: Octets, first: int, stride: int, count: int, length: bytes
) -> npt.NDArray[np.bool_]:
    """At which of these places a length is written as it is here."""
    last = first + (count - 1) * stride
    same: npt.NDArray[np.bool_] = octets[first : last + 1 : stride] == length[0]
    for place, octet in enumerate(length[1:], 1):
        same &= octets[first + place : last + place + 1 : stride] == octet
    return same


def _after(body: Body, at: int) -> tuple[int, int]:
    """Return the end of the record that begins here, and the end of its length field."""
    value = shift = 0
    for place in range(at, min(at + _LENGTH_BYTES_MAX, len(body))):
        octet = body[place]
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            after = place + 1 + (value >> 1)
            if value & 1 or after > len(body):
                break
            return after, place + 1
        shift += 7
    raise _no_length()


def _walk(body: bytes, at: int, count: int) -> tuple[Sequence[int], int]:
    """Return the positions of the next `count` records, one by one, and the end of the last."""
    starts: list[int] = []
    add = starts.append
    odd = 0
    try:
        for _ in range(count):
            add(at)
            length = body[at]
            odd |= length
            if length < 0x80:
                at += 1 + (length >> 1)
            else:
                octet = body[at + 1]
                if octet < 0x80:
                    at += 2 + ((length + (octet - 1 << 7)) >> 1)
                else:
                    at = _after(body, at)[0]
    except IndexError:
        raise _no_length() from None
    # The lowest bit is the sign of a length, whatever its size.
    if odd & 1 or at > len(body):
        raise _no_length()
    return starts, at


def _no_length() -> InvalidBatch:
    return InvalidBatch("a record has no length, or goes beyond the end of its batch")
