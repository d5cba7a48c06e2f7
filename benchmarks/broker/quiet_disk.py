"""Waiting until the disk has finished with what came before.

Files that were removed keep some disks busy for seconds: a file system that is mounted to discard
tells the device of every freed block with its next commits, and whoever syncs meanwhile waits. A
latency measured then is the last system's doing. So before latencies are measured, a few bytes are
written and synced over and over, until that goes smoothly for a while, or patience ends.
"""

import os
import time
from pathlib import Path

SMOOTH_SECONDS = 0.001
WINDOW = 40
PAUSE_SECONDS = 0.005
PATIENCE_SECONDS = 5.0


def wait_until_quiet(directory: Path, patience_seconds: float = PATIENCE_SECONDS) -> float:
    """How long it took, in seconds."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "quiet-disk"
    began = time.monotonic()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        smooth = 0
        while smooth < WINDOW and time.monotonic() - began < patience_seconds:
            asked = time.perf_counter()
            os.pwrite(descriptor, bytes(200), 0)
            os.fdatasync(descriptor)
            smooth = smooth + 1 if time.perf_counter() - asked < SMOOTH_SECONDS else 0
            time.sleep(PAUSE_SECONDS)
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)
    return time.monotonic() - began
