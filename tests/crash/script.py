"""Thirty-five steps in the life of a log, to be killed at every one of their disk operations.

    python -m tests.crash.script DIRECTORY        says `done 7` when step 7 is complete

The script does everything a replica does to its log: votes, appends, rolls, conflicts within and
across segments, snapshots beside a write, removal and rewriting of segments, compaction by key,
installations begun, given up and finished, stops and starts. It is the same every time, so a run
without faults tells what the log holds after each step (`states`), and whoever finds the remains of
a run that died in step 8 knows that they must be between state 7 and state 8. That is `check`:

- what was durable after step 7, and is not replaced in step 8, is there;
- what is there beyond it is a beginning of the old entries or of the new ones, never a mixture;
- term and vote, and the snapshot, are those of state 7 or of state 8;
- every batch of a living partition can be read, by a reader that starts at its log start;
- a reader of the compacted partition finds the latest value of each key, and nothing made up.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

from penstock.core.entries import Entry, EntryKind, HardState, Membership, SnapshotMark
from penstock.core.types import Index, NodeId, Offset, PartitionId, Term
from penstock.storage import (
    CompactionPolicy,
    Disk,
    LogJob,
    LogSettings,
    RealDisk,
    ShardLog,
)
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.keyed import Content, KeyedMaker, latest, parse, seen
from tests.unit.storage.logs import (
    EVERYTHING,
    EntryMaker,
    batches_of,
    drain,
    everything,
    membership,
    noop,
    open_log,
    scrub,
)

MEMBERS = Membership((NodeId(1),))
NEVER = Index(1 << 40)
KEYED = 4
"""The partition that is compacted."""
POLICIES = {PartitionId(KEYED): CompactionPolicy(dirty_ratio=0.0)}
SETTINGS = LogSettings(segment_bytes=8 << 10, ballast_bytes=8 << 10, rewrite_live_percent_max=50)


@dataclass
class State:
    """What a log holds, and what it was ever told."""

    entries: dict[int, Entry] = field(default_factory=dict)
    """All entries since the first, also those that only partitions can still read."""
    hard_state: HardState = field(default_factory=HardState)
    mark: SnapshotMark = field(default_factory=SnapshotMark)
    starts: dict[int, int] = field(default_factory=lambda: {1: 0, 2: 0, 3: 0})
    """The log start of every living partition."""
    commit: int = 0

    def copy(self) -> "State":
        return State(dict(self.entries), self.hard_state, self.mark, dict(self.starts), self.commit)

    def up_to(self, index: int) -> list[Entry]:
        return [self.entries[i] for i in sorted(self.entries) if i <= index]

    @property
    def last(self) -> int:
        return max(self.entries, default=0)


def snapshot_state(mark: SnapshotMark) -> bytes:
    return b"state at %d " % mark.index * 40 if mark.index else b""


class Script:
    """The steps, on some disk."""

    log: ShardLog

    def __init__(self, disk: Disk, directory: str, done: Callable[[int], None]) -> None:
        self._disk = disk
        self._directory = directory
        self._done = done
        self._maker = EntryMaker()
        self._keyed_maker = KeyedMaker()
        self.state = State()

    def run(self) -> None:
        for number, step in enumerate(STEPS, 1):
            step(self)
            self._done(number)

    # The steps.

    def make(self) -> None:
        self.log = open_log(self._disk, self._directory, settings=SETTINGS)

    def vote(self) -> None:
        self._vote(1)
        drain(self.log)

    def first_entries(self) -> None:
        self._append(membership(1), noop(2), self._maker.append(3, partitions=(1, 2)))

    def fill_three_segments(self) -> None:
        self._append(*(self._entry(i, 900) for i in range(4, 14)))

    def entry_larger_than_a_segment(self) -> None:
        self._append(self._entry(14, 9_000))

    def commit(self) -> None:
        self._commit(13)
        self._append(self._entry(15, 10), self._entry(16, 10))

    def vote_and_append(self) -> None:
        self._vote(2)
        self._append(*(self._entry(i, 300) for i in range(17, 21)))

    def conflict_in_the_active_segment(self) -> None:
        self._replace(18, 300, count=2)

    def fill_more_segments(self) -> None:
        self._append(*(self._entry(i, 700) for i in range(20, 34)))

    def conflict_across_segments(self) -> None:
        self._replace(23, 500, count=4)

    def commit_and_append(self) -> None:
        self._commit(25)
        self._append(*(self._entry(i, 400) for i in range(27, 33)))

    def snapshot_beside_a_write(self) -> None:
        job = self._snapshot_job(24)
        self._stage(self._entry(33, 700), self._entry(34, 3_000))
        self._interleave(job)

    def trim_and_remove(self) -> None:
        self.state.starts.update({1: 18, 2: 9, 3: 6})
        self._reclaim()
        assert self.log.statistics().removed_segments > 0

    def stop_and_start(self) -> None:
        self._reopen()

    def append_and_commit(self) -> None:
        self._append(*(self._entry(i, 800) for i in range(35, 46)))
        self._commit(44)

    def second_snapshot(self) -> None:
        self._interleave(self._snapshot_job(43))

    def rewrite_mostly_dead(self) -> None:
        del self.state.starts[3]
        self.state.starts[1] = 30
        self._reclaim()
        assert self.log.statistics().rewritten_segments > 0

    def reclaim_beside_a_write(self) -> None:
        self.state.starts[2] = 14
        self._stage(self._entry(46, 100), self._entry(47, 2_500))
        self._interleave(self._reclaim_job())

    def scrub(self) -> None:
        for _ in range(12):
            assert scrub(self.log) is None

    def vote_alone(self) -> None:
        self._vote(4)
        drain(self.log)

    def begin_to_receive(self) -> None:
        """A leader of a later term sends its snapshot at 60; records after our commit differ."""
        self._vote(5)
        drain(self.log)
        self._theirs = self._leader_entries(60)
        self._incoming = self.log.begin_install(self._mark(60, 5), self.log.trusted_index)
        self._receive(self.log.trusted_index, 52)

    def receive_more(self) -> None:
        self._receive(52, 60)

    def install(self) -> None:
        self._finish_install()

    def append_after_installing(self) -> None:
        self._append(*(self._entry(i, 900) for i in range(61, 70)))

    def conflict_right_after_the_snapshot(self) -> None:
        self._replace(61, 600, count=9)

    def verify_at_a_start(self) -> None:
        self._commit(66)
        self._reopen(verify_all=True)

    def give_up_receiving(self) -> None:
        self._vote(7)
        drain(self.log)
        self._theirs = self._leader_entries(75)
        self._incoming = self.log.begin_install(self._mark(75, 7), self.log.trusted_index)
        self._receive(self.log.trusted_index, 75)

    def begin_anew(self) -> None:
        self._vote(8)
        drain(self.log)
        self._theirs = self._leader_entries(80)
        self._incoming = self.log.begin_install(self._mark(80, 8), self.log.trusted_index)
        self._receive(self.log.trusted_index, 80)
        drain(self.log)

    def install_again(self) -> None:
        self._finish_install()

    def keyed_records(self) -> None:
        self.state.starts[KEYED] = 0
        self._append(*(self._keyed(i, 300) for i in range(81, 105)))
        self._commit(103)
        self._interleave(self._snapshot_job(103))

    def compact(self) -> None:
        self._compact(now_ms=1_000)
        assert self.log.statistics().compaction_rounds > 0

    def more_keyed_records(self) -> None:
        self._append(*(self._keyed(i, 400) for i in range(105, 130)))
        self._commit(129)
        self._interleave(self._snapshot_job(128))

    def compact_away_tombstones_beside_writes(self) -> None:
        self._compact(now_ms=100_000_000, beside=[self._keyed(i, 900) for i in range(130, 140)])
        assert self.log.erased_through > 80

    def start_compacted(self) -> None:
        self._reopen(verify_all=True)

    def last_words(self) -> None:
        self._append(*(self._entry(i, 300) for i in range(140, 144)))
        self._commit(142)
        self._reopen()
        self._append(self._entry(144, 50))
        self.log.close()

    # Their parts.

    def _entry(self, index: int, size: int) -> Entry:
        partitions = ((1,), (2,), (1, 3), (2, 3), (1, 2, 3))[index % 5]
        return self._maker.append(
            index, self.log.hard_state.term, partitions, count=1 + index % 2, value=b"v" * size
        )

    def _vote(self, term: int) -> None:
        self.state.hard_state = HardState(Term(term), NodeId(term % 3))
        self.log.stage(hard_state=self.state.hard_state)

    def _stage(self, *entries: Entry) -> None:
        for index in [i for i in self.state.entries if i >= entries[0].index]:
            del self.state.entries[index]
        self.state.entries |= {entry.index: entry for entry in entries}
        self.log.stage(entries=entries)

    def _append(self, *entries: Entry) -> None:
        self._stage(*entries)
        drain(self.log)

    def _replace(self, first: int, size: int, *, count: int) -> None:
        """A new leader's entries take the place of ours from `first` on."""
        self._vote(self.log.hard_state.term + 1)
        self._maker.rewind(self.state.up_to(first - 1))
        self._append(*(self._entry(i, size) for i in range(first, first + count)))

    def _commit(self, index: int) -> None:
        self.state.commit = index
        self.log.note_commit(Index(index))

    def _mark(self, index: int, term: int) -> SnapshotMark:
        return SnapshotMark(Index(index), Term(term), MEMBERS)

    def _snapshot_job(self, index: int) -> LogJob:
        self.state.mark = self._mark(index, self.log.term(Index(index)))
        return self.log.snapshot_job(self.state.mark, snapshot_state(self.state.mark))

    def _reclaim_job(self) -> LogJob:
        live = {PartitionId(p): Offset(start) for p, start in self.state.starts.items()}
        job = self.log.reclaim_job(live, NEVER)
        assert job is not None, "there was nothing to reclaim"
        return job

    def _reclaim(self) -> None:
        """Go round all segments: each job looks at a few."""
        for _ in range(4):
            self._interleave(self._reclaim_job())

    def _keyed(self, index: int, size: int) -> Entry:
        """Records of eleven keys in the compacted partition, now and then a tombstone, and one of a
        key that never comes back."""
        content: dict[int, list[Content]] = {
            KEYED: [
                [
                    (b"key %d" % ((index * n) % 11), b"v" * size if (index + n) % 4 else None)
                    for n in range(1, 4)
                ],
                [(b"gone %d" % index, None)],
            ]
        }
        return self._keyed_maker.entry(index, content, term=self.log.hard_state.term)

    def _compact(self, *, now_ms: int, beside: Sequence[Entry] = ()) -> None:
        """Compact until nothing is left to do, writing an entry with each of the first jobs."""
        entries = list(beside)
        live = {PartitionId(p): Offset(start) for p, start in self.state.starts.items()}
        while True:
            job = self.log.compaction_job(POLICIES, lambda: live, NEVER, now_ms)
            if entries:
                self._stage(entries.pop(0))
            if job is None:
                break
            self._interleave(job)
        if entries:
            self._stage(*entries)
        drain(self.log)

    def _interleave(self, background: LogJob) -> None:
        """Run write jobs and another job as two threads would, a step of each in turn."""
        steps = list(background.steps)
        write = self.log.take_job()
        while steps or write is not None:
            if write is not None:
                for step in write.steps:
                    step()
                    if steps:
                        steps.pop(0)()
                self.log.complete(write)
            while steps:
                steps.pop(0)()
            if background is not None:
                self.log.complete(background)
                background = None  # type: ignore[assignment]
            write = self.log.take_job()

    def _reopen(self, *, verify_all: bool = False) -> None:
        drain(self.log)
        self.log.close()
        self.log = open_log(self._disk, self._directory, settings=SETTINGS, verify_all=verify_all)

    def _leader_entries(self, through: int) -> list[Entry]:
        """What the leader has up to its snapshot: what is committed here, then its own."""
        committed = self.state.up_to(self.state.commit)
        self._maker.rewind(committed)
        return committed + [self._entry(i, 500) for i in range(len(committed) + 1, through + 1)]

    def _receive(self, after: int, through: int) -> None:
        self._incoming.stage([e for e in self._theirs[after:through] if e.kind == EntryKind.APPEND])
        job = self._incoming.take_job()
        assert job is not None
        for step in job.steps:
            step()
        self.log.complete(job)

    def _finish_install(self) -> None:
        mark = self._incoming.mark
        job = self._incoming.finish_job(snapshot_state(mark))
        for step in job.steps:
            step()
        self.log.complete(job)
        self.state.entries = {entry.index: entry for entry in self._theirs}
        self.state.mark = mark
        self.state.commit = mark.index
        drain(self.log)


STEPS: list[Callable[[Script], None]] = [
    Script.make,
    Script.vote,
    Script.first_entries,
    Script.fill_three_segments,
    Script.entry_larger_than_a_segment,
    Script.commit,
    Script.vote_and_append,
    Script.conflict_in_the_active_segment,
    Script.fill_more_segments,
    Script.conflict_across_segments,
    Script.commit_and_append,
    Script.snapshot_beside_a_write,
    Script.trim_and_remove,
    Script.stop_and_start,
    Script.append_and_commit,
    Script.second_snapshot,
    Script.rewrite_mostly_dead,
    Script.reclaim_beside_a_write,
    Script.scrub,
    Script.vote_alone,
    Script.begin_to_receive,
    Script.receive_more,
    Script.install,
    Script.append_after_installing,
    Script.conflict_right_after_the_snapshot,
    Script.verify_at_a_start,
    Script.give_up_receiving,
    Script.begin_anew,
    Script.install_again,
    Script.keyed_records,
    Script.compact,
    Script.more_keyed_records,
    Script.compact_away_tombstones_beside_writes,
    Script.start_compacted,
    Script.last_words,
]


@cache
def states() -> list[State]:
    """The state after each step, the empty one first, from a run in which nothing goes wrong."""
    found = [State()]
    script = Script(FaultyDisk(), "/script", lambda _: found.append(script.state.copy()))
    script.run()
    statistics = script.log.statistics()
    assert len(found) == len(STEPS) + 1
    assert statistics.last_index == found[-1].last
    return found


def check(log: ShardLog, done: int) -> None:
    """The log is what a run that completed `done` steps, and no more, may leave behind."""
    old, new = states()[done], states()[min(done + 1, len(STEPS))]
    assert log.hard_state in (old.hard_state, new.hard_state), f"{log.hard_state} after {done}"
    assert log.snapshot in (old.mark, new.mark), f"{log.snapshot} after step {done}"
    assert log.load_snapshot() == (log.snapshot, snapshot_state(log.snapshot))
    assert log.first_index <= log.snapshot.index + 1
    known = old if log.snapshot == old.mark else new
    found = everything(log)
    _check_entries(log, found, old, new)
    model = known.up_to(log.snapshot.index) + [e for e in found if e.index > log.snapshot.index]
    for partition, start in new.starts.items():
        if partition == KEYED:
            _check_compacted(log, model, done)
            continue
        data = log.read(PartitionId(partition), Offset(start), 1 << 30, EVERYTHING)
        expected = batches_of(model, partition, start)
        assert data == expected, f"partition {partition} from {start} after step {done}"


def _check_compacted(log: ShardLog, model: list[Entry], done: int) -> None:
    written, _ = parse(batches_of(model, KEYED), 0)
    found = seen(log, KEYED)
    assert set(found) <= set(written), f"records that nobody wrote after step {done}"
    assert latest(found) == latest(written), f"another table after step {done}"
    assert found[-1:] == written[-1:], f"the end is missing after step {done}"


def _check_entries(log: ShardLog, found: list[Entry], old: State, new: State) -> None:
    agreed = 0
    while agreed < old.last and old.entries[agreed + 1] == new.entries.get(agreed + 1):
        agreed += 1
    assert log.last_index >= agreed, f"{log.last_index} of {agreed} entries are there"
    assert log.last_index >= old.commit, f"{log.last_index} of {old.commit} committed are there"
    indexes = range(log.first_index, log.last_index + 1)
    assert [entry.index for entry in found] == list(indexes)
    assert any(found == [state.entries.get(i) for i in indexes] for state in (old, new)), (
        f"entries {log.first_index} to {log.last_index} are neither the old nor the new ones"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("directory")
    directory = parser.parse_args().directory

    def done(step: int) -> None:
        sys.stdout.write(f"done {step}\n")
        sys.stdout.flush()

    Script(RealDisk(), directory, done).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
