"""Small logs for tests: entries with real batches at dense offsets, and jobs run on the spot."""

from collections import defaultdict
from collections.abc import Sequence

from penstock.core.append_payload import Slice, decode_append, encode_append
from penstock.core.entries import Entry, EntryKind, HardState, Membership, encode_membership
from penstock.core.errors import DamagedFile
from penstock.core.records import read_header, stamp_batch
from penstock.core.types import Index, NodeId, Offset, PartitionId, ShardId, Term
from penstock.storage.disk import Disk
from penstock.storage.identity import Identity
from penstock.storage.job import LogJob, run
from penstock.storage.log import ShardLog
from penstock.storage.settings import LogSettings
from tests.batches import build_batch

DIRECTORY = "/data/shard-0"
IDENTITY = Identity("test-cluster", ShardId(0), NodeId(1))
SETTINGS = LogSettings(segment_bytes=2048, ballast_bytes=4096)
EVERYTHING = Offset(1 << 60)


def open_log(
    disk: Disk,
    directory: str = DIRECTORY,
    *,
    solo: bool = True,
    verify_all: bool = False,
    settings: LogSettings = SETTINGS,
) -> ShardLog:
    return ShardLog.open(
        disk, directory, identity=IDENTITY, settings=settings, solo=solo, verify_all=verify_all
    )


class Place:
    """A directory on some disk, and the log in it; one log at a time."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.disk = disk
        self.directory = directory
        self._log: ShardLog | None = None

    def open(
        self, *, solo: bool = True, verify_all: bool = False, settings: LogSettings = SETTINGS
    ) -> ShardLog:
        """Open the log; the one that was open before is closed."""
        self.close()
        self._log = open_log(
            self.disk, self.directory, solo=solo, verify_all=verify_all, settings=settings
        )
        return self._log

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
        self._log = None

    def path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def names(self, suffix: str = "") -> list[str]:
        return [name for name in self.disk.list(self.directory) if name.endswith(suffix)]

    def flip(self, name: str, position: int) -> None:
        """Damage one byte of a file."""
        file = self.disk.open(self.path(name))
        byte = file.read(position, 1)[0]
        file.write(position, [bytes([byte ^ 0x10])])
        file.sync()
        file.close()

    def cut(self, name: str, size: int) -> None:
        file = self.disk.open(self.path(name))
        file.truncate(size)
        file.sync()
        file.close()


def complete(log: ShardLog, job: LogJob | None) -> None:
    """Run a job and what follows from it."""
    assert job is not None
    run(job)
    log.complete(job)
    drain(log)


def scrub(log: ShardLog) -> DamagedFile | None:
    """Verify one sealed segment in turn; what was found, None if none is sealed."""
    job = log.scrub_job()
    if job is None:
        return None
    complete(log, job)
    return log.scrub_finding


def drain(log: ShardLog) -> None:
    """Run write jobs until nothing is left to do."""
    while (job := log.take_job()) is not None:
        run(job)
        log.complete(job)


def write(log: ShardLog, entries: Sequence[Entry]) -> None:
    """Make entries durable, with a vote for their term."""
    term = max(log.hard_state.term, entries[-1].term)
    if term > log.hard_state.term:
        log.stage(hard_state=HardState(term, NodeId(1)))
    log.stage(entries=entries)
    drain(log)


def everything(log: ShardLog) -> list[Entry]:
    """All entries of the contiguous log."""
    found: list[Entry] = []
    low = log.first_index
    while low <= log.last_index:
        found += log.entries(low, Index(log.last_index + 1), 10_000)
        low = Index(found[-1].index + 1)
    return found


class EntryMaker:
    """Makes entries whose batches continue each partition's offsets, as a leader would."""

    def __init__(self) -> None:
        self.next_offset: dict[PartitionId, int] = defaultdict(int)
        self._made = 0

    def append(
        self,
        index: int,
        term: int = 1,
        partitions: Sequence[int] = (1,),
        *,
        count: int = 1,
        batches: int = 1,
        value: bytes = b"a message",
        timestamp: int = 1_000,
        appended_ms: int | None = None,
    ) -> Entry:
        """An APPEND entry with `batches` batches of `count` messages for each partition; appended
        at the time that its messages say, if no other is given."""
        parts = []
        for number in partitions:
            partition = PartitionId(number)
            base = self.next_offset[partition]
            made = [self._batch(partition, term, count, value, timestamp) for _ in range(batches)]
            size = sum(map(len, made))
            highest = timestamp + count - 1
            slice_ = Slice(partition, size, Offset(base), count * batches, batches, highest)
            parts.append((slice_, made))
        payload = encode_append(timestamp if appended_ms is None else appended_ms, parts)
        return Entry(Index(index), Term(term), EntryKind.APPEND, payload)

    def _batch(
        self, partition: PartitionId, term: int, count: int, value: bytes, timestamp: int
    ) -> bytearray:
        self._made += 1
        batch = build_batch(count, value=value + b" %d" % self._made, timestamp=timestamp)
        stamp_batch(batch, base_offset=Offset(self.next_offset[partition]), epoch=Term(term))
        self.next_offset[partition] += count
        return batch

    def run(self, first: int, last: int, term: int = 1) -> list[Entry]:
        """APPEND entries from `first` to `last`."""
        return [self.append(index, term) for index in range(first, last + 1)]

    def rewind(self, entries: Sequence[Entry]) -> None:
        """Continue the offsets after these entries, and no others."""
        self.next_offset.clear()
        for entry in entries:
            if entry.kind == EntryKind.APPEND:
                for slice_ in decode_append(entry.payload).slices:
                    self.next_offset[slice_.partition] = slice_.end_offset


def noop(index: int, term: int = 1) -> Entry:
    return Entry(Index(index), Term(term), EntryKind.NOOP, b"")


def membership(index: int, term: int = 1, voters: Sequence[int] = (1,)) -> Entry:
    members = Membership(tuple(map(NodeId, voters)))
    return Entry(Index(index), Term(term), EntryKind.MEMBERSHIP, encode_membership(members))


def batches_of(entries: Sequence[Entry], partition: int, start: int = 0) -> bytes:
    """What a reader of a partition must get, from the batch that holds `start` on."""
    found = []
    for entry in entries:
        if entry.kind == EntryKind.APPEND:
            payload = decode_append(entry.payload)
            at = payload.start
            for slice_ in payload.slices:
                end = at + slice_.length
                while slice_.partition == partition and at < end:
                    header = read_header(entry.payload, at)
                    if header.last_offset >= start:
                        found.append(entry.payload[at : at + header.size])
                    at += header.size
                at = end
    return b"".join(found)
