"""A lake: Parquet files of topics, and a manifest that alone says what belongs to it.

    lake = Lake.open("lake")
    lake.catalog.ends("orders")          the offset that each partition goes on with
    lake.commit(Change(…))               all of it, once, or not at all

A reader of the manifest sees each offset exactly once, at every moment, whatever else lies in
the directories. How it is written is in `entries`; this is the reading and the changing.

Two writers may be at work, say one that archives and one that compacts: entries are numbered, and a
number can be taken once. The loser of a race reads what the other has done, and tries the next
number, if its own change still makes sense; otherwise it is refused.
"""

import time
from typing import TypeVar

import msgspec

from penstock.core.decoders import decode_json
from penstock.core.errors import (
    DamagedFile,
    DirectoryRefused,
    LocalError,
    NewerFormat,
    Unavailable,
)
from penstock.spark.lake.catalog import Catalog
from penstock.spark.lake.entries import (
    FORMAT,
    MANIFEST,
    SNAPSHOT_EVERY,
    SNAPSHOTS,
    Change,
    Entry,
    Snapshot,
    entry_path,
    number_of,
    snapshot_path,
)
from penstock.spark.lake.storage import LocalStorage, Storage, is_local, local_path

T = TypeVar("T")

COMMIT_ATTEMPTS_MAX = 100
LOAD_ATTEMPTS_MAX = 5
WAY_OUT = "restore it from a copy of the lake, or archive the topics anew under another root"


class _Head(msgspec.Struct, frozen=True):
    """The part of the head that every version has."""

    format: int


class Lake:
    """A lake that is open: its catalog, its files and their readers."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.root = storage.root
        self.catalog = Catalog(self.root)
        self.reload()

    @classmethod
    def open(cls, root: str) -> "Lake":
        """The lake in a directory; one that is not there yet is empty."""
        if not root:
            raise LocalError("a lake needs a root: the directory that it is in")
        root = local_path(root) if root.startswith("file:") else root
        if is_local(root):
            return cls(LocalStorage(root))
        # Not every lake needs a JVM, and this is the one place that knows.
        from penstock.spark.lake.hadoop_storage import HadoopStorage  # noqa: PLC0415

        return cls(HadoopStorage(root))

    def require(self, topic: str) -> None:
        """Refuse to go on if the lake has nothing of a topic."""
        if topic not in self.catalog.topics:
            there = ", ".join(self.catalog.topics) or "nothing at all"
            raise LocalError(
                f"the lake at {self.root} has nothing of topic {topic}; it has: {there}"
            )

    def reload(self) -> Catalog:
        """Read the whole manifest again."""
        for _ in range(LOAD_ATTEMPTS_MAX):
            base = max(self._numbers(SNAPSHOTS), default=0)
            found = Catalog(self.root)
            if base:
                data = self.storage.read(snapshot_path(base))
                if data is None:
                    continue  # A later one has come, and this one was swept away.
                found = Catalog.of(self.root, self._decode(snapshot_path(base), data, Snapshot))
            self.catalog = found
            if self._catch_up():
                return self.catalog
        raise self._damaged(entry_path(self.catalog.number + 1), "it is missing")

    def refresh(self) -> Catalog:
        """Read the entries added since."""
        return self.catalog if self._catch_up() else self.reload()

    def commit(self, change: Change) -> Entry:
        """Make a change, once; raises what stands against it."""
        for _ in range(COMMIT_ATTEMPTS_MAX):
            self.catalog.check(change)
            entry = Entry(
                format=FORMAT,
                number=self.catalog.number + 1,
                written_ms=time.time_ns() // 1_000_000,
                change=change,
            )
            if self.storage.create(entry_path(entry.number), msgspec.json.encode(entry)):
                if entry.number <= max(self._numbers(SNAPSHOTS), default=0):
                    # The number was free because its entry had been pruned: we slept for long, and
                    # what this run wrote is never read. Or another run has just summed it up.
                    if self.reload().has(change):
                        return entry
                    continue
                self.catalog.apply(entry)
                if entry.number % SNAPSHOT_EVERY == 0:
                    self.write_snapshot()
                return entry
            self.refresh()
        raise Unavailable(f"the lake at {self.root} is changed by others all the time; try again")

    def write_snapshot(self) -> None:
        """Sum up what has been done so far, so that opening stays quick."""
        path = snapshot_path(self.catalog.number)
        self.storage.create(path, msgspec.json.encode(self.catalog.snapshot()))

    def prune(self) -> int:
        """Remove the entries and snapshots that the last but one snapshot has made needless."""
        numbers = sorted(self._numbers(SNAPSHOTS))
        if len(numbers) < 2:
            return 0
        last_kept = numbers[-2]
        paths = [snapshot_path(one) for one in numbers if one < last_kept]
        paths += [entry_path(one) for one in self._numbers(MANIFEST) if one <= last_kept]
        for path in paths:
            self.storage.remove(path)
        return len(paths)

    def _catch_up(self) -> bool:
        """Apply the entries that follow; False if one is missing among them."""
        numbers = sorted(one for one in self._numbers(MANIFEST) if one > self.catalog.number)
        for number in numbers:
            data = self.storage.read(entry_path(number))
            if number != self.catalog.number + 1 or data is None:
                return False
            entry = self._decode(entry_path(number), data, Entry)
            if entry.number != number:
                raise self._damaged(entry_path(number), f"it says that it is {entry.number}")
            try:
                self.catalog.apply(entry)
            except DirectoryRefused as error:
                raise self._damaged(entry_path(number), str(error)) from error
        return True

    def _numbers(self, folder: str) -> list[int]:
        found = (number_of(name) for name in self.storage.names(folder))
        return [number for number in found if number is not None]

    def _decode(self, path: str, data: bytes, kind: type[T]) -> T:
        try:
            head = decode_json(data, _Head)
            if head.format > FORMAT:
                raise NewerFormat(
                    f"{self.root}/{path} has format {head.format}, and this version of Penstock"
                    f" knows {FORMAT}; use a later one"
                )
            return decode_json(data, kind)
        except msgspec.MsgspecError as error:
            raise self._damaged(path, str(error)) from error

    def _damaged(self, path: str, problem: str) -> DamagedFile:
        return DamagedFile(
            path=f"{self.root}/{path}", position=0, problem=problem, way_out=f"{WAY_OUT}."
        )
