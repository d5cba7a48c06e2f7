"""The small part of a file system that storage needs, as two protocols, and the real one.

Everything under `storage` reaches files through a `Disk`, so that tests and the simulator can tear,
lose, corrupt, fill and slow it. The protocols promise what POSIX promises and no more:

- Bytes written are visible to every later `read` at once, and survive a crash only after `sync`.
  Until then any subset of the 512-byte sectors written may be what the crash leaves.
- A file's name survives a crash only after `sync_directory` of its directory. `rename` replaces its
  target in one step: after a crash there is the old file or the new one, never neither.
- An open `File` follows its file through a `rename` and stays usable after a `remove`.

Errors are typed and name the path: no space (or quota) left is `DiskFull`, everything else the
operating system may say is `DiskFailed`. A `sync` that fails is never tried again by anyone: Linux
may have dropped the pages it could not write, and the next sync would lie (Rebello et al., "Can
Applications Recover from fsync Failures?", ATC '20).
"""

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from penstock.core.errors import DirectoryInUse, DiskFailed, DiskFull

Buffer = bytes | bytearray | memoryview

_BUFFERS_PER_CALL_MAX = 1024  # IOV_MAX on Linux
_DSYNC: int = getattr(os, "RWF_DSYNC", 0)  # Linux has it, on most file systems.
_NO_DSYNC = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class File(Protocol):
    """An open file, addressed by byte position; there is no cursor."""

    def read(self, position: int, length: int) -> bytes:
        """`length` bytes from `position`; fewer only where the file ends."""
        ...

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write the buffers one after the other from `position`: all of them, or an error."""
        ...

    def write_through(self, position: int, buffers: Sequence[Buffer]) -> bool:
        """Write as `write` does, and make these bytes durable with the same call if the system
        can: True. False: they are written, and it takes a `sync`."""
        ...

    def sync(self) -> None:
        """Make the file's bytes and size durable (fdatasync)."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or lengthen it with zeros that reserve no space."""
        ...

    def allocate(self, size: int) -> None:
        """Make the file at least `size` bytes long, with the space reserved; new bytes are zero."""
        ...

    def size(self) -> int: ...

    def written_end(self) -> int:
        """From here to the end of the file there are zeros only: it was reserved and not written.
        The size of the file, if unknown."""
        ...

    def close(self) -> None:
        """Close the file; calling it again does nothing."""
        ...


class Lock(Protocol):
    """A directory held against other processes."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A tree of directories and files. Paths are absolute or relative strings."""

    def open(self, path: str, *, create: bool = False, private: bool = False) -> File:
        """Open for reading and writing; a missing file is made if `create`, else `DiskFailed`. A
        `private` file that is made can be read by its owner only."""
        ...

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file; a missing one is `DiskFailed`."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents; one that is there is fine."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable: creations, renames and removals."""
        ...

    def free_bytes(self, path: str) -> int:
        """Return the free space of the file system of `path`, as an unprivileged process may use
        it."""
        ...

    def exists(self, path: str) -> bool: ...

    def lock(self, path: str) -> Lock:
        """Hold the lock file at `path`, made if missing; `DirectoryInUse` if another holds it."""
        ...


@contextmanager
def reported(action: str, path: str) -> Iterator[None]:
    """Turn the operating system's errors into ours."""
    try:
        yield
    except OSError as error:
        raise _translate(error, action, path) from error


def _translate(error: OSError, action: str, path: str) -> DiskFailed:
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"cannot {action} {path}: {reason}; free some space")
    return DiskFailed(f"cannot {action} {path}: {reason}")


class RealFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def read(self, position: int, length: int) -> bytes:
        try:
            data = os.pread(self._descriptor, length, position)
            if len(data) == length or not data:
                return data
            return self._read_rest(data, position, length)
        except OSError as error:
            raise _translate(error, "read", self.path) from error

    def _read_rest(self, data: bytes, position: int, length: int) -> bytes:
        # A short read is usually the file's end, but a call may also return less than was asked.
        parts = [data]
        have = len(data)
        while have < length:
            data = os.pread(self._descriptor, length - have, position + have)
            if not data:
                break
            parts.append(data)
            have += len(data)
        return b"".join(parts)

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        with reported("write", self.path):
            for start in range(0, len(buffers), _BUFFERS_PER_CALL_MAX):
                group = buffers[start : start + _BUFFERS_PER_CALL_MAX]
                wanted = sum(map(len, group))
                written = os.pwritev(self._descriptor, group, position)
                if written != wanted:
                    self._write_rest(position, group, written)
                position += wanted

    def write_through(self, position: int, buffers: Sequence[Buffer]) -> bool:
        if not _DSYNC or len(buffers) > _BUFFERS_PER_CALL_MAX:
            self.write(position, buffers)
            return False
        try:
            written = os.pwritev(self._descriptor, buffers, position, _DSYNC)
            if written == sum(map(len, buffers)):
                return True
            self._write_rest(position, buffers, written)
        except OSError as error:
            if error.errno not in _NO_DSYNC:
                raise _translate(error, "write", self.path) from error
            self.write(position, buffers)
        return False

    def _write_rest(self, position: int, buffers: Sequence[Buffer], written: int) -> None:
        # The rest of a short write is tried again: either it goes, or the error that cut it short
        # (no space, file size limit) shows itself.
        rest = memoryview(b"".join(buffers))
        while written < len(rest):
            count = os.pwrite(self._descriptor, rest[written:], position + written)
            if count == 0:
                raise OSError(errno.EIO, "the system wrote nothing and gave no reason")
            written += count

    def sync(self) -> None:
        with reported("sync", self.path):
            os.fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        with reported("truncate", self.path):
            os.ftruncate(self._descriptor, size)

    def allocate(self, size: int) -> None:
        if size <= 0:
            return
        with reported("allocate", self.path):
            os.posix_fallocate(self._descriptor, 0, size)

    def size(self) -> int:
        with reported("measure", self.path):
            return os.fstat(self._descriptor).st_size

    def written_end(self) -> int:
        # What was reserved and never written is a hole to the system, which reads as zeros. One
        # that knows no holes calls all of a file data, or the question invalid.
        end = 0
        try:
            while True:
                start = os.lseek(self._descriptor, end, os.SEEK_DATA)
                end = os.lseek(self._descriptor, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return end  # There is no data from there on.
            if error.errno == errno.EINVAL:
                return self.size()
            raise _translate(error, "measure", self.path) from error

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class RealLock:
    """An advisory lock (flock) that ends with the process at the latest."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class RealDisk:
    """The operating system's file system."""

    def open(self, path: str, *, create: bool = False, private: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        with reported("open", path):
            return RealFile(path, os.open(path, flags, 0o600 if private else 0o640))

    def list(self, directory: str) -> list[str]:
        with reported("list", directory):
            return sorted(os.listdir(directory))

    def rename(self, source: str, target: str) -> None:
        with reported("rename", source):
            os.replace(source, target)

    def remove(self, path: str) -> None:
        with reported("remove", path):
            os.unlink(path)

    def make_directory(self, path: str) -> None:
        with reported("make", path):
            os.makedirs(path, mode=0o750, exist_ok=True)

    def sync_directory(self, path: str) -> None:
        with reported("sync", path):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def free_bytes(self, path: str) -> int:
        with reported("measure", path):
            status = os.statvfs(path)
            return status.f_bavail * status.f_frsize

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def lock(self, path: str) -> RealLock:
        with reported("lock", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise DirectoryInUse(
                    f"{path} is held by another process; stop that one, or use another directory"
                ) from None
            except BaseException:
                os.close(descriptor)
                raise
            return RealLock(descriptor)
