"""Ballast: space held back so that a full disk still has room for votes, acknowledgements and
deletes.

Appends are what fills a disk, and deletes are entries too: without room to write "delete", a full
disk stays full. The file is allocated when the log is made, removed when a new segment or a
snapshot finds no space, and made again when there is enough. While it is gone the log is `full` and
the engine refuses appends.
"""

from penstock.core.errors import DiskFull
from penstock.storage.disk import Disk
from penstock.storage.envelope import ASIDE

BALLAST_NAME = "ballast"


class Ballast:
    """The ballast file of one directory."""

    def __init__(self, disk: Disk, directory: str, *, size: int, margin: int) -> None:
        """`margin` must be free besides the ballast before it is made again."""
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{BALLAST_NAME}"
        self._size = size
        self._margin = margin

    def release(self) -> bool:
        """Give the space back; False if there was nothing to give."""
        if not self._disk.exists(self._path):
            return False
        self._disk.remove(self._path)
        self._disk.sync_directory(self._directory)
        return True

    def make(self) -> None:
        """Allocate it, or raise `DiskFull` and leave nothing behind."""
        if self._is_whole():
            return
        free = self._disk.free_bytes(self._directory)
        if free < self._size + self._margin:
            raise DiskFull(
                f"{self._path} needs {self._size} bytes and {self._margin} more, {free} are free;"
                " free some space"
            )
        aside = self._path + ASIDE
        file = self._disk.open(aside, create=True)
        try:
            file.allocate(self._size)
            file.sync()
        except DiskFull:
            self._disk.remove(aside)
            raise
        finally:
            file.close()
        self._disk.rename(aside, self._path)
        self._disk.sync_directory(self._directory)

    def _is_whole(self) -> bool:
        if not self._disk.exists(self._path):
            return self._size == 0
        file = self._disk.open(self._path)
        try:
            return file.size() >= self._size
        finally:
            file.close()
