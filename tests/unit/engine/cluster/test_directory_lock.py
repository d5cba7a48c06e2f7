"""One process has a directory, and the next one is told which."""

import os

import pytest

from penstock.core.errors import DirectoryInUse
from penstock.engine.cluster.directory_lock import LOCK_FILE, hold_directory
from penstock.storage.memory_disk import MemoryDisk


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory("data")
    return disk


def test_it_is_held_until_it_is_released(disk: MemoryDisk) -> None:
    lock = hold_directory(disk, "data")
    with pytest.raises(DirectoryInUse, match="^data is in use by this very process"):
        hold_directory(disk, "data")
    lock.release()
    hold_directory(disk, "data").release()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"77 penstock", r"process 77 \(penstock\)"),
        (b"77 ", "process 77;"),
        (b"", "another process;"),
        (b"\xff\xfe rubbish", "another process;"),
    ],
)
def test_whoever_has_it_is_named_as_far_as_it_is_known(
    disk: MemoryDisk, written: bytes, said: str
) -> None:
    lock = hold_directory(disk, "data")
    file = disk.open(f"data/{LOCK_FILE}")
    assert file.read(0, 100).split()[0] == b"%d" % os.getpid()
    file.truncate(0)
    file.write(0, [written])
    with pytest.raises(DirectoryInUse, match=f"is in use by {said}"):
        hold_directory(disk, "data")
    lock.release()


def test_a_full_disk_can_be_held(disk: MemoryDisk) -> None:
    disk.capacity_bytes = 0
    hold_directory(disk, "data").release()
