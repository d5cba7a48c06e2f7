"""The manifest of a lake: each offset once, whoever writes, whoever dies."""

import threading
from pathlib import Path

import msgspec
import pytest

from penstock.core.errors import (
    DamagedFile,
    DirectoryInUse,
    DirectoryRefused,
    ForeignDirectory,
    LocalError,
    NewerFormat,
)
from penstock.spark.lake.entries import (
    SNAPSHOT_EVERY,
    Change,
    Covered,
    FileSpan,
    LakeFile,
    entry_path,
    number_of,
)
from penstock.spark.lake.lake import Lake


def covered(first: int, end: int, *, partition: int = 0, topic_id: str = "id-1") -> Covered:
    return Covered(
        topic="orders",
        topic_id=topic_id,
        partition=partition,
        first=first,
        end=end,
        rows=end - first,
    )


def file_of(name: str, first: int, end: int, *, partition: int = 0, rows: int = -1) -> LakeFile:
    count = end - first if rows < 0 else rows
    return LakeFile(
        path=f"topic=orders/date=2026-01-31/{name}.parquet",
        topic="orders",
        date="2026-01-31",
        rows=count,
        bytes=1_000,
        timestamp_min_ms=first,
        timestamp_max_ms=end - 1,
        spans=(FileSpan(partition=partition, first=first, end=end, rows=count),),
    )


def archived(first: int, end: int, *, name: str = "", partition: int = 0) -> Change:
    return Change(
        writer="archive",
        query="q",
        batch=0,
        covered=(covered(first, end, partition=partition),),
        added=(file_of(name or f"f{partition}-{first}", first, end, partition=partition),),
    )


def test_a_lake_that_is_not_there_is_empty(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"))
    assert lake.catalog.topics == []
    assert not (tmp_path / "lake").exists(), "looking makes nothing"
    with pytest.raises(LocalError, match="has nothing of topic orders; it has: nothing at all"):
        lake.require("orders")


def test_what_is_committed_is_read_by_the_next_who_opens(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    lake.commit(archived(0, 10))
    lake.commit(archived(10, 20))
    lake.commit(archived(5, 7, partition=1))
    again = Lake.open(f"file://{tmp_path}").catalog
    assert again.spans("orders") == {0: ((0, 20),), 1: ((5, 7),)}
    assert again.ends("orders") == {0: 20, 1: 7}
    assert again.rows("orders") == 22
    assert [one.first_place for one in again.files_of("orders")] == [(0, 0), (0, 10), (1, 5)]
    assert again.gaps("orders") == {}


def test_files_are_found_by_time(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    for first in (0, 10, 20):
        lake.commit(archived(first, first + 10))
    found = lake.catalog.files_of("orders", since_ms=10, until_ms=20)
    assert [one.timestamp_min_ms for one in found] == [10]


def test_offsets_are_never_added_twice(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    lake.commit(archived(0, 10))
    with pytest.raises(DirectoryInUse, match="offsets 5–9 of orders, partition 0, are in"):
        lake.commit(archived(5, 15, name="other"))
    twice = Change(writer="archive", query="q", batch=1, covered=(covered(20, 30), covered(25, 26)))
    with pytest.raises(DirectoryInUse, match="25–25"):
        lake.commit(twice)
    assert Lake.open(str(tmp_path)).catalog.ends("orders") == {0: 10}


def test_a_gap_is_seen(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    lake.commit(archived(0, 10))
    lake.commit(archived(30, 40))
    assert Lake.open(str(tmp_path)).catalog.gaps("orders") == {0: ((10, 30),)}


def test_the_second_of_two_writers_is_refused(tmp_path: Path) -> None:
    first, second = Lake.open(str(tmp_path)), Lake.open(str(tmp_path))
    first.commit(archived(0, 10, name="one"))
    with pytest.raises(DirectoryInUse, match="another archive job writes there"):
        second.commit(archived(0, 10, name="two"))
    assert second.catalog.ends("orders") == {0: 10}, "it has learnt what is there"
    second.commit(archived(0, 4, partition=1))  # What is not taken may be added.
    assert first.refresh().ends("orders") == {0: 10, 1: 4}


def test_many_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    lakes = [Lake.open(str(tmp_path)) for _ in range(8)]

    def write(partition: int) -> None:
        for step in range(12):
            lakes[partition].commit(archived(step * 5, step * 5 + 5, partition=partition))

    threads = [threading.Thread(target=write, args=(index,)) for index in range(len(lakes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = Lake.open(str(tmp_path)).catalog
    assert found.number == 96
    assert found.ends("orders") == dict.fromkeys(range(8), 60)
    assert found.rows("orders") == 480 == sum(one.rows for one in found.files.values())


def test_compaction_swaps_files_and_nothing_else(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    lake.commit(archived(0, 10))
    lake.commit(archived(10, 20))
    small = tuple(lake.catalog.files)
    whole = file_of("whole", 0, 20)
    swap = Change(writer="compact", query="q", batch=0, added=(whole,), removed=small)
    lake.commit(swap)
    found = Lake.open(str(tmp_path)).catalog
    assert list(found.files) == [whole.path]
    assert set(found.dropped) == set(small)
    assert found.rows("orders") == 20
    with pytest.raises(DirectoryInUse, match="replaced by another writer"):
        lake.commit(swap)


def test_a_change_that_loses_messages_is_refused(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    lake.commit(archived(0, 10))
    short = file_of("short", 0, 10, rows=9)
    with pytest.raises(DirectoryRefused, match="does not add up"):
        lake.commit(
            Change(
                writer="compact",
                query="q",
                batch=0,
                added=(short,),
                removed=tuple(lake.catalog.files),
            )
        )


def test_a_topic_made_anew_is_another_one(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    lake.commit(archived(0, 10))
    change = Change(
        writer="archive", query="q", batch=0, covered=(covered(10, 20, topic_id="id-2"),)
    )
    with pytest.raises(ForeignDirectory, match="archive the new one under another root"):
        lake.commit(change)


def test_a_snapshot_is_as_good_as_the_entries(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    for step in range(3 * SNAPSHOT_EVERY):
        lake.commit(archived(step * 5, step * 5 + 5))
    assert lake.prune() > 0
    assert lake.prune() == 0
    found = Lake.open(str(tmp_path)).catalog
    assert found.number == lake.catalog.number
    assert found.files == lake.catalog.files
    assert found.spans("orders") == {0: ((0, 15 * SNAPSHOT_EVERY),)}
    assert found.rows("orders") == 15 * SNAPSHOT_EVERY


def test_whoever_slept_while_entries_were_pruned_changes_nothing_twice(tmp_path: Path) -> None:
    sleeper = Lake.open(str(tmp_path))
    lake = Lake.open(str(tmp_path))
    for step in range(2 * SNAPSHOT_EVERY):
        lake.commit(archived(step * 5, step * 5 + 5))
    lake.prune()
    assert not (tmp_path / entry_path(1)).exists(), "the number it would take is free"
    with pytest.raises(DirectoryInUse):
        sleeper.commit(archived(0, 5, name="late"))
    sleeper.commit(archived(0, 5, partition=1))
    found = Lake.open(str(tmp_path)).catalog
    assert found.ends("orders") == {0: 10 * SNAPSHOT_EVERY, 1: 5}


def test_a_draft_that_was_left_behind_is_not_read(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    lake.commit(archived(0, 10))
    folder = (tmp_path / entry_path(2)).parent
    (folder / f".{2:020}.json.0a1b").write_bytes(b'{"form')
    (folder / "notes.txt").write_text("of somebody")
    assert Lake.open(str(tmp_path)).catalog.number == 1
    assert number_of("notes.txt") is None


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"format": 1, "number"', "truncated"),
        (b'{"format": 1, "number": 7, "written_ms": 0}', "change"),
    ],
)
def test_a_damaged_entry_is_told(tmp_path: Path, data: bytes, problem: str) -> None:
    lake = Lake.open(str(tmp_path))
    lake.commit(archived(0, 10))
    (tmp_path / entry_path(1)).write_bytes(data)
    with pytest.raises(DamagedFile, match=problem):
        Lake.open(str(tmp_path))


def test_an_entry_that_overlaps_is_damage(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    entry = lake.commit(archived(0, 10))
    forged = msgspec.structs.replace(entry, number=2)
    (tmp_path / entry_path(2)).write_bytes(msgspec.json.encode(forged))
    with pytest.raises(DamagedFile, match="offsets 0–9 of orders"):
        Lake.open(str(tmp_path))


def test_a_missing_entry_is_damage(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    for step in range(3):
        lake.commit(archived(step * 5, step * 5 + 5))
    (tmp_path / entry_path(2)).unlink()
    with pytest.raises(DamagedFile, match="it is missing"):
        Lake.open(str(tmp_path))


def test_a_later_format_is_told(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    entry = lake.commit(archived(0, 10))
    later = msgspec.structs.replace(entry, format=2)
    (tmp_path / entry_path(1)).write_bytes(msgspec.json.encode(later))
    with pytest.raises(NewerFormat, match="use a later one"):
        Lake.open(str(tmp_path))
