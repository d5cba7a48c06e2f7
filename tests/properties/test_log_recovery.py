"""Whatever happens to the machine, a log keeps its promises.

Random scripts of everything that can be done to a log, with power cuts and deaths of the process
between any two steps and in the middle of any disk operation, on the disk that forgets all it may.
After each the log is opened again and compared with a model:

- every entry that was durable is there, and no entry that nobody wrote;
- every batch of a living partition is readable, by a reader that starts at its log start;
- term and vote are the last ones that were durable, or later ones that were staged;
- the snapshot is the last one that counted, or a later one that was being made.

Without damage nothing is ever taken for damage: the log is opened as a cluster of one, which then
would refuse. And with damage, every single one is noticed or costs nothing.
"""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.append_payload import decode_append
from penstock.core.entries import Entry, EntryKind, HardState, Membership, SnapshotMark
from penstock.core.errors import DamagedFile
from penstock.core.types import Index, NodeId, Offset, PartitionId, Term
from penstock.storage.cleaner import CompactionPolicy
from penstock.storage.job import LogJob
from penstock.storage.log import ShardLog
from penstock.storage.repair import repair_directory, verify_directory
from penstock.testing.disk import FaultyDisk, PowerCut
from tests.unit.storage.logs import (
    DIRECTORY,
    EVERYTHING,
    SETTINGS,
    EntryMaker,
    batches_of,
    drain,
    everything,
    membership,
    noop,
    open_log,
)

PARTITIONS = (1, 2, 7)
POLICIES = dict.fromkeys(map(PartitionId, PARTITIONS), CompactionPolicy(dirty_ratio=0.0))


class Model:
    """What the log must hold: entries by index, and what else was promised."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.ever: dict[int, list[Entry]] = {}
        self.commit = 0
        self.starts: dict[int, int] = dict.fromkeys(PARTITIONS, 0)
        self.votes: list[HardState] = [HardState()]
        self.marks: list[SnapshotMark] = [SnapshotMark()]

    def stage(self, entries: list[Entry]) -> None:
        for index in [index for index in self.entries if index >= entries[0].index]:
            del self.entries[index]
        for entry in entries:
            self.entries[entry.index] = entry
            self.ever.setdefault(entry.index, []).append(entry)

    def up_to(self, index: int) -> list[Entry]:
        return [self.entries[i] for i in sorted(self.entries) if i <= index]


class Script:
    """Carries out operations on a log and its model."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.model = Model()
        self.maker = EntryMaker()
        self.log = open_log(self.disk)
        self.out: LogJob | None = None
        self.aside: LogJob | None = None
        self.installing: SnapshotMark | None = None
        self.durable = 0

    # Operations; each takes one number from the script.

    def stage(self, number: int) -> None:
        self._stage_from(self.log.last_index + 1, number)

    def truncate(self, number: int) -> None:
        floor = max(self.model.commit, self.log.snapshot.index)
        if self.log.last_index > floor:
            self.vote(0)
            self._stage_from(floor + 1 + number % (self.log.last_index - floor), number)

    def _stage_from(self, first: int, number: int) -> None:
        random = Random(number)
        if self.log.hard_state.term == 0:
            self.vote(0)
        term = self.log.hard_state.term
        self.maker.rewind(self.model.up_to(first - 1))
        entries = [self._entry(first + i, term, random) for i in range(random.randint(1, 4))]
        self.model.stage(entries)
        self.log.stage(entries=entries)

    def _entry(self, index: int, term: int, random: Random) -> Entry:
        if random.random() < 0.15:
            return noop(index, term)
        if random.random() < 0.1:
            return membership(index, term, (1, 2, 3))
        chosen = [p for p in PARTITIONS if random.random() < 0.5] or [1]
        size = random.choice([1, 50, 400, 3000, 9000])
        return self.maker.append(
            index, term, chosen, batches=random.randint(1, 2), value=b"v" * size
        )

    def vote(self, number: int) -> None:
        state = HardState(Term(self.log.hard_state.term + 1), NodeId(number % 3))
        self.log.stage(hard_state=state)
        self.model.votes.append(state)

    def step(self, number: int) -> None:
        """A few steps of the write job, taken if none is out, and of the one beside it."""
        for _ in range(number % 5 + 1):
            if self.out is None:
                self.out = self.log.take_job()
                self.taken_votes = len(self.model.votes)
            if self.out is not None and self._advance(self.out):
                self.log.complete(self.out)
                self.out = None
                del self.model.votes[: self.taken_votes - 1]
            if self.aside is not None and self._advance(self.aside):
                self.log.complete(self.aside)
                self.aside = None

    def _advance(self, job: LogJob) -> bool:
        if job.steps:
            job.steps.pop(0)()
        return not job.steps

    def finish(self) -> None:
        while self.out or self.aside or self.log.has_work:
            self.step(4)
        self.model.marks = self.model.marks[-1:]

    def commit(self, number: int) -> None:
        durable = self.log.durable_index
        self.model.commit += number % (durable - self.model.commit + 1)
        self.log.note_commit(Index(self.model.commit))

    def snapshot(self, number: int) -> None:
        low, high = max(mark.index for mark in self.model.marks), self.model.commit
        if self.aside is None and high > low:
            index = Index(low + 1 + number % (high - low))
            mark = SnapshotMark(index, self.log.term(index), Membership((NodeId(1),)))
            self.aside = self.log.snapshot_job(mark, b"state %d" % index)
            self.model.marks.append(mark)

    def reclaim(self, number: int) -> None:
        """Retention moves on in one partition, and space is given back."""
        end = dict.fromkeys(PARTITIONS, 0)
        for entry in self.model.up_to(self.log.snapshot.index):
            if entry.kind == EntryKind.APPEND:
                end |= {s.partition: s.end_offset for s in decode_append(entry.payload).slices}
        chosen = PARTITIONS[number % len(PARTITIONS)]
        self.model.starts[chosen] = max(self.model.starts[chosen], end[chosen] - number % 3)
        if self.aside is None:
            live = {PartitionId(p): Offset(start) for p, start in self.model.starts.items()}
            self.aside = self.log.reclaim_job(live, Index(1 << 40))

    def compact(self, number: int) -> None:
        """A bit of compaction: no record has a key, so it only leaves out the dead and merges."""
        if self.aside is None:
            live = {PartitionId(p): Offset(start) for p, start in self.model.starts.items()}
            self.aside = self.log.compaction_job(POLICIES, lambda: live, Index(1 << 40), number)

    def install(self, number: int) -> None:
        """A leader's snapshot takes the place of what is not committed here."""
        self.finish()
        random = Random(number)
        trusted, commit = self.log.trusted_index, self.model.commit
        assert trusted <= commit, "the hint of what is committed went too far"
        self.vote(1)
        self.maker.rewind(self.model.up_to(commit))
        term = self.log.hard_state.term
        mark_index = commit + random.randint(1, 6)
        theirs = [self.model.entries[i] for i in range(trusted + 1, commit + 1)]
        theirs += [self._entry(i, term, random) for i in range(commit + 1, mark_index + 1)]
        mark = SnapshotMark(Index(mark_index), Term(term), Membership((NodeId(1),)))
        incoming = self.log.begin_install(mark, trusted)
        incoming.stage([entry for entry in theirs if entry.kind == EntryKind.APPEND])
        job = incoming.take_job()
        while job is not None and not self._advance(job):
            pass
        if job is not None:
            self.log.complete(job)
        if number % 7 == 0:
            return  # the leader went away; whatever came is forgotten
        self.installing = mark
        self.installed = theirs
        job = incoming.finish_job(b"state %d" % mark_index)
        while not self._advance(job):
            pass
        self.log.complete(job)
        self._adopt_install()

    def _adopt_install(self) -> None:
        assert self.installing is not None
        self.model.stage(self.installed)
        self.model.commit = self.installing.index
        self.model.marks = [self.installing]
        self.installing = None

    def reopen(self, number: int) -> None:
        self.finish()
        self.durable = self.log.durable_index
        self.log.close()
        self._open(number)

    def kill(self, number: int) -> None:
        self.durable = self.log.durable_index
        self.disk.kill()
        self._open(number)

    def crash(self, number: int) -> None:
        self.durable = self.log.durable_index
        self.disk.crash(Random(number))
        self._open(number)

    def arm(self, number: int) -> None:
        """The power will go in the middle of a coming disk operation."""
        self.disk.cut_power_after(number % 25 + 1)

    # Opening again.

    def _open(self, number: int) -> None:
        self.out = self.aside = None
        while True:
            try:
                self.log = open_log(self.disk, verify_all=number % 2 == 0)
                break
            except PowerCut:
                self.disk.crash(Random(number))
        self.check()

    def check(self) -> None:
        log, model = self.log, self.model
        if self.installing is not None:
            if log.snapshot == self.installing:
                self._adopt_install()
                self.durable = log.durable_index
            self.installing = None
        assert log.snapshot in model.marks
        model.marks = [log.snapshot]
        assert log.load_snapshot()[1] == (
            b"state %d" % log.snapshot.index if log.snapshot.index else b""
        )
        assert log.hard_state in model.votes
        model.votes = [log.hard_state]
        assert log.last_index >= max(self.durable, model.commit)
        found = {entry.index: entry for entry in everything(log)}
        for index, entry in found.items():
            if index <= self.durable:
                assert entry == model.entries[index]
            else:
                assert entry in model.ever[index]
        assert log.first_index <= log.snapshot.index + 1
        model.entries = {i: e for i, e in model.entries.items() if i <= self.durable} | found
        self.check_partitions()
        assert log.memberships() == [
            (entry.index, Membership((NodeId(1), NodeId(2), NodeId(3))))
            for entry in found.values()
            if entry.kind == EntryKind.MEMBERSHIP and entry.index > log.snapshot.index
        ]

    def check_partitions(self) -> None:
        for partition, start in self.model.starts.items():
            expected = batches_of(self.model.up_to(self.log.durable_index), partition, start)
            data = self.log.read(PartitionId(partition), Offset(start), 1 << 30, EVERYTHING)
            assert data == expected
            assert self.log.read(PartitionId(partition), EVERYTHING, 100, EVERYTHING) == b""


OPERATIONS = (
    "stage", "stage", "stage", "step", "step", "step", "truncate", "vote", "commit", "commit",
    "snapshot", "reclaim", "compact", "compact", "install", "reopen", "kill", "crash", "arm",
)  # fmt: skip

scripts = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 1 << 16)), min_size=10, max_size=120
)


@pytest.mark.slow
@settings(max_examples=200)
@given(script=scripts)
def test_a_log_keeps_its_promises(script: list[tuple[str, int]]) -> None:
    run = Script()
    for operation, number in script:
        try:
            getattr(run, operation)(number)
        except PowerCut:
            run.crash(number)
    run.disk.forget_faults()
    run.crash(1)
    run.reopen(2)
    drain(run.log)


class Closed:
    """A log with a bit of everything, closed cleanly; each example damages a copy of it."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        maker = EntryMaker()
        log = open_log(self.disk)
        log.stage(hard_state=HardState(Term(3), NodeId(2)))
        self.entries = [membership(1, 1)]
        for index in range(2, 61):
            self.entries.append(maker.append(index, 1 + index // 25, (index % 4, 9)))
        log.stage(entries=self.entries)
        drain(log)
        log.note_commit(Index(50))
        job = log.snapshot_job(SnapshotMark(Index(30), Term(2), Membership()), b"state" * 100)
        for step in job.steps:
            step()
        log.complete(job)
        drain(log)
        job = log.reclaim_job({PartitionId(9): Offset(12)}, Index(20))  # type: ignore[assignment]
        for step in job.steps:
            step()
        log.complete(job)
        drain(log)
        self.hard_state = log.hard_state
        self.first_index = log.first_index
        log.close()
        self.paths = [path for path in self.disk.paths() if not path.endswith("LOCK")]


CLOSED = Closed()


def damage(number: int, kind: str) -> tuple[FaultyDisk, str]:
    """Flip a bit of, cut, or delete one file of the closed log."""
    disk = CLOSED.disk.fork()
    path = CLOSED.paths[number % len(CLOSED.paths)]
    size = len(disk.image(path))
    if kind == "delete":
        disk.remove(path)
    elif kind == "cut" or size == 0:
        disk.truncate_file(path, number * 7919 % max(size, 1))
    else:
        disk.flip_bit(path, number * 7919 % size, number % 8)
    return disk, path


def assert_intact(log: ShardLog) -> None:
    """Everything that was promised is there."""
    assert log.last_index == 60
    assert log.hard_state == CLOSED.hard_state
    assert log.first_index == CLOSED.first_index
    assert everything(log) == CLOSED.entries[log.first_index - 1 :]
    assert log.load_snapshot()[1] == b"state" * 100
    expected = batches_of(CLOSED.entries, 9, 12)
    assert log.read(PartitionId(9), Offset(12), 1 << 30, EVERYTHING) == expected


KINDS = st.sampled_from(["flip", "flip", "cut", "delete"])


@given(number=st.integers(0, 1 << 24), kind=KINDS)
def test_damage_is_detected_or_harmless(number: int, kind: str) -> None:
    disk, _ = damage(number, kind)
    findings = verify_directory(disk.fork(), DIRECTORY)
    if not findings:
        assert_intact(open_log(disk, verify_all=True))
        return
    with pytest.raises(DamagedFile, match="penstock log repair"):
        open_log(disk, verify_all=True)


@given(number=st.integers(0, 1 << 24), kind=KINDS)
def test_an_only_copy_is_repaired_by_giving_up_what_cannot_be_read(number: int, kind: str) -> None:
    disk, path = damage(number, kind)
    if "snapshot" in path and CLOSED.first_index > 1:
        return  # nothing but a backup brings back a state whose entries are gone
    report = repair_directory(disk, DIRECTORY, settings=SETTINGS)
    log = open_log(disk, verify_all=True)
    if not report.findings:
        assert_intact(log)
        return
    kept = everything(log)
    assert log.last_index == report.kept_through
    assert kept == CLOSED.entries[log.first_index - 1 : report.kept_through]
    lost = sum(last - first + 1 for first, last in report.lost)
    assert report.kept_through + lost >= 60


@given(number=st.integers(0, 1 << 24), kind=KINDS)
def test_a_damaged_replica_repairs_itself(number: int, kind: str) -> None:
    disk, _ = damage(number, kind)
    log = open_log(disk, solo=False, verify_all=True)
    if log.quarantine is None:
        assert_intact(log)
        return
    assert (log.first_index, log.last_index, log.snapshot) == (1, 0, SnapshotMark())
    log.stage(hard_state=HardState(Term(4), NodeId(0)))
    mark = SnapshotMark(Index(55), Term(3), Membership((NodeId(1),)))
    trusted = log.trusted_index
    assert trusted <= 50
    incoming = log.begin_install(mark, trusted)
    missing = [e for e in CLOSED.entries[incoming.trusted : 55] if e.kind == EntryKind.APPEND]
    incoming.stage(missing)
    job = incoming.finish_job(b"the leader's state")
    for step in job.steps:
        step()
    log.complete(job)
    assert log.quarantine is not None
    log.stage(entries=CLOSED.entries[55:])
    drain(log)
    log.stage(healed=True)
    drain(log)
    assert_repaired(log, mark)
    log.close()
    assert_repaired(open_log(disk, solo=False, verify_all=True), mark)


def assert_repaired(log: ShardLog, mark: SnapshotMark) -> None:
    assert log.quarantine is None
    assert (log.last_index, log.snapshot) == (60, mark)
    assert everything(log)[-5:] == CLOSED.entries[55:]
    assert log.load_snapshot()[1] == b"the leader's state"
    expected = batches_of(CLOSED.entries, 9, 12)
    assert log.read(PartitionId(9), Offset(12), 1 << 30, EVERYTHING) == expected
