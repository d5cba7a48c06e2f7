"""Copies of messages, carried to another queue so that none is lost and none is there twice.

A copy says where it comes from (see `core.moved_message`), and a queue that reads headers passes
over a second one. That holds only as long as three things do, and this is where they are seen to:

- The queue reads headers before the first copy goes: its rules are in the log of its shard, not
  merely in the catalog.
- A copy that is sent again goes to the same partition, which is the one that remembers: by its
  group or key, or by where it came from, and never in turn.
- What was sent and not answered is sent again, by the next leader. It is never taken for done,
  and never for failed.

Messages that the queue refuses for good (too large, no key where there must be one) are found one
by one: a single one must not hold up all others.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from penstock.core.errors import LocalError, QueueFull, UnknownPartition
from penstock.core.limits import KIB
from penstock.core.message import NewMessage
from penstock.core.queue_rules import QueueRules
from penstock.core.topic import Topic
from penstock.core.types import Offset, PartitionId, ShardId
from penstock.engine.delivery.service import DeliveryService
from penstock.engine.topics.partitioner import Partitioner
from penstock.engine.topics.topics import Topics
from penstock.machines.machine import Reply, Request
from penstock.machines.queue_commands import ConfigureQueue, CopyPlace
from penstock.machines.queue_headers import message_group_of

SENT_BYTES_MAX = 256 * KIB
"""The size of a batch, unless a single message is larger."""
KNOWN_PARTITIONS_MAX = 100_000
_MESSAGE_BYTES = 100

Change = Callable[[ShardId, Request], Awaitable[Reply]]


class Delivered(NamedTuple):
    """The outcome of copying, by the offset of the original: the place of each copy, the last one
    if it was sent twice, and the errors of those that are refused for good."""

    places: dict[Offset, CopyPlace]
    refused: dict[Offset, LocalError]


class Copy(NamedTuple):
    """A copy of the message at an offset."""

    offset: Offset
    partition: int
    """The index of where it goes if it has neither group nor key."""
    message: NewMessage
    fixed: bool = False
    """True if it must go to that partition whatever its key is."""


class MessageCopier:
    """For one node. `change` carries out a command wherever its shard is led."""

    def __init__(self, topics: Topics, queues: DeliveryService, change: Change) -> None:
        self._topics = topics
        self._queues = queues
        self._change = change
        self._rules: dict[PartitionId, QueueRules] = {}

    async def deliver(self, topic: Topic, copies: Sequence[Copy]) -> Delivered:
        """Send copies, in their order within each partition. Raises `Unavailable`,
        `OutcomeUnknown`, `QueueFull` and `UnknownPartition`, after which all of them should be sent
        again."""
        if not topic.settings.queue.queue_rules.delivery_headers:
            changes = {"queue.message.headers": "true"}
            topic = await self._topics.configure_topic(topic.name, changes)
        by_index: dict[int, list[Copy]] = {}
        for copy in copies:
            by_index.setdefault(_place(copy, topic), []).append(copy)
        delivered = Delivered({}, {})
        for index, some in by_index.items():
            await self._let_read_headers(topic, topic.partitions[index])
            for batch in _batches(some):
                await self._send(topic, index, batch, delivered)
        return delivered

    async def _send(
        self, topic: Topic, index: int, batch: list[Copy], delivered: Delivered
    ) -> None:
        try:
            sent = await self._queues.send(topic, [copy.message for copy in batch], index=index)
        except (QueueFull, UnknownPartition):
            raise
        except LocalError as error:
            if len(batch) == 1:
                delivered.refused[batch[0].offset] = error
                return
        else:
            for copy, one in zip(batch, sent, strict=True):
                delivered.places[copy.offset] = CopyPlace(topic.topic_id, one.index, one.offset)
            return
        for copy in batch:
            await self._send(topic, index, [copy], delivered)

    async def _let_read_headers(self, topic: Topic, partition: PartitionId) -> None:
        rules = topic.settings.queue.queue_rules
        if self._rules.get(partition) == rules:
            return
        if len(self._rules) >= KNOWN_PARTITIONS_MAX:
            self._rules.clear()
        command = ConfigureQueue(partition=partition, rules=rules)
        await self._change(self._topics.shard_of(partition), command)
        self._rules[partition] = rules


def _place(copy: Copy, topic: Topic) -> int:
    """The partition of a copy, the same at every attempt."""
    partitions = len(topic.partitions)
    lane = message_group_of(copy.message, topic.settings.queue.queue_rules)
    if copy.fixed or lane is None:
        return copy.partition % partitions
    return Partitioner().choose(lane, partitions)


def _batches(copies: Iterable[Copy]) -> Iterator[list[Copy]]:
    batch: list[Copy] = []
    size = 0
    for copy in copies:
        more = _size(copy.message)
        if batch and size + more > SENT_BYTES_MAX:
            yield batch
            batch, size = [], 0
        batch.append(copy)
        size += more
    if batch:
        yield batch


def _size(message: NewMessage) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in message.headers)
    return len(message.key or b"") + len(message.value or b"") + headers + _MESSAGE_BYTES
