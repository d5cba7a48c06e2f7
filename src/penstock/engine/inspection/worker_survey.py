"""The workers of a queue, one by one: what each holds, how fast it is, how it failed last.

Nothing is counted for this while messages are delivered. A replica of a partition reads its
delivery history (`engine.replica.delivery_history`), the latest part of it, when a person asks.
So `since` is the first delivery that is still known, not the start of a program; and the counts are
those of that time.

    leased       messages of leases that are open
    acked        settled with success; `minute_acked` in the last minute
    failed       given back, rejected, or the lease ran out; `minute_failed` in the last minute
"""

import asyncio
from collections.abc import Iterable, Iterator

import msgspec

from penstock.core.receiver import worker_name
from penstock.core.topic import Topic
from penstock.core.types import NO_NODE, NodeId, PartitionId, ShardId
from penstock.core.verdicts import Outcome, Verdict
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.engine.replica.delivery_history import Line
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.topics.topics import Topics
from penstock.machines.queue_commands import Acquire, Settle, decode_queue_command
from penstock.machines.shard_machine import command_tag

PAGES_MAX = 16
"""The number of pages of a shard's history that are read: about a mebibyte."""
MINUTE_PAGES_MAX = 4
"""The same for metrics, which are made in every interval."""
PARTITIONS_MAX = 1_000
WORKERS_MAX = 1_000
ERROR_CHARACTERS_MAX = 200
MINUTE_MS = 60_000
LAPSED = "the lease ended without an answer"
_STORE = "store_offsets"
_DONE = (Verdict.ACK, Verdict.FINISH)
_FAILED = (Verdict.RELEASE, Verdict.REJECT)


class WorkersRequest(msgspec.Struct, frozen=True, array_like=True):
    """The partitions and the work group to survey."""

    partitions: tuple[PartitionId, ...]
    group: str


class WorkerActivity(msgspec.Struct, frozen=True, array_like=True):
    """The activity of one worker, as far as it is known."""

    name: str
    leased: int = 0
    delivered: int = 0
    acked: int = 0
    failed: int = 0
    minute_acked: int = 0
    since_ms: int = 0
    """Of its first delivery that is known; wall time."""
    last_ms: int = 0
    """Of its last delivery or answer."""
    error: str = ""
    """The reason of its last failure."""
    error_ms: int = 0
    minute_failed: int = 0


WORKERS = RemoteCall("workers", WorkersRequest, list[WorkerActivity])


class WorkerSurvey:
    """Of the partitions that this node leads, and of all others by asking."""

    def __init__(self, topics: Topics, shards: LocalShards, calls: RemoteCalls) -> None:
        self._topics = topics
        self._shards = shards
        self._calls = calls

    async def workers(self, topic: Topic, group: str) -> list[WorkerActivity]:
        """The workers of a work group, by name; what cannot be asked is left out."""
        by_leader: dict[NodeId, list[PartitionId]] = {}
        for partition in topic.partitions[:PARTITIONS_MAX]:
            leader = self._topics.leader(self._topics.shard_of(partition)).node
            if leader != NO_NODE:
                by_leader.setdefault(leader, []).append(partition)
        asked = {leader: WorkersRequest(tuple(some), group) for leader, some in by_leader.items()}
        answers = await self._calls.ask_each(WORKERS, asked)
        found: dict[str, WorkerActivity] = {}
        for one in (each for reply in answers.replies.values() for each in reply):
            known = found.get(one.name)
            found[one.name] = one if known is None else _together(known, one)
        return [found[name] for name in sorted(found)]

    async def workers_here(self, asked: WorkersRequest) -> list[WorkerActivity]:
        """Of partitions of which this node has a replica: its history is the leader's."""
        wanted: dict[ShardId, set[PartitionId]] = {}
        for partition in asked.partitions[:PARTITIONS_MAX]:
            wanted.setdefault(self._topics.shard_of(partition), set()).add(partition)
        found = _Workers(asked.group, self._topics.clock.wall_ms())
        for shard, partitions in wanted.items():
            running = self._shards.get(shard)
            if running is None:
                continue
            for lines in running.history.pages(latest=PAGES_MAX):
                found.read(lines, partitions)
                await asyncio.sleep(0)
        return found.told()

    async def minute_here(self) -> dict[tuple[str, str], list[WorkerActivity]]:
        """By queue and work group: the workers of partitions that this node leads, as far as the
        very latest part of the history tells."""
        owner = self._topics.catalog.owner
        found: dict[tuple[str, str], _Workers] = {}
        now_ms = self._topics.clock.wall_ms()
        for shard in list(self._shards):
            running = self._shards.get(shard)
            if running is None or self._topics.leader(shard).node != self._topics.node_id:
                continue
            for lines in running.history.pages(latest=MINUTE_PAGES_MAX):
                for line, command in _commands(lines):
                    owned = owner(command.partition)
                    if owned is None:
                        continue
                    key = owned[0].name, command.group
                    workers = found.get(key)
                    if workers is None:
                        workers = found[key] = _Workers(command.group, now_ms)
                    workers.take(line, command)
                await asyncio.sleep(0)
        return {key: workers.told() for key, workers in found.items()}


def _commands(lines: Iterable[Line]) -> Iterator[tuple[Line, Acquire | Settle]]:
    """The lines that lease or settle messages."""
    for line in lines:
        if command_tag(line.payload) == _STORE:
            continue
        command = decode_queue_command(line.payload)
        match command:
            case Acquire(offsets=()) | Settle():
                yield line, command
            case _:
                pass


class _Lease:
    """The open part of one lease."""

    __slots__ = ("count", "until_ms", "worker")

    def __init__(self, worker: str, count: int, until_ms: int) -> None:
        self.worker = worker
        self.count = count
        self.until_ms = until_ms


class _Workers:
    """Goes through lines in their order."""

    def __init__(self, group: str, now_ms: int) -> None:
        self._group = group
        self._now_ms = now_ms
        self._leases: dict[tuple[PartitionId, int], _Lease] = {}
        self._found: dict[str, WorkerActivity] = {}

    def read(self, lines: Iterable[Line], partitions: set[PartitionId]) -> None:
        for line, command in _commands(lines):
            if command.partition in partitions and command.group == self._group:
                self.take(line, command)

    def take(self, line: Line, command: Acquire | Settle) -> None:
        """A line of this work group."""
        if isinstance(command, Acquire):
            self._leased(line, command)
        else:
            self._settled(line, command)

    def told(self) -> list[WorkerActivity]:
        for lease in self._leases.values():
            if not lease.count:
                continue
            if lease.until_ms > self._now_ms:
                self._add(lease.worker, leased=lease.count)
            else:
                self._failed(lease.worker, lease.count, LAPSED, lease.until_ms)
        return list(self._found.values())

    def _leased(self, line: Line, command: Acquire) -> None:
        worker = worker_name(command.receiver)
        if worker not in self._found and len(self._found) >= WORKERS_MAX:
            return
        count = sum(run.end - run.first for run in line.runs)
        known = self._leases.get((command.partition, line.epoch))
        if known is None:
            lease = _Lease(worker, count, line.until_ms)
            self._leases[command.partition, line.epoch] = lease
        else:
            known.count += count
        self._add(worker, delivered=count, at_ms=command.stamp_ms)

    def _settled(self, line: Line, command: Settle) -> None:
        for one, outcome in zip(command.settlements, line.outcomes, strict=False):
            lease = self._leases.get((command.partition, one.epoch))
            if lease is None or outcome is not Outcome.DONE:
                continue
            if one.verdict is Verdict.EXTEND:
                lease.until_ms = max(lease.until_ms, command.stamp_ms + one.delay_ms)
                continue
            count = min(one.end - one.first, lease.count)
            lease.count -= count
            if one.verdict in _DONE:
                late = self._now_ms - command.stamp_ms <= MINUTE_MS
                self._add(
                    lease.worker,
                    acked=count,
                    minute_acked=count if late else 0,
                    at_ms=command.stamp_ms,
                )
            elif one.verdict in _FAILED:
                self._failed(lease.worker, count, one.reason, command.stamp_ms)

    def _failed(self, worker: str, count: int, reason: str, at_ms: int) -> None:
        late = self._now_ms - at_ms <= MINUTE_MS
        self._add(worker, failed=count, minute_failed=count if late else 0, at_ms=at_ms)
        known = self._found[worker]
        self._found[worker] = msgspec.structs.replace(
            known, error=(reason or "no reason was given")[:ERROR_CHARACTERS_MAX], error_ms=at_ms
        )

    def _add(
        self,
        worker: str,
        *,
        leased: int = 0,
        delivered: int = 0,
        acked: int = 0,
        minute_acked: int = 0,
        failed: int = 0,
        minute_failed: int = 0,
        at_ms: int = 0,
    ) -> None:
        known = self._found.get(worker) or WorkerActivity(worker, since_ms=at_ms)
        self._found[worker] = msgspec.structs.replace(
            known,
            leased=known.leased + leased,
            delivered=known.delivered + delivered,
            acked=known.acked + acked,
            minute_acked=known.minute_acked + minute_acked,
            failed=known.failed + failed,
            minute_failed=known.minute_failed + minute_failed,
            last_ms=max(known.last_ms, at_ms),
        )


def _together(one: WorkerActivity, other: WorkerActivity) -> WorkerActivity:
    """A worker that takes from several nodes."""
    later = max(one, other, key=lambda each: each.error_ms)
    return WorkerActivity(
        one.name,
        one.leased + other.leased,
        one.delivered + other.delivered,
        one.acked + other.acked,
        one.failed + other.failed,
        one.minute_acked + other.minute_acked,
        min(one.since_ms, other.since_ms),
        max(one.last_ms, other.last_ms),
        later.error,
        later.error_ms,
        one.minute_failed + other.minute_failed,
    )
