"""Open files for reading, and pages of index files, both bounded.

`Files` keeps the most recently used segments and index files open. A file that is still being read
when it is let go, perhaps on another thread, is closed when the last holder drops it: counting
references is what the interpreter does anyway, and needs no lock.

`Pages` keeps the most recently used pages of index files in memory, each verified once when it is
read; its bound in bytes is what the indexes of all sealed segments may cost together.
"""

import os
from collections import OrderedDict

from penstock.core.checksum import crc32c
from penstock.storage.disk import Disk, File

OPEN_FILES_MAX = 64
PAGE_BYTES = 8192


class HeldFile:
    """An open file that stays open as long as this is held."""

    __slots__ = ("__weakref__", "file")

    def __init__(self, file: File) -> None:
        self.file = file

    def __del__(self) -> None:
        self.file.close()


class Files:
    """Files of one directory, opened when asked for."""

    def __init__(self, disk: Disk, directory: str, *, count_max: int = OPEN_FILES_MAX) -> None:
        self.disk = disk
        self.directory = directory
        self._count_max = count_max
        self._open: OrderedDict[str, HeldFile] = OrderedDict()

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def get(self, name: str) -> File:
        """The open file; valid until the next call for another one."""
        return self.hold(name).file

    def hold(self, name: str) -> HeldFile:
        """The open file, for as long as the caller likes."""
        held = self._open.get(name)
        if held is not None:
            self._open.move_to_end(name)
            return held
        held = self._open[name] = HeldFile(self.disk.open(self.path(name)))
        if len(self._open) > self._count_max:
            self._open.popitem(last=False)
        return held

    def forget(self, name: str) -> None:
        """The file is gone or was replaced."""
        self._open.pop(name, None)

    def close(self) -> None:
        self._open.clear()


class PageDamaged(Exception):
    """A page of an index file is not what was written; the index must be made again."""


class Pages:
    """Verified pages of index files, least recently used out first."""

    def __init__(self, files: Files, *, bytes_max: int) -> None:
        self._files = files
        self._count_max = max(4, bytes_max // PAGE_BYTES)
        self._pages: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def page(self, name: str, number: int, *, start: int, checksum: int) -> bytes:
        """Page `number` of the paged part, which begins at byte `start` of the file."""
        key = (name, number)
        page = self._pages.get(key)
        if page is not None:
            self._pages.move_to_end(key)
            return page
        page = self._files.get(name).read(start + number * PAGE_BYTES, PAGE_BYTES)
        if crc32c(page) != checksum:
            raise PageDamaged(name)
        self._pages[key] = page
        if len(self._pages) > self._count_max:
            self._pages.popitem(last=False)
        return page

    def forget(self, name: str) -> None:
        for key in [key for key in self._pages if key[0] == name]:
            del self._pages[key]

    @property
    def size_bytes(self) -> int:
        return len(self._pages) * PAGE_BYTES
