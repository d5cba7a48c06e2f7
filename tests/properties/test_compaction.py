"""However compaction is interrupted, a reader of a compacted partition finds what it must.

Random scripts of writes, deletes, snapshots, trims, passing time and bits of compaction, with power
cuts and deaths of the process in the middle of any disk operation, on the disk that forgets all it
may. After each recovery, and at the end:

- the latest value of each key is what it should be, and nothing is there that nobody wrote;
- what lies at or above the point that a round has chosen is all there, unchanged;
- where a partition is clean no key is there twice, and the last record of it is always there;
- partitions that are not compacted are as they were written.

And all the while readers go through a partition bit by bit. Whoever comes to the end in less time
than tombstones are kept must end up with the same table as one who saw everything.
"""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.entries import Entry, Membership, SnapshotMark
from penstock.core.types import Index, NodeId, Offset, PartitionId
from penstock.storage import CompactionPolicy, LogJob, LogSettings
from penstock.testing.disk import FaultyDisk, PowerCut
from tests.unit.storage.keyed import Content, KeyedMaker, Seen, latest, parse, seen
from tests.unit.storage.logs import EVERYTHING, drain, open_log, write

COMPACTED, PLAIN = (1, 2), 3
RETENTION_MS = 1_000
POLICIES = {
    PartitionId(1): CompactionPolicy(dirty_ratio=0.0, delete_retention_ms=RETENTION_MS),
    PartitionId(2): CompactionPolicy(dirty_ratio=0.3, delete_retention_ms=RETENTION_MS),
}
SETTINGS = LogSettings(
    segment_bytes=2048,
    ballast_bytes=4096,
    rewrite_live_percent_max=70,
    compaction_keys_max=12,
    compaction_job_bytes=9_000,
)


class Reader:
    """Somebody who reads a partition from its start, a little at a time."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.begin(0)

    def begin(self, now_ms: int) -> None:
        self.begun_ms = now_ms
        self.offset = 0
        self.table: dict[bytes, bytes] = {}


class Script:
    """Carries out operations on a log and its model."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.log = open_log(self.disk, settings=SETTINGS)
        self.written: list[tuple[Entry, dict[int, list[Seen]]]] = []
        self.maker = KeyedMaker()
        self.now_ms = 0
        self.start = 0
        self.reached: dict[int, int] = dict.fromkeys(COMPACTED, 0)
        self.job: LogJob | None = None
        self.readers = [Reader(partition) for partition in COMPACTED]

    # Operations; each takes one number from the script.

    def append(self, number: int) -> None:
        random = Random(number)
        index = len(self.written) + 1
        content: dict[int, list[Content]] = {}
        for partition in (*COMPACTED, PLAIN):
            if random.random() < 0.6:
                content[partition] = [
                    self._batch(random, partition) for _ in range(random.randint(1, 4))
                ]
        content = content or {1: [self._batch(random, 1)]}
        before = {partition: len(self.maker.records[partition]) for partition in content}
        entry = self.maker.entry(
            index, content, codec=random.randrange(5), timestamp=self.now_ms + 1
        )
        records = {p: self.maker.records[p][count:] for p, count in before.items()}
        self.written.append((entry, records))
        write(self.log, [entry])

    def _batch(self, random: Random, partition: int) -> Content:
        names = [b"%d" % random.randrange(9) for _ in range(random.randint(1, 4))]
        return [
            (
                None if random.random() < 0.05 and partition == PLAIN else name,
                None if random.random() < 0.3 else b"%d " % random.randrange(1 << 20) * 8,
            )
            for name in names
        ]

    def wait(self, number: int) -> None:
        self.now_ms += number % (RETENTION_MS // 3)

    def snapshot(self, _: int) -> None:
        log = self.log
        at = log.durable_index
        log.note_commit(at)
        if self.job is None and at > log.snapshot.index:
            mark = SnapshotMark(at, log.term(at), Membership((NodeId(1),)))
            self._run(log.snapshot_job(mark, b"state"))

    def compact(self, number: int) -> None:
        """Some jobs; the last of them is completed later."""
        for _ in range(number % 20):
            self._finish_job()
            self.job = self.log.compaction_job(POLICIES, self._live, Index(1 << 40), self.now_ms)
            if self.job is not None:
                for step in self.job.steps:
                    step()
            self._note_reach()

    def _note_reach(self) -> None:
        """A round that is cut short leaves a part cleaned, up to the point it had chosen."""
        cleaning = self.log._compactor._round
        points = cleaning.clean_to if cleaning is not None else {}
        for partition in COMPACTED:
            point = points.get(PartitionId(partition), 0)
            self.reached[partition] = max(self.reached[partition], point)

    def reclaim(self, number: int) -> None:
        """The plain partition forgets something, and space is given back."""
        self._finish_job()
        end = len(self.maker.records[PLAIN])
        self.start = max(self.start, min(end, self.start + number % 8))
        job = self.log.reclaim_job(self._live(), Index(1 << 40))
        if job is not None:
            self._run(job)

    def _live(self) -> dict[PartitionId, Offset]:
        return {
            PartitionId(1): Offset(0),
            PartitionId(2): Offset(0),
            PartitionId(PLAIN): Offset(self.start),
        }

    def _finish_job(self) -> None:
        job, self.job = self.job, None
        if job is not None:
            self.log.complete(job)
            drain(self.log)

    def _run(self, job: LogJob) -> None:
        for step in job.steps:
            step()
        self.log.complete(job)
        drain(self.log)

    def read(self, number: int) -> None:
        """A reader goes on; at the end it is compared."""
        reader = self.readers[number % len(self.readers)]
        if self.now_ms - reader.begun_ms >= RETENTION_MS:
            reader.begin(self.now_ms)
        found = seen_once(self, reader, bytes_max=number % 3_000)
        if not found:
            records = self.maker.records[reader.partition]
            assert reader.table == latest(records), f"partition {reader.partition}"
            reader.begin(self.now_ms)

    # Dying.

    def reopen(self, _: int) -> None:
        self._finish_job()
        self.log.close()
        self._open(0)

    def kill(self, number: int) -> None:
        self.disk.kill()
        self._open(number)

    def crash(self, number: int) -> None:
        self.disk.crash(Random(number))
        self._open(number)

    def arm(self, number: int) -> None:
        """The power will go in the middle of a coming disk operation."""
        self.disk.cut_power_after(number % 40 + 1)

    def _open(self, number: int) -> None:
        self.job = None
        while True:
            try:
                self.log = open_log(self.disk, settings=SETTINGS, verify_all=number % 2 == 0)
                break
            except PowerCut:
                self.disk.crash(Random(number))
        self._forget_what_was_not_durable()
        self.check()

    def _forget_what_was_not_durable(self) -> None:
        del self.written[self.log.last_index :]
        self.maker.records.clear()
        for _, records in self.written:
            for partition, content in records.items():
                self.maker.records[partition] += content
        for reader in self.readers:
            reader.begin(self.now_ms)

    # Looking.

    def check(self) -> None:
        records = self.maker.records
        assert seen(self.log, PLAIN, self.start) == records[PLAIN][self.start :]
        for partition in COMPACTED:
            found = seen(self.log, partition)
            point = self.log._home.cleaned.get(PartitionId(partition), Offset(0))
            reached = max(point, self.reached[partition])
            assert set(found) <= set(records[partition])
            assert [r for r in found if r.offset >= reached] == records[partition][reached:]
            below = [record.key for record in found if record.offset < point]
            assert len(below) == len(set(below)), f"a key is there twice below {point}"
            assert latest(found) == latest(records[partition])
            assert found[-1:] == records[partition][-1:]
            for offset in range(1, len(records[partition]), 23):
                rest = [record for record in found if record.offset >= offset]
                assert seen(self.log, partition, offset, bytes_max=offset) == rest
            assert self.log.read(PartitionId(partition), EVERYTHING, 100, EVERYTHING) == b""


def seen_once(script: Script, reader: Reader, *, bytes_max: int) -> bool:
    """One fetch; False at the end."""
    partition, offset = PartitionId(reader.partition), Offset(reader.offset)
    plan = script.log.read_plan(partition, offset, bytes_max, EVERYTHING)
    data = plan.load()
    if not data:
        return False
    found, end = parse(data, reader.offset)
    for record in found:
        assert record.key is not None
        if record.value is None:
            reader.table.pop(record.key, None)
        else:
            reader.table[record.key] = record.value
    reader.offset = end
    return True


OPERATIONS = (
    "append", "append", "append", "append", "wait", "snapshot", "compact", "compact", "reclaim",
    "read", "read", "read", "read", "reopen", "kill", "crash", "arm",
)  # fmt: skip

scripts = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 1 << 16)), min_size=20, max_size=120
)


@pytest.mark.slow
@settings(max_examples=60)
@given(script=scripts)
def test_a_compacted_log_keeps_its_promises(script: list[tuple[str, int]]) -> None:
    run = Script()
    for operation, number in script:
        try:
            getattr(run, operation)(number)
        except PowerCut:
            run.crash(number)
    run.disk.forget_faults()
    run.crash(1)
    for _ in range(3):
        run.append(7)
        run.snapshot(0)
        for _ in range(30):
            run.compact(5)
        run.check()
        for _ in range(4):
            run.wait(RETENTION_MS // 3 - 1)
    run.reopen(2)
