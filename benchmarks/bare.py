"""The yardstick: what the disk gives to a loop of `pwrite` and `fdatasync` that does nothing else.

The loop writes the very group sizes that Penstock wrote just before, in their order, from memory
that was filled beforehand, each byte once, as Penstock's clients do. It copies nothing, checks
nothing, decides nothing and has no second thread. Once it writes into a file whose space was
allocated beforehand, outside the clock, as Penstock's segments are, and once into a file that grows
with each write.
"""

import mmap
import os
import time
from collections.abc import Sequence

from benchmarks.report import MIB


def replay(directory: str, sizes: Sequence[int], *, allocated: bool) -> float:
    """Seconds for writing and syncing groups of these sizes one after the other."""
    path = os.path.join(directory, "bare")
    total = sum(sizes)
    source = memoryview(os.urandom(MIB) * (total // MIB + 1))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        if allocated:
            os.posix_fallocate(descriptor, 0, total)
        os.fsync(descriptor)
        lend_memory(directory, total)
        position = 0
        began = time.perf_counter()
        for size in sizes:
            os.pwrite(descriptor, source[position : position + size], position)
            os.fdatasync(descriptor)
            position += size
        return time.perf_counter() - began
    finally:
        os.close(descriptor)
        os.unlink(path)


def lend_memory(directory: str, size: int) -> None:
    """Make sure that the page cache can get `size` bytes quickly, for whoever is timed next.

    A virtual machine may have given its free memory back to the host. Getting it again costs ten
    times as much as the write it is for, at random, and would be blamed on whoever comes first. So
    as much is used and let go right before each measurement, Penstock's and the bare loop's alike.
    """
    path = os.path.join(directory, "lent")
    block = mmap.mmap(-1, MIB)
    block.write(b"\1" * MIB)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        for _ in range(size // MIB + 16):
            os.write(descriptor, block)
    finally:
        os.close(descriptor)
        os.unlink(path)
        block.close()
