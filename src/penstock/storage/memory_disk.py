"""A disk in memory, for engines that shall leave nothing behind.

`MemoryDisk` is a `Disk` like the real one and passes the same tests: an engine on it writes the
same segments, indexes and snapshots, and refuses, compacts and recovers as it does on a real disk.
What it lacks is durability: everything ends with the object. A `sync` has nothing to do, because
there is no power that could be cut; for that see `testing.disk.FaultyDisk`.

**Space.** Only bytes that were written take memory. A file that was allocated or lengthened beyond
them reads as zeros there and costs nothing, so a segment that is reserved whole costs as much as is
in it. Towards `capacity_bytes` counts what is *reserved*, as on a real disk: a file that allocated
a file can fill it. A write or an allocation that does not fit changes nothing and raises
`DiskFull`, and so does one for which the process gets no memory; from there on the engine does what
it does on a full disk.

**Threads.** Writer threads and the loop use one disk together. Each file has a lock of its own, so
that a long copy in one does not delay another; names and the count of space share one more.
A file may be closed by the collector of garbage, in the middle of anything, so closing never waits
for that lock: what was let go is written down, and counted by the next holder of the lock.
"""

import builtins
import errno
import os
import posixpath
import threading
from collections import deque
from collections.abc import Sequence

from penstock.core.errors import DirectoryInUse, DiskFailed, DiskFull
from penstock.storage.disk import Buffer

UNLIMITED_BYTES = 1 << 50

_ROOTS = ("/", ".")


class _Content:
    """The content of a file, independent of its names and handles."""

    __slots__ = ("bytes", "handles", "linked", "lock", "locked_by", "reserved_bytes", "size")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.bytes = bytearray()
        """The part up to the last byte that was written; from there to `size` it is zeros."""
        self.size = 0
        self.reserved_bytes = 0
        self.handles = 0
        self.linked = True
        self.locked_by: MemoryLock | None = None


class MemoryFile:
    """An open file of a `MemoryDisk`."""

    __slots__ = ("_content", "_disk", "_open", "path")

    def __init__(self, disk: "MemoryDisk", content: _Content, path: str) -> None:
        self.path = path
        self._disk = disk
        self._content = content
        self._open = True

    def read(self, position: int, length: int) -> bytes:
        content = self._opened("read")
        with content.lock:
            end = min(position + length, content.size)
            if position >= end:
                return b""
            # The copy is made while the lock is held: a view would forbid the file to grow.
            data = memoryview(content.bytes)[position:end].tobytes()
        return data.ljust(end - position, b"\0")

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        content = self._opened("write")
        data = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        if not data:
            return
        end = position + len(data)
        with content.lock:
            if end > content.reserved_bytes:
                self._disk.reserve(content, end, "write", self.path)
            try:
                self._put(content, position, data)
            except MemoryError:
                raise _full("write", self.path, errno.ENOMEM) from None
            content.size = max(content.size, end)

    def write_through(self, position: int, buffers: Sequence[Buffer]) -> bool:
        self.write(position, buffers)
        return False

    def _put(self, content: _Content, position: int, data: Buffer) -> None:
        written = content.bytes
        gap = position - len(written)
        if gap > 0:
            written.extend(bytes(gap))
        written[position : position + len(data)] = data

    def sync(self) -> None:
        """Do nothing: nothing can be lost as long as the disk exists."""
        self._opened("sync")

    def truncate(self, size: int) -> None:
        content = self._opened("truncate")
        with content.lock:
            del content.bytes[size:]
            content.size = size
            if size < content.reserved_bytes:
                self._disk.release(content, size)

    def allocate(self, size: int) -> None:
        content = self._opened("allocate")
        with content.lock:
            if size > content.reserved_bytes:
                self._disk.reserve(content, size, "allocate", self.path)
            content.size = max(content.size, size)

    def size(self) -> int:
        return self._opened("measure").size

    def written_end(self) -> int:
        return len(self._opened("measure").bytes)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._disk.let_go(self._content)

    def _opened(self, action: str) -> _Content:
        if not self._open:
            raise _failed(action, self.path, errno.EBADF)
        return self._content


class MemoryLock:
    """A lock file of a `MemoryDisk` that is held."""

    __slots__ = ("_content", "_disk")

    def __init__(self, disk: "MemoryDisk", content: _Content) -> None:
        self._disk = disk
        self._content = content

    def release(self) -> None:
        self._disk.unlock(self._content, self)


class MemoryDisk:
    """A tree of directories and files that ends with this object."""

    def __init__(self, *, capacity_bytes: int = UNLIMITED_BYTES) -> None:
        self.capacity_bytes = capacity_bytes
        """The largest total size of all files; may be changed at any time."""
        self._used_bytes = 0
        self._lock = threading.Lock()
        self._tree: dict[str, dict[str, _Content | None]] = {root: {} for root in _ROOTS}
        """Directory -> name -> file, or None for a directory."""
        self._let_go: deque[_Content] = deque()
        """Of each handle that was closed and is not counted yet, the file."""

    @property
    def used_bytes(self) -> int:
        """The space that files reserve now, including removed files that are still open."""
        with self._lock:
            self._count_closed()
            return self._used_bytes

    def open(
        self,
        path: str,
        *,
        create: bool = False,
        private: bool = False,  # noqa: ARG002 - there is only one user.
    ) -> MemoryFile:
        path = posixpath.normpath(path)
        with self._lock:
            content = self._find("open", path)
            if content is None:
                if not create:
                    raise _failed("open", path, errno.ENOENT)
                content = self._make(path)
            content.handles += 1
        return MemoryFile(self, content, path)

    def list(self, directory: str) -> builtins.list[str]:
        directory = posixpath.normpath(directory)
        with self._lock:
            return sorted(self._names("list", directory))

    def rename(self, source: str, target: str) -> None:
        source, target = posixpath.normpath(source), posixpath.normpath(target)
        with self._lock:
            content = self._find("rename", source)
            if content is None:
                raise _failed("rename", source, errno.ENOENT)
            replaced = self._find("rename", target)
            if replaced is content:
                return
            parent, name = _split(source)
            del self._tree[parent][name]
            parent, name = _split(target)
            self._tree[parent][name] = content
            if replaced is not None:
                self._unlink(replaced)

    def remove(self, path: str) -> None:
        path = posixpath.normpath(path)
        with self._lock:
            content = self._find("remove", path)
            if content is None:
                raise _failed("remove", path, errno.ENOENT)
            parent, name = _split(path)
            del self._tree[parent][name]
            self._unlink(content)

    def make_directory(self, path: str) -> None:
        path = posixpath.normpath(path)
        missing = []
        with self._lock:
            while path not in self._tree:
                parent, name = _split(path)
                if name in self._tree.get(parent, {}):
                    raise _failed("make", path, errno.EEXIST)
                missing.append(path)
                path = parent
            for directory in reversed(missing):
                parent, name = _split(directory)
                self._tree[parent][name] = None
                self._tree[directory] = {}

    def sync_directory(self, path: str) -> None:
        with self._lock:
            self._names("sync", posixpath.normpath(path))

    def free_bytes(self, path: str) -> int:  # noqa: ARG002 - there is one file system
        return max(0, self.capacity_bytes - self.used_bytes)

    def exists(self, path: str) -> bool:
        path = posixpath.normpath(path)
        parent, name = _split(path)
        with self._lock:
            return path in self._tree or name in self._tree.get(parent, {})

    def lock(self, path: str) -> MemoryLock:
        path = posixpath.normpath(path)
        with self._lock:
            content = self._find("lock", path) or self._make(path)
            if content.locked_by is not None:
                raise DirectoryInUse(
                    f"{path} is held by another process; stop that one, or use another directory"
                )
            content.locked_by = lock = MemoryLock(self, content)
            return lock

    # For the files and locks of this disk.

    def reserve(self, content: _Content, size: int, action: str, path: str) -> None:
        """Set space aside for a file that is to have this size, or raise `DiskFull`."""
        with self._lock:
            self._count_closed()
            wanted = size - content.reserved_bytes
            if self._used_bytes + wanted > self.capacity_bytes:
                raise _full(action, path, errno.ENOSPC)
            self._used_bytes += wanted
            content.reserved_bytes = size

    def release(self, content: _Content, size: int) -> None:
        """Return the space of a file that was cut to `size`."""
        with self._lock:
            self._used_bytes -= content.reserved_bytes - size
            content.reserved_bytes = size

    def let_go(self, content: _Content) -> None:
        """Release the content of a handle that was closed."""
        self._let_go.append(content)
        if self._lock.acquire(blocking=False):
            try:
                self._count_closed()
            finally:
                self._lock.release()

    def unlock(self, content: _Content, lock: MemoryLock) -> None:
        """The lock is given up, unless it was before and another process has it now."""
        with self._lock:
            if content.locked_by is lock:
                content.locked_by = None

    # Called with the lock held.

    def _count_closed(self) -> None:
        while self._let_go:
            content = self._let_go.popleft()
            content.handles -= 1
            self._forget_if_unused(content)

    def _names(self, action: str, directory: str) -> dict[str, _Content | None]:
        found = self._tree.get(directory)
        if found is None:
            raise _failed(action, directory, errno.ENOENT)
        return found

    def _find(self, action: str, path: str) -> _Content | None:
        """Return the file, or None if its parent exists and the file does not. Raise an error if
        the path is a directory or the parent does not exist."""
        if path in self._tree:
            raise _failed(action, path, errno.EISDIR)
        parent, name = _split(path)
        names = self._tree.get(parent)
        if names is None:
            raise _failed(action, path, errno.ENOENT)
        return names.get(name)

    def _make(self, path: str) -> _Content:
        parent, name = _split(path)
        content = self._tree[parent][name] = _Content()
        return content

    def _unlink(self, content: _Content) -> None:
        content.linked = False
        self._forget_if_unused(content)

    def _forget_if_unused(self, content: _Content) -> None:
        if not content.linked and content.handles == 0:
            self._used_bytes -= content.reserved_bytes
            content.reserved_bytes = 0
            content.bytes = bytearray()


def _split(path: str) -> tuple[str, str]:
    """The directory and the name of a path in normal form."""
    directory, name = posixpath.split(path)
    return directory or ".", name


def _failed(action: str, path: str, code: int) -> DiskFailed:
    return DiskFailed(f"cannot {action} {path}: {os.strerror(code)}")


def _full(action: str, path: str, code: int) -> DiskFull:
    return DiskFull(f"cannot {action} {path}: {os.strerror(code)}; free some space")
