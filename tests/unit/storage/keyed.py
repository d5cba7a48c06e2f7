"""Logs of keyed records for tests, and the whole of what a reader sees of them."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from penstock.core.append_payload import Slice, encode_append
from penstock.core.entries import Entry, EntryKind, Membership, SnapshotMark
from penstock.core.records import read_header, stamp_batch
from penstock.core.types import Index, Offset, PartitionId, Term
from penstock.storage import CompactionPolicy, ShardLog
from tests.unit.storage.logs import EVERYTHING, complete

LATEST = Index(1 << 40)
AT_ONCE = CompactionPolicy(dirty_ratio=0.0)
"""Whatever is new makes a partition due."""


class Seen(NamedTuple):
    """A record as a reader sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = 1_000


Content = Sequence[tuple[bytes | None, bytes | None]]


class KeyedMaker:
    """Makes entries of keyed records at dense offsets, and remembers all of them."""

    def __init__(self) -> None:
        self.records: dict[int, list[Seen]] = defaultdict(list)

    def entry(
        self,
        index: int,
        content: Mapping[int, Sequence[Content]],
        *,
        term: int = 1,
        codec: int = 0,
        timestamp: int = 1_000,
    ) -> Entry:
        """An APPEND entry with these batches for each partition."""
        parts = []
        for number, batches in content.items():
            base = len(self.records[number])
            made = [self._batch(number, batch, term, codec, timestamp) for batch in batches]
            count = sum(map(len, batches))
            size = sum(map(len, made))
            slice_ = Slice(PartitionId(number), size, Offset(base), count, len(made), timestamp)
            parts.append((slice_, made))
        payload = encode_append(timestamp, parts)
        return Entry(Index(index), Term(term), EntryKind.APPEND, payload)

    def _batch(
        self, partition: int, content: Content, term: int, codec: int, timestamp: int
    ) -> bytearray:
        known = self.records[partition]
        batch = pack(content, codec=codec, timestamp=timestamp)
        stamp_batch(batch, base_offset=Offset(len(known)), epoch=Term(term))
        known += [Seen(len(known) + n, *record, timestamp) for n, record in enumerate(content)]
        return batch


def pack(content: Content, *, codec: int = 0, timestamp: int = 1_000) -> bytearray:
    """A batch of these keys and values."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=1 << 24,
    )  # fmt: skip
    for number, (key, value) in enumerate(content):
        builder.append(number, timestamp=timestamp, key=key, value=value, headers=[])
    return bytearray(builder.build())


def seen(log: ShardLog, partition: int, start: int = 0, *, bytes_max: int = 1 << 30) -> list[Seen]:
    """Everything a reader sees who goes on where each fetch ends."""
    found: list[Seen] = []
    offset = start
    while data := log.read(PartitionId(partition), Offset(offset), bytes_max, EVERYTHING):
        records, offset = parse(data, offset)
        found += records
    return found


def parse(data: bytes, offset: int) -> tuple[list[Seen], int]:
    """The records from `offset` on in what a fetch returned, and where to go on."""
    found: list[Seen] = []
    position = 0
    while position < len(data):
        header = read_header(data, position)
        batch = DefaultRecordBatch(bytes(data[position : position + header.size]))
        assert batch.validate_crc()
        assert header.last_offset >= offset, "a batch from before the offset"
        found += [Seen(r.offset, r.key, r.value, r.timestamp) for r in batch if r.offset >= offset]
        position += header.size
        offset = header.last_offset + 1
    return found, offset


def latest(records: Sequence[Seen]) -> dict[bytes, bytes]:
    """The table that these records make."""
    table: dict[bytes, bytes] = {}
    for record in records:
        if record.key is not None and record.value is None:
            table.pop(record.key, None)
        elif record.key is not None and record.value is not None:
            table[record.key] = record.value
    return table


def survivors(records: Sequence[Seen], clean_to: int) -> list[Seen]:
    """What a round leaves: below the point only the last of each key, tombstones included."""
    last = {record.key: record.offset for record in records if record.offset < clean_to}
    return [
        record
        for record in records
        if record.offset >= clean_to or record.key is None or last[record.key] == record.offset
    ]


def snapshot(log: ShardLog, index: int | None = None) -> None:
    """A snapshot at an entry, the last one unless told."""
    at = Index(log.durable_index if index is None else index)
    log.note_commit(at)
    mark = SnapshotMark(at, log.term(at), Membership())
    complete(log, log.snapshot_job(mark, b"state"))


def living(*partitions: int, **starts: int) -> Callable[[], dict[PartitionId, Offset]]:
    """Log starts: 0 unless told, as p1=5."""
    known = {PartitionId(number): Offset(0) for number in partitions}
    known |= {PartitionId(int(name[1:])): Offset(start) for name, start in starts.items()}
    return lambda: known


def compact(
    log: ShardLog,
    policies: Mapping[PartitionId, CompactionPolicy],
    live: Callable[[], Mapping[PartitionId, Offset]],
    *,
    now_ms: int = 1_000_000,
    keep_from: Index = LATEST,
) -> int:
    """Do everything there is to do; how many jobs it took."""
    for jobs in range(1_000):
        job = log.compaction_job(policies, live, keep_from, now_ms)
        if job is None:
            assert not log.compacting
            return jobs
        complete(log, job)
    raise AssertionError("compaction comes to no end")


def always(*partitions: int) -> dict[PartitionId, CompactionPolicy]:
    return dict.fromkeys(map(PartitionId, partitions), AT_ONCE)
