"""The buffer size of a frame that arrives in parts: it grows geometrically with the bytes received,
whatever length was announced."""

from penstock.core.limits import FRAME_BYTES_MIN, MIB


def first_bytes(come: int, whole: int) -> int:
    """The first buffer size for a frame of `whole` bytes, of which `come` have arrived."""
    return min(whole, max(FRAME_BYTES_MIN, come))


def grown_bytes(size: int, whole: int) -> int:
    """The next buffer size after one of `size` bytes is full. Small buffers grow faster: a batch of
    a megabyte is copied twice, and the buffer of the largest frame is at most twice as large as the
    bytes received."""
    return min(whole, size * (4 if size < MIB else 2))
