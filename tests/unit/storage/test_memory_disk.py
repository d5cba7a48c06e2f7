"""What only a disk in memory can do. That it is a disk at all is tested in test_disk.py."""

import gc
import threading

import pytest

from penstock.core.errors import DiskFull
from penstock.storage.disk import Disk
from penstock.storage.files import HeldFile
from penstock.storage.memory_disk import MemoryDisk, MemoryFile

MIB = 1 << 20


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk(capacity_bytes=1000)
    disk.make_directory("/data")
    return disk


def written(disk: MemoryDisk, name: str, size: int) -> MemoryFile:
    file = disk.open(f"/data/{name}", create=True)
    file.write(0, [bytes(size)])
    return file


def test_it_is_a_disk() -> None:
    disk: Disk = MemoryDisk()
    assert disk.list("/") == []


class TestSpace:
    def test_what_is_written_counts(self, disk: MemoryDisk) -> None:
        written(disk, "a", 600)
        assert (disk.used_bytes, disk.free_bytes("/data")) == (600, 400)
        written(disk, "a", 500)
        assert disk.used_bytes == 600, "an overwrite takes no more"

    def test_a_write_that_does_not_fit_changes_nothing(self, disk: MemoryDisk) -> None:
        file = written(disk, "a", 600)
        with pytest.raises(DiskFull, match="cannot write /data/a: No space left on device; free"):
            file.write(500, [b"x" * 501])
        assert (file.size(), file.read(500, 200)) == (600, bytes(100))
        file.write(500, [b"x" * 500])
        assert disk.free_bytes("/data") == 0

    def test_who_allocated_can_fill(self, disk: MemoryDisk) -> None:
        file = disk.open("/data/a", create=True)
        file.allocate(800)
        with pytest.raises(DiskFull, match="cannot allocate /data/a"):
            file.allocate(1001)
        with pytest.raises(DiskFull):
            written(disk, "b", 201)
        file.write(0, [b"x" * 800])

    def test_lengthening_reserves_nothing_and_cutting_gives_back(self, disk: MemoryDisk) -> None:
        file = disk.open("/data/a", create=True)
        file.truncate(5000)
        assert (file.size(), disk.used_bytes) == (5000, 0)
        file.truncate(0)
        file.write(0, [bytes(900)])
        file.truncate(100)
        assert disk.used_bytes == 100

    def test_a_removed_file_gives_back_when_the_last_has_closed_it(self, disk: MemoryDisk) -> None:
        first, second = written(disk, "a", 700), disk.open("/data/a")
        disk.remove("/data/a")
        first.close()
        assert disk.used_bytes == 700
        second.close()
        second.close()
        assert disk.used_bytes == 0

    def test_a_replaced_file_gives_back(self, disk: MemoryDisk) -> None:
        written(disk, "a", 300).close()
        written(disk, "b", 200).close()
        disk.rename("/data/b", "/data/a")
        assert (disk.used_bytes, disk.list("/data")) == (200, ["a"])

    def test_reserved_space_takes_no_memory(self) -> None:
        disk = MemoryDisk()
        file = disk.open("/huge", create=True)
        file.allocate(1 << 45)  # More than any machine has.
        file.write(0, [b"start"])
        assert file.size() == 1 << 45
        assert file.read(3, 5) == b"rt\0\0\0"
        assert file.read((1 << 45) - 2, 100) == b"\0\0"

    def test_no_memory_is_no_space(self) -> None:
        file = MemoryDisk().open("/huge", create=True)
        with pytest.raises(DiskFull, match="cannot write /huge: Cannot allocate memory"):
            file.write(1 << 48, [b"x"])
        assert file.size() == 0


class TestThreads:
    def test_readers_and_writers_share_a_file(self) -> None:
        disk = MemoryDisk()
        file = disk.open("/log", create=True)
        block = b"".join(bytes([number]) * 64 for number in range(64))
        errors: list[str] = []

        def write() -> None:
            for number in range(400):
                file.write(number * len(block), [block])

        def read() -> None:
            reader = disk.open("/log")
            while (size := reader.size()) < 400 * len(block):
                whole = size // len(block)
                if whole and reader.read((whole - 1) * len(block), len(block)) != block:
                    errors.append(f"torn at {whole}")
            reader.close()

        threads = [threading.Thread(target=work) for work in (write, read, read)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []

    def test_space_is_counted_right_however_many_take_it(self) -> None:
        disk = MemoryDisk()

        def churn(name: str) -> None:
            for _ in range(300):
                file = disk.open(name, create=True)
                file.write(0, [b"x" * 100])
                disk.remove(name)
                file.close()

        threads = [threading.Thread(target=churn, args=(f"/{one}",)) for one in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (disk.used_bytes, disk.list("/")) == (0, [])

    def test_the_collector_may_close_files_in_the_middle_of_anything(self) -> None:
        disk = MemoryDisk()
        ring: list[object] = []
        threshold = gc.get_threshold()
        gc.set_threshold(1, 1, 1)
        try:
            for number in range(200):
                ring = [HeldFile(disk.open(f"/{number}", create=True))]
                ring.append(ring)
                disk.list("/")
        finally:
            gc.set_threshold(*threshold)
        ring = []
        gc.collect()
        for name in disk.list("/"):
            disk.remove(f"/{name}")
        assert disk.used_bytes == 0
