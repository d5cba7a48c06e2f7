"""One round of compaction, on a worker: of all records with one key only the last is kept.

A round has two parts, as in Kafka's cleaner:

    gather   read what is new in the partitions, oldest first, and note for each key the offset of
             its last record, until everything has been read or there is no room for more keys.
             Now every partition has a point (`clean_to`) below which all is known: what was
             gathered now, and what an earlier round has left.
    clean    go through the segments from the oldest on, up to where the gathering ended, and leave
             out each record below that point whose key has a later one. Nothing at or above the
             point is touched.

Rules:

- Offsets never change, and the record just below the point always stays: it is the last of its key.
  So a partition never seems to end before its end, and no batch need be kept empty.
- A record without a key, or in a batch whose records cannot be read, stays. So do all records of
  partitions that are not compacted, unless they are dead, that is below their partition's start.
- A *tombstone* (a key without a value) that a round passes for the first time gets a horizon: log
  time now plus the partition's retention of deletes, written into its batch. A reader that has read
  an older record of the key has so long to read on and learn that it is gone. The tombstone goes in
  a round that finds it in the part that was clean before, at or after its horizon. Nothing a client
  may have written in place of a horizon counts, since a new record is never in that part.
- Segments are cleaned in order, oldest first, and become part of the log in that order. So when a
  tombstone gets its horizon, every older record of its key is gone already.
- What is left of neighbours that fit into one segment becomes one segment: otherwise their number
  would grow for ever.

A round is a generator: it stops after so much work, goes on in the next job, and stops each time a
new segment is ready, which the loop then puts in the place of the old ones. If one of those is not
there any more, the same stretch is cleaned once more. A round that is given up has done no harm.
"""

import hashlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import NamedTuple

import msgspec

from penstock.core.append_payload import Slice, decode_append, encode_append
from penstock.core.entries import EntryKind
from penstock.core.errors import InvalidBatch
from penstock.core.record_bodies import read_records, rebuild_batch
from penstock.core.records import BatchHeader, read_outline
from penstock.core.types import NO_INDEX, Index, Offset, PartitionId, Term
from penstock.storage.copier import SegmentWriter
from penstock.storage.directory import LogDirectory
from penstock.storage.record import RECORD_HEADER_BYTES
from penstock.storage.sealed_segment import SealedReader
from penstock.storage.segment import Segment, SegmentHeader
from penstock.storage.slices import batch_headers

RECORD_EFFORT_BYTES = 256
"""The cost of examining a record, in bytes that could be read instead."""
MERGED_SEGMENTS_MIN = 4
"""The number of small neighbouring segments that are merged even if no record in them is
removed."""
_MERGED_SEGMENTS_MAX = 64
_INDEXES_PER_SEGMENT_MAX = 1 << 32
_KEY_HASH_BYTES = 16


class CompactionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The compaction policy of a partition."""

    min_lag_ms: int = 0
    """A batch stays whole until its highest timestamp is so old."""
    max_lag_ms: int | None = None
    """The longest wait of a new record for compaction, however little there is to compact."""
    dirty_ratio: float = 0.5
    """The share of its bytes that must be new before a partition is worth a round."""
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    """The time for which a tombstone is kept after its deletion took effect."""


class Replacement(NamedTuple):
    """Segments, and what takes their place."""

    old: Sequence[Segment]
    new: Segment | None
    erased_through: Index
    """The last entry of which a tombstone was dropped."""


class Cleaning:
    """One round; the loop changes it only while it is not running."""

    def __init__(
        self,
        home: LogDirectory,
        policies: Mapping[PartitionId, CompactionPolicy],
        keys_max: int,
    ) -> None:
        self.clean_to = {p: home.cleaned.get(p, Offset(0)) for p in policies}
        """Below these offsets everything is known."""
        self.withdrawn: set[PartitionId] = set()
        """Partitions that are not to be compacted after all."""
        self.through = NO_INDEX
        """The last entry that was looked at while gathering; cleaning ends there."""
        self.segments: Sequence[Segment] = ()
        """The segments that may be cleaned, in order, as they are now."""
        self.starts: Mapping[PartitionId, Offset] = {}
        """The log start of every living partition that may have records up to `through`."""
        self.between = False
        """No segment is being cleaned: time to renew `starts`."""
        self.number = 0
        """The number of the next file."""
        self.now_ms = 0
        self.effort = 0
        """The effort allowed before another job's turn."""
        self.accepted = False
        """Whether the last replacement was made."""
        self.unfinished: list[str] = []
        """Names of files that are part of no replacement yet."""
        self._home = home
        self._policies = policies
        self._before = dict(self.clean_to)
        self._keys_max = keys_max
        self._latest: dict[bytes, int] = {}
        self._full = False
        self._done = NO_INDEX
        self._erased = NO_INDEX
        self._erases = False
        self._work = self._run()

    def advance(self) -> Replacement | bool | None:
        """Work for a while: a replacement that is ready, True at the end, None if there is more."""
        return next(self._work, True)

    def close(self) -> None:
        """Give up, or let go of everything at the end."""
        self._work.close()

    @property
    def progress(self) -> bool:
        """True if the round got further than the one before."""
        return self.clean_to != self._before

    def _run(self) -> Generator[Replacement | None, None, None]:
        yield from self._gather()
        if self.progress:
            self.between = True
            yield None
            yield from self._clean()
        # One by one: letting go of all at once would block other jobs.
        while self._latest:
            self._latest.popitem()

    def _compacts(self, partition: PartitionId) -> bool:
        return partition in self._policies and partition not in self.withdrawn

    # Gathering.

    def _gather(self) -> Generator[None, None, None]:
        stopped: set[PartitionId] = set()
        while (segment := self._following()) is not None:
            with closing(SealedReader(self._home, segment)) as reader:
                for partition in self._policies:
                    if partition not in stopped and reader.holds(partition):
                        if not (yield from self._gather_from(reader, partition)):
                            stopped.add(partition)
                        if self._full:
                            break
            self.through = segment.last
            if self._full:
                return

    def _following(self) -> Segment | None:
        for segment in self.segments:
            if segment.base > self.through:
                return segment
        return None

    def _gather_from(
        self, reader: SealedReader, partition: PartitionId
    ) -> Generator[None, None, bool]:
        """False if the partition's next batch is too young."""
        lag_ms = self._policies[partition].min_lag_ms
        clean_to = self.clean_to
        for data in reader.slices(partition, clean_to[partition], _NEVER):
            for position, header in batch_headers(data):
                if header.last_offset < clean_to[partition]:
                    continue
                if lag_ms > 0 and header.max_timestamp > self.now_ms - lag_ms:
                    return False
                self._note(partition, header, data[position : position + header.size])
                if self._full:
                    return True
            if self.effort <= 0:
                yield None
        return True

    def _note(self, partition: PartitionId, header: BatchHeader, batch: memoryview) -> None:
        """Take the keys of one batch into account."""
        self.effort -= header.size + RECORD_EFFORT_BYTES * header.record_count
        latest, base_offset = self._latest, header.base_offset
        known = self.clean_to[partition] - base_offset
        try:
            records = read_records(batch).records
        except InvalidBatch:
            records = []
        for record in records:
            if record.key is None or record.offset_delta < known:
                continue
            key = _hash(partition, record.key)
            if len(latest) >= self._keys_max and key not in latest:
                self._full = True
                self.clean_to[partition] = Offset(base_offset + record.offset_delta)
                return
            latest[key] = base_offset + record.offset_delta
        self.clean_to[partition] = Offset(header.last_offset + 1)

    # Cleaning.

    def _clean(self) -> Generator[Replacement | None, None, None]:
        while group := self._next_group():
            with ExitStack() as stack:
                readers = [stack.enter_context(closing(self._open(s))) for s in group]
                self.between = False
                worth = len(group) >= MERGED_SEGMENTS_MIN
                if not worth:
                    worth = yield from self._finds_something(readers)
                self.accepted = True
                if worth:
                    new = yield from self._rewrite(readers)
                    self.between = True
                    yield Replacement(group, new, self._erased)
            self.between = True
            if self.accepted:
                self._done = group[-1].last

    def _open(self, segment: Segment) -> SealedReader:
        return SealedReader(self._home, segment)

    def _next_group(self) -> list[Segment]:
        """The next segments that will fit into one."""
        group: list[Segment] = []
        size = 0
        for segment in self.segments:
            if segment.last <= self._done:
                continue
            if segment.base > self.through:
                break
            size += segment.end
            if group and (
                size > self._home.settings.segment_bytes
                or len(group) == _MERGED_SEGMENTS_MAX
                or segment.last - group[0].base >= _INDEXES_PER_SEGMENT_MAX
            ):
                break
            group.append(segment)
        return group

    def _finds_something(self, readers: list[SealedReader]) -> Generator[None, None, bool]:
        """Whether any batch would change."""
        for reader in readers:
            for partition, clean_to in self.clean_to.items():
                if not self._compacts(partition) or not reader.holds(partition):
                    continue
                start = self.starts.get(partition, clean_to)
                for data in reader.slices(partition, start, clean_to):
                    for position, header in batch_headers(data):
                        batch = data[position : position + header.size]
                        if header.last_offset < start:
                            continue
                        if self._clean_batch(partition, header, batch) is not batch:
                            return True
                    if self.effort <= 0:
                        yield None
        return False

    def _rewrite(self, readers: list[SealedReader]) -> Generator[None, None, Segment | None]:
        """A new segment with what stays of some; None if nothing does."""
        self._erased = NO_INDEX
        writer: SegmentWriter | None = None
        try:
            for reader in readers:
                scan = reader.scan()
                for _, header, payload in scan:
                    self.effort -= RECORD_HEADER_BYTES + len(payload)
                    kept = (
                        self._clean_entry(header.index, payload)
                        if header.kind == EntryKind.APPEND
                        else None
                    )
                    if kept is not None:
                        writer = writer or self._writer(header.index, header.term)
                        writer.append(header.index, header.term, header.kind, kept)
                    if self.effort <= 0:
                        yield None
                reader.check(scan)
            return writer.finish() if writer else None
        finally:
            if writer is not None:
                writer.close()

    def _writer(self, index: Index, term: Term) -> SegmentWriter:
        header = SegmentHeader.make(
            self._home.identity,
            base=index,
            number=self.number,
            previous_term=term,
            previous_chain=0,
            sparse=True,
        )
        writer = SegmentWriter(self._home, header)
        self.unfinished = [writer.segment.name, writer.segment.index_name]
        return writer

    def _clean_entry(self, index: Index, payload: memoryview) -> bytes | None:
        """The payload of an entry as it stays; None if nothing does."""
        stamp_ms, slices, start = decode_append(payload)
        self._erases = changed = False
        parts: list[tuple[Slice, list[bytes | memoryview]]] = []
        for part in slices:
            data = payload[start : start + part.length]
            start += part.length
            log_start = self.starts.get(part.partition)
            if log_start is None or part.end_offset <= log_start:
                changed = True
            elif self._compacts(part.partition):
                cleaned = self._clean_slice(part, data, log_start)
                parts += [cleaned] if cleaned else []
                changed = changed or cleaned is None or cleaned[0] is not part
            else:
                parts.append((part, [data]))
        if self._erases:
            self._erased = index
        if not parts:
            return None
        return encode_append(stamp_ms, parts) if changed else payload.tobytes()

    def _clean_slice(
        self, part: Slice, data: memoryview, log_start: Offset
    ) -> tuple[Slice, list[bytes | memoryview]] | None:
        """Return the rest of a slice: the same `part` if nothing was removed; None if nothing is
        left."""
        kept: list[bytes | memoryview] = []
        changed = False
        for position, header in batch_headers(data):
            batch = data[position : position + header.size]
            made = None
            if header.last_offset >= log_start:
                made = self._clean_batch(part.partition, header, batch)
            changed = changed or made is not batch
            if made is not None:
                kept.append(made)
        if not changed:
            return part, [data]
        if not kept:
            return None
        outlines = [read_outline(batch, 0) for batch in kept]
        first, last = outlines[0], outlines[-1]
        cleaned = Slice(
            partition=part.partition,
            length=sum(map(len, kept)),
            base_offset=Offset(first[0]),
            record_count=last[0] + last[2] - first[0],
            batch_count=len(kept),
            max_timestamp=max(outline[3] for outline in outlines),
        )
        return cleaned, kept

    def _clean_batch(
        self, partition: PartitionId, header: BatchHeader, batch: memoryview
    ) -> bytes | memoryview | None:
        """A batch as it stays: itself if it is the same; None if nothing of it does."""
        clean_to, before = self.clean_to[partition], self._before[partition]
        base_offset = header.base_offset
        if base_offset >= clean_to:
            return batch
        self.effort -= header.size + RECORD_EFFORT_BYTES * header.record_count
        try:
            opened = read_records(batch)
        except InvalidBatch:
            return batch
        latest = self._latest
        horizon_ms = opened.horizon_ms
        expired = horizon_ms is not None and self.now_ms >= horizon_ms
        kept = []
        for record in opened.records:
            offset = base_offset + record.offset_delta
            if record.key is not None and offset < clean_to:
                if latest.get(_hash(partition, record.key), -1) > offset:
                    continue
                if record.tombstone:
                    if offset >= before or horizon_ms is None:
                        # Passed for the first time.
                        horizon_ms = self.now_ms + self._policies[partition].delete_retention_ms
                    elif expired and offset + 1 < clean_to:
                        self._erases = True
                        continue
            kept.append(record)
        if len(kept) == len(opened.records) and horizon_ms == opened.horizon_ms:
            return batch
        return rebuild_batch(opened, kept, horizon_ms=horizon_ms) if kept else None


def _hash(partition: PartitionId, key: bytes) -> bytes:
    data = partition.to_bytes(4, "little") + key
    return hashlib.blake2b(data, digest_size=_KEY_HASH_BYTES).digest()


_NEVER = Offset(1 << 63)
