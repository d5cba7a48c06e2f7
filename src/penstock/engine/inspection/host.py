"""The machine that a node runs on: its disk and its memory, read on request."""

import os
import resource
import sys
from functools import cache

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CGROUP_FILES = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def disk_bytes(directory: str) -> tuple[int, int]:
    """The total and the free bytes that this user may occupy in the file system of a directory;
    zeros if there is none, as for an engine in memory."""
    try:
        status = os.statvfs(directory)
    except OSError:
        return 0, 0
    free = status.f_bavail * status.f_frsize
    used = (status.f_blocks - status.f_bfree) * status.f_frsize
    return used + free, free


def memory_bytes() -> int:
    """The resident memory of this process."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1_024


@cache
def memory_bytes_max() -> int:
    """The memory of the machine, or the limit of this process."""
    whole = os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES
    for path in _CGROUP_FILES:
        try:
            with open(path, encoding="ascii") as file:
                text = file.read().strip()
        except OSError:
            continue
        if text.isdigit():
            return min(whole, int(text))
    return whole
