"""The format of a lake's manifest.

    ROOT/
      topic=orders/date=2026-01-31/0a1b….parquet    data; it counts only if the manifest names it
      _penstock/manifest/00000000000000000007.json  entry 7: one change of the lake, never rewritten
      _penstock/snapshots/00000000000000000064.json all that entries 1 to 64 came to

An entry is complete when it can be seen, and each number is given once: the writer that makes the
file of that number has changed the lake, a second one has not. Data files have names that are never
used twice, and are written before the entry that names them. So what a killed writer leaves behind
is files that are never read.

An entry says which offsets are now in the lake (`covered`), which files hold them (`added`), and
which files are no longer read (`removed`). Offsets and files are kept apart because a log may have
holes, by compaction, and because one stretch of offsets may fall into several days: the files' own
spans only help to find a message, the covered ones say what the lake has.
"""

from collections.abc import Mapping

import msgspec

FORMAT = 1
FOLDER = "_penstock"
MANIFEST = f"{FOLDER}/manifest"
SNAPSHOTS = f"{FOLDER}/snapshots"
SNAPSHOT_EVERY = 64
"""The number of entries between snapshots, which bounds what opening a lake reads."""


class FileSpan(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of one partition in a file: within [first, end), `rows` of them."""

    partition: int
    first: int
    end: int
    rows: int


class LakeFile(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet file, by its path below the root."""

    path: str
    topic: str
    date: str
    rows: int
    bytes: int
    timestamp_min_ms: int
    timestamp_max_ms: int
    spans: tuple[FileSpan, ...]

    @property
    def first_place(self) -> tuple[int, int]:
        """The partition and offset that it begins with."""
        return self.spans[0].partition, self.spans[0].first


class Covered(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of one partition that a change adds to the lake, and their number of messages."""

    topic: str
    topic_id: str
    """A topic that is deleted and made anew begins at offset 0 again, and is another one."""
    partition: int
    first: int
    end: int
    rows: int


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the lake."""

    writer: str
    """The job that made it: archive, compact."""
    query: str
    """The id of the run."""
    batch: int
    """The number of the step within that run, from 0."""
    covered: tuple[Covered, ...] = ()
    added: tuple[LakeFile, ...] = ()
    removed: tuple[str, ...] = ()


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was made, with its number."""

    format: int
    number: int
    written_ms: int
    change: Change


class CoveredTopic(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of a topic in the lake: spans by partition."""

    topic_id: str
    rows: int
    partitions: Mapping[int, tuple[tuple[int, int], ...]]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state after all entries up to a number."""

    format: int
    number: int
    topics: Mapping[str, CoveredTopic]
    files: tuple[LakeFile, ...]
    dropped: Mapping[str, int]
    """Files that are no longer read, and since when (milliseconds since 1970)."""


def entry_path(number: int) -> str:
    """The path of an entry, below the root."""
    return f"{MANIFEST}/{number:020}.json"


def snapshot_path(number: int) -> str:
    """The path of a snapshot, below the root."""
    return f"{SNAPSHOTS}/{number:020}.json"


def number_of(name: str) -> int | None:
    """The number that a file's name stands for; none if it is something else."""
    stem, dot, suffix = name.partition(".")
    return int(stem) if dot and suffix == "json" and stem.isdecimal() else None
