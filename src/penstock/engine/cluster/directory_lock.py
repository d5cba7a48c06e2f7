"""The lock of a data directory: one process at a time may use it, and the lock names that process.

The lock is the operating system's and ends with the process. What stands in the lock file is only
there to be reported to the next one that comes: that a directory is in use helps little without a
hint which process to stop, or to connect to.
"""

import contextlib
import os
import sys

from penstock.core.errors import DirectoryInUse, DiskFailed
from penstock.storage import Disk, Lock

LOCK_FILE = "lock"
_HOLDER_BYTES_MAX = 200


def hold_directory(disk: Disk, directory: str) -> Lock:
    """Take the directory for this process, or say who has it."""
    path = os.path.join(directory, LOCK_FILE)
    try:
        lock = disk.lock(path)
    except DirectoryInUse:
        raise DirectoryInUse(
            f"{directory} is in use by {_holder(disk, path)}; connect to that one if it is a"
            " broker, stop it, or use another directory"
        ) from None
    with contextlib.suppress(DiskFailed):  # The lock counts, not what it says.
        _sign(disk, path)
    return lock


def _sign(disk: Disk, path: str) -> None:
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    text = f"{os.getpid()} {program}".encode()[:_HOLDER_BYTES_MAX]
    file = disk.open(path)
    try:
        file.truncate(0)
        file.write(0, [text])
    finally:
        file.close()


def _holder(disk: Disk, path: str) -> str:
    try:
        file = disk.open(path)
    except DiskFailed:
        return "another process"
    try:
        text = file.read(0, _HOLDER_BYTES_MAX).decode("utf-8", "replace")
    finally:
        file.close()
    pid, _, program = text.partition(" ")
    if not pid.isdecimal():
        return "another process"
    who = "this very process" if int(pid) == os.getpid() else f"process {pid}"
    return f"{who} ({program})" if program else who
