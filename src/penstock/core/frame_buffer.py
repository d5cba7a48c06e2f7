"""How large the buffer of a frame is that arrives in parts: it grows as bytes come, whatever length
was announced (geometric growth)."""

from penstock.core.limits import FRAME_BYTES_MIN, MIB


def first_bytes(come: int, whole: int) -> int:
    """For a frame of `whole` bytes of which so many have come."""
    return min(whole, max(FRAME_BYTES_MIN, come))


def grown_bytes(size: int, whole: int) -> int:
    """After one of this size that is full. Small ones grow faster: a batch of a megabyte is copied
    twice on its way, and a frame of the largest size holds at most twice what has come of it."""
    return min(whole, size * (4 if size < MIB else 2))
