"""Many small files of a day become few large ones, sorted by partition and offset.

    files of a day that are small ──▶ bins of about one large file ──▶ one task each ──▶ one entry

The entry of the manifest takes the old files out and puts the new ones in, at once; the offsets
that the lake covers stay the same. A reader that began before that still reads the old files, so
they are removed only after a while (`grace`). The same sweep takes away what killed writers left
behind, after a day: by then no writer is still about to name it.

Files are merged a few MiB at a time: within one day and partition, files hardly ever overlap, and
are put one behind the other. Those that do are sorted in memory.
"""

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from penstock.core.decoders import decode_json
from penstock.core.errors import InvalidRequest, LocalError
from penstock.core.limits import MIB
from penstock.spark.lake.day_files import DayFiles, filesystem_of
from penstock.spark.lake.entries import Change, FileSpan, LakeFile
from penstock.spark.lake.lake import Lake
from penstock.spark.lake.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET_BYTES: Final = 128 * MIB
GRACE_SECONDS: Final = 3_600.0
ORPHAN_SECONDS: Final = 86_400.0
"""The age at which a file that no entry names is removed. Writers finish long before."""
GRACE_SECONDS_MAX: Final = 6 * 86_400.0
ROWS_AT_ONCE: Final = 20_000
BINS_AT_ONCE: Final = 64
"""The number of bins that are rewritten for one entry: what a killed compaction has to repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The result of `compact`."""

    root: str
    files_before: int
    """Of the topics that were looked at."""
    files_after: int
    rewritten: int
    """Small files that were replaced."""
    rewritten_bytes: int
    swept: int
    """Files that were removed because they are no longer read."""
    swept_bytes: int


class Bin(msgspec.Struct, frozen=True, kw_only=True):
    """Files of one topic and day that become one."""

    root: str
    topic: str
    files: tuple[LakeFile, ...]


def compact(
    spark: "SparkSession",
    root: str,
    *,
    topics: Sequence[str] = (),
    target_bytes: int = TARGET_BYTES,
    grace_seconds: float = GRACE_SECONDS,
    orphan_seconds: float = ORPHAN_SECONDS,
) -> Compacted:
    """Rewrite the small files of each day into large ones, and sweep away what is not read.

    Files below half of `target_bytes` count as small. It may run while an archive job does, and
    while others read. Killed at any point, it has replaced files or left them, never half.
    """
    if target_bytes < 1:
        raise InvalidRequest(f"target_bytes = {target_bytes}: a file has at least one byte")
    if not 0 <= grace_seconds <= GRACE_SECONDS_MAX:
        raise InvalidRequest(
            f"grace_seconds = {grace_seconds:g} must be between 0 and {GRACE_SECONDS_MAX:g}"
        )
    lake = Lake.open(root)
    if not lake.catalog.number:
        raise LocalError(f"there is no lake at {lake.root}; `penstock job archive` makes one")
    for topic in topics:
        lake.require(topic)
    chosen = list(topics) or lake.catalog.topics
    before = sum(len(lake.catalog.files_of(topic)) for topic in chosen)
    bins = [
        one
        for topic in chosen
        for one in plan_bins(lake.root, lake.catalog.files_of(topic), target_bytes)
    ]
    query = uuid.uuid4().hex
    added, removed = 0, []
    for batch, first in enumerate(range(0, len(bins), BINS_AT_ONCE)):
        some = bins[first : first + BINS_AT_ONCE]
        change = rewrite(spark, some, query=query, batch=batch)
        lake.commit(change)
        added += len(change.added)
        removed += [old for one in some for old in one.files]
    swept, swept_bytes = sweep(lake, grace_seconds=grace_seconds, orphan_seconds=orphan_seconds)
    return Compacted(
        root=lake.root,
        files_before=before,
        files_after=before - len(removed) + added,
        rewritten=len(removed),
        rewritten_bytes=sum(one.bytes for one in removed),
        swept=swept,
        swept_bytes=swept_bytes,
    )


def rewrite(spark: "SparkSession", bins: Sequence[Bin], *, query: str, batch: int) -> Change:
    """Write the large files of some bins; the change that puts them in place of the small ones."""
    added: list[LakeFile] = []
    for outcome in run_tasks(spark, bins, merge_files):
        added += decode_json(outcome, list[LakeFile])
    return Change(
        writer="compact",
        query=query,
        batch=batch,
        added=tuple(added),
        removed=tuple(old.path for one in bins for old in one.files),
    )


def plan_bins(root: str, files: Iterable[LakeFile], target_bytes: int) -> list[Bin]:
    """Small files of each day, put together to about the size of a large one."""
    days: dict[tuple[str, str], list[LakeFile]] = {}
    for one in files:
        if one.bytes < target_bytes // 2:
            days.setdefault((one.topic, one.date), []).append(one)
    bins = []
    for (topic, _), small in sorted(days.items()):
        group: list[LakeFile] = []
        for one in sorted(small, key=lambda one: one.first_place):
            if group and sum(other.bytes for other in group) + one.bytes > target_bytes:
                bins.append(Bin(root=root, topic=topic, files=tuple(group)))
                group = []
            group.append(one)
        bins.append(Bin(root=root, topic=topic, files=tuple(group)))
    return [one for one in bins if len(one.files) > 1]


def merge_files(one: Bin) -> bytes:
    """In a task: write the rows of a bin, in order, and describe the new files."""
    writer = DayFiles(one.root, one.topic)
    for batch in sorted_rows(one):
        writer.write(batch)
    return msgspec.json.encode(writer.close())


def sorted_rows(one: Bin) -> Iterator[pa.RecordBatch]:
    """All rows of some files by partition and offset."""
    files, base = filesystem_of(one.root)
    pieces = sorted(
        ((span, file.path) for file in one.files for span in file.spans),
        key=lambda piece: (piece[0].partition, piece[0].first),
    )
    for cluster in _clusters(pieces):
        batches = (
            batch for span, path in cluster for batch in _rows(files, f"{base}/{path}", span)
        )
        if len(cluster) == 1:
            yield from batches
        else:
            yield from pa.Table.from_batches(batches).sort_by("offset").to_batches(ROWS_AT_ONCE)


def _clusters(pieces: list[tuple[FileSpan, str]]) -> Iterator[list[tuple[FileSpan, str]]]:
    """Group pieces whose offsets overlap."""
    cluster: list[tuple[FileSpan, str]] = []
    end = -1
    for span, path in pieces:
        if cluster and (span.partition != cluster[0][0].partition or span.first >= end):
            yield cluster
            cluster, end = [], -1
        cluster.append((span, path))
        end = max(end, span.end)
    if cluster:
        yield cluster


def _rows(files: fs.FileSystem, path: str, span: FileSpan) -> Iterator[pa.RecordBatch]:
    """The rows of one partition in a file, a few at a time."""
    with files.open_input_file(path) as stream:
        parquet = pq.ParquetFile(stream)
        column = parquet.schema_arrow.get_field_index("partition")
        for group in range(parquet.num_row_groups):
            place = parquet.metadata.row_group(group).column(_leaf(parquet, "partition"))
            known = place.statistics
            if known is not None and not known.min <= span.partition <= known.max:
                continue
            for batch in parquet.iter_batches(ROWS_AT_ONCE, row_groups=[group]):
                yield batch.filter(pc.equal(batch.column(column), span.partition))


def _leaf(parquet: pq.ParquetFile, name: str) -> int:
    """Parquet counts the leaves of nested columns, Arrow does not."""
    names = [parquet.schema.column(index).path for index in range(len(parquet.schema))]
    return names.index(name)


def sweep(lake: Lake, *, grace_seconds: float, orphan_seconds: float) -> tuple[int, int]:
    """Remove the files that are no longer read, and entries that are summed up."""
    now_ms = time.time_ns() // 1_000_000
    found = list(lake.storage.data_files())
    catalog = lake.refresh()
    swept, swept_bytes = 0, 0
    for path, size, modified_ms in found:
        dropped_ms = catalog.dropped.get(path)
        if path in catalog.files:
            continue
        since_ms = modified_ms if dropped_ms is None else dropped_ms
        allowed = orphan_seconds if dropped_ms is None else grace_seconds
        if now_ms - since_ms >= allowed * 1_000:
            lake.storage.remove(path)
            swept, swept_bytes = swept + 1, swept_bytes + size
    lake.prune()
    return swept, swept_bytes
