"""Files by day: every row in the file of its day, and what is said about files is true."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.spark.lake import day_files
from penstock.spark.lake.day_files import DAY_US, SCHEMA, DayFiles
from penstock.spark.lake.entries import FileSpan


def rows(first: int, times_us: list[int | None], *, partition: int = 0) -> pa.RecordBatch:
    count = len(times_us)
    return pa.RecordBatch.from_pydict(
        {
            "key": [b"k%d" % index for index in range(count)],
            "value": [b"v%d" % (first + index) for index in range(count)],
            "headers": [[{"key": "h", "value": b"1"}] for _ in range(count)],
            "partition": [partition] * count,
            "offset": list(range(first, first + count)),
            "timestamp": times_us,
            "timestampType": [0] * count,
        },
        schema=SCHEMA,
    )


def test_rows_go_into_the_file_of_their_day(tmp_path: Path) -> None:
    files = DayFiles(str(tmp_path), "orders")
    files.write(rows(10, [DAY_US, DAY_US + 5_000, 2 * DAY_US]))
    files.write(rows(0, [2 * DAY_US + 1_000], partition=1))
    first, second = sorted(files.close(), key=lambda one: one.date)
    assert (first.date, second.date) == ("1970-01-02", "1970-01-03")
    assert first.spans == (FileSpan(partition=0, first=10, end=12, rows=2),)
    assert second.spans == (
        FileSpan(partition=0, first=12, end=13, rows=1),
        FileSpan(partition=1, first=0, end=1, rows=1),
    )
    assert (first.timestamp_min_ms, first.timestamp_max_ms) == (86_400_000, 86_400_005)
    found = pq.read_table(tmp_path / first.path, partitioning=None)
    assert found.schema.equals(SCHEMA)
    assert found["value"].to_pylist() == [b"v10", b"v11"]
    assert found["headers"].to_pylist()[0] == [{"key": "h", "value": b"1"}]
    assert first.bytes == (tmp_path / first.path).stat().st_size
    assert pq.ParquetFile(tmp_path / first.path).metadata.row_group(0).column(1).compression == (
        "ZSTD"
    )


def test_a_time_no_calendar_has_counts_as_the_first_day(tmp_path: Path) -> None:
    files = DayFiles(str(tmp_path), "orders")
    files.write(rows(0, [None, -5, 9_000_000 * DAY_US]))
    (only,) = files.close()
    assert (only.date, only.rows) == ("1970-01-01", 3)


def test_however_many_days_there_are_few_files_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(day_files, "DAYS_OPEN_MAX", 3)
    monkeypatch.setattr(day_files, "PENDING_BYTES_MAX", 500)
    files = DayFiles(str(tmp_path), "orders")
    for offset in range(40):
        files.write(rows(offset, [(offset % 8) * DAY_US]))
        assert len(files._open) <= 3
        assert sum(one.pending_bytes for one in files._open.values()) <= 500
    assert files.rows == 40
    done = files.close()
    assert sum(one.rows for one in done) == 40
    offsets = [
        offset
        for one in done
        for offset in pq.read_table(tmp_path / one.path, partitioning=None)["offset"].to_pylist()
    ]
    assert sorted(offsets) == list(range(40))
    assert len({one.path for one in done}) == len(done)


def test_a_file_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(day_files, "ROW_GROUP_BYTES", 1)
    monkeypatch.setattr(day_files, "FILE_BYTES_MAX", 1_000)
    files = DayFiles(str(tmp_path), "orders")
    for offset in range(0, 100, 10):
        files.write(rows(offset, [DAY_US] * 10))
    done = files.close()
    assert len(done) > 2
    assert sum(one.rows for one in done) == 100
