"""A mark of which partitions of a topic a node leads, as client and node see it.

A client asks the nodes that it believes to lead a queue, and each answers for what it leads. One
that has handed a partition over still answers for the others, and so the client would never learn
of it. Hence the client says what it believes, in four bytes, and the node says if it is not so.
"""

from array import array
from collections.abc import Iterable

from penstock.core.checksum import crc32c

UNKNOWN = 0
"""The mark of a client that sends none."""


def led_mark(partitions: int, led: Iterable[int]) -> int:
    """Return the mark of a set of led indexes, in ascending order, out of `partitions`."""
    return 1 + crc32c(array("q", (partitions, *led)).tobytes())
