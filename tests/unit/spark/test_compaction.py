"""Compaction without Spark: what a task does, and what is swept away."""

import os
import time
from pathlib import Path

import pyarrow.parquet as pq

from penstock.core.decoders import decode_json
from penstock.spark.lake.compaction import Bin, merge_files, plan_bins, sweep
from penstock.spark.lake.day_files import DAY_US, DayFiles
from penstock.spark.lake.entries import Change, Covered, LakeFile
from penstock.spark.lake.lake import Lake
from tests.unit.spark.test_day_files import rows


def files_with(root: Path, *spans: tuple[int, int, int]) -> list[LakeFile]:
    """One file for each (partition, first, end), all of one day."""
    made = []
    for partition, first, end in spans:
        files = DayFiles(str(root), "orders")
        files.write(rows(first, [DAY_US] * (end - first), partition=partition))
        made += files.close()
    return made


def places_in(root: Path, file: LakeFile) -> list[tuple[int, int]]:
    table = pq.read_table(root / file.path, partitioning=None)
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def merged(root: Path, *files: LakeFile) -> LakeFile:
    outcome = merge_files(Bin(root=str(root), topic="orders", files=files))
    (one,) = decode_json(outcome, list[LakeFile])
    return one


def test_rows_are_sorted_by_partition_and_offset(tmp_path: Path) -> None:
    small = files_with(tmp_path, (1, 0, 5), (0, 10, 20), (0, 0, 10), (1, 5, 8))
    first = merged(tmp_path, *small)
    assert places_in(tmp_path, first) == [
        *((0, offset) for offset in range(20)),
        *((1, offset) for offset in range(8)),
    ]
    assert first.rows == 28
    # Files that hold several partitions, and whose offsets lie in each other.
    later = merged(tmp_path, *files_with(tmp_path, (0, 30, 35), (1, 8, 9)))
    between = files_with(tmp_path, (0, 20, 30))[0]
    outer = merged(tmp_path, first, later)
    assert places_in(tmp_path, merged(tmp_path, outer, between)) == [
        *((0, offset) for offset in range(35)),
        *((1, offset) for offset in range(9)),
    ]


def test_small_files_of_a_day_are_put_together(tmp_path: Path) -> None:
    small = files_with(tmp_path, *((0, first, first + 10) for first in range(0, 60, 10)))
    size = small[0].bytes
    assert [len(one.files) for one in plan_bins("", small, 100 * size)] == [6]
    bins = plan_bins("", small, int(3.5 * size))
    assert [len(one.files) for one in bins] == [3, 3]
    assert [one.files[0].first_place for one in bins] == [(0, 0), (0, 30)]
    assert plan_bins("", small, size) == [], "they are large enough"
    assert plan_bins("", small[:1], 100 * size) == [], "one alone stays as it is"


def test_only_what_nobody_reads_is_swept_away(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    kept, old, orphan, fresh = files_with(
        tmp_path, (0, 0, 10), (0, 10, 20), (0, 0, 10), (0, 20, 30)
    )
    covered = Covered(topic="orders", topic_id="id", partition=0, first=0, end=20, rows=20)
    lake.commit(Change(writer="archive", query="q", batch=0, covered=(covered,), added=(kept, old)))
    new = merged(tmp_path, old)
    lake.commit(Change(writer="compact", query="q", batch=0, added=(new,), removed=(old.path,)))
    long_ago = time.time() - 90_000
    for one in (kept, old, orphan):
        os.utime(tmp_path / one.path, (long_ago, long_ago))
    assert sweep(lake, grace_seconds=60, orphan_seconds=86_400) == (1, orphan.bytes)
    assert not (tmp_path / orphan.path).exists()
    assert (tmp_path / old.path).exists(), "somebody may have begun to read it a moment ago"
    assert sweep(lake, grace_seconds=0, orphan_seconds=86_400) == (1, old.bytes)
    left = {path.name for path in tmp_path.rglob("*.parquet")}
    assert left == {Path(one.path).name for one in (kept, new, fresh)}
