"""Messages that failed for good go to the dead-letter queue; who leads their partition moves them.

    dead in the queue ──── read ──── a copy to the dead-letter queue ──── buried in the queue

A message stays dead where it is until its copy is durable elsewhere. If the leader dies in between,
the next one begins again, and its copy, being the second, is passed over:
see `message_copier`. So a dead letter is never lost and never there twice.

A dead-letter queue that is not there is made. What cannot be moved (the queue is full, its name is
no name, the message is too large for it) stays dead and is tried again, less and less often; what
is refused message by message does not keep others from being moved.
"""

import asyncio
from collections.abc import Callable, Sequence

from penstock.core.errors import LocalError, OutcomeUnknown, PenstockError, TopicExists
from penstock.core.internal_topics import check_unprotected
from penstock.core.limits import BATCH_BYTES_MAX, KIB
from penstock.core.moved_message import Death, dead_letter
from penstock.core.retries import REPAIR, Backoff, JitterSource
from penstock.core.topic import Topic
from penstock.core.types import Offset, PartitionId, ShardId
from penstock.engine.delivery.service import DeliveryService
from penstock.engine.moves.message_copier import Copy, MessageCopier
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.topics import Topics
from penstock.machines.queue_commands import CopyPlace
from penstock.machines.work_records import DeadMessage

BATCH_MESSAGES = 100
LOOK_TICKS = 2
TASKS_MAX = 16
"""The number of queues that are processed concurrently."""
STUCK_MAX = 10_000
"""The number of messages of one queue that may be skipped because they cannot be moved."""
DEAD_LETTERS_KEPT_MS = 14 * 24 * 60 * 60 * 1000
"""The least that a dead-letter queue which was made here keeps its messages for."""
HEADERS_BYTES = 16 * KIB
"""The additional size of a dead letter's headers."""

Key = tuple[PartitionId, str]


class _Pause:
    """The consecutive failures of an operation, and the time of its next attempt."""

    __slots__ = ("backoff", "until_ms")

    def __init__(self, random: JitterSource) -> None:
        self.backoff = Backoff(REPAIR, random=random)
        self.until_ms = 0

    def note(self, now_ms: int) -> None:
        self.until_ms = now_ms + round(self.backoff.next() * 1_000)


class _Trouble:
    """The problems with the dead messages of one work group: with all of them, or with some."""

    __slots__ = ("pause", "stuck", "stuck_pause")

    def __init__(self, random: JitterSource) -> None:
        self.pause = _Pause(random)
        self.stuck: set[Offset] = set()
        """The messages that were refused, and are skipped until their next attempt."""
        self.stuck_pause = _Pause(random)

    def is_over(self, dead: int, now_ms: int) -> bool:
        """True if there may be messages that can be moved now."""
        if self.pause.until_ms > now_ms:
            return False
        return dead > len(self.stuck) or self.stuck_pause.until_ms <= now_ms


class DeadLetters:
    """For all partitions that one node leads."""

    def __init__(
        self,
        topics: Topics,
        shards: LocalShards,
        queues: DeliveryService,
        copier: MessageCopier,
        announce: Callable[[str], None],
    ) -> None:
        self._topics = topics
        self._shards = shards
        self._queues = queues
        self._copier = copier
        self._announce = announce
        self._ticks = 0
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._troubles: dict[Key, _Trouble] = {}
        self._closed = False

    def tick(self) -> None:
        """A tick of the node's clock has passed."""
        self._ticks += 1
        if self._closed:
            return
        for shard in self._shards:
            running = self._shards.get(shard)
            if running is None or (self._ticks + shard) % LOOK_TICKS:
                continue
            if running.replica.leads:
                self._look(shard, running)

    async def close(self) -> None:
        """Stop moving messages."""
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _look(self, shard: ShardId, running: Shard) -> None:
        now_ms = self._topics.clock.monotonic_ms()
        for key in running.machine.queues.dying():
            if len(self._tasks) >= TASKS_MAX:
                return
            work, trouble = running.machine.queues.work(*key), self._troubles.get(key)
            if key in self._tasks or work is None:
                continue
            if trouble is None or trouble.is_over(work.dead, now_ms):
                self._tasks[key] = asyncio.create_task(self._move_all_dead(shard, key))

    async def _move_all_dead(self, shard: ShardId, key: Key) -> None:
        partition, group = key
        trouble = self._troubles.setdefault(key, _Trouble(self._topics.retrier.random))
        now_ms = self._topics.clock.monotonic_ms
        if trouble.stuck_pause.until_ms <= now_ms():
            trouble.stuck.clear()
        before = len(trouble.stuck)
        try:
            while await self._move_some_dead(shard, partition, group, trouble):
                trouble.pause.backoff.reset()
            if not trouble.stuck:
                del self._troubles[key]
        except PenstockError as error:
            if trouble.pause.backoff.attempts == 0:
                owner = self._topics.catalog.owner(partition)
                name = owner[0].name if owner else f"partition {partition}"
                self._announce(
                    f"dead messages of {name} cannot be moved now, and stay there: {error}"
                )
            trouble.pause.note(now_ms())
        finally:
            if len(trouble.stuck) > before:
                trouble.stuck_pause.note(now_ms())
            del self._tasks[key]

    async def _move_some_dead(
        self, shard: ShardId, partition: PartitionId, group: str, trouble: _Trouble
    ) -> bool:
        """Move one batch; False if there is none."""
        running = self._shards.get(shard)
        owner = self._topics.catalog.owner(partition)
        if running is None or not running.replica.leads or owner is None:
            return False
        work = running.machine.queues.work(partition, group)
        if work is None or len(trouble.stuck) >= STUCK_MAX:
            return False
        topic, index = owner
        name = self._topics.catalog.work_settings(topic, group).dead_letter_topic
        if not name:
            return False  # It has just been taken away; soon the dead will not be moved any more.
        dead = [
            one
            for one in work.dead_offsets(BATCH_MESSAGES + len(trouble.stuck))
            if one.offset not in trouble.stuck
        ]
        if not dead:
            return False
        target = await self._target(topic, name)
        fifo = target.settings.queue.fifo
        copies = self._copies(topic, index, group, dead, fifo=fifo)
        there = {copy.offset for copy in copies}
        places, refused = await self._copier.deliver(target, copies)
        moved = sorted(there - refused.keys())
        gone = [one.offset for one in dead if one.offset not in there]
        if moved:
            await self._remove_dead(
                topic, index, moved, group, [places[offset] for offset in moved]
            )
        if gone:  # Compacted, or deleted, since it died: there is nothing left to move.
            await self._remove_dead(topic, index, gone, group)
        self._pass_over(topic, target, refused, trouble)
        return True

    def _copies(
        self, topic: Topic, index: int, group: str, dead: list[DeadMessage], *, fifo: bool
    ) -> list[Copy]:
        by_offset = {one.offset: one for one in dead}
        runs = [(offset, Offset(offset + 1)) for offset in sorted(by_offset)]
        copies: list[Copy] = []
        for message in self._queues.read_at_leader(topic, index, runs):
            one = by_offset[message.offset]
            death = Death(
                topic=topic.name,
                topic_id=topic.topic_id,
                index=index,
                group=group,
                deliveries=one.deliveries,
                first_received_ms=one.first_ms,
                died_ms=one.died_ms,
                reason=one.reason,
            )
            copies.append(Copy(message.offset, index, dead_letter(message, death, fifo=fifo)))
        return copies

    async def _remove_dead(
        self,
        topic: Topic,
        index: int,
        offsets: list[Offset],
        group: str,
        copies: Sequence[CopyPlace] = (),
    ) -> None:
        """Without copies they are discarded."""
        try:
            await self._queues.remove_dead(topic, index, offsets, group, not copies, copies)
        except OutcomeUnknown:  # What is buried cannot be buried again.
            await self._queues.remove_dead(topic, index, offsets, group, not copies, copies)

    def _pass_over(
        self, topic: Topic, target: Topic, refused: dict[Offset, LocalError], trouble: _Trouble
    ) -> None:
        for offset, error in refused.items():
            if not trouble.stuck and trouble.stuck_pause.backoff.attempts == 0:
                self._announce(
                    f"the dead message of {topic.name} at offset {offset} cannot be moved to"
                    f" {target.name}, and stays there: {error}"
                )
            trouble.stuck.add(offset)

    # The queue they go to.

    async def _target(self, topic: Topic, name: str) -> Topic:
        check_unprotected(name)
        found = self._topics.catalog.topic(name)
        if found is not None:
            return found
        if await make_dead_letter_queue(self._topics, topic, name):
            self._announce(f"made {name}, the dead-letter queue of {topic.name}")
        return self._topics.topic(name)


async def make_dead_letter_queue(
    topics: Topics, topic: Topic, name: str, *, partitions: int = 1
) -> bool:
    """Make the dead-letter queue of a topic; False if it is there."""
    if topics.catalog.topic(name) is not None:
        return False
    try:
        await topics.create_topic(name, partitions, dead_letter_configs(topic))
    except (TopicExists, OutcomeUnknown):
        return False
    return True


def dead_letter_configs(topic: Topic) -> dict[str, str]:
    """The configs of a dead-letter queue that has to be made for a topic."""
    settings = topic.settings
    kept_ms = settings.retention_ms
    configs = {
        "queue.message.headers": "true",
        "queue.delete.acked": "true",
        "retention.ms": str(-1 if kept_ms is None else max(kept_ms, DEAD_LETTERS_KEPT_MS)),
        "max.message.bytes": str(min(settings.message_bytes_max + HEADERS_BYTES, BATCH_BYTES_MAX)),
    }
    if settings.queue.fifo:
        configs["queue.order"] = "fifo"
    return configs
