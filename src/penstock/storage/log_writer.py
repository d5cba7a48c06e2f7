"""The writer of log files: every change, in the order that keeps the files recoverable.

A `LogWriter` is used only inside the steps of write and install jobs, of which one is out at a
time; the loop never touches it while one is. It holds the open file of the segment that is being
written.

Orders kept here:

- A segment is synced before the next one is made, so the existence of a later segment proves the
  earlier ones whole (created, allocated, synced, directory synced, named in the manifest, and
  only then written).
- Before a cut the marker is lowered and durable; after it the stale records are physically gone and
  that is durable; only then is anything written over them. A stale record that survived behind the
  new tail would look like damage in the middle.
"""

from collections.abc import Callable, Sequence

from penstock.core.errors import DiskFull
from penstock.core.spans import Spans
from penstock.storage.ballast import Ballast
from penstock.storage.directory import LogDirectory
from penstock.storage.disk import Buffer, File
from penstock.storage.marker import Marker, MarkerFile
from penstock.storage.segment import SegmentHeader


class LogWriter:
    """Writes segments and the marker of one log."""

    def __init__(self, home: LogDirectory, marker: MarkerFile, ballast: Ballast) -> None:
        self._home = home
        self._marker = marker
        self._ballast = ballast
        self._name = ""
        self._file: File | None = None
        self._unsynced = False
        self.released = False
        """A full disk was met and the ballast was given for it."""
        self.syncs = Spans()
        self.seconds: Callable[[], float] = lambda: 0.0
        """A clock for statistics, set by the owner; this layer has none."""

    def _open(self, name: str, *, create: bool = False) -> File:
        if self._file is None or self._name != name:
            self.close()
            self._file = self._home.disk.open(self._home.path(name), create=create)
            self._name = name
        return self._file

    def write(
        self, name: str, position: int, buffers: Sequence[Buffer], *, through: bool = False
    ) -> None:
        """`through`: a sync of this file is next, so it may as well be part of the write. To come
        back from one call and begin another costs the interpreter's lock twice, which the loop
        holds most of the time when it has much to do."""
        file = self._open(name)
        if through and not self._unsynced:
            began = self.seconds()
            if file.write_through(position, buffers):
                self.syncs.note(began, self.seconds())
                return
        else:
            file.write(position, buffers)
        self._unsynced = True

    def sync(self, name: str) -> None:
        """Make what was written durable, if it is not yet."""
        if self._unsynced:
            self._sync(self._open(name))

    def seal(self, name: str, end: int) -> None:
        """The segment is complete: cut the allocated rest off and make it durable."""
        file = self._open(name)
        file.truncate(end)
        self._sync(file)
        self.close()

    def _sync(self, file: File) -> None:
        began = self.seconds()
        file.sync()
        self._unsynced = False
        self.syncs.note(began, self.seconds())

    def create(self, header: SegmentHeader, capacity: int) -> None:
        """Make a new segment's file; no manifest names it yet."""
        file = self._open(header.name, create=True)
        self._allocate(file, capacity)
        file.write(0, [header.encode()])
        file.sync()
        self._home.disk.sync_directory(self._home.root)

    def grow(self, name: str, capacity: int) -> None:
        """Make room for an entry that is larger than a whole segment."""
        file = self._open(name)
        self._allocate(file, capacity)
        file.sync()

    def cut(self, name: str, end: int, capacity: int) -> None:
        """Destroy everything from `end` on, durably, and allocate anew."""
        file = self._open(name)
        file.truncate(end)
        file.sync()
        self._allocate(file, capacity)
        file.sync()
        self._unsynced = False

    def _allocate(self, file: File, capacity: int) -> None:
        try:
            file.allocate(capacity)
        except DiskFull:
            if not self._ballast.release():
                raise
            self.released = True
            file.allocate(capacity)

    def give_ballast(self) -> None:
        """Something else met a full disk."""
        self.released = True
        self._ballast.release()

    def note(self, marker: Marker) -> None:
        self._marker.note(marker)

    def store_marker(self, marker: Marker) -> None:
        self._marker.write(marker)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None
