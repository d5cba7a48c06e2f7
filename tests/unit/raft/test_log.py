"""The log of stable and unstable entries; above all, what a late write may claim."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.entries import Entry, EntryKind, HardState, SnapshotMark
from penstock.core.types import Index, Term
from penstock.raft.log import RaftLog, entry_bytes
from penstock.raft.messages import Ready
from tests.raft_memory import MemoryLog


def entries(*pairs: tuple[int, int], size: int = 1) -> tuple[Entry, ...]:
    return tuple(
        Entry(Index(index), Term(term), EntryKind.COMMAND, b"x" * size) for index, term in pairs
    )


def run(first: int, last: int, term: int, size: int = 1) -> tuple[Entry, ...]:
    return entries(*((index, term) for index in range(first, last + 1)), size=size)


def memory(*stored: Entry) -> MemoryLog:
    disk = MemoryLog()
    disk.hard_state = HardState(Term(99))
    if stored:
        disk.append(stored)
    return disk


def write(log: RaftLog, disk: MemoryLog, sequence: int) -> None:
    mark, written = log.issue(sequence)
    disk.persist(Ready(sequence=sequence, snapshot=mark, entries=written))


def test_a_write_becomes_durable_when_it_is_reported() -> None:
    disk = memory()
    log = RaftLog(disk, cache_bytes_max=1_000)
    log.append(run(1, 3, 1))
    assert (log.last_index, log.durable) == (3, 0)
    write(log, disk, 1)
    assert not log.unissued
    assert log.durable == 0
    assert log.persisted(1)
    assert log.durable == 3


def test_a_late_write_says_nothing_about_what_replaced_it() -> None:
    disk = memory(*run(1, 4, 1))
    log = RaftLog(disk, cache_bytes_max=1_000)
    log.append(run(5, 7, 2))
    write(log, disk, 1)
    log.append(run(6, 7, 3))
    write(log, disk, 2)
    log.persisted(1)
    assert log.durable == 5
    log.persisted(2)
    assert log.durable == 7


def test_truncation_of_the_same_indexes_twice() -> None:
    disk = memory(*run(1, 4, 1))
    log = RaftLog(disk, cache_bytes_max=1_000)
    log.append(run(5, 7, 2))
    write(log, disk, 1)
    log.append(run(5, 7, 3))
    write(log, disk, 2)
    log.append(run(5, 5, 4))
    assert not log.persisted(2)
    assert log.durable == 4
    write(log, disk, 3)
    log.persisted(3)
    assert log.durable == log.last_index == 5


def test_what_is_committed_is_never_truncated() -> None:
    log = RaftLog(memory(*run(1, 4, 1)), cache_bytes_max=1_000)
    log.commit_to(Index(3))
    log.append(run(4, 4, 2))
    with pytest.raises(AssertionError, match="truncation at 3, committed 3"):
        log.append(run(3, 3, 3))


def test_entries_have_no_gaps() -> None:
    log = RaftLog(memory(*run(1, 4, 1)), cache_bytes_max=1_000)
    with pytest.raises(AssertionError, match="entry 6 after 4"):
        log.append(run(6, 6, 1))
    with pytest.raises(AssertionError, match="have a gap"):
        log.append(entries((5, 1), (7, 1)))


def test_commit_waits_for_the_disk() -> None:
    disk = memory()
    log = RaftLog(disk, cache_bytes_max=1_000)
    log.append(run(1, 3, 1))
    log.commit_to(Index(2))
    assert (log.committed, log.commit, log.appliable) == (2, 0, False)
    write(log, disk, 1)
    log.persisted(1)
    assert (log.commit, log.appliable) == (2, True)


def test_what_is_applied_comes_in_portions() -> None:
    log = RaftLog(memory(*run(1, 6, 1)), cache_bytes_max=1_000)
    log.commit_to(Index(5))
    portion = log.hand_over(2 * entry_bytes(run(1, 1, 1)[0]))
    assert [entry.index for entry in portion] == [1, 2]
    assert not log.appliable
    log.apply_to(Index(2))
    assert [entry.index for entry in log.hand_over(1)] == [3]
    with pytest.raises(AssertionError, match="applied 4, only 3 was handed over"):
        log.apply_to(Index(4))


def test_the_cache_drops_old_durable_and_applied_entries_only() -> None:
    disk = memory()
    log = RaftLog(disk, cache_bytes_max=10 * entry_bytes(run(1, 1, 1)[0]))
    log.append(run(1, 50, 1))
    assert log.memory_bytes > 10 * entry_bytes(run(1, 1, 1)[0])
    write(log, disk, 1)
    log.persisted(1)
    assert log.memory_bytes > 10 * entry_bytes(run(1, 1, 1)[0]), "none of them is applied yet"
    log.commit_to(Index(50))
    log.apply_to(log.hand_over(10**6)[-1].index)
    log.append(run(51, 51, 1))
    write(log, disk, 2)
    log.persisted(2)
    assert log.memory_bytes <= 10 * entry_bytes(run(1, 1, 1)[0])
    assert [e.index for e in log.entries(Index(2), 10**6, high=Index(51))] == list(range(2, 45))
    assert log.entries(Index(49), 10**6, high=Index(51)) == run(49, 50, 1)
    assert log.term(Index(3)) == 1


def test_recent_entries_are_not_read_from_disk() -> None:
    disk = memory()
    log = RaftLog(disk, cache_bytes_max=10_000)
    log.append(run(1, 5, 1))
    write(log, disk, 1)
    log.persisted(1)
    disk.damage()
    assert log.entries(Index(4), 10**6, high=Index(6)) == run(4, 5, 1)


def test_a_restored_snapshot_replaces_everything() -> None:
    disk = memory(*run(1, 8, 1))
    log = RaftLog(disk, cache_bytes_max=1_000)
    log.commit_to(Index(4))
    log.append(run(9, 9, 2))
    write(log, disk, 1)
    log.restore(SnapshotMark(Index(20), Term(3)))
    assert (log.first_index, log.last_index, log.last_term) == (21, 20, 3)
    assert log.commit == 4, "the snapshot is not durable yet"
    log.append(run(21, 22, 3))
    write(log, disk, 2)
    log.persisted(1)
    assert log.durable == 4, "what the first write wrote is not part of this log"
    log.persisted(2)
    assert not log.restoring
    assert (log.durable, log.commit, log.handed) == (22, 20, 20)


def test_after_a_start_only_the_snapshot_is_committed() -> None:
    disk = memory(*run(1, 8, 1))
    disk.take_snapshot(SnapshotMark(Index(5), Term(1)), 0)
    disk.compact(Index(4))
    log = RaftLog(disk, cache_bytes_max=1_000)
    assert (log.first_index, log.last_index, log.durable) == (4, 8, 8)
    assert (log.committed, log.applied) == (5, 5)


def test_matching_looks_at_index_and_term() -> None:
    log = RaftLog(memory(*entries((1, 1), (2, 1), (3, 4))), cache_bytes_max=1_000)
    assert log.matches(Index(0), Term(0))
    assert log.matches(Index(3), Term(4))
    assert not log.matches(Index(3), Term(3))
    assert not log.matches(Index(4), Term(4))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=20), st.integers(0, 25), st.integers(0, 7))
def test_the_search_for_a_conflict_is_a_walk_made_short(
    terms: list[int], index: int, term: int
) -> None:
    terms.sort()
    log = RaftLog(memory(*entries(*enumerate(terms, start=1))), cache_bytes_max=1_000)
    walked = min(index, len(terms))
    while walked > 0 and terms[walked - 1] > term:
        walked -= 1
    assert log.last_not_after(Index(index), Term(term), floor=Index(1)) == walked
