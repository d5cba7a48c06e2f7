"""A disk in memory that loses, tears, rots, fills up and fails on demand.

`FaultyDisk` is a `storage.disk.Disk`: it passes the same tests as the real one. Each file is a
`CachedFile`: see `testing.page_cache` for what a power cut may do to its bytes and its size. This
module adds the handles and the faults.

**Names.** See `testing.names`: they survive a power cut for certain only after `sync_directory`,
which syncing a file does *not* replace. If a file is renamed before its bytes are synced, the name
may survive and the bytes may not.

**Two ways to die.** `crash(random)` is a power cut. `kill()` is the death of the process alone: the
page cache stays. After both, every handle and lock of the dead process is gone, and using such a
handle is an error of the test or simulator, hence an assertion.

**Faults.** `fail_next` arms an error for one operation. `cut_power_after` stops the disk in the
middle of the n-th changing operation from now: that one has reached the page cache (a sync has not
happened), `PowerCut` is raised, and so it is for everything else until `crash`. `capacity_bytes`
may be changed at any time. `lying` makes syncs do nothing: code that trusts this disk must be
caught by the tests. `flip_bit` and `truncate_file` damage both images unnoticed.

Rule: no hidden randomness; all of it comes with `crash`. One operation costs a microsecond or two.
"""

import builtins
import errno
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from random import Random

from penstock.core.errors import DirectoryInUse, DiskFailed, DiskFull
from penstock.testing.names import JournaledNames, normal, split
from penstock.testing.page_cache import CachedFile, CrashReport

UNLIMITED_BYTES = 1 << 50

OPERATIONS = (
    "allocate",
    "list",
    "lock",
    "make_directory",
    "open",
    "read",
    "remove",
    "rename",
    "sync",
    "sync_directory",
    "truncate",
    "write",
)
"""The operations that are counted, and that `fail_next` can make fail."""

CHANGING_OPERATIONS = frozenset(OPERATIONS) - {"list", "lock", "open", "read"}
"""The operations at which `cut_power_after` counts; an `open` that creates a file counts too."""

_CLOSED = -1


class PowerCut(BaseException):
    """The power is off. Not an `Exception`: no code under test may survive it by catching."""


@dataclass(slots=True)
class _Fault:
    operation: str
    pattern: str
    error: type[DiskFailed]
    skip: int


class FaultyFile:
    """An open file of a `FaultyDisk`."""

    __slots__ = ("_disk", "_file", "_life", "path")

    def __init__(self, disk: "FaultyDisk", file: CachedFile, path: str) -> None:
        self.path = path
        self._disk = disk
        self._file = file
        self._life = disk.life
        file.handles += 1

    def read(self, position: int, length: int) -> bytes:
        disk = self._disk
        if self._life != disk.life or disk.watching:
            self._check("read")
        disk.counts["read"] += 1
        return memoryview(self._file.cache)[position : position + length].tobytes()

    def write(self, position: int, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        disk = self._disk
        cut = (self._life != disk.life or disk.watching) and self._check("write")
        disk.counts["write"] += 1
        data = b"".join(buffers)
        if not data:
            return
        file = self._file
        end = position + len(data)
        if end <= file.reserved_bytes:
            file.write(position, data)
        else:
            reserved = disk.reserve(file, end)
            if reserved > position:
                file.write(position, data[: reserved - position])
            if reserved < end:
                raise _error("write", file.path, DiskFull)
        if cut:
            raise PowerCut

    def write_through(
        self, position: int, buffers: Sequence[bytes | bytearray | memoryview]
    ) -> bool:
        """In two steps, so that the power may be cut between them."""
        self.write(position, buffers)
        return False

    def sync(self) -> None:
        disk = self._disk
        file = self._file
        if self._life != disk.life or disk.watching:
            try:
                cut = self._check("sync")
            except DiskFailed:
                file.fail_sync()
                raise
            if cut:
                raise PowerCut
        disk.counts["sync"] += 1
        if not disk.lying:
            file.sync()

    def truncate(self, size: int) -> None:
        disk = self._disk
        file = self._file
        cut = (self._life != disk.life or disk.watching) and self._check("truncate")
        disk.counts["truncate"] += 1
        file.truncate(size)
        if size < file.reserved_bytes:
            disk.release(file, size)
        if cut:
            raise PowerCut

    def allocate(self, size: int) -> None:
        disk = self._disk
        file = self._file
        cut = (self._life != disk.life or disk.watching) and self._check("allocate")
        disk.counts["allocate"] += 1
        if size > file.reserved_bytes:
            # As on ext4, an allocation that does not fit leaves the part that did.
            reserved = disk.reserve(file, size)
            file.grow(reserved)
            if reserved < size:
                raise _error("allocate", file.path, DiskFull)
        else:
            file.grow(size)
        if cut:
            raise PowerCut

    def size(self) -> int:
        if self._life != self._disk.life or self._disk.watching:
            self._check("size")
        return len(self._file.cache)

    def written_end(self) -> int:
        """The end of the data written, to the byte: a real system knows only whole blocks."""
        if self._life != self._disk.life or self._disk.watching:
            self._check("size")
        return len(self._file.cache.rstrip(b"\0"))

    def close(self) -> None:
        """Close the file; a handle of a dead process may be closed as well."""
        if self._life == self._disk.life:
            self._file.handles -= 1
            self._disk.forget_if_unused(self._file)
        self._life = _CLOSED

    def _check(self, operation: str) -> bool:
        """The slow path: a dead handle, or a disk with faults; true if the power goes now."""
        if self._life == _CLOSED:
            raise _error(operation, self._file.path, DiskFailed, errno.EBADF)
        assert self._life == self._disk.life, (
            f"{operation} of {self.path} through a handle of a process that is dead"
        )
        return self._disk.meet_faults(operation, self._file.path)


class FaultyLock:
    """A held lock of a `FaultyDisk`."""

    __slots__ = ("_disk", "_file")

    def __init__(self, disk: "FaultyDisk", file: CachedFile) -> None:
        self._disk = disk
        self._file = file

    def release(self) -> None:
        self._disk.unlock(self._file, self)


class FaultyDisk:
    """A `Disk` in memory, with a page cache, a journal and every bad habit of a real one."""

    def __init__(self, *, capacity_bytes: int = UNLIMITED_BYTES, lying: bool = False) -> None:
        self.capacity_bytes = capacity_bytes
        self.lying = lying
        self.counts: Counter[str] = Counter()
        """The number of calls of each operation, and of `crash` and `kill`."""
        self.fired: Counter[str] = Counter()
        """The number of times that an armed fault, a full disk or a power cut occurred, by
        operation."""
        self.used_bytes = 0
        self.life = 1
        """Changes at every crash and kill; handles of an earlier life are dead."""
        self.watching = False
        """True when an operation may meet a fault; keeps the common path short."""
        self._names = JournaledNames()
        self._locks: dict[int, FaultyLock] = {}
        self._faults: list[_Fault] = []
        self._power_cut_in = 0
        self._power_off = False

    # The Disk protocol.

    def open(
        self,
        path: str,
        *,
        create: bool = False,
        private: bool = False,  # noqa: ARG002 - there is only one user.
    ) -> FaultyFile:
        path, file = self._find("open", path)
        if file is None and not create:
            raise _error("open", path, DiskFailed, errno.ENOENT)
        cut = self.watching and self.meet_faults("open", path, changing=file is None)
        self.counts["open"] += 1
        if file is None:
            file = CachedFile(path)
            self._names.make(path, file)
        if cut:
            raise PowerCut
        return FaultyFile(self, file, path)

    def list(self, directory: str) -> builtins.list[str]:
        directory = normal(directory)
        if self.watching:
            self.meet_faults("list", directory)
        self.counts["list"] += 1
        if not self._names.is_directory(directory):
            raise _error("list", directory, DiskFailed, errno.ENOENT)
        return self._names.listing(directory)

    def rename(self, source: str, target: str) -> None:
        source, file = self._find("rename", source)
        target, replaced = self._find("rename", target)
        if file is None:
            raise _error("rename", source, DiskFailed, errno.ENOENT)
        cut = self.watching and self.meet_faults("rename", source)
        self.counts["rename"] += 1
        if source != target:
            self._names.rename(source, target)
            file.path = target
            if replaced is not None:
                replaced.linked = False
                self.forget_if_unused(replaced)
        if cut:
            raise PowerCut

    def remove(self, path: str) -> None:
        path, file = self._find("remove", path)
        if file is None:
            raise _error("remove", path, DiskFailed, errno.ENOENT)
        cut = self.watching and self.meet_faults("remove", path)
        self.counts["remove"] += 1
        self._names.remove(path)
        file.linked = False
        self.forget_if_unused(file)
        if cut:
            raise PowerCut

    def make_directory(self, path: str) -> None:
        path = normal(path)
        cut = self.watching and self.meet_faults("make_directory", path)
        self.counts["make_directory"] += 1
        missing = []
        while not self._names.is_directory(path):
            if self._names.get(path) is not None:
                raise _error("make", path, DiskFailed, errno.EEXIST)
            missing.append(path)
            path = split(path)[0]
        for directory in reversed(missing):
            self._names.make(directory, None)
        if cut:
            raise PowerCut

    def sync_directory(self, path: str) -> None:
        path = normal(path)
        if self.watching and self.meet_faults("sync_directory", path):
            raise PowerCut
        self.counts["sync_directory"] += 1
        if not self._names.is_directory(path):
            raise _error("sync", path, DiskFailed, errno.ENOENT)
        if not self.lying:
            self._names.sync(path)

    def free_bytes(self, path: str) -> int:
        if self.watching:
            self.meet_faults("free_bytes", path)
        return max(0, self.capacity_bytes - self.used_bytes)

    def exists(self, path: str) -> bool:
        if self.watching:
            self.meet_faults("exists", path)
        path = normal(path)
        return self._names.is_directory(path) or self._names.get(path) is not None

    def lock(self, path: str) -> FaultyLock:
        path, file = self._find("lock", path)
        cut = self.watching and self.meet_faults("lock", path, changing=file is None)
        self.counts["lock"] += 1
        if file is None:
            file = CachedFile(path)
            self._names.make(path, file)
        if cut:
            raise PowerCut
        if id(file) in self._locks:
            raise DirectoryInUse(
                f"{path} is held by another process; stop that one, or use another directory"
            )
        lock = self._locks[id(file)] = FaultyLock(self, file)
        file.handles += 1
        return lock

    # Death.

    def crash(self, random: Random) -> CrashReport:
        """Cut the power and switch it on again: handles, locks and armed faults are gone."""
        self.counts["crash"] += 1
        self.life += 1
        report = CrashReport(names_lost=self._names.crash(random))
        self.used_bytes = 0
        for path, file in self._names.files():
            file.path = path
            file.linked = True
            file.crash(random, report)
            self.used_bytes += file.reserved_bytes
        self._locks.clear()
        self._faults.clear()
        self._power_cut_in = 0
        self._power_off = self.watching = False
        return report

    def kill(self) -> None:
        """Kill the process, not the machine: its writes stay in the page cache."""
        self.counts["kill"] += 1
        self.life += 1
        self._locks.clear()
        self.used_bytes = 0
        for _, file in self._names.files():
            file.handles = 0
            self.used_bytes += file.reserved_bytes

    # Faults.

    def fail_next(
        self,
        operation: str,
        pattern: str = "*",
        error: type[DiskFailed] = DiskFailed,
        *,
        skip: int = 0,
    ) -> None:
        """Let the next `operation` on a path that matches fail, after `skip` that go well."""
        assert operation in OPERATIONS, f"no disk operation is called {operation}"
        self._faults.append(_Fault(operation, pattern, error, skip))
        self.watching = True

    def forget_faults(self) -> None:
        """Disarm every `fail_next` that has not struck, and a `cut_power_after`."""
        self._faults.clear()
        self._power_cut_in = 0
        self.watching = self._power_off

    def cut_power_after(self, operations: int) -> None:
        """Raise `PowerCut` in the middle of the n-th changing operation from now (1: the next)."""
        assert operations >= 1, f"the power cannot go after {operations} operations"
        self._power_cut_in = operations
        self.watching = True

    @property
    def power_off(self) -> bool:
        """True from the moment a `cut_power_after` struck until `crash`."""
        return self._power_off

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Bit rot, in the page cache and on the platter."""
        file = self._existing(path)
        assert position < len(file.cache), f"{path} has no byte {position}"
        for image in (file.cache, file.durable):
            if position < len(image):
                image[position] ^= 1 << bit

    def truncate_file(self, path: str, size: int) -> None:
        """Cut a file short unnoticed, durably."""
        file = self._existing(path)
        file.sync()
        del file.cache[size:]
        del file.durable[size:]
        if size < file.reserved_bytes:
            self.release(file, size)

    # For outside observers: tests, checkers, the simulator.

    def paths(self) -> builtins.list[str]:
        """Every file there is now, sorted."""
        return [path for path, _ in self._names.files()]

    def image(self, path: str) -> bytes:
        """Return the content of the file as programs read it."""
        return bytes(self._existing(path).cache)

    def durable_image(self, path: str) -> bytes:
        """Return the part of the file that is certain to survive a power cut, if its name does."""
        return bytes(self._existing(path).durable)

    def fork(self) -> "FaultyDisk":
        """A copy in the same state, without handles, locks and faults: to crash it differently."""
        copy = FaultyDisk(capacity_bytes=self.capacity_bytes, lying=self.lying)
        copies: dict[int, CachedFile] = {}

        def twin(file: CachedFile) -> CachedFile:
            if id(file) not in copies:
                copies[id(file)] = file.fork()
            return copies[id(file)]

        copy._names = self._names.fork(twin)
        copy.used_bytes = sum(file.reserved_bytes for _, file in copy._names.files())
        return copy

    # For the handles.

    def meet_faults(self, operation: str, path: str, *, changing: bool | None = None) -> bool:
        """Raise the fault that awaits this operation, if any; true if the power goes in it."""
        if self._power_off:
            raise PowerCut
        for fault in self._faults:
            if fault.operation == operation and fnmatchcase(path, fault.pattern):
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                self._faults.remove(fault)
                self.watching = bool(self._faults) or self._power_cut_in > 0
                self.fired[operation] += 1
                raise _error(operation, path, fault.error)
        if changing is None:
            changing = operation in CHANGING_OPERATIONS
        if changing and self._power_cut_in > 0:
            self._power_cut_in -= 1
            if self._power_cut_in == 0:
                self._power_off = True
                self.fired["power_cut"] += 1
                return True
        return False

    def reserve(self, file: CachedFile, size: int) -> int:
        """Take space for the file up to `size`, or what there is; returns up to where."""
        free = max(0, self.capacity_bytes - self.used_bytes)
        reserved = min(size, file.reserved_bytes + free)
        self.used_bytes += reserved - file.reserved_bytes
        file.reserved_bytes = reserved
        if reserved < size:
            self.fired["full"] += 1
        return reserved

    def release(self, file: CachedFile, size: int) -> None:
        """Give back the space of a file beyond `size`."""
        self.used_bytes -= file.reserved_bytes - size
        file.reserved_bytes = size

    def forget_if_unused(self, file: CachedFile) -> None:
        """A removed file takes space until its last handle is closed."""
        if not file.linked and file.handles == 0:
            self.release(file, 0)

    def unlock(self, file: CachedFile, lock: FaultyLock) -> None:
        if self._locks.get(id(file)) is lock:
            del self._locks[id(file)]
            file.handles -= 1
            self.forget_if_unused(file)

    # Names.

    def _find(self, action: str, path: str) -> tuple[str, CachedFile | None]:
        """The normal form of a path, and its file; None if there is only its directory."""
        if self._power_off:
            raise PowerCut
        path = normal(path)
        if self._names.is_directory(path):
            raise _error(action, path, DiskFailed, errno.EISDIR)
        if not self._names.is_directory(split(path)[0]):
            raise _error(action, path, DiskFailed, errno.ENOENT)
        return path, self._names.get(path)

    def _existing(self, path: str) -> CachedFile:
        file = self._names.get(normal(path))
        assert file is not None, f"there is no file {path}"
        return file


def _error(action: str, path: str, kind: type[DiskFailed], number: int = errno.EIO) -> DiskFailed:
    if issubclass(kind, DiskFull):
        number = errno.ENOSPC
    return kind(f"cannot {action} {path}: {os.strerror(number)}")
