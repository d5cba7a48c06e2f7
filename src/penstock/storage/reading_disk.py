"""The operating system's files, read-only: a backup that is read, a log that is
verified, a directory that belongs to a running node.

It opens nothing for writing, so a backup on a medium that cannot be written to will do, and nothing
that is looked at can be changed by looking. What is read is counted, for a progress bar. A lock is
taken where there is a file for it and is otherwise not needed: a backup has none.
"""

import fcntl
import os
from collections.abc import Callable, Sequence

from penstock.core.errors import DirectoryInUse
from penstock.storage.disk import Buffer, RealDisk, RealFile, RealLock, reported


class ReadingFile(RealFile):
    """A file that cannot be changed through this."""

    __slots__ = ("_on_read",)

    def __init__(self, path: str, descriptor: int, on_read: Callable[[int], None]) -> None:
        super().__init__(path, descriptor)
        self._on_read = on_read

    def read(self, position: int, length: int) -> bytes:
        data = super().read(position, length)
        self._on_read(len(data))
        return data

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        raise AssertionError(f"{len(buffers)} buffers at {position} of {self.path}, which is read")

    def write_through(self, position: int, buffers: Sequence[Buffer]) -> bool:
        raise AssertionError(f"{len(buffers)} buffers at {position} of {self.path}, which is read")

    def sync(self) -> None:
        raise AssertionError(f"a sync of {self.path}, which is read")

    def truncate(self, size: int) -> None:
        raise AssertionError(f"{size} bytes for {self.path}, which is read")

    def allocate(self, size: int) -> None:
        raise AssertionError(f"{size} bytes for {self.path}, which is read")


class ReadingDisk(RealDisk):
    """Files that are there; see the top of this module."""

    def __init__(self, on_read: Callable[[int], None] = lambda _count: None) -> None:
        self._on_read = on_read

    def open(
        self,
        path: str,
        *,
        create: bool = False,  # noqa: ARG002
        private: bool = False,  # noqa: ARG002
    ) -> RealFile:
        with reported("open", path):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return ReadingFile(path, descriptor, self._on_read)

    def rename(self, source: str, target: str) -> None:
        raise AssertionError(f"{source} to {target}, on a disk that is read")

    def remove(self, path: str) -> None:
        raise AssertionError(f"remove {path}, on a disk that is read")

    def make_directory(self, path: str) -> None:
        raise AssertionError(f"make_directory {path}, on a disk that is read")

    def sync_directory(self, path: str) -> None:
        raise AssertionError(f"sync_directory {path}, on a disk that is read")

    def lock(self, path: str) -> RealLock:
        if not os.path.exists(path):
            return RealLock(-1)
        with reported("lock", path):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise DirectoryInUse(
                    f"{path} is held by a running node; stop it first, or take a backup of it and"
                    " verify that"
                ) from None
        return RealLock(descriptor)
