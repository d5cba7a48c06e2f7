"""What a `Disk` promises, asked of the real one and of the two in memory.

A disk in memory is worth something only as long as it passes the tests of the real thing, so every
test here runs on all of them. What a crash does to a `FaultyDisk` is in
tests/unit/testing/test_disk.py.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import DirectoryInUse, DiskFailed, DiskFull
from penstock.storage.disk import Disk, File, RealDisk
from penstock.storage.memory_disk import MemoryDisk
from penstock.testing.disk import FaultyDisk


class Place:
    """A disk and a directory on it."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.disk = disk
        self.directory = directory

    def path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def open(self, name: str, *, create: bool = True) -> File:
        return self.disk.open(self.path(name), create=create)


@pytest.fixture(params=["real", "faulty", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "real":
        yield Place(RealDisk(), str(tmp_path))
    else:
        disk: Disk = FaultyDisk() if request.param == "faulty" else MemoryDisk()
        disk.make_directory("/data")
        yield Place(disk, "/data")


def test_what_was_written_is_read(place: Place) -> None:
    file = place.open("a")
    file.write(0, [b"hello ", bytearray(b"wor"), memoryview(b"ld")])
    assert file.read(0, 11) == b"hello world"
    assert file.read(6, 3) == b"wor"
    assert file.size() == 11
    file.close()


def test_a_read_is_short_only_at_the_end(place: Place) -> None:
    file = place.open("a")
    file.write(0, [b"abc"])
    assert file.read(1, 100) == b"bc"
    assert file.read(3, 10) == b""
    assert file.read(1000, 10) == b""
    assert file.read(0, 0) == b""
    assert isinstance(file.read(0, 3), bytes)
    file.close()


def test_a_later_change_of_the_buffer_does_not_matter(place: Place) -> None:
    file = place.open("a")
    buffer = bytearray(b"before")
    file.write(0, [buffer])
    buffer[:] = b"after!"
    assert file.read(0, 6) == b"before"
    file.close()


def test_an_overwrite_keeps_what_is_around_it(place: Place) -> None:
    file = place.open("a")
    file.write(0, [b"aaaaaaaaaa"])
    file.write(3, [b"bbb"])
    assert file.read(0, 20) == b"aaabbbaaaa"
    file.close()


def test_a_gap_reads_as_zeros(place: Place) -> None:
    file = place.open("a")
    file.write(5000, [b"x"])
    assert file.size() == 5001
    assert file.read(0, 5001) == bytes(5000) + b"x"
    file.close()


def test_writing_nothing_changes_nothing(place: Place) -> None:
    file = place.open("a")
    file.write(100, [])
    file.write(100, [b"", b""])
    assert file.size() == 0
    file.close()


def test_more_buffers_than_the_system_takes_at_once(place: Place) -> None:
    file = place.open("a")
    file.write(0, [b"%05d" % number for number in range(3000)])
    assert file.size() == 15_000
    assert file.read(5 * 2999, 5) == b"02999"
    file.close()


def test_truncate_cuts_and_lengthens(place: Place) -> None:
    file = place.open("a")
    file.write(0, [b"abcdef"])
    file.truncate(2)
    assert file.read(0, 10) == b"ab"
    file.truncate(5)
    assert file.read(0, 10) == b"ab\0\0\0"
    file.truncate(0)
    assert file.size() == 0
    file.close()


def test_allocate_lengthens_and_never_cuts(place: Place) -> None:
    file = place.open("a")
    file.write(0, [b"abc"])
    file.allocate(8192)
    assert file.size() == 8192
    assert file.read(0, 8192) == b"abc" + bytes(8189)
    file.allocate(10)
    file.allocate(0)
    assert file.size() == 8192
    file.close()


def test_what_was_reserved_and_never_written_is_known_to_be_zeros(place: Place) -> None:
    file = place.open("a")
    assert file.written_end() == 0
    file.allocate(1 << 20)
    assert file.written_end() == 0
    for position in (0, 300_000, 100_000):
        file.write(position, [b"abc"])
    file.sync()
    end = file.written_end()
    assert 300_003 <= end < 1 << 20
    assert not any(file.read(end, 1 << 20))
    file.write((1 << 20) - 1, [b"z"])
    assert file.written_end() == 1 << 20
    file.truncate(10)
    assert 3 <= file.written_end() <= 10
    file.close()


def test_content_is_there_when_opened_again(place: Place) -> None:
    file = place.open("a")
    file.write(0, [b"kept"])
    file.sync()
    file.close()
    place.disk.sync_directory(place.directory)
    again = place.open("a", create=False)
    assert again.read(0, 4) == b"kept"
    again.close()


def test_two_handles_see_one_file(place: Place) -> None:
    writer, reader = place.open("a"), place.open("a")
    writer.write(0, [b"seen at once"])
    assert reader.read(0, 12) == b"seen at once"
    writer.close()
    reader.close()


def test_a_missing_file_is_named(place: Place) -> None:
    with pytest.raises(DiskFailed, match="cannot open .*/nothing: No such file"):
        place.open("nothing", create=False)
    with pytest.raises(DiskFailed, match="nowhere"):
        place.open("nowhere/file")
    with pytest.raises(DiskFailed, match="nothing"):
        place.disk.remove(place.path("nothing"))
    with pytest.raises(DiskFailed, match="nothing"):
        place.disk.rename(place.path("nothing"), place.path("other"))
    with pytest.raises(DiskFailed, match="nowhere"):
        place.disk.list(place.path("nowhere"))
    with pytest.raises(DiskFailed, match="nowhere"):
        place.disk.sync_directory(place.path("nowhere"))


def test_a_closed_file_cannot_be_used(place: Place) -> None:
    file = place.open("a")
    file.write(0, [b"x"])
    file.close()
    file.close()
    # Using it is our own mistake, so any error will do, as long as it does not pass unnoticed.
    with pytest.raises((DiskFailed, ValueError)):
        file.read(0, 1)
    with pytest.raises((DiskFailed, ValueError)):
        file.write(0, [b"y"])
    with pytest.raises((DiskFailed, ValueError)):
        file.sync()
    with pytest.raises((DiskFailed, ValueError)):
        file.truncate(0)
    with pytest.raises((DiskFailed, ValueError)):
        file.allocate(10)
    with pytest.raises((DiskFailed, ValueError)):
        file.size()


def test_list_is_sorted_and_has_directories(place: Place) -> None:
    for name in ("b", "c", "a"):
        place.open(name).close()
    place.disk.make_directory(place.path("d"))
    place.open("d/inner").close()
    assert place.disk.list(place.directory) == ["a", "b", "c", "d"]
    assert place.disk.list(place.path("d")) == ["inner"]


def test_exists(place: Place) -> None:
    place.open("a").close()
    place.disk.make_directory(place.path("d"))
    assert place.disk.exists(place.path("a"))
    assert place.disk.exists(place.path("d"))
    assert not place.disk.exists(place.path("b"))
    assert not place.disk.exists(place.path("x/y"))


def test_rename_replaces(place: Place) -> None:
    old, new = place.open("old"), place.open("new")
    old.write(0, [b"old"])
    new.write(0, [b"new"])
    place.disk.rename(place.path("new"), place.path("old"))
    assert place.disk.list(place.directory) == ["old"]
    reopened = place.open("old", create=False)
    assert reopened.read(0, 3) == b"new"
    new.write(0, [b"NEW"])
    assert reopened.read(0, 3) == b"NEW", "a handle follows its file"
    assert old.read(0, 3) == b"old", "a replaced file lives on for those who have it open"
    for file in (old, new, reopened):
        file.close()


def test_rename_between_directories(place: Place) -> None:
    place.disk.make_directory(place.path("aside"))
    file = place.open("aside/a")
    file.write(0, [b"moved"])
    file.close()
    place.disk.rename(place.path("aside/a"), place.path("a"))
    assert place.disk.list(place.directory) == ["a", "aside"]
    assert place.disk.list(place.path("aside")) == []


def test_rename_to_itself_changes_nothing(place: Place) -> None:
    file = place.open("a")
    file.write(0, [b"same"])
    place.disk.rename(place.path("a"), place.path("a"))
    assert file.read(0, 4) == b"same"
    assert place.disk.list(place.directory) == ["a"]
    file.close()


def test_a_removed_file_lives_on_for_those_who_have_it_open(place: Place) -> None:
    file = place.open("a")
    file.write(0, [b"still here"])
    place.disk.remove(place.path("a"))
    assert place.disk.list(place.directory) == []
    assert file.read(0, 10) == b"still here"
    fresh = place.open("a")
    assert fresh.size() == 0
    file.close()
    fresh.close()


def test_make_directory_makes_parents_and_may_be_repeated(place: Place) -> None:
    place.disk.make_directory(place.path("x/y/z"))
    place.disk.make_directory(place.path("x/y/z"))
    place.disk.sync_directory(place.path("x/y"))
    assert place.disk.list(place.path("x")) == ["y"]
    place.open("file").close()
    with pytest.raises(DiskFailed, match="file"):
        place.disk.make_directory(place.path("file"))


def test_a_directory_is_not_a_file(place: Place) -> None:
    place.disk.make_directory(place.path("d"))
    with pytest.raises(DiskFailed, match="d"):
        place.disk.open(place.path("d"))
    with pytest.raises(DiskFailed, match="d"):
        place.disk.remove(place.path("d"))


def test_a_lock_is_held_once(place: Place) -> None:
    lock = place.disk.lock(place.path("LOCK"))
    with pytest.raises(DirectoryInUse, match="LOCK is held by another process"):
        place.disk.lock(place.path("LOCK"))
    lock.release()
    lock.release()
    second = place.disk.lock(place.path("LOCK"))
    lock.release()
    with pytest.raises(DirectoryInUse):
        place.disk.lock(place.path("LOCK"))
    second.release()
    assert place.disk.exists(place.path("LOCK"))


def test_free_bytes(place: Place) -> None:
    assert place.disk.free_bytes(place.directory) > 0


def test_no_space_is_its_own_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    file = place.open("a")
    if isinstance(place.disk, FaultyDisk | MemoryDisk):
        place.disk.capacity_bytes = 0
    else:

        def full(*arguments: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "pwritev", full)
        monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(DiskFull, match="cannot write .*/a: No space left on device"):
        file.write(0, [b"x"])
    with pytest.raises(DiskFull, match="cannot allocate .*/a: No space left on device"):
        file.allocate(100)
    file.close()


_CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3000), st.binary(max_size=1500)),
        st.tuples(st.just("truncate"), st.integers(0, 3000), st.just(b"")),
        st.tuples(st.just("allocate"), st.integers(0, 3000), st.just(b"")),
        st.tuples(st.just("sync"), st.just(0), st.just(b"")),
    ),
    max_size=20,
)


@given(_CHANGES)
def test_all_disks_agree_on_any_sequence(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, int, bytes]]
) -> None:
    directory = str(tmp_path_factory.mktemp("disk", numbered=True))
    fake, memory = FaultyDisk(), MemoryDisk()
    for disk in (fake, memory):
        disk.make_directory(directory)
    files = [disk.open(f"{directory}/f", create=True) for disk in (RealDisk(), fake, memory)]
    for operation, place, data in changes:
        for file in files:
            if operation == "write":
                file.write(place, [data])
            elif operation == "truncate":
                file.truncate(place)
            elif operation == "allocate":
                file.allocate(place)
            else:
                file.sync()
    real, faulty, remembered = files
    assert faulty.size() == remembered.size() == real.size()
    assert faulty.read(0, 10_000) == remembered.read(0, 10_000) == real.read(0, 10_000)
    real.close()
    assert fake.image(f"{directory}/f") == faulty.read(0, 10_000)
