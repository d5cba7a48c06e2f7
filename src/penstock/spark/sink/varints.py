"""Numbers of variable length for a whole column at once.

Records write their lengths, times and numbers as zigzag varints (`core.record_bodies`). One by one
in Python they would cost more than everything else a sink does, so they are made by columns: first
how long each is, then all their first bytes, all their second bytes, and so on. Few numbers have
many bytes, so there are few such steps.

    varint_rows([lengths, 0, numbers])     for each row the varints of its numbers, side by side
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.record_bodies import encode_varint

Numbers: TypeAlias = NDArray[np.int64]
Unsigned: TypeAlias = NDArray[np.uint64]

BITS: Final = 7
BYTES_MAX: Final = 10
_MORE: Final = 0x80
_REST: Final = np.uint64(0x7F)


def varint_sizes(numbers: Numbers) -> Numbers:
    """Return the encoded size of each number."""
    return _sizes(_zigzag(numbers))


def varint_rows(columns: Sequence[Numbers | int], rows: int) -> pa.BinaryArray:
    """The varints of each row side by side, one from each column; a column that is a single number
    has it in every row."""
    written = [
        encode_varint(column) if isinstance(column, int) else _zigzag(column) for column in columns
    ]
    sizes = [len(one) if isinstance(one, bytes) else _sizes(one) for one in written]
    ends = np.zeros(rows + 1, np.int32)
    width: Numbers = np.zeros(rows, np.int64)
    for size in sizes:
        width += size
    np.cumsum(width, out=ends[1:])
    data = np.empty(int(ends[-1]), np.uint8)
    at = ends[:-1].astype(np.int64)
    for one, size in zip(written, sizes, strict=True):
        if isinstance(one, bytes):
            for place, byte in enumerate(one):
                data[at + place] = byte
        else:
            assert not isinstance(size, int)
            _put(data, at, one, size)
        at += size
    return pa.BinaryArray.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(ends), pa.py_buffer(data)]
    )


def _zigzag(numbers: Numbers) -> Unsigned:
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def _sizes(zigzag: Unsigned) -> Numbers:
    sizes = np.ones(len(zigzag), np.int64)
    largest = int(zigzag.max(initial=0))
    for size in range(1, BYTES_MAX):
        if largest < 1 << (BITS * size):
            break
        sizes += zigzag >= np.uint64(1 << (BITS * size))
    return sizes


def _put(data: NDArray[np.uint8], at: Numbers, zigzag: Unsigned, sizes: Numbers) -> None:
    """Write each number where its row has come to."""
    least, most = int(sizes.min(initial=BYTES_MAX)), int(sizes.max(initial=0))
    for place in range(most):
        if place < least:
            where, left, size = at, zigzag, sizes
        else:
            longer = np.flatnonzero(sizes > place)
            where, left, size = at[longer], zigzag[longer], sizes[longer]
        byte = ((left >> np.uint64(BITS * place)) & _REST).astype(np.uint8)
        if place + 1 < most:
            byte |= (size > place + 1).astype(np.uint8) * np.uint8(_MORE)
        data[where + place] = byte
