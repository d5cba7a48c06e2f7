"""What a power cut may do to one file, and what it may never do."""

from collections.abc import Callable
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from penstock.testing.page_cache import SECTOR_BYTES, CachedFile, CrashReport

SEEDS = range(300)


def outcomes(prepare: Callable[[CachedFile], None]) -> set[bytes]:
    """Every content that many power cuts left of a file."""
    contents = set()
    for seed in SEEDS:
        file = CachedFile("f")
        prepare(file)
        file.crash(Random(seed), CrashReport())
        assert file.cache == file.durable
        assert file.unsynced == []
        contents.add(bytes(file.durable))
    return contents


def synced(file: CachedFile, content: bytes) -> None:
    file.write(0, content)
    file.sync()


def test_what_was_synced_survives() -> None:
    assert outcomes(lambda file: synced(file, b"promise" * 500)) == {b"promise" * 500}


def test_any_subset_of_unsynced_sectors_may_survive() -> None:
    def overwrite(file: CachedFile) -> None:
        synced(file, b"o" * 3 * SECTOR_BYTES)
        file.write(0, b"n" * 3 * SECTOR_BYTES)

    patterns = {content[::SECTOR_BYTES].decode() for content in outcomes(overwrite)}
    assert patterns == {"ooo", "oon", "ono", "noo", "onn", "non", "nno", "nnn"}


def test_a_sector_is_never_torn() -> None:
    def overwrite(file: CachedFile) -> None:
        synced(file, b"o" * 4 * SECTOR_BYTES)
        file.write(100, b"n" * 3 * SECTOR_BYTES)

    for content in outcomes(overwrite):
        assert content[:100] == b"o" * 100
        for start in (100, SECTOR_BYTES, 2 * SECTOR_BYTES):
            end = start - start % SECTOR_BYTES + SECTOR_BYTES
            assert len(set(content[start:end])) == 1


def test_a_sector_written_twice_may_hold_the_version_between() -> None:
    def grow_slowly(file: CachedFile) -> None:
        file.grow(SECTOR_BYTES)
        file.sync()
        file.write(0, b"a" * 10)
        file.write(10, b"b" * 10)

    tails = {content[:20].rstrip(b"\0") for content in outcomes(grow_slowly)}
    assert tails == {b"", b"a" * 10, b"a" * 10 + b"b" * 10}


def test_an_unsynced_size_survives_or_not_and_missing_sectors_are_zero() -> None:
    def append(file: CachedFile) -> None:
        synced(file, b"o" * 100)
        file.write(100, b"n" * 2 * SECTOR_BYTES)

    contents = outcomes(append)
    assert {len(content) for content in contents} == {100, 100 + 2 * SECTOR_BYTES}
    assert b"o" * 100 in contents
    assert b"o" * 100 + b"n" * 2 * SECTOR_BYTES in contents
    assert b"o" * 100 + bytes(2 * SECTOR_BYTES) in contents, "the size without the data"
    assert all(set(content[100:]) <= set(b"n\0") for content in contents)


def test_an_allocation_survives_or_not() -> None:
    contents = outcomes(lambda file: file.grow(2000))
    assert contents == {b"", bytes(2000)}


def test_what_was_cut_never_mixes_with_what_grew_back() -> None:
    def cut_and_regrow(file: CachedFile) -> None:
        synced(file, b"o" * 8192)
        file.truncate(0)
        file.write(0, b"n" * 8192)

    contents = outcomes(cut_and_regrow)
    assert b"o" * 8192 in contents, "nothing reached the journal: the old blocks are still owned"
    assert b"" in contents, "only the cut did"
    assert all(
        set(content) in ({*b"o"}, set(), {*b"n"}, {*b"\0"}, {*b"n\0"}) for content in contents
    )


def test_the_block_cut_in_its_middle_is_shared() -> None:
    def cut_in_a_block(file: CachedFile) -> None:
        synced(file, b"o" * 2048)
        file.truncate(1024)
        file.write(1024, b"n" * 1024)

    contents = outcomes(cut_in_a_block)
    assert b"o" * 1024 + b"n" * 512 + b"o" * 512 in contents, "new data under the old size"
    assert all(content[:1024] == b"o" * 1024 for content in contents)


def test_a_cut_may_be_lost() -> None:
    def cut(file: CachedFile) -> None:
        synced(file, b"o" * 2000)
        file.truncate(700)

    assert outcomes(cut) == {b"o" * 2000, b"o" * 700}


def test_a_sync_after_a_cut_keeps_neither_old_nor_stale_bytes() -> None:
    def cut_regrow_sync(file: CachedFile) -> None:
        synced(file, b"o" * 2000)
        file.truncate(700)
        file.grow(2000)
        file.sync()

    assert outcomes(cut_regrow_sync) == {b"o" * 700 + bytes(1300)}


def test_a_failed_sync_drops_the_data_for_good() -> None:
    def fail_then_sync(file: CachedFile) -> None:
        synced(file, b"o" * 1024)
        file.write(0, b"n" * 512)
        file.write(1024, b"n" * 512)
        file.fail_sync()
        assert file.cache == b"n" * 512 + b"o" * 512 + b"n" * 512, "reads notice nothing"
        file.sync()

    assert outcomes(fail_then_sync) == {b"o" * 1024 + bytes(512)}


def test_a_sector_dirtied_again_takes_along_what_a_failed_sync_left() -> None:
    def fail_then_write_again(file: CachedFile) -> None:
        synced(file, b"o" * 1024)
        file.write(0, b"n" * 1024)
        file.fail_sync()
        file.write(100, b"x")
        file.sync()

    expected = b"n" * 100 + b"x" + b"n" * 411 + b"o" * 512
    assert outcomes(fail_then_write_again) == {expected}


def test_the_report_counts_what_happened() -> None:
    total = CrashReport()
    for seed in SEEDS:
        file = CachedFile("f")
        file.write(0, b"n" * 2 * SECTOR_BYTES)
        report = CrashReport()
        file.crash(Random(seed), report)
        assert report.sectors_kept + report.sectors_lost == 2
        assert report.writes_torn == (report.sectors_kept == 1)
        total.writes_torn += report.writes_torn
        total.sizes_lost += report.sizes_lost
    assert total.writes_torn > 10
    assert total.sizes_lost > 10


def test_a_fork_meets_its_own_fate() -> None:
    file = CachedFile("f")
    synced(file, b"o" * 512)
    file.write(0, b"n" * 512)
    fates = set()
    for seed in range(20):
        fork = file.fork()
        fork.crash(Random(seed), CrashReport())
        fates.add(bytes(fork.cache))
    assert fates == {b"o" * 512, b"n" * 512}
    assert file.cache == b"n" * 512
    assert file.durable == b"o" * 512


_WRITES = st.lists(
    st.tuples(st.integers(0, 2500), st.binary(min_size=1, max_size=1200)), min_size=1, max_size=12
)


@given(_WRITES, _WRITES, st.integers(0, 2**32))
def test_each_sector_is_one_of_its_versions(
    before: list[tuple[int, bytes]], after: list[tuple[int, bytes]], seed: int
) -> None:
    file = CachedFile("f")
    for position, data in before:
        file.write(position, data)
    file.sync()
    versions = [bytes(file.cache)]
    for position, data in after:
        file.write(position, data)
        versions.append(bytes(file.cache))
    file.crash(Random(seed), CrashReport())
    size = len(file.durable)
    assert size in {len(version) for version in versions}
    for start in range(0, size, SECTOR_BYTES):
        end = min(start + SECTOR_BYTES, size)
        allowed = {version.ljust(size, b"\0")[start:end] for version in versions}
        assert bytes(file.durable[start:end]) in allowed
