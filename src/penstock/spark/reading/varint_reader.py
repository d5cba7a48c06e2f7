"""Numbers of variable length, read at many places of a buffer at once.

A number is written seven bits to a byte, lowest first, the eighth bit saying that there is more,
and zigzag: the lowest bit is the sign. Nearly all numbers of a record take one byte or two, so the
first byte of all of them is read in one go, and the rest only where there is a rest.

Checked: no place beyond the buffer is read, and no number is longer than ten bytes.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.core.errors import InvalidBatch
from penstock.spark.reading.record_starts import Octets, Positions

Numbers = npt.NDArray[np.int64]

_VARINT_BYTES_MAX: Final = 10


def read_varints(octets: Octets, at: Positions) -> tuple[Numbers, Positions]:
    """The numbers at these places, none of which is before the buffer, and the places after."""
    try:
        first = octets[at]
    except IndexError:
        raise cut_short() from None
    if len(at) == 0 or int(first.max()) < 0x80:
        numbers = first.view(np.int8) >> 1 ^ -(first.view(np.int8) & 1)
        return numbers.astype(np.int64), at + 1
    return _read_long(octets, at, first)


def skip_varints(octets: Octets, at: Positions) -> Positions:
    """The places after the numbers at these places."""
    try:
        first = octets[at]
    except IndexError:
        raise cut_short() from None
    if len(at) == 0 or int(first.max()) < 0x80:
        return at + 1
    return _read_long(octets, at, first)[1]


def _read_long(octets: Octets, at: Positions, first: Octets) -> tuple[Numbers, Positions]:
    value = (first & 0x7F).astype(np.uint64)
    after = at + 1
    left = np.flatnonzero(first >= 0x80)
    every = len(left) == len(at)
    shift = 7
    for _ in range(_VARINT_BYTES_MAX - 1):
        try:
            octet = octets[after] if every else octets[after[left]]
        except IndexError:
            raise cut_short() from None
        part = (octet & 0x7F).astype(np.uint64) << np.uint64(shift)
        if every:
            value |= part
            after += 1
        else:
            value[left] |= part
            after[left] += 1
        more = octet >= 0x80
        if not more.any():
            break
        if not more.all():
            left = np.flatnonzero(more) if every else left[more]
            every = False
        shift += 7
    else:
        raise InvalidBatch(f"a number of a record is longer than {_VARINT_BYTES_MAX} bytes")
    signs = (value & np.uint64(1)).astype(np.int64)
    return (value >> np.uint64(1)).astype(np.int64) ^ -signs, after


def cut_short() -> InvalidBatch:
    """Return the error for records that end too early."""
    return InvalidBatch("the records end in the middle of one")
