"""Back-pressure of a queue: the bounds above which new messages are refused (`queue.length.max`,
`queue.bytes.max`).

Both bound each partition. Messages are counted exactly, with those under way: a queue never holds
more than it may. Bytes are those of whole batches, as they are stored, from the first message on
that is not done; what is under way counts as well, so a queue that is nearly full may refuse a
little early while many write at once.

A message is living while one work group is not done with it. Without any work group, everything
that is stored is living.

A batch that an idempotent producer sends again is not a new one. It is let through: to call it
refused, when it is in the log, would be untrue.
"""

import asyncio
from typing import Any

from penstock.core.errors import QueueFull
from penstock.core.queue_settings import QueueSettings
from penstock.core.records import check_batch
from penstock.core.types import PartitionId
from penstock.engine.replica.shard import Shard


class QueueBounds:
    """Keeps the bounds on the node that leads; remembers the bytes that are under way."""

    def __init__(self) -> None:
        self._under_way: dict[PartitionId, int] = {}

    def check(
        self,
        running: Shard,
        partition: PartitionId,
        settings: QueueSettings,
        batch: bytearray | memoryview,
    ) -> None:
        """Raise `QueueFull` if the queue has no room for a batch."""
        header = check_batch(batch)
        problem = self._length_problem(running, partition, settings, header.record_count)
        problem = problem or self._bytes_problem(running, partition, settings, len(batch))
        if problem and not running.machine.partitions.repeats(partition, header):
            raise QueueFull(
                f"{problem}; acknowledge or purge messages, or set queue.overflow=drop-oldest"
            )

    def check_room(
        self,
        running: Shard,
        partition: PartitionId,
        settings: QueueSettings,
        *,
        messages: int,
    ) -> None:
        """Raise `QueueFull` if the queue has no room for `messages` more, or for none."""
        problem = self._length_problem(running, partition, settings, messages)
        problem = problem or self._bytes_problem(running, partition, settings, 1)
        if problem:
            raise QueueFull(f"{problem}; acknowledge or purge messages, then publish again")

    def _length_problem(
        self, running: Shard, partition: PartitionId, settings: QueueSettings, count: int
    ) -> str:
        if settings.length_max is None:
            return ""
        living = _living(running, partition)
        if living + count <= settings.length_max:
            return ""
        return (
            f"the queue has {living} messages and may have {settings.length_max}: no room for"
            f" {count} more"
        )

    def _bytes_problem(
        self, running: Shard, partition: PartitionId, settings: QueueSettings, size: int
    ) -> str:
        if settings.bytes_max is None:
            return ""
        held = _held_bytes(running, partition) + self._under_way.get(partition, 0)
        if held + size <= settings.bytes_max:
            return ""
        return (
            f"the queue has {held} bytes and may have {settings.bytes_max}: no room for {size} more"
        )

    def watch(self, partition: PartitionId, size: int, produced: "asyncio.Future[Any]") -> None:
        """Count `size` bytes as in flight until `produced` is done."""
        self._under_way[partition] = self._under_way.get(partition, 0) + size
        produced.add_done_callback(lambda _: self._arrived(partition, size))

    def _arrived(self, partition: PartitionId, size: int) -> None:
        left = self._under_way.pop(partition) - size
        if left:
            self._under_way[partition] = left


def _living(running: Shard, partition: PartitionId) -> int:
    """Messages that are not done, those under way included."""
    machine = running.machine
    log_start, end = machine.bounds(partition)
    planned = machine.partitions.planned_end(partition) - end
    groups = machine.queues.groups(partition)
    return planned + max((work.living for work in groups.values()), default=end - log_start)


def _held_bytes(running: Shard, partition: PartitionId) -> int:
    start = running.machine.bounds(partition).log_start
    groups = running.machine.queues.groups(partition)
    first = min((work.start for work in groups.values()), default=start)
    return running.replica.log.partition_bytes(partition, max(first, start))
