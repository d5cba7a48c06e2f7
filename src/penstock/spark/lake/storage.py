"""The storage of a lake: the few operations of a file system that its manifest needs.

One of them is hard: to make a file that is complete when it appears, and only if there is none of
that name. On a local disk, or one that is mounted, that is a hard link (`LocalStorage`). Elsewhere
Hadoop's file systems are asked, in Spark's own process, with Spark's own credentials
(`penstock.spark.lake.hadoop_storage`).

Parquet files are not written through this, but by the tasks, each under a name of its own.
"""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from penstock.core.errors import DiskFailed, LocalError


class StoredFile(NamedTuple):
    """A file that is there, whether or not it is in the catalog."""

    path: str
    bytes: int
    modified_ms: int


class Storage(Protocol):
    """The file operations of the manifest. Paths are below the root, with slashes."""

    root: str

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder; none if there is no such folder."""

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""

    def create(self, path: str, data: bytes) -> bool:
        """Make a file, whole or not at all. False, and nothing done, if there is one."""

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""

    def data_files(self) -> Iterator[StoredFile]:
        """All Parquet files of all topics."""

    def locate(self, path: str) -> str:
        """The address by which Spark reads a file."""


class LocalStorage:
    """A directory on this machine, or one that all machines have mounted."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)

    def names(self, folder: str) -> list[str]:
        try:
            return [one for one in os.listdir(self._full(folder)) if not one.startswith(".")]
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            raise LocalError(f"{self.root} is no directory that a lake could be in") from error

    def read(self, path: str) -> bytes | None:
        try:
            return Path(self._full(path)).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, path: str, data: bytes) -> bool:
        final = self._full(path)
        folder, name = os.path.split(final)
        draft = os.path.join(folder, f".{name}.{uuid.uuid4().hex}")
        try:
            os.makedirs(folder, exist_ok=True)
            with open(draft, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                # A rename would replace what is there; a link does not.
                os.link(draft, final)
            except FileExistsError:
                return False
            finally:
                os.unlink(draft)
            sync_folder(folder)
        except OSError as error:
            raise DiskFailed(f"{final} cannot be written: {error.strerror or error}") from error
        return True

    def remove(self, path: str) -> None:
        Path(self._full(path)).unlink(missing_ok=True)

    def data_files(self) -> Iterator[StoredFile]:
        root = Path(self.root)
        for found in sorted(root.glob("topic=*/date=*/*.parquet")):
            try:
                status = found.stat()
            except FileNotFoundError:
                continue  # Another run sweeps, too.
            path = found.relative_to(root).as_posix()
            yield StoredFile(path, status.st_size, status.st_mtime_ns // 1_000_000)

    def locate(self, path: str) -> str:
        return f"file://{self._full(path)}"  # As Hadoop has it: nothing is escaped.

    def _full(self, path: str) -> str:
        return os.path.join(self.root, path)


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_local(root: str) -> bool:
    """True if a root is a path or a file: URL."""
    return "://" not in root


def local_path(root: str) -> str:
    """The path of a root on this machine."""
    return root.removeprefix("file://").removeprefix("file:") or "."
