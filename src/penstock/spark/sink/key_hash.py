"""The partition of every key of a column, as all clients choose it: Kafka's murmur2.

`core.murmur2` hashes one key in about a microsecond. Here a step of the hash is done for all keys
at once: the first four bytes of each, then the next four, for as long as keys have some. Long keys
would take many steps for few keys, and go one by one.
"""

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.murmur2 import murmur2
from penstock.spark.sink.byte_columns import bytes_of

LONG_KEY_BYTES: Final = 512
_SEED: Final = np.uint32(0x9747B28C)
_M: Final = np.uint32(0x5BD1E995)
_SIGN: Final = np.uint32(0x7FFFFFFF)


def partitions_of(keys: pa.BinaryArray, partitions: int) -> NDArray[np.int64]:
    """Return the partition of each key; for a missing key, that of an empty one."""
    return ((murmur2_column(keys) & _SIGN) % np.uint32(partitions)).astype(np.int64)


def murmur2_column(keys: pa.BinaryArray) -> NDArray[np.uint32]:
    """Murmur2, as Kafka's default partitioner uses it, of a whole column."""
    data, starts, lengths = bytes_of(keys)
    value = _SEED ^ lengths.astype(np.uint32)
    short = lengths < LONG_KEY_BYTES
    steps = int((lengths[short] >> 2).max(initial=0))
    for step in range(steps):
        rows = np.flatnonzero(short & (lengths >> 2 > step))
        mixed = _word(data, starts[rows] + 4 * step, 4) * _M
        mixed = (mixed ^ (mixed >> np.uint32(24))) * _M
        value[rows] = value[rows] * _M ^ mixed
    for rest in (1, 2, 3):
        rows = np.flatnonzero(short & (lengths & 3 == rest))
        tail = _word(data, starts[rows] + (lengths[rows] & ~np.int64(3)), rest)
        value[rows] = (value[rows] ^ tail) * _M
    value = (value ^ (value >> np.uint32(13))) * _M
    value ^= value >> np.uint32(15)
    for row in np.flatnonzero(~short):
        start = starts[row]
        value[row] = murmur2(data[start : start + lengths[row]].tobytes())
    return value


def _word(data: NDArray[np.uint8], at: NDArray[np.int64], size: int) -> NDArray[np.uint32]:
    """Read little-endian words of `size` bytes."""
    word = np.zeros(len(at), np.uint32)
    for place in range(size):
        word |= data[at + place].astype(np.uint32) << np.uint32(8 * place)
    return word
