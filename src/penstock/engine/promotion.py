"""A part of a publication is appended to its partition, from where it is staged; whole, and once.

It happens on the node that leads the partition, and so its staging partition as well. Staged
batches are copied as they are, but for the producer in their headers: the application's, in the
publication's own epoch, numbered from 0. What the partition remembers of this producer says how
much of the part it has. So a part that was broken off is continued, one that is there is left
alone, and one that comes from a coordinator that was replaced long ago is fenced.
"""

import asyncio
from collections import deque
from collections.abc import Iterator

import msgspec

from penstock.core.errors import (
    InvalidRequest,
    OutOfOrderSequence,
    ProducerFenced,
    StagingExpired,
    Unavailable,
    UnknownTopicId,
)
from penstock.core.limits import MIB
from penstock.core.message_batches import iter_batches
from penstock.core.records import number_batch, read_outline, stamp_append_time
from penstock.core.types import Offset, ProducerId
from penstock.engine.engine import Engine
from penstock.engine.queue_bounds import QueueBounds
from penstock.engine.shard import Shard
from penstock.engine.staging import Staging
from penstock.machines.machine import Reply
from penstock.machines.publication_commands import PublishedPart

READ_BYTES = 4 * MIB
UNDER_WAY_BYTES_MAX = 16 * MIB
"""So much of a part is being appended at once."""


class Promotion(msgspec.Struct, frozen=True, array_like=True):
    """A part, and the producer in whose name it is appended."""

    part: PublishedPart
    producer_id: ProducerId
    epoch: int


class Promoting:
    """Carries out promotions on the partitions that this node leads."""

    def __init__(self, engine: Engine, staging: Staging) -> None:
        self._engine = engine
        self._staging = staging
        self._bounds = QueueBounds()

    def check(self, part: PublishedPart) -> None:
        """Raise what keeps the part from being published: `StagingExpired` unless all of it is
        still there, `QueueFull` if there is no room for it. After this nothing is refused: what is
        decided is carried out."""
        running = self._engine.led_shard(part.partition)
        partitions = running.machine.partitions
        if not partitions.holds(part.staging):
            raise _expired(part)
        start, end = partitions.bounds(part.staging)
        if any(first < start or last > end for first, last in part.ranges):
            raise _expired(part)
        topic = self._engine.catalog.topic_by_id(part.topic_id)
        if topic is None or part.partition not in topic.partitions:
            raise UnknownTopicId("there is no topic of this id: it was deleted")
        queue = topic.settings.queue
        if queue.refuses_when_full:
            self._bounds.check_room(running, part.partition, queue, messages=part.records)

    async def promote(self, promotion: Promotion) -> None:
        """Return when the partition has all of its part; a topic that was deleted needs none."""
        part = promotion.part
        topic = self._engine.catalog.topic_by_id(part.topic_id)
        if topic is None or part.partition not in topic.partitions:
            return
        running = self._engine.led_shard(part.partition)
        await running.wait_current()
        try:
            await self._append(running, promotion, log_append_time=topic.settings.log_append_time)
        except ProducerFenced:
            return  # A later publication has begun, so this one is over.
        except OutOfOrderSequence as error:
            raise Unavailable(f"the part is being appended by somebody else: {error}") from error
        self._staging.release(self._engine.shard_of(part.partition), part.ranges)

    async def _append(self, running: Shard, promotion: Promotion, *, log_append_time: bool) -> None:
        part = promotion.part
        done = _records_there(running, promotion)
        sequence = 0
        under_way: deque[tuple[int, asyncio.Future[Reply]]] = deque()
        size = 0
        try:
            for stored in _staged(running, part) if done < part.records else ():
                count = read_outline(stored, 0)[2]
                if sequence >= done:
                    batch = bytearray(stored)
                    if log_append_time:
                        stamp_append_time(batch, self._engine.clock.wall_ms())
                    number_batch(
                        batch,
                        producer_id=promotion.producer_id,
                        epoch=promotion.epoch,
                        sequence=sequence,
                    )
                    under_way.append((len(batch), running.begin_append(part.partition, batch)))
                    size += len(batch)
                sequence += count
                while size > UNDER_WAY_BYTES_MAX:
                    size -= under_way[0][0]
                    await under_way.popleft()[1]
            while under_way:
                await under_way.popleft()[1]
        finally:
            for _, append in under_way:
                append.cancel()  # How far it got is asked of the partition, the next time.


def _records_there(running: Shard, promotion: Promotion) -> int:
    """How many messages of the part the partition has already."""
    known = running.machine.partitions.producers(promotion.part.partition)
    producer = known.get(promotion.producer_id)
    if producer is None or producer.epoch < promotion.epoch:
        return 0
    if producer.epoch > promotion.epoch:
        raise ProducerFenced("a later publication of the application has begun")
    return producer.batches[-1].last_sequence + 1


def _staged(running: Shard, part: PublishedPart) -> Iterator[memoryview]:
    """The staged batches of a part, in their order."""
    for first, end in part.ranges:
        position = first
        while position < end:
            for batch in iter_batches(_read(running, part, position)):
                base_offset, _, count, _, _ = read_outline(batch, 0)
                if base_offset >= end:
                    break
                if base_offset + count > end:
                    raise InvalidRequest(f"a staged batch reaches beyond offset {end}")
                if base_offset >= position:
                    yield batch
                    position = Offset(base_offset + count)


def _read(running: Shard, part: PublishedPart, position: Offset) -> bytes:
    partitions = running.machine.partitions
    if not partitions.holds(part.staging):
        raise _expired(part)
    if not partitions.bounds(part.staging).log_start <= position:
        raise _expired(part)
    data = running.fetch(part.staging, position, READ_BYTES)
    if not data or read_outline(data, 0)[0] != position:
        raise _expired(part)
    return data


def _expired(part: PublishedPart) -> StagingExpired:
    return StagingExpired(
        f"{part.records} messages for partition {part.partition} are not staged any more: they were"
        " published, or staged too long ago"
    )
