"""The faults of `FaultyDisk`. That it is a disk at all is tested in unit/storage/test_disk.py."""

from collections.abc import Callable
from random import Random

import pytest

from penstock.core.errors import DirectoryInUse, DiskFailed, DiskFull
from penstock.testing.disk import OPERATIONS, FaultyDisk, FaultyFile, PowerCut


@pytest.fixture
def disk() -> FaultyDisk:
    disk = FaultyDisk()
    disk.make_directory("/data")
    disk.sync_directory("/")
    return disk


def settled(disk: FaultyDisk, path: str, content: bytes) -> FaultyFile:
    """A file whose name and content are durable."""
    file = disk.open(path, create=True)
    file.write(0, [content])
    file.sync()
    disk.sync_directory("/data")
    return file


class TestDeath:
    def test_a_crash_loses_only_what_was_not_synced(self, disk: FaultyDisk) -> None:
        settled(disk, "/data/kept", b"promise")
        disk.open("/data/unsynced", create=True).write(0, [b"hope"])
        contents = set()
        for seed in range(100):
            fork = disk.fork()
            fork.crash(Random(seed))
            assert fork.image("/data/kept") == b"promise"
            if fork.exists("/data/unsynced"):
                contents.add(fork.image("/data/unsynced"))
            else:
                contents.add(b"no file")
        assert contents == {b"no file", b"", b"hope", bytes(4)}

    def test_a_synced_file_without_a_synced_name_may_vanish(self, disk: FaultyDisk) -> None:
        file = disk.open("/data/a", create=True)
        file.write(0, [b"x"])
        file.sync()
        left = set()
        for seed in range(50):
            fork = disk.fork()
            fork.crash(Random(seed))
            left.add(tuple(fork.paths()))
            if fork.paths():
                assert fork.image("/data/a") == b"x"
        assert left == {(), ("/data/a",)}

    def test_a_rename_before_the_sync_may_leave_a_hollow_file(self, disk: FaultyDisk) -> None:
        settled(disk, "/data/state", b"old state")
        disk.open("/data/state.new", create=True).write(0, [b"new state"])
        disk.rename("/data/state.new", "/data/state")
        disk.sync_directory("/data")
        contents = set()
        for seed in range(50):
            fork = disk.fork()
            fork.crash(Random(seed))
            contents.add(fork.image("/data/state"))
        assert contents == {b"", b"new state", bytes(9)}

    def test_handles_are_dead_after_a_crash(self, disk: FaultyDisk) -> None:
        file = settled(disk, "/data/a", b"x")
        disk.crash(Random(1))
        operations: list[Callable[[], object]] = [
            lambda: file.read(0, 1),
            lambda: file.write(0, [b"y"]),
            file.sync,
            lambda: file.truncate(0),
            lambda: file.allocate(10),
            file.size,
        ]
        for operation in operations:
            with pytest.raises(AssertionError, match="a process that is dead"):
                operation()
        file.close()
        assert disk.open("/data/a").read(0, 1) == b"x"

    def test_kill_keeps_the_page_cache(self, disk: FaultyDisk) -> None:
        file = disk.open("/data/a", create=True)
        file.write(0, [b"not synced"])
        disk.kill()
        with pytest.raises(AssertionError, match="dead"):
            file.read(0, 1)
        assert disk.open("/data/a").read(0, 10) == b"not synced"

    @pytest.mark.parametrize("death", ["crash", "kill"])
    def test_death_releases_locks(self, disk: FaultyDisk, death: str) -> None:
        lock = disk.lock("/data/LOCK")
        with pytest.raises(DirectoryInUse):
            disk.lock("/data/LOCK")
        disk.sync_directory("/data")
        if death == "crash":
            disk.crash(Random(1))
        else:
            disk.kill()
        disk.lock("/data/LOCK")
        lock.release()
        with pytest.raises(DirectoryInUse):
            disk.lock("/data/LOCK")

    def test_one_seed_is_one_fate(self, disk: FaultyDisk) -> None:
        for name in "abc":
            file = disk.open(f"/data/{name}", create=True)
            for position in range(0, 10_000, 700):
                file.write(position, [name.encode() * 700])
        one, two = disk.fork(), disk.fork()
        assert one.crash(Random(7)) == two.crash(Random(7))
        assert one.paths() == two.paths()
        assert [one.image(path) for path in one.paths()] == [
            two.image(path) for path in two.paths()
        ]

    def test_a_removed_file_comes_back_with_its_durable_content(self, disk: FaultyDisk) -> None:
        file = settled(disk, "/data/a", b"durable")
        file.close()
        disk.remove("/data/a")
        assert disk.used_bytes == 0
        seen = set()
        for seed in range(20):
            fork = disk.fork()
            fork.crash(Random(seed))
            seen.add(tuple(fork.image(path) for path in fork.paths()))
            assert fork.used_bytes == sum(len(fork.image(path)) for path in fork.paths())
        assert seen == {(), (b"durable",)}


class TestErrors:
    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_every_operation_can_fail_once(self, disk: FaultyDisk, operation: str) -> None:
        file = settled(disk, "/data/a", b"content")
        perform: dict[str, Callable[[], object]] = {
            "allocate": lambda: file.allocate(100),
            "list": lambda: disk.list("/data"),
            "lock": lambda: disk.lock("/data/LOCK"),
            "make_directory": lambda: disk.make_directory("/data/d"),
            "open": lambda: disk.open("/data/a"),
            "read": lambda: file.read(0, 1),
            "remove": lambda: disk.remove("/data/a"),
            "rename": lambda: disk.rename("/data/a", "/data/b"),
            "sync": file.sync,
            "sync_directory": lambda: disk.sync_directory("/data"),
            "truncate": lambda: file.truncate(1),
            "write": lambda: file.write(0, [b"y"]),
        }
        disk.fail_next(operation)
        with pytest.raises(DiskFailed, match="Input/output error"):
            perform[operation]()
        assert disk.paths() == ["/data/a"], "what failed did not happen"
        assert disk.image("/data/a") == b"content"
        perform[operation]()
        assert disk.fired[operation] == 1
        assert not disk.watching

    def test_the_pattern_chooses_the_file(self, disk: FaultyDisk) -> None:
        one, two = settled(disk, "/data/1.log", b"x"), settled(disk, "/data/vote", b"x")
        disk.fail_next("write", "*/vote")
        one.write(0, [b"y"])
        with pytest.raises(DiskFailed, match="/data/vote"):
            two.write(0, [b"y"])

    def test_skip_lets_some_go_well(self, disk: FaultyDisk) -> None:
        file = settled(disk, "/data/a", b"x")
        disk.fail_next("write", skip=2)
        file.write(0, [b"1"])
        file.write(0, [b"2"])
        with pytest.raises(DiskFailed):
            file.write(0, [b"3"])
        assert file.read(0, 1) == b"2"

    def test_the_kind_of_error_is_free(self, disk: FaultyDisk) -> None:
        file = settled(disk, "/data/a", b"x")
        disk.fail_next("write", error=DiskFull)
        with pytest.raises(DiskFull, match="No space left"):
            file.write(0, [b"y"])

    def test_forget_faults(self, disk: FaultyDisk) -> None:
        disk.fail_next("list")
        disk.cut_power_after(1)
        disk.forget_faults()
        disk.list("/data")
        disk.make_directory("/data/d")

    def test_an_unknown_operation_is_refused(self, disk: FaultyDisk) -> None:
        with pytest.raises(AssertionError, match="flush"):
            disk.fail_next("flush")

    def test_after_a_failed_sync_later_syncs_lie(self, disk: FaultyDisk) -> None:
        file = settled(disk, "/data/a", b"old")
        file.write(0, [b"new"])
        disk.fail_next("sync")
        with pytest.raises(DiskFailed):
            file.sync()
        file.sync()
        assert file.read(0, 3) == b"new", "the page cache shows the data"
        disk.kill()
        assert disk.image("/data/a") == b"new", "to a new process too"
        disk.crash(Random(0))
        assert disk.image("/data/a") == b"old"

    def test_a_lying_disk_syncs_nothing(self, disk: FaultyDisk) -> None:
        disk.lying = True
        file = disk.open("/data/a", create=True)
        file.write(0, [b"x" * 2000])
        file.sync()
        disk.sync_directory("/data")
        left = set()
        for seed in range(50):
            fork = disk.fork()
            fork.crash(Random(seed))
            left.add(tuple(fork.paths()))
        assert left == {(), ("/data/a",)}
        assert disk.durable_image("/data/a") == b""


class TestSpace:
    def test_a_write_that_does_not_fit_leaves_what_did(self, disk: FaultyDisk) -> None:
        file = disk.open("/data/a", create=True)
        disk.capacity_bytes = 1000
        with pytest.raises(DiskFull, match="cannot write /data/a"):
            file.write(0, [b"x" * 1500])
        assert file.size() == 1000
        assert disk.free_bytes("/data") == 0
        assert disk.fired["full"] == 1

    def test_an_allocation_that_does_not_fit_leaves_what_did(self, disk: FaultyDisk) -> None:
        file = disk.open("/data/a", create=True)
        disk.capacity_bytes = 1000
        with pytest.raises(DiskFull, match="cannot allocate /data/a"):
            file.allocate(1500)
        assert file.size() == 1000
        file.truncate(0)
        assert disk.free_bytes("/data") == 1000

    def test_overwriting_needs_no_space(self, disk: FaultyDisk) -> None:
        file = disk.open("/data/a", create=True)
        file.allocate(1000)
        disk.capacity_bytes = 1000
        file.write(0, [b"x" * 1000])
        with pytest.raises(DiskFull):
            file.write(1000, [b"y"])

    def test_removing_gives_space_back_when_nobody_has_the_file_open(
        self, disk: FaultyDisk
    ) -> None:
        disk.capacity_bytes = 1000
        ballast, reader = (disk.open("/data/ballast", create=True) for _ in range(2))
        ballast.allocate(600)
        disk.remove("/data/ballast")
        ballast.close()
        assert disk.free_bytes("/data") == 400
        reader.close()
        assert disk.free_bytes("/data") == 1000

    def test_replacing_gives_space_back(self, disk: FaultyDisk) -> None:
        disk.capacity_bytes = 1000
        settled(disk, "/data/a", b"x" * 300).close()
        settled(disk, "/data/b", b"x" * 200).close()
        disk.rename("/data/b", "/data/a")
        assert disk.free_bytes("/data") == 800

    def test_a_crash_counts_anew(self, disk: FaultyDisk) -> None:
        disk.capacity_bytes = 1000
        settled(disk, "/data/a", b"x" * 300)
        disk.open("/data/b", create=True).allocate(600)
        for seed in range(20):
            fork = disk.fork()
            assert fork.free_bytes("/data") == 100
            fork.crash(Random(seed))
            assert fork.free_bytes("/data") in (100, 700)


class TestPower:
    SCRIPT_OPERATIONS = 8

    def script(self, disk: FaultyDisk) -> None:
        """Write aside, sync, rename, sync: eight changing operations."""
        file = disk.open("/data/new", create=True)
        file.allocate(1024)
        file.write(0, [b"n" * 1024])
        file.truncate(1000)
        file.sync()
        file.close()
        disk.rename("/data/new", "/data/state")
        disk.sync_directory("/data")
        disk.remove("/data/state")

    def test_the_power_goes_at_every_changing_operation(self, disk: FaultyDisk) -> None:
        settled(disk, "/data/state", b"old").close()
        for number in range(1, self.SCRIPT_OPERATIONS + 1):
            for seed in range(30):
                fork = disk.fork()
                fork.cut_power_after(number)
                with pytest.raises(PowerCut):
                    self.script(fork)
                assert fork.power_off
                with pytest.raises(PowerCut):
                    fork.list("/data")
                fork.crash(Random(seed))
                if fork.exists("/data/state"):
                    assert fork.image("/data/state") in (b"old", b"n" * 1000)
                else:
                    assert number == self.SCRIPT_OPERATIONS
        fork = disk.fork()
        fork.cut_power_after(self.SCRIPT_OPERATIONS + 1)
        self.script(fork)

    def test_a_sync_at_which_the_power_goes_has_not_happened(self, disk: FaultyDisk) -> None:
        file = settled(disk, "/data/a", b"o" * 512)
        file.write(0, [b"n" * 512])
        disk.cut_power_after(1)
        with pytest.raises(PowerCut):
            file.sync()
        assert disk.durable_image("/data/a") == b"o" * 512

    def test_everything_stops_until_the_power_is_back(self, disk: FaultyDisk) -> None:
        file = settled(disk, "/data/a", b"x")
        disk.cut_power_after(1)
        with pytest.raises(PowerCut):
            file.truncate(0)
        still: list[Callable[[], object]] = [
            lambda: file.read(0, 1),
            lambda: file.write(0, [b"y"]),
            file.sync,
            lambda: disk.open("/data/missing"),
            lambda: disk.remove("/data/missing"),
            lambda: disk.exists("/data/a"),
            lambda: disk.sync_directory("/data"),
            lambda: disk.free_bytes("/data"),
        ]
        for operation in still:
            with pytest.raises(PowerCut):
                operation()


class TestDamage:
    def test_flip_bit_rots_both_images(self, disk: FaultyDisk) -> None:
        file = settled(disk, "/data/a", b"\x00\x00")
        disk.flip_bit("/data/a", 1, 3)
        assert file.read(0, 2) == b"\x00\x08"
        assert disk.durable_image("/data/a") == b"\x00\x08"
        disk.crash(Random(0))
        assert disk.image("/data/a") == b"\x00\x08"

    def test_truncate_file(self, disk: FaultyDisk) -> None:
        file = settled(disk, "/data/a", b"abcdef")
        disk.truncate_file("/data/a", 2)
        assert file.read(0, 10) == b"ab"
        disk.crash(Random(0))
        assert disk.image("/data/a") == b"ab"
        assert disk.used_bytes == 2

    def test_only_a_file_that_is_there_can_be_damaged(self, disk: FaultyDisk) -> None:
        with pytest.raises(AssertionError, match="no file /data/nothing"):
            disk.truncate_file("/data/nothing", 0)


def test_operations_are_counted(disk: FaultyDisk) -> None:
    disk.counts.clear()
    file = settled(disk, "/data/a", b"x")
    file.read(0, 1)
    disk.crash(Random(0))
    assert dict(disk.counts) == {
        "open": 1,
        "write": 1,
        "sync": 1,
        "sync_directory": 1,
        "read": 1,
        "crash": 1,
    }


def test_relative_paths_work_and_have_one_spelling() -> None:
    disk = FaultyDisk()
    disk.make_directory("here/there")
    disk.open("./here//there/../a", create=True).write(0, [b"x"])
    assert disk.list("here") == ["a", "there"]
    assert disk.paths() == ["here/a"]
    assert disk.image("here/a") == b"x"
