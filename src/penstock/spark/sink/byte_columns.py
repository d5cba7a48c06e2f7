"""The bytes of an Arrow column as numpy sees them, without a copy."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def bytes_of(
    column: pa.BinaryArray,
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """All bytes of a column, where each value starts in them, and how long it is; a missing value
    has no length."""
    _, ends, data = column.buffers()
    rows = len(column)
    if rows == 0 or ends is None:
        nothing = np.zeros(rows, np.int64)
        return np.zeros(0, np.uint8), nothing, nothing
    places = np.frombuffer(ends, np.int32, rows + 1, column.offset * 4).astype(np.int64)
    lengths = np.diff(places)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = 0
    held = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return held, places[:-1], lengths


def lengths_of(column: pa.BinaryArray) -> NDArray[np.int64]:
    """Return the length of each value; -1 for a missing one, as records encode it."""
    _, _, lengths = bytes_of(column)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return lengths
