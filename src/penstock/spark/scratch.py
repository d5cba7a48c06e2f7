"""The directory of Spark's temporary files on this machine, and its removal.

Spark removes them itself when it ends in good order. A driver that is killed leaves them behind,
gigabytes of them. So each process has one directory, `penstock-spark-…`, and holds a lock on a file
in it for as long as it lives. The next one removes those of this user that no process
holds a lock on: however many drivers are killed, the leftovers of the last are all there is.
"""

import atexit
import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "penstock-spark-"
LOCK = "lock"


@functools.lru_cache(maxsize=1)
def scratch_directory() -> str:
    """Create this process's directory for Spark's temporary files."""
    sweep(Path(tempfile.gettempdir()))
    directory = tempfile.mkdtemp(prefix=PREFIX)
    handle = os.open(os.path.join(directory, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def sweep(parent: Path) -> list[Path]:
    """Remove the directories of processes that are gone; returns which."""
    removed = []
    for directory in sorted(parent.glob(f"{PREFIX}*")):
        # Another user's, or one that is being removed or made at this moment: left alone.
        with contextlib.suppress(OSError):
            if directory.is_symlink() or directory.stat().st_uid != os.getuid():
                continue
            with open(directory / LOCK, "rb+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
                removed.append(directory)
    return removed
