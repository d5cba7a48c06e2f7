"""The maintenance of the queues in a shard by its leader.

    rules      the partitions and the open work groups have the rules that topics and groups are
               configured with; a topic that is configured as a queue has its default work group
    the past   work groups that begin there learn what its messages say (see `recall`)
    time       leases and delays end when they are over, also without requests
    deletion   of topics that ask for it, messages go that every work group is done with
    version    queues behave as in the newest version that every member of the cluster knows

As with all stewardship, the catalog says what should be and the shard is what is; a step that is
refused or lost is taken again. A change of a topic's configs writes its rules at once
(`write_rules`), so that a queue works by them when the change is answered.

A topic without `queue.*` configs and without work groups is never touched.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress

from penstock.core.clock import Clock
from penstock.core.errors import OutcomeUnknown, PenstockError
from penstock.core.queue_rules import DEFAULT_WORK_GROUP, QueueRules, WorkRules
from penstock.core.topic import Topic
from penstock.core.types import EARLIEST, Offset, PartitionId, ShardId
from penstock.engine.replica.batcher import Promise
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.recall import Recaller
from penstock.machines.catalog import Catalog
from penstock.machines.commands import TrimPartition
from penstock.machines.machine import Reply, Request
from penstock.machines.queue_commands import (
    ConfigureQueue,
    OpenWork,
    TurnClock,
    UseQueuesVersion,
)
from penstock.machines.queues import NEWEST_QUEUES_VERSION, QueueChanged

STEPS_AT_ONCE = 1_000
"""The number of commands in one look; the next look continues."""
TRIM_MESSAGES = 1_000
"""Acknowledged messages are deleted when there are this many…"""
TRIM_MS = 1_000
"""…or after this time."""
TRIM_PARTITIONS_PER_TICK = 200
_PLAIN_RULES = QueueRules()

Change = Callable[[ShardId, Request], Awaitable[Reply]]
ShardOf = Callable[[PartitionId], ShardId]


class QueueUpkeep:
    """For all shards of one node; asked about those that it leads."""

    def __init__(
        self,
        catalog: Callable[[], Catalog],
        shard_of: ShardOf,
        clock: Clock,
        is_upgraded: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_upgraded`: whether all members of the cluster know the newest version of queues."""
        self._catalog = catalog
        self._is_upgraded = is_upgraded
        self._shard_of = shard_of
        self._clock = clock
        self._revision = -1
        self._queues: dict[ShardId, list[PartitionId]] = {}
        self._deleting: dict[ShardId, list[PartitionId]] = {}
        self._next: dict[ShardId, int] = {}
        self._trimmed_ms: dict[PartitionId, int] = {}
        self._turning: dict[ShardId, Shard] = {}
        self._recalling = Recaller()

    async def tend(self, shard: ShardId, running: Shard) -> None:
        """Bring the version and the rules of the shard's queues to what they should be."""
        _raise_unforeseen(
            await asyncio.gather(
                *map(running.change, self._missing(shard, running)), return_exceptions=True
            )
        )

    def tick(self, shard: ShardId, running: Shard) -> None:
        """A tick of the node's clock has passed; this node leads the shard."""
        self._turn(shard, running)
        self._trim(shard, running)
        self._recalling.tick(running)

    # Rules.

    def _missing(self, shard: ShardId, running: Shard) -> list[Request]:
        self._look_up()
        catalog, queues = self._catalog(), running.machine.queues
        there = running.machine.partitions
        steps: list[Request] = []
        if queues.version < NEWEST_QUEUES_VERSION and self._is_upgraded():
            steps.append(UseQueuesVersion(version=NEWEST_QUEUES_VERSION))
        configured = self._queues.get(shard, ())
        for partition in {*configured, *queues.partitions}:
            owner = catalog.owner(partition)
            if owner is not None and there.holds(partition):
                steps += _steps(running, catalog, owner[0], partition)
            if len(steps) >= STEPS_AT_ONCE:
                break
        return steps

    def _look_up(self) -> None:
        """Find the partitions of topics that are configured as queues, once per change."""
        catalog = self._catalog()
        if self._revision == catalog.revision:
            return
        self._revision = catalog.revision
        self._queues, self._deleting = {}, {}
        for topic in catalog.topics.values():
            settings = topic.settings.queue
            if not settings.is_queue:
                continue
            for partition in topic.partitions:
                shard = self._shard_of(partition)
                self._queues.setdefault(shard, []).append(partition)
                if settings.delete_acked:
                    self._deleting.setdefault(shard, []).append(partition)
        deleting = {one for partitions in self._deleting.values() for one in partitions}
        self._trimmed_ms = {
            one: at_ms for one, at_ms in self._trimmed_ms.items() if one in deleting
        }

    # Time.

    def _turn(self, shard: ShardId, running: Shard) -> None:
        if self._turning.get(shard) is running:
            return
        due_ms = running.machine.queues.due_ms()
        if due_ms is None or due_ms > max(self._clock.wall_ms(), running.machine.queues.time_ms):
            return
        self._turning[shard] = running

        def turned(reply: Reply | PenstockError) -> None:
            if self._turning.get(shard) is running:
                del self._turning[shard]
            if isinstance(reply, QueueChanged):
                self._turn(shard, running)  # One entry ends only so many leases.

        running.submit(TurnClock(), turned, Promise.COMMITTED)

    # Deletion.

    def _trim(self, shard: ShardId, running: Shard) -> None:
        self._look_up()
        partitions = self._deleting.get(shard)
        if not partitions:
            return
        now_ms = self._clock.monotonic_ms()
        count = min(len(partitions), TRIM_PARTITIONS_PER_TICK)
        first = self._next.get(shard, 0)
        self._next[shard] = (first + count) % len(partitions)
        for position in range(first, first + count):
            partition = partitions[position % len(partitions)]
            groups = running.machine.queues.groups(partition)
            if not groups:
                continue
            done = min(work.start for work in groups.values())
            freed = done - running.machine.bounds(partition).log_start
            if freed <= 0:
                continue
            late = now_ms - self._trimmed_ms.get(partition, -TRIM_MS) >= TRIM_MS
            if late or freed >= TRIM_MESSAGES:
                self._trimmed_ms[partition] = now_ms
                command = TrimPartition(partition=partition, before=done)
                running.submit(command, _ignore, Promise.COMMITTED)


def _steps(
    running: Shard, catalog: Catalog, topic: Topic, partition: PartitionId
) -> Iterator[Request]:
    """Yield the commands that make a partition match the settings of its queue."""
    settings = topic.settings.queue
    queues = running.machine.queues
    groups = queues.groups(partition)
    if (queues.rules(partition) or _PLAIN_RULES) != settings.queue_rules:
        yield ConfigureQueue(partition=partition, rules=settings.queue_rules)
    if settings.is_queue and DEFAULT_WORK_GROUP not in groups:
        yield opening(partition, DEFAULT_WORK_GROUP, settings.work_rules)
    for group, work in groups.items():
        wanted = work_rules(catalog, topic, group)
        if work.rules != wanted:
            yield opening(partition, group, wanted)


def work_rules(catalog: Catalog, topic: Topic, group: str) -> WorkRules:
    """The rules of a work group: its own settings, or else its queue's (`core.work_settings`)."""
    return catalog.work_settings(topic, group).rules


async def write_rules(
    topic: Topic, partitions: Iterable[PartitionId], change: Change, shard_of: ShardOf
) -> None:
    """Give partitions the rules of their topic, wherever they are led. What cannot be written now
    is left to the leaders."""

    async def write(partition: PartitionId) -> None:
        shard, settings = shard_of(partition), topic.settings.queue
        await _surely(
            change, shard, ConfigureQueue(partition=partition, rules=settings.queue_rules)
        )
        if settings.is_queue:
            rules = settings.work_rules
            await _surely(change, shard, opening(partition, DEFAULT_WORK_GROUP, rules))

    _raise_unforeseen(await asyncio.gather(*map(write, partitions), return_exceptions=True))


async def write_work_rules(
    running: Shard, catalog: Catalog, topic: Topic, partition: PartitionId
) -> None:
    """Give the open work groups of a partition that is led here the rules they should have."""
    for group, work in list(running.machine.queues.groups(partition).items()):
        wanted = work_rules(catalog, topic, group)
        if work.rules != wanted:
            with suppress(PenstockError):  # The leader of the shard looks again.
                await running.change(opening(partition, group, wanted))


async def _surely(change: Change, shard: ShardId, request: Request) -> None:
    """Send a command, and repeat it if the outcome is unknown: repeating does no harm."""
    try:
        await change(shard, request)
    except OutcomeUnknown:
        await change(shard, request)


def opening(
    partition: PartitionId, group: str, rules: WorkRules, start: Offset = EARLIEST
) -> OpenWork:
    """The command that opens a work group. A group that is open keeps its place, wherever `start`
    is, and gets the rules."""
    return OpenWork(partition=partition, group=group, start=start, rules=rules)


def _raise_unforeseen(outcomes: Iterable[Reply | BaseException | None]) -> None:
    """Raise errors that are bugs. Commands that were refused or lost are repeated at the next
    look."""
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, PenstockError):
            raise outcome


def _ignore(_reply: Reply | PenstockError) -> None:
    """Ignore the outcome: a command that was refused or lost is repeated at the next look."""
