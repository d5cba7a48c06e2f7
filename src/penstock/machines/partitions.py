"""The partitions of one shard: dense offsets, idempotent producers, log start.

A partition is a run of offsets [log start, next offset) and what it remembers of its producers.
Messages themselves are in the log's APPEND entries, which storage indexes; the machine holds no
message and no position, so a partition costs some 120 bytes and a shard may have very many.

Rules that hold here:

- Offsets are dense: a batch of n records takes exactly the next n, in log order.
- The next offset of the applied state is the high watermark: what is applied is committed, and
  readers see nothing else.
- The log start only grows, up to the next offset. Storage reclaims below it when it likes.
- A producer is forgotten by command only, by log time: all replicas forget it at the same index.
  Expiry never reaches past the time of the applied state. So a producer with a batch under way is
  never forgotten, though its batch may get a later stamp than planned when plans are joined.

Cost: planning a batch reads its header and checksum, applying it reads its header. Neither looks at
a record.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from penstock.core.append_payload import Slice, decode_append
from penstock.core.decoders import decode_msgpack
from penstock.core.entries import Entry, EntryKind
from penstock.core.errors import (
    LocalError,
    OffsetOutOfRange,
    Overloaded,
    PartitionExists,
    UnknownPartition,
    UnsupportedBatch,
    UnsupportedVersion,
)
from penstock.core.limits import (
    BATCH_RECORDS_MAX,
    PARTITIONS_PER_SHARD_MAX,
    PRODUCERS_PER_PARTITION_MAX,
)
from penstock.core.records import (
    BATCH_HEADER_BYTES,
    BatchHeader,
    check_batch,
    read_header,
    read_outline,
    stamp_batch,
)
from penstock.core.types import Offset, PartitionId, ProducerId, Term
from penstock.machines.commands import (
    Command,
    CreatePartition,
    DeletePartition,
    ExpireProducers,
    TrimPartition,
    UseVersion,
    decode_command,
    encode_command,
)
from penstock.machines.machine import (
    Append,
    Appended,
    Applied,
    Effect,
    Known,
    Machine,
    Plan,
    Propose,
    Reply,
    Request,
    WakeReaders,
)
from penstock.machines.partition_pieces import Partition, partition_pieces
from penstock.machines.plan_overlay import PlannedPartition
from penstock.machines.producers import (
    Producer,
    check_sequence,
    find_duplicate,
    follows,
    remember_batch,
)
from penstock.machines.state_bytes import DEFAULT_BUDGET, StateBudget, StateKind
from penstock.machines.state_pieces import (
    PIECE_ROWS,
    Buffer,
    Piece,
    Restoring,
    begun,
    finished,
    joined,
)

NEWEST_VERSION = 1
"""The newest behaviour this build knows. It knows all before it, too."""

PRODUCER_BYTES = 120
"""What a producer counts for: its last batches take about as much in a snapshot."""
_PARTITION_IDS = 1 << 32
_CODEC_MASK = 0x07
_CODEC_MAX = 4  # none, gzip, snappy, lz4, zstd
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_RECORD_BYTES_MIN = 7  # Seven one-byte fields: length, attributes, deltas, key, value, headers.


class AppendBatch(Request, frozen=True, gc=False):
    """Append one record batch. It is stamped in place: the caller gives the buffer away."""

    partition: PartitionId
    batch: bytearray | memoryview


class PartitionCreated(Reply, frozen=True):
    """The partition is there, empty."""

    partition: PartitionId


class PartitionDeleted(Reply, frozen=True):
    """The partition is gone."""

    partition: PartitionId


class PartitionTrimmed(Reply, frozen=True):
    """The log start as it is now, which may be beyond what was asked for."""

    partition: PartitionId
    log_start: Offset


class ProducersExpired(Reply, frozen=True):
    """So many producers were forgotten, in all partitions together."""

    count: int


class VersionInUse(Reply, frozen=True):
    """From here on, entries are applied as this version does."""

    version: int


class Bounds(NamedTuple):
    """What can be read of a partition: from log start up to, not including, high watermark."""

    log_start: Offset
    high_watermark: Offset


class HoldsPartitions(Machine, Protocol):
    """A machine that has partitions, perhaps among other things."""

    def bounds(self, partition: PartitionId) -> Bounds:
        """Log start and high watermark."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsSettings:
    """Bounds, checked by `plan` alone, so nodes may differ in them."""

    partitions_max: int = PARTITIONS_PER_SHARD_MAX
    producers_per_partition_max: int = PRODUCERS_PER_PARTITION_MAX
    budget: StateBudget = DEFAULT_BUDGET
    newest_version: int = NEWEST_VERSION
    """What this build knows; another value lets a test play an older or a newer build."""


DEFAULT_SETTINGS = PartitionsSettings()


class _SnapshotHead(msgspec.Struct, array_like=True):
    version: int


class _Snapshot(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The layout belongs to the version, which comes first and is read before the rest."""

    version: int
    time_ms: int
    partitions: dict[PartitionId, msgspec.Raw]
    """Each a `Partition`, which may be large: decoded by itself."""


class Partitions:
    """The machine of one shard's partitions. Implements `Machine`."""

    __slots__ = (
        "_expiry_planned_ms",
        "_partitions",
        "_planned",
        "_producer_count",
        "_settings",
        "_time_ms",
        "_time_planned_ms",
        "_version",
        "_version_planned",
    )

    def __init__(self, settings: PartitionsSettings = DEFAULT_SETTINGS) -> None:
        self._settings = settings
        self._version = 1
        self._time_ms = 0
        self._partitions: dict[PartitionId, Partition] = {}
        self._producer_count = 0
        self._planned: dict[PartitionId, PlannedPartition] = {}
        self._time_planned_ms = 0
        self._expiry_planned_ms = 0
        self._version_planned = self._version

    # Reading.

    @property
    def version(self) -> int:
        return self._version

    @property
    def time_ms(self) -> int:
        return self._time_ms

    def bounds(self, partition: PartitionId) -> Bounds:
        """Log start and high watermark."""
        found = self._partitions.get(partition)
        if found is None:
            raise _unknown(partition)
        return Bounds(found.log_start, found.next_offset)

    def holds(self, partition: PartitionId) -> bool:
        """True once the command that creates the partition has been applied."""
        return partition in self._partitions

    def planned_end(self, partition: PartitionId) -> Offset:
        """The next offset, once everything planned has been applied."""
        return self._planned_partition(partition).next_offset

    def repeats(self, partition: PartitionId, header: BatchHeader) -> bool:
        """The batch was stored before, or is about to be: its producer sends it again."""
        producer = self._planned_producer(partition, header.producer_id)
        return producer is not None and find_duplicate(producer, header) is not None

    def producers(self, partition: PartitionId) -> Mapping[ProducerId, Producer]:
        """What is remembered of the partition's producers; for people and tests."""
        found = self._partitions.get(partition)
        if found is None:
            raise _unknown(partition)
        return dict(sorted((found.producers or {}).items()))

    def producer(self, partition: PartitionId, producer_id: ProducerId) -> Producer | None:
        """What is remembered of one producer."""
        found = self._partitions.get(partition)
        if found is None:
            raise _unknown(partition)
        return None if found.producers is None else found.producers.get(producer_id)

    def log_starts(self) -> Mapping[PartitionId, Offset]:
        return {number: partition.log_start for number, partition in self._partitions.items()}

    def describe(self) -> str:
        """`version 1 time 1700 partitions 2 planned 0`."""
        return (
            f"version {self._version} time {self._time_ms}"
            f" partitions {len(self._partitions)} planned {len(self._planned)}"
        )

    # Planning: on the leader; changes the overlay and nothing else.

    def plan(self, request: Request, *, now_ms: int, term: Term) -> Plan:
        stamp_ms = max(self._time_planned_ms, self._time_ms, now_ms)
        if type(request) is AppendBatch:
            plan = self._plan_append(request, stamp_ms, term)
        else:
            plan = self._plan_command(request, stamp_ms)
        if type(plan) is not Known:
            self._time_planned_ms = stamp_ms
        return plan

    def forget_plans(self) -> None:
        self._planned.clear()
        self._time_planned_ms = self._time_ms
        self._expiry_planned_ms = 0
        self._version_planned = self._version

    def _plan_append(self, request: AppendBatch, stamp_ms: int, term: Term) -> Plan:
        number, batch = request.partition, request.batch
        header = check_batch(batch)
        _check_supported(header)
        base_offset = self._planned_partition(number).next_offset
        producer: Producer | None = None
        if header.producer_id >= 0:
            producer = self._planned_producer(number, header.producer_id)
            if producer is None:
                self._check_room_for_producer(number)
            else:
                duplicate = find_duplicate(producer, header)
                if duplicate is not None:
                    end_offset = Offset(duplicate + header.record_count)
                    return Known(Appended(number, duplicate, end_offset))
                check_sequence(producer, header)
        planned = self._touch(number)
        planned.next_offset = Offset(base_offset + header.record_count)
        if header.producer_id >= 0:
            producer = remember_batch(producer, header, base_offset=base_offset, stamp_ms=stamp_ms)
            planned.remember(header.producer_id, producer)
        stamp_batch(batch, base_offset=base_offset, epoch=term)
        return Append(
            number, base_offset, header.record_count, header.max_timestamp, batch, stamp_ms
        )

    def _plan_command(self, request: Request, stamp_ms: int) -> Plan:
        match request:
            case CreatePartition(partition=number):
                self._check_creatable(number)
                self._touch(number).start_life(exists=True)
            case DeletePartition(partition=number):
                self._planned_partition(number)
                self._touch(number).start_life(exists=False)
            case TrimPartition(partition=number, before=before):
                expected = self._planned_partition(number)
                if before > expected.next_offset:
                    raise OffsetOutOfRange(
                        f"partition {number} ends at offset {expected.next_offset}, it cannot start"
                        f" at {before}; ask for its end first"
                    )
                if before <= expected.log_start:
                    return Known(PartitionTrimmed(number, expected.log_start))
                self._touch(number).log_start = before
            case ExpireProducers(before_ms=before_ms):
                request = ExpireProducers(before_ms=min(before_ms, self._time_ms))
                self._expiry_planned_ms = max(self._expiry_planned_ms, request.before_ms)
            case UseVersion(version=version):
                if version == self._version_planned:
                    return Known(VersionInUse(version))
                self._check_version(version)
                if version < self._version_planned:
                    raise UnsupportedVersion(
                        f"partitions are at version {self._version_planned} and never go back to"
                        f" {version}"
                    )
                self._version_planned = version
            case _:
                raise LocalError(f"{type(request).__name__} is no request to partitions")
        return Propose(encode_command(request, stamp_ms=stamp_ms), stamp_ms)

    def _planned_partition(self, number: PartitionId) -> Partition | PlannedPartition:
        """The partition as it will be when everything planned has been applied."""
        planned = self._planned.get(number)
        if planned is not None:
            if planned.exists:
                return planned
            raise _unknown(number)
        partition = self._partitions.get(number)
        if partition is None:
            raise _unknown(number)
        return partition

    def _planned_producer(self, number: PartitionId, producer_id: ProducerId) -> Producer | None:
        planned = self._planned.get(number)
        if planned is not None:
            ahead = planned.producers.get(producer_id)
            if ahead is not None:
                return ahead.producer
            if planned.lives:
                return None
        producers = self._partitions[number].producers
        producer = producers.get(producer_id) if producers is not None else None
        if producer is not None and producer.last_ms < self._expiry_planned_ms:
            return None
        return producer

    def _touch(self, number: PartitionId) -> PlannedPartition:
        """The partition in the overlay, with one plan more."""
        planned = self._planned.get(number)
        if planned is None:
            partition = self._partitions.get(number)
            if partition is None:
                planned = PlannedPartition(False, Offset(0), Offset(0))
            else:
                planned = PlannedPartition(True, partition.log_start, partition.next_offset)
            self._planned[number] = planned
        planned.plans += 1
        return planned

    def _check_creatable(self, number: PartitionId) -> None:
        if not 0 <= number < _PARTITION_IDS:
            raise LocalError(f"partition {number} is not a number of 32 bits")
        planned = self._planned.get(number)
        exists = number in self._partitions if planned is None else planned.exists
        if exists:
            raise PartitionExists(f"partition {number} is there already")
        # Counts some partitions twice while plans are under way: better early than over the bound.
        if len(self._partitions) + len(self._planned) >= self._settings.partitions_max:
            raise Overloaded(
                f"the shard has {len(self._partitions)} partitions, the bound is"
                f" {self._settings.partitions_max}; delete some or use another shard"
            )

    def _check_room_for_producer(self, number: PartitionId) -> None:
        used = self._producer_count * PRODUCER_BYTES
        self._settings.budget.check(StateKind.PRODUCERS, used, PRODUCER_BYTES)
        partition = self._partitions.get(number)
        applied = (partition.producers or {}) if partition is not None else {}
        planned = self._planned.get(number)
        ahead = planned.producers if planned is not None else {}
        bound = self._settings.producers_per_partition_max
        if len(applied) + len(ahead) < bound:
            return
        count = len(applied) + sum(1 for producer_id in ahead if producer_id not in applied)
        if count >= bound:
            raise Overloaded(
                f"partition {number} remembers {count} producers, the bound is {bound};"
                " use fewer producers or wait until idle ones expire",
                retry_after_ms=1_000,
            )

    def _check_version(self, version: int) -> None:
        if not 1 <= version <= self._settings.newest_version:
            raise UnsupportedVersion(
                f"partitions of version {version} are asked for, this build knows up to"
                f" {self._settings.newest_version}: start this node with a later version"
                " of Penstock"
            )

    # Applying: on every replica; the only code that changes state.

    def apply(self, entry: Entry) -> Applied:
        if entry.kind == EntryKind.APPEND:
            return self._apply_append(entry.payload)
        if entry.kind == EntryKind.COMMAND:
            return self._apply_command(decode_command(entry.payload))
        return Applied()

    def _apply_append(self, payload: bytes) -> Applied:
        stamp_ms, slices, position = decode_append(payload)
        self._advance(stamp_ms)
        replies: list[Reply] = []
        effects: list[Effect] = []
        for part in slices:
            self._apply_slice(part, payload, position)
            position += part.length
            replies.append(Appended(part.partition, part.base_offset, part.end_offset))
            effects.append(WakeReaders(part.partition, part.end_offset))
        return Applied(tuple(replies), tuple(effects))

    def _apply_slice(self, part: Slice, payload: bytes, position: int) -> None:
        partition = self._partitions[part.partition]
        planned = self._planned.get(part.partition)
        offset = partition.next_offset
        assert part.base_offset == offset, f"{part} does not start at offset {offset}"
        end = position + part.length
        for _ in range(part.batch_count):
            base_offset, size, count, _, producer_id = read_outline(payload, position)
            assert base_offset == offset, f"a batch at {base_offset} where {offset} belongs"
            if producer_id >= 0:
                header = read_header(payload, position)
                self._producer_count += _apply_producer(partition, header, self._time_ms)
                if planned is not None:
                    planned.settle_batch(header.producer_id)
            offset = Offset(offset + count)
            position += size
        assert position == end, f"the batches of {part} end at byte {position}, not {end}"
        assert offset == part.end_offset, f"the batches of {part} end at offset {offset}"
        partition.next_offset = offset
        self._settle(part.partition, plans=part.batch_count)

    def _apply_command(self, command: Command) -> Applied:
        if isinstance(command, UseVersion):
            self._check_version(command.version)
        self._advance(command.stamp_ms)
        match command:
            case CreatePartition(partition=number):
                assert number not in self._partitions, f"partition {number} is created twice"
                self._partitions[number] = Partition()
                self._settle(number, lives=1)
                return Applied((PartitionCreated(number),))
            case DeletePartition(partition=number):
                partition = self._partitions.pop(number)
                self._producer_count -= len(partition.producers or ())
                self._settle(number, lives=1)
                wake = WakeReaders(number, partition.next_offset)
                return Applied((PartitionDeleted(number),), (wake,))
            case TrimPartition(partition=number, before=before):
                partition = self._partitions[number]
                assert before <= partition.next_offset, f"{command} beyond {partition.next_offset}"
                assert before > partition.log_start, f"{command} below {partition.log_start}"
                partition.log_start = before
                self._settle(number)
                return Applied((PartitionTrimmed(number, before),))
            case ExpireProducers(before_ms=before_ms):
                return Applied((ProducersExpired(self._expire_producers(before_ms)),))
            case UseVersion(version=version):
                assert version > self._version, f"{command} at version {self._version}"
                self._version = version
                return Applied((VersionInUse(version),))

    def _expire_producers(self, before_ms: int) -> int:
        count = 0
        for partition in self._partitions.values():
            if partition.producers is None:
                continue
            known = partition.producers
            kept = {key: value for key, value in known.items() if value.last_ms >= before_ms}
            count += len(known) - len(kept)
            partition.producers = kept or None
        self._producer_count -= count
        return count

    def _advance(self, stamp_ms: int) -> None:
        assert stamp_ms >= self._time_ms, f"log time goes back from {self._time_ms} to {stamp_ms}"
        self._time_ms = stamp_ms

    def _settle(self, number: PartitionId, *, plans: int = 1, lives: int = 0) -> None:
        """Plans have been applied; when they were the last ones, the overlay has nothing to add."""
        planned = self._planned.get(number)
        if planned is None:
            return  # Another node planned them.
        planned.plans -= plans
        planned.lives -= lives
        assert planned.plans >= 0, f"{-planned.plans} more applied than planned for {number}"
        assert planned.lives >= 0, f"partition {number} lived more often than planned"
        if planned.plans == 0:
            del self._planned[number]

    # Snapshots.

    def snapshot_pieces(self) -> Iterator[Piece]:
        return begun(partition_pieces(self._version, self._time_ms, self._partitions))

    def snapshot(self) -> bytes:
        return joined(self.snapshot_pieces())

    def restore(self, data: Buffer) -> None:
        finished(self.restoring(data))()

    def restoring(self, data: Buffer) -> Restoring:
        partitions: dict[PartitionId, Partition] = {}
        try:
            self._check_version(decode_msgpack(data, _SnapshotHead).version)
            state = decode_msgpack(data, _Snapshot)
            for number, raw in state.partitions.items():
                partitions[number] = decode_msgpack(raw, Partition)
                if len(partitions) % PIECE_ROWS == 0:
                    yield
        except msgspec.DecodeError as error:
            raise UnsupportedVersion(
                f"this is no snapshot of partitions that this build can read ({error}); start this"
                " node with the version of Penstock that wrote it or a newer one"
            ) from error

        def replace() -> None:
            self._version = state.version
            self._time_ms = state.time_ms
            self._partitions = partitions
            self._producer_count = sum(len(one.producers or ()) for one in partitions.values())
            self.forget_plans()

        return replace

    def state_bytes(self) -> dict[StateKind, int]:
        return {StateKind.PRODUCERS: self._producer_count * PRODUCER_BYTES}


def _apply_producer(partition: Partition, header: BatchHeader, stamp_ms: int) -> bool:
    """True: it is new."""
    if partition.producers is None:
        partition.producers = {}
    producer = partition.producers.get(header.producer_id)
    assert producer is None or follows(producer, header), f"{header} does not follow {producer}"
    partition.producers[header.producer_id] = remember_batch(
        producer, header, base_offset=Offset(header.base_offset), stamp_ms=stamp_ms
    )
    return producer is None


def _check_supported(header: BatchHeader) -> None:
    if header.attributes & (_TRANSACTIONAL | _CONTROL):
        raise UnsupportedBatch("transactional and control batches are not served")
    codec = header.attributes & _CODEC_MASK
    if codec > _CODEC_MAX:
        raise UnsupportedBatch(f"compression codec {codec} is not known; use none or 1 to 4")
    # A count is believed for offsets, so a lie would burn them, or overflow a slice's counter.
    most = (
        (header.size - BATCH_HEADER_BYTES) // _RECORD_BYTES_MIN if codec == 0 else BATCH_RECORDS_MAX
    )
    if header.record_count > most:
        raise UnsupportedBatch(
            f"{header.record_count} records in a batch of {header.size} bytes; {most} at most"
        )


def _unknown(number: PartitionId) -> UnknownPartition:
    return UnknownPartition(f"the shard holds no partition {number}; it may have been deleted")
