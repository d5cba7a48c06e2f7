"""A part of a publication is appended to its partition, from where it is staged; whole, and once.

It happens on the node that leads the partition, and so its staging partition as well. What is
appended, and how it comes that nothing is appended twice, is in `part_copy`. Before a publication
is decided, every part is checked here, where it would be appended: all that could keep it out is
said then. After that nothing is refused.
"""

import asyncio
from collections import deque
from typing import TypeVar

from penstock.core.errors import (
    OutOfOrderSequence,
    ProducerFenced,
    Unavailable,
    UnknownPartition,
    UnknownTopicId,
)
from penstock.core.limits import MIB
from penstock.core.topic import Topic
from penstock.core.types import PartitionId, ProducerId
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.part_copy import PartCopy, Promotion, read_staged
from penstock.engine.topics.queue_bounds import QueueBounds
from penstock.engine.topics.staging import PublicationKey, Staging
from penstock.engine.topics.topics import Topics
from penstock.engine.topics.traffic import INTERNAL
from penstock.machines.machine import Appended, Reply
from penstock.machines.publication_commands import PublishedPart

UNDER_WAY_BYTES_MAX = 16 * MIB
"""The number of bytes of a part that are being appended at once."""

_PromotionKey = tuple[PartitionId, ProducerId, int]
T = TypeVar("T")


class PartPromotion:
    """Carries out promotions on the partitions that this node leads."""

    def __init__(self, topics: Topics, staging: Staging) -> None:
        self._topics = topics
        self._staging = staging
        self._bounds = QueueBounds()
        self._under_way: dict[_PromotionKey, asyncio.Task[None]] = {}

    async def check(self, part: PublishedPart, publication: PublicationKey) -> None:
        """Raise what keeps the part from being published: `StagingExpired` unless all of it is
        still there, `InvalidRequest` if it is not what was staged for the partition, `QueueFull` if
        there is no room. From now on what was staged is kept for the publication."""
        topic = self._topic(part)
        if topic is None:
            raise UnknownTopicId("there is no topic with this id: it was deleted")
        running = self._topics.led_shard(part.partition)
        await running.wait_current()
        unknown = self._staging.staged(part).verify(part)
        for _ in read_staged(running.machine.partitions, running.fetch, part, unknown):
            await asyncio.sleep(0)  # Others have their turn.
        staged = self._staging.staged(part)
        staged.verify(part)  # Again: the log may have been trimmed in the meantime.
        queue = topic.settings.queue
        if queue.refuses_when_full:
            self._bounds.check_room(running, part.partition, queue, messages=part.records)
        staged.keep(part, publication, self._topics.clock.monotonic_ms())

    async def promote(self, promotion: Promotion, publication: PublicationKey) -> None:
        """Return when the partition has all of its part; a topic that was deleted needs none."""
        key = promotion.part.partition, promotion.producer_id, promotion.epoch
        task = self._under_way.get(key)
        if task is None:  # Otherwise a caller that could not wait asks again, or a successor.
            task = asyncio.create_task(self._promote(promotion, publication))
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._forget(key, done))
        await wait_over(task)

    def _forget(self, key: _PromotionKey, task: "asyncio.Task[None]") -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # The waiter may have gone.

    def release(self, part: PublishedPart, publication: PublicationKey) -> None:
        """The part will not be published, if it is what was staged for its partition."""
        self._staging.staged(part).verify(part)
        self._staging.release(part, publication)

    async def close(self) -> None:
        """Stop appending."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _promote(self, promotion: Promotion, publication: PublicationKey) -> None:
        topic = self._topic(promotion.part)
        if topic is None:
            return
        running = self._topics.led_shard(promotion.part.partition)
        await running.wait_current()
        try:
            await self._append(running, promotion, topic)
        except ProducerFenced:
            pass  # A later publication has begun, so this one is over.
        except OutOfOrderSequence as error:
            raise Unavailable(f"the part is being appended by another leader: {error}") from error
        except UnknownPartition as error:
            raise Unavailable(f"the partition is being made, or removed: {error}") from error
        self._staging.release(promotion.part, publication)

    async def _append(self, running: Shard, promotion: Promotion, topic: Topic) -> None:
        log_append_time = topic.settings.log_append_time
        copy = PartCopy(running.machine.partitions, running.fetch, promotion)
        alone = copy.is_first
        under_way: deque[tuple[int, asyncio.Future[Reply]]] = deque()
        size = 0
        try:
            while batches := copy.next_piece(self._now_ms() if log_append_time else None):
                for batch in batches:
                    append = running.begin_append(promotion.part.partition, batch)
                    under_way.append((len(batch), append))
                    size += len(batch)
                    while size > UNDER_WAY_BYTES_MAX or (alone and under_way):
                        size -= under_way[0][0]
                        await self._settle(topic, *under_way.popleft())
                    alone = False
                await asyncio.sleep(0)  # Others have their turn.
            while under_way:
                await self._settle(topic, *under_way.popleft())
        finally:
            for _, append in under_way:
                append.cancel()  # How far it got is asked of the partition, the next time.

    async def _settle(self, topic: Topic, size: int, append: "asyncio.Future[Reply]") -> None:
        reply = await append
        if isinstance(reply, Appended):
            messages = reply.end_offset - reply.base_offset
            self._topics.traffic.of(INTERNAL).produced(topic.name, messages, size)

    def _now_ms(self) -> int:
        return self._topics.clock.wall_ms()

    def _topic(self, part: PublishedPart) -> Topic | None:
        """The topic of a part; None if it was deleted. It was only if this node's copy of the
        catalog has heard of the partition: otherwise the copy is behind."""
        catalog = self._topics.catalog
        topic = catalog.topic_by_id(part.topic_id)
        if topic is not None and part.partition in topic.partitions:
            return topic
        if part.partition >= catalog.next_partition:
            raise Unavailable("this node does not know the topic yet")
        return None


async def wait_over(task: "asyncio.Task[T]") -> T:
    """Wait for a task that continues if its waiter is cancelled, and that ends if the node does."""
    await asyncio.wait([task])
    if task.cancelled():
        raise Unavailable("this node is stopping")
    return task.result()
