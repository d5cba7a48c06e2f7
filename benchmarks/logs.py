"""Large logs, made quickly: what a broker would have written, without the clients that sent it.

Entries are put together here and handed to the log in large groups: the files are exactly those
that appends of the same batches would have made, as every byte still goes through `ShardLog`, and
a replica that opens the log afterwards replays it with all its checks.

The last snapshot lies a whole snapshot interval before the end, the worst place for a start.
"""

import asyncio
import os
from array import array
from dataclasses import dataclass

import msgspec

from benchmarks.report import KIB, MIB
from benchmarks.shards import CLUSTER, LEADER, LOG, make_batch, wait_leading
from penstock.core.append_payload import Slice, encode_append
from penstock.core.entries import Entry, EntryKind, Membership, SnapshotMark
from penstock.core.limits import SNAPSHOT_LOG_BYTES
from penstock.core.records import stamp_batch
from penstock.core.types import Index, Offset, PartitionId, ShardId, Term
from penstock.engine.peers.loopback import LoopbackNetwork
from penstock.engine.replica.shard import Shard, ShardSettings
from penstock.machines.commands import CreatePartition
from penstock.machines.partition_pieces import Partition
from penstock.machines.shard_machine import ShardMachine
from penstock.storage import Identity, LogJob, RealDisk, ShardLog, run

GROUP_BYTES = 8 * MIB
_IDENTITY = Identity(CLUSTER, ShardId(0), LEADER)
_MEMBERS = Membership((LEADER,))
_HEAD_BYTES = 12
_SLICE_WORDS = 4
_BASE_OFFSET_WORD = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a log holds: each entry has `batches` for each of `partitions`."""

    name: str
    partitions: int
    batches: int
    messages: int
    value_bytes: int

    @property
    def messages_per_entry(self) -> int:
        """Of one partition."""
        return self.batches * self.messages


LARGE = Shape(name="16 KiB batches", partitions=16, batches=4, messages=16, value_bytes=KIB - 8)
SMALL = Shape(name="1-message batches", partitions=1_000, batches=1, messages=1, value_bytes=24)
SHAPES = {"large": LARGE, "small": SMALL}


def settings_for(directory: str) -> ShardSettings:
    """A shard of one replica over a log made here."""
    return ShardSettings(directory=directory, identity=_IDENTITY, members=_MEMBERS, log=LOG)


def build_log(directory: str, shape: Shape, total_bytes: int) -> ShardLog:
    """Write batches of `total_bytes` in all. The log comes back open: close it, or die and leave it
    as a kill does."""
    asyncio.run(_create_partitions(directory, shape))
    log = ShardLog.open(RealDisk(), directory, identity=_IDENTITY, settings=LOG, solo=True)
    term = log.hard_state.term
    payloads = _Payloads(shape, term)
    count = max(1, total_bytes // payloads.batch_bytes)
    snapshot_after = count - SNAPSHOT_LOG_BYTES // payloads.size
    group: list[Entry] = []
    first = log.last_index + 1
    for number in range(count):
        entry = Entry(Index(first + number), term, EntryKind.APPEND, payloads.make(number))
        group.append(entry)
        if len(group) * payloads.size >= GROUP_BYTES or number + 1 == count:
            log.stage(entries=group)
            group = []
            _carry_out(log, log.take_job())
            log.note_commit(log.durable_index)
        if number + 1 >= snapshot_after > 0 and not group:
            _snapshot(log, shape, number + 1)
            snapshot_after = 0
    return log


def _carry_out(log: ShardLog, job: LogJob | None) -> None:
    if job is not None:
        run(job)
        log.complete(job)


async def _create_partitions(directory: str, shape: Shape) -> None:
    network = LoopbackNetwork(asyncio.get_running_loop().call_soon)
    shard = await Shard.open(settings_for(directory), network)
    await wait_leading(shard)
    numbers = [PartitionId(number) for number in range(shape.partitions)]
    await asyncio.gather(*(shard.change(CreatePartition(partition=one)) for one in numbers))
    await shard.close()


def _snapshot(log: ShardLog, shape: Shape, entries: int) -> None:
    """The state after so many entries is known without applying them: every partition is alike."""
    end = Offset(entries * shape.messages_per_entry)
    partitions = {
        PartitionId(number): Partition(Offset(0), end, None) for number in range(shape.partitions)
    }
    state = (1, _Payloads.stamp_ms, partitions)
    mark = SnapshotMark(log.durable_index, log.term(log.durable_index), _MEMBERS)
    machine = ShardMachine()
    machine.partitions.restore(msgspec.msgpack.encode(state))
    _carry_out(log, log.snapshot_job(mark, machine.snapshot()))
    _carry_out(log, log.take_job())


class _Payloads:
    """Makes entry after entry, changing only what differs: offsets."""

    stamp_ms = 4_000_000_000_000
    """Later than any clock, as log time never goes back."""

    def __init__(self, shape: Shape, term: Term) -> None:
        self._shape = shape
        self._term = term
        self._batches = [
            bytearray(make_batch(shape.messages, shape.value_bytes)) for _ in range(shape.batches)
        ]
        length = sum(map(len, self._batches))
        self.batch_bytes = length * shape.partitions
        slices = [
            Slice(
                partition=PartitionId(number),
                length=length,
                base_offset=Offset(0),
                record_count=shape.messages_per_entry,
                batch_count=shape.batches,
                max_timestamp=1_000 + shape.messages,
            )
            for number in range(shape.partitions)
        ]
        empty = encode_append(self.stamp_ms, [(one, []) for one in slices])
        self._head, self._directory = empty[:_HEAD_BYTES], array("q", empty[_HEAD_BYTES:])
        self.size = len(empty) + self.batch_bytes

    def make(self, number: int) -> bytes:
        """The payload of the entry with this number, counted from 0."""
        shape = self._shape
        base = number * shape.messages_per_entry
        for position, batch in enumerate(self._batches):
            offset = Offset(base + position * shape.messages)
            stamp_batch(batch, base_offset=offset, epoch=self._term)
        column = array("q", [base]) * shape.partitions
        self._directory[_BASE_OFFSET_WORD::_SLICE_WORDS] = column
        body = b"".join(self._batches) * shape.partitions
        return b"".join([self._head, self._directory.tobytes(), body])


def forget_pages(directory: str) -> None:
    """Make the system drop what it holds of these files in memory: the next start is a cold one."""
    for name in os.listdir(directory):
        descriptor = os.open(os.path.join(directory, name), os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
