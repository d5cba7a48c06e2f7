"""Parquet files by day: what tasks write, and what they say about it afterwards.

    files = DayFiles(root, "orders")
    for batch in batches:                a column each: see SCHEMA
        files.write(batch)
    written = files.close()              descriptions of files that are complete and on disk

A file has a name of its own and is not part of the lake until an entry of the manifest names it, so
that a task may fail, run twice, or be killed. A day is that of the message's time, in UTC; a time
that no calendar has counts as the first day of 1970.

What is held in memory is bounded, however messages are spread over days: rows are collected up to a
row group, and of too many days at once one is written early or its file is ended.
"""

import os
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from penstock.core.errors import DiskFailed, LocalError
from penstock.core.limits import MIB
from penstock.spark.lake.entries import FileSpan, LakeFile
from penstock.spark.lake.storage import is_local, local_path, sync_folder

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.field("element", _HEADER))),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
"""The columns of the source, but for the topic, which is in the path."""
SPARK_SCHEMA: Final = (
    "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, partition INT,"
    " offset BIGINT, timestamp TIMESTAMP, timestampType INT"
)
ROW_GROUP_BYTES: Final = 32 * MIB
PENDING_BYTES_MAX: Final = 96 * MIB
DAYS_OPEN_MAX: Final = 32
FILE_BYTES_MAX: Final = 512 * MIB
"""Before compression: a file that would be larger is followed by another."""
DAY_US: Final = 86_400_000_000
DAYS_MAX: Final = 2_932_896
"""The last day of the year 9999."""


@dataclass(slots=True)
class _DayFile:
    """A file that is being written."""

    path: str
    writer: pq.ParquetWriter
    sink: "pa.NativeFile"
    pending: list[pa.RecordBatch] = field(default_factory=list)
    pending_bytes: int = 0
    total_bytes: int = 0
    rows: int = 0
    time_min_us: int | None = None
    time_max_us: int | None = None
    spans: dict[int, list[int]] = field(default_factory=dict)
    """First offset, the one after the last, and rows, by partition."""


class DayFiles:
    """The files of one task, a day each."""

    def __init__(self, root: str, topic: str) -> None:
        self._topic = topic
        self._local = is_local(root)
        self._files, self._base = filesystem_of(root)
        self._open: OrderedDict[int, _DayFile] = OrderedDict()
        """By day, the one that was written to last at the end."""
        self._done: list[LakeFile] = []

    @property
    def rows(self) -> int:
        """The number of messages written."""
        return sum(one.rows for one in self._done) + sum(one.rows for one in self._open.values())

    def write(self, batch: pa.RecordBatch) -> None:
        """Put each row into the file of its day."""
        for day, part in _by_day(batch.cast(SCHEMA) if batch.schema != SCHEMA else batch):
            file = self._open.get(day)
            if file is None:
                if len(self._open) >= DAYS_OPEN_MAX:
                    self._end(next(iter(self._open)))
                file = self._open[day] = self._begin(day, part)
            self._open.move_to_end(day)
            _take_up(file, part)
            if file.pending_bytes >= ROW_GROUP_BYTES:
                _flush(file)
                if file.total_bytes >= FILE_BYTES_MAX:
                    self._end(day)
        while sum(one.pending_bytes for one in self._open.values()) > PENDING_BYTES_MAX:
            _flush(max(self._open.values(), key=lambda one: one.pending_bytes))

    def close(self) -> list[LakeFile]:
        """End all files; they are on disk when this returns."""
        for day in list(self._open):
            self._end(day)
        done, self._done = self._done, []
        return done

    def _begin(self, day: int, part: pa.RecordBatch) -> _DayFile:
        date = datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m-%d")
        partition, offset = part["partition"][0].as_py(), part["offset"][0].as_py()
        folder = f"topic={self._topic}/date={date}"
        path = f"{folder}/{partition:05}-{offset:020}-{uuid.uuid4().hex}.parquet"
        try:
            self._files.create_dir(f"{self._base}/{folder}", recursive=True)
            sink = self._files.open_output_stream(f"{self._base}/{path}")
        except OSError as error:
            raise DiskFailed(f"{path} cannot be written: {error}") from error
        writer = pq.ParquetWriter(
            sink,
            SCHEMA,
            compression="zstd",
            compression_level=1,
            use_dictionary=["key", "partition", "timestampType", "headers.list.element.key"],
            column_encoding={"offset": "DELTA_BINARY_PACKED"},
            write_statistics=["partition", "offset", "timestamp"],
        )
        return _DayFile(path, writer, sink)

    def _end(self, day: int) -> None:
        file = self._open.pop(day)
        _flush(file)
        file.writer.close()
        file.sink.close()
        full = f"{self._base}/{file.path}"
        if self._local:
            _sync(full)
        first_ms = 0 if file.time_min_us is None else file.time_min_us // 1_000
        last_ms = 0 if file.time_max_us is None else file.time_max_us // 1_000
        self._done.append(
            LakeFile(
                path=file.path,
                topic=self._topic,
                date=file.path.split("/")[1].removeprefix("date="),
                rows=file.rows,
                bytes=self._files.get_file_info(full).size,
                timestamp_min_ms=first_ms,
                timestamp_max_ms=last_ms,
                spans=tuple(
                    FileSpan(partition=partition, first=first, end=end, rows=rows)
                    for partition, (first, end, rows) in sorted(file.spans.items())
                ),
            )
        )


def filesystem_of(root: str) -> tuple[fs.FileSystem, str]:
    """Return the file system for tasks, and the root in its notation."""
    if is_local(root):
        return fs.LocalFileSystem(), os.path.abspath(local_path(root))
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(
            root.replace("s3a://", "s3://", 1)
        )
    except (OSError, ValueError) as error:
        raise LocalError(f"{root} cannot be reached from Python: {error}") from error
    return found


def _by_day(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    if not batch.num_rows:
        return
    times = pc.fill_null(batch["timestamp"].cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    days = times // DAY_US
    days[(days < 0) | (days > DAYS_MAX)] = 0
    if days.min() == days.max():
        yield int(days[0]), batch
        return
    for day in np.unique(days):
        yield int(day), batch.filter(pa.array(days == day))


def _take_up(file: _DayFile, part: pa.RecordBatch) -> None:
    """Keep rows for the next row group, and note what the manifest wants to know."""
    file.pending.append(part)
    file.pending_bytes += part.nbytes
    file.total_bytes += part.nbytes
    file.rows += part.num_rows
    bounds = pc.min_max(part["timestamp"].cast(pa.int64())).as_py()
    if bounds["min"] is not None:
        low, high = bounds["min"], bounds["max"]
        file.time_min_us = low if file.time_min_us is None else min(file.time_min_us, low)
        file.time_max_us = high if file.time_max_us is None else max(file.time_max_us, high)
    partitions = part["partition"].to_numpy(zero_copy_only=False)
    offsets = part["offset"].to_numpy(zero_copy_only=False)
    for partition in np.unique(partitions):
        own = offsets[partitions == partition]
        first, end, rows = int(own.min()), int(own.max()) + 1, len(own)
        known = file.spans.setdefault(int(partition), [first, end, 0])
        known[0] = min(known[0], first)
        known[1] = max(known[1], end)
        known[2] += rows


def _flush(file: _DayFile) -> None:
    """Write what is pending as one row group."""
    if file.pending:
        table = pa.Table.from_batches(file.pending)
        file.writer.write_table(table, row_group_size=table.num_rows)
        file.pending.clear()
        file.pending_bytes = 0


def _sync(path: str) -> None:
    """The manifest names a file only when it is on disk, and so is its name."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    sync_folder(os.path.dirname(path))
