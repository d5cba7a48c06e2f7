"""Memory that is freed should be there when the next batch wants it.

A batch takes a megabyte or two for a moment. The C library gives freed memory of that size back to
the system, and to get it again costs a page fault for every four kilobytes: on a virtual machine a
third of the time it takes to send a batch. glibc adapts by itself: once it has seen a large block
come and go, it keeps up to twice as much (mallopt(3), M_MMAP_THRESHOLD). So it is shown one, which
is never touched and therefore costs nothing. Elsewhere this does nothing, and does no harm.
"""

from functools import cache

from penstock.core.limits import MIB

SHOWN_BYTES = 8 * MIB
"""Twice as much stays with the process when it is free."""


@cache
def keep_freed_memory() -> None:
    """Keep freed memory in the process instead of returning it to the system. Call this once per
    process."""
    bytes(SHOWN_BYTES)
