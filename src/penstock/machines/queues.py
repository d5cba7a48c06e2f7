"""The queues of one shard: partitions seen through work groups.

What a work group is stands in `machines.work`; here commands find theirs, appended messages are
looked at where rules ask for it, and time passes.

Rules that hold here:

- `apply` decides; `plan` only stamps, encodes and keeps bounds. A refused command changes nothing
  but log time and is answered with `Refused`.
- Log time is the highest stamp of any entry of the shard that concerned a queue, its messages
  included. Leases, delays and ids end by it and by nothing else.
- What is due in a work group happens before a command to it does: no command acts on a lease that
  is over.
- A duplicate is in the log, at its offset, for readers of the log; work groups never see it.
- A partition that no rule and no group concerns costs nothing, and its messages are not looked at.

Long because every command of a queue is found here, and none has a place of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush

import msgspec

from penstock.core.append_payload import Slice, decode_append
from penstock.core.compression import unpacked_bytes_max
from penstock.core.decoders import decode_msgpack
from penstock.core.errors import (
    Overloaded,
    UnknownWork,
)
from penstock.core.limits import (
    DEDUPLICATION_IDS_MAX,
    ORIGIN_REMEMBERED_MS,
    TURN_STEPS_MAX,
    WORK_GROUPS_PER_PARTITION_MAX,
)
from penstock.core.queue_rules import (
    DEFAULT_PRIORITY,
    Dead,
    Deduplication,
    QueueRules,
    WorkRules,
)
from penstock.core.record_bodies import CODEC_MASK
from penstock.core.records import read_header, read_outline
from penstock.core.types import EARLIEST, LATEST, Offset, PartitionId
from penstock.core.verdicts import Outcome
from penstock.machines.activity import Activity
from penstock.machines.command_machine import CommandMachine, SnapshotLayout
from penstock.machines.machine import (
    Append,
    Applied,
    Reply,
    WakeReaders,
)
from penstock.machines.queue_bounds import check_queue_command
from penstock.machines.queue_commands import (
    QUEUE_CODEC,
    Acquire,
    Cancel,
    CloseWork,
    ConfigureQueue,
    CumulativeAck,
    OpenWork,
    Purge,
    QueueCommand,
    Recall,
    RemoveDead,
    RequeueDead,
    ResetWork,
    Settle,
    TurnClock,
    UseQueuesVersion,
)
from penstock.machines.queue_copy import QueueCopy, QueueRow
from penstock.machines.queue_headers import (
    DeliveryHeaders,
    claims_too_many,
    may_open,
    read_delivery_headers,
)
from penstock.machines.recent_ids import RecentIds
from penstock.machines.run import Run, State
from penstock.machines.state_bytes import (
    DEFAULT_BUDGET,
    ByteCount,
    StateBudget,
    StateKind,
    text_bytes,
)
from penstock.machines.state_pieces import Restoring, array_header, encoded
from penstock.machines.work import WorkGroup
from penstock.machines.work_records import GrantedRun, WorkRecord

WORK_GROUP_BYTES = 256
"""Of a work group in a snapshot, at most, without its name, its runs and what its cursor skips."""

REQUEUE_VERSION = 2
"""From here on a message whose delivery came to nothing goes behind those that wait, and the lease
of a message that no other receiver had since may be extended after it has ended."""
BOUNDED_VERSION = 2
"""From here on a turn of the clock is bounded over all work groups together, and an entry forgets a
bounded number of ids."""
NEWEST_QUEUES_VERSION = 2

# `apply` decides by these, so they belong to the version above.
GROUP_TURN_STEPS = 4
"""What a work group counts for in a turn of the clock if fewer of its timers are due."""
IDS_FORGOTTEN_MAX = 20_000
"""How many ids, of those that do not count any more, are forgotten at once: it takes 1 µs each."""
IDS_FORGOTTEN_BESIDE = 2_000
"""How many an APPEND entry forgets beside two for each of its messages."""

READ_US = 4
"""About how many microseconds a replica takes to read one message, and to remember its id."""
WORK_GROUP_READ_US = 5
"""And to give it its place in one work group."""
UNPACKED_BYTES_PER_US = 256
"""Of a compressed batch."""

NO_RULES = QueueRules()

PartitionBounds = Callable[[PartitionId], tuple[Offset, Offset]]


class QueueChanged(Reply, frozen=True, tag="queue_changed"):
    """It is as asked for; `count` messages were concerned."""

    count: int = 0


class Acquired(Reply, frozen=True, tag="acquired"):
    """What was leased: runs of (first, end, deliveries, first received)."""

    epoch: int
    until_ms: int
    runs: tuple[GrantedRun, ...]
    full: bool = False
    """As many messages as may be are leased."""


class Settled(Reply, frozen=True, tag="settled"):
    """What came of each settlement, in order."""

    outcomes: tuple[Outcome, ...]


class CumulativeAckResult(Reply, frozen=True, tag="covered"):
    """So many messages are done or dead now; before `upto` nothing is left to be covered."""

    count: int
    upto: Offset


class _Snapshot(SnapshotLayout):
    queues: list[msgspec.Raw]
    """Each a `QueueRow`."""
    epoch: int = 0


@dataclass(slots=True)
class Queue:
    """One partition: its rules, what it remembers, and its work groups by name."""

    rules: QueueRules
    ids: RecentIds
    origins: RecentIds
    groups: dict[str, WorkGroup] = field(default_factory=dict)
    past: Activity = field(default_factory=Activity)
    """What happened in work groups that were closed."""


class Queues(CommandMachine[QueueCommand, _Snapshot]):
    """The queues of a shard. `bounds` yields the log start and the next offset of a partition
    of the same shard, `UnknownPartition` if there is none."""

    name = "queues"
    codec = QUEUE_CODEC
    layout = _Snapshot

    def __init__(
        self,
        bounds: PartitionBounds,
        budget: StateBudget = DEFAULT_BUDGET,
        *,
        newest_version: int = NEWEST_QUEUES_VERSION,
    ) -> None:
        super().__init__(newest_version)
        self._bounds = bounds
        self._budget = budget
        self._ids_count, self._runs_count = ByteCount(), ByteCount()
        self._works_bytes = 0
        self._epoch = 0
        """The highest of any work group that was closed: the next one goes on from there."""
        self._queues: dict[PartitionId, Queue] = {}
        self._readers: set[PartitionId] = set()
        self._bounded: set[PartitionId] = set()
        self._remembering: set[PartitionId] = set()
        """Every partition that remembers ids, and perhaps some that did."""
        self._alarms: list[tuple[int, PartitionId, str]] = []
        self._copies: list[dict[PartitionId, QueueCopy | None]] = []
        """For each snapshot under way, queues that it has not encoded yet; a copy of those that
        have changed since its moment."""
        self._recalling: dict[tuple[PartitionId, str], WorkGroup] = {}
        self.gone = Activity()
        """What happened in partitions that are gone; for people, as all activity is."""

    # Questions.

    @property
    def partitions(self) -> Mapping[PartitionId, Queue]:
        """Every partition that rules or groups concern. Not to be changed."""
        return self._queues

    def rules(self, partition: PartitionId) -> QueueRules | None:
        """The rules of a partition, if it has any."""
        queue = self._queues.get(partition)
        return None if queue is None else queue.rules

    def groups(self, partition: PartitionId) -> Mapping[str, WorkGroup]:
        """The work groups of a partition."""
        queue = self._queues.get(partition)
        return {} if queue is None else queue.groups

    def work(self, partition: PartitionId, group: str) -> WorkGroup | None:
        queue = self._queues.get(partition)
        return None if queue is None else queue.groups.get(group)

    def first_with_id(
        self, partition: PartitionId, one: bytes, now_ms: int | None = None
    ) -> Offset | None:
        """The message that had this id first (see `queue_headers.id_of`), if it is remembered; with
        a time, only if it would make a message of that time a duplicate."""
        queue = self._queues.get(partition)
        if queue is None:
            return None
        after_ms = -1 if now_ms is None else now_ms - queue.rules.deduplication_ms
        return queue.ids.find(one, after_ms)

    def due_ms(self) -> int | None:
        """When something is due next: a `TurnClock` is to be proposed then."""
        alarm_ms = self._next_alarm_ms()
        if self._ids_count.bytes < self._budget.limit(StateKind.DEDUPLICATION):
            return alarm_ms
        # Messages with ids are refused now, so none will come that makes room for others.
        due_ms = [*self._ids_due_ms(), *(() if alarm_ms is None else (alarm_ms,))]
        return min(due_ms, default=None)

    def _ids_due_ms(self) -> Iterator[int]:
        """When the oldest id of each partition counts no more."""
        for partition in self._remembering:
            queue = self._queues[partition]
            if (seen_ms := queue.ids.oldest_ms) is not None:
                yield seen_ms + queue.rules.deduplication_ms
            if (seen_ms := queue.origins.oldest_ms) is not None:
                yield seen_ms + ORIGIN_REMEMBERED_MS

    def _next_alarm_ms(self) -> int | None:
        alarms = self._alarms
        while alarms:
            at_ms, partition, group = alarms[0]
            work = self.work(partition, group)
            if work is not None and work.alarm_ms == at_ms and work.due_ms() == at_ms:
                return at_ms
            heappop(alarms)
            if work is not None and work.alarm_ms == at_ms:
                work.alarm_ms = None  # What it was set for did not come to pass.
                self._arm(partition, group, work)
        return None

    def describe(self) -> str:
        """`version 1 time 1700 queues 2 work groups 3`."""
        groups = sum(len(queue.groups) for queue in self._queues.values())
        return (
            f"version {self._version} time {self._time_ms}"
            f" queues {len(self._queues)} work groups {groups}"
        )

    def dying(self) -> Iterator[tuple[PartitionId, str]]:
        """Work groups that have dead messages to be moved."""
        for partition, queue in self._queues.items():
            for name, work in queue.groups.items():
                if work.dead and work.rules.dead is Dead.MOVE:
                    yield partition, name

    def recalling(self) -> list[tuple[PartitionId, str, WorkGroup]]:
        """Work groups that wait for the headers of old messages."""
        return [
            (partition, group, work)
            for (partition, group), work in self._recalling.items()
            if self.work(partition, group) is work and work.is_recalling
        ]

    def state_bytes(self) -> dict[StateKind, int]:
        return {
            StateKind.DEDUPLICATION: self._ids_count.bytes,
            StateKind.MESSAGES: self._runs_count.bytes,
            StateKind.WORK_GROUPS: self._works_bytes,
        }

    # Planning.

    def _admit(self, command: QueueCommand) -> QueueCommand:
        check_queue_command(command)
        match command:
            case OpenWork(partition=partition, group=group):
                if self.work(partition, group) is None:
                    more = work_group_bytes(group)
                    self._budget.check(StateKind.WORK_GROUPS, self._works_bytes, more)
                    self._budget.check(StateKind.MESSAGES, self._runs_count.bytes)
            case Acquire():
                self._check_room_for_leases(command)
        return command

    def _check_room_for_leases(self, command: Acquire) -> None:
        used = self._runs_count.bytes
        if used < self._budget.limit(StateKind.MESSAGES):
            return
        work = self.work(command.partition, command.group)
        # What is to be delivered again, or in an order of its own, has its state already, and goes
        # away by being delivered; so does what the cursor skips. Only messages like all others cost
        # state when leased.
        if work is None or work.queue.fifo or work.ready > work.waiting or work.has_skips:
            return
        self._budget.check(StateKind.MESSAGES, used)

    def check_append(self, partition: PartitionId) -> bool:
        """Whether messages are looked at when they are appended. Refuse those that would each add
        state, as long as there is no room for it."""
        if partition not in self._readers:
            return False
        self._budget.check(StateKind.MESSAGES, self._runs_count.bytes)
        if self._queues[partition].rules.deduplication is not Deduplication.OFF:
            self._budget.check(StateKind.DEDUPLICATION, self._ids_count.bytes)
        return True

    def apply_us(self, plan: Append) -> int:
        """About how many microseconds it takes to look at the messages of a batch."""
        queue = self._queues[plan.partition]
        if not may_open(queue.rules):
            return 0
        each_us = READ_US + len(queue.groups) * WORK_GROUP_READ_US
        codec = read_header(plan.batch).attributes & CODEC_MASK
        # What the header says of the number of records was checked; of their size it says nothing.
        unpacked_bytes = unpacked_bytes_max(len(plan.batch), codec) if codec else 0
        return plan.record_count * each_us + unpacked_bytes // UNPACKED_BYTES_PER_US

    # Applying.

    def _carry_out(self, command: QueueCommand) -> Applied:
        if self._copies and not isinstance(command, TurnClock | UseQueuesVersion):
            self._changing(command.partition)
        match command:
            case Acquire():
                return self._acquire(command)
            case Settle():
                return self._settle(command)
            case TurnClock():
                return self._turn_clock()
            case UseQueuesVersion(version=version):
                return self._use_version(version)
            case CumulativeAck():
                return self._cumulative_ack(command)
            case ConfigureQueue(partition=partition, rules=rules):
                self._configure(partition, rules)
                return _changed(partition, wakes=True)
            case OpenWork():
                self._open(command)
                return _changed(command.partition, wakes=True)
            case CloseWork(partition=partition, group=""):
                self.forget_partition(partition)
                return _changed(partition)
            case CloseWork(partition=partition, group=group):
                self._retire(self._require(partition, group))
                queue = self._queues[partition]
                queue.past.add(queue.groups.pop(group).activity)
                self._works_bytes -= work_group_bytes(group)
                return _changed(partition)
            case ResetWork(partition=partition, group=group, start=start):
                work = self._require(partition, group)
                self._open_at(partition, group, start, work.rules)
                return _changed(partition, wakes=True)
            case Recall():
                return self._recall(command)
            case Purge(partition=partition, group=group):
                count = self._require(partition, group).purge()
                self._queues[partition].ids.clear()
                return _changed(partition, count)
            case RemoveDead(partition=partition, group=group, offsets=offsets, discarded=discarded):
                work = self._require(partition, group)
                return _changed(partition, work.remove_dead(offsets, discarded=discarded))
            case RequeueDead(partition=partition, group=group, offsets=offsets):
                work = self._require(partition, group)
                count = work.requeue_dead(offsets)
                self._arm(partition, group, work)
                return _changed(partition, count, wakes=True)
            case Cancel(partition=partition, group=group, offsets=offsets):
                work = self._require(partition, group)
                return _changed(partition, work.cancel(offsets), wakes=work.queue.fifo)

    def _acquire(self, command: Acquire) -> Applied:
        work, readied = self._turn(command.partition, command.group)
        epoch, runs = work.acquire(
            command.messages_max, command.lease_ms, self._time_ms, command.offsets
        )
        lease_ms = work.lease_ms(command.lease_ms)
        self._arm(command.partition, command.group, work)
        full = not runs and work.leased >= work.rules.in_flight_max
        reply = Acquired(epoch, self._time_ms + lease_ms, tuple(runs), full)
        return Applied((reply,), (_wake(command.partition),) if readied else ())

    def _settle(self, command: Settle) -> Applied:
        partition, group = command.partition, command.group
        work, readied = self._turn(partition, group)
        before, full = work.ready, work.leased >= work.rules.in_flight_max
        outcomes = tuple(work.settle(one, self._time_ms) for one in command.settlements)
        self._arm(partition, group, work)
        wakes = readied or full or work.ready > before or work.queue.fifo
        return Applied((Settled(outcomes),), (_wake(partition),) if wakes else ())

    def _cumulative_ack(self, command: CumulativeAck) -> Applied:
        partition, group = command.partition, command.group
        work, readied = self._turn(partition, group)
        named, batch = bool(command.stream), command.batch
        if named and command.stream == work.stream and batch <= work.batch:
            return Applied(
                (CumulativeAckResult(0, command.end),), (_wake(partition),) if readied else ()
            )
        full = work.leased >= work.rules.in_flight_max
        count, upto = work.ack_cumulatively(command.first, command.end, command.dead, self._time_ms)
        if named and upto == command.end:
            work.stream, work.batch = command.stream, batch
        self._arm(partition, group, work)
        wakes = readied or full or work.queue.fifo
        return Applied((CumulativeAckResult(count, upto),), (_wake(partition),) if wakes else ())

    def _turn_clock(self) -> Applied:
        woken: dict[PartitionId, None] = {}
        left = TURN_STEPS_MAX
        while (due_ms := self._next_alarm_ms()) is not None and due_ms <= self._time_ms:
            _, partition, group = heappop(self._alarms)
            self._changing(partition)
            work = self._queues[partition].groups[group]
            work.alarm_ms = None
            steps, readied = work.turn(self._time_ms, left)
            if readied:
                woken[partition] = None
            due_again = work.due_ms()
            self._arm(partition, group, work)
            if self._version >= BOUNDED_VERSION:
                # The order of alarms is that of what is due, on all replicas.
                left -= max(steps, GROUP_TURN_STEPS)
            if left <= 0 or (due_again is not None and due_again <= self._time_ms):
                break  # A great many at once: the rest is for the next entry.
        left = IDS_FORGOTTEN_MAX
        for partition in sorted(self._remembering):  # The order that all replicas have.
            queue = self._queues[partition]
            left -= self._forget_ids(partition, left)
            if not queue.ids and not queue.origins:
                self._remembering.discard(partition)
        return Applied((QueueChanged(),), tuple(map(_wake, woken)))

    def _use_version(self, version: int) -> Applied:
        self._version = max(self._version, version)
        for queue in self._queues.values():
            for work in queue.groups.values():
                work.requeues = self._version >= REQUEUE_VERSION
        return Applied((QueueChanged(),))

    def _configure(self, partition: PartitionId, rules: QueueRules) -> None:
        self._bounds(partition)
        queue = self._queue(partition)
        queue.rules = rules
        for name, work in queue.groups.items():
            work.use_rules(rules)
            self._note_recall(partition, name, work)
        self._note_rules(partition, rules)

    def _note_rules(self, partition: PartitionId, rules: QueueRules) -> None:
        self._readers.discard(partition)
        self._bounded.discard(partition)
        if rules.reads_messages:
            self._readers.add(partition)
        if rules.drops_oldest and rules.length_max >= 0:
            self._bounded.add(partition)

    def _open(self, command: OpenWork) -> None:
        partition, group = command.partition, command.group
        self._bounds(partition)
        known = self.work(partition, group)
        if known is not None:
            known.rules = command.rules
            return
        if len(self.groups(partition)) >= WORK_GROUPS_PER_PARTITION_MAX:
            raise Overloaded(
                f"partition {partition} has {WORK_GROUPS_PER_PARTITION_MAX} work groups; close some"
            )
        self._open_at(partition, group, command.start, command.rules)

    def _open_at(self, partition: PartitionId, group: str, start: Offset, rules: WorkRules) -> None:
        log_start, end = self._bounds(partition)
        if start == EARLIEST:
            opened = log_start
        elif start == LATEST:
            opened = end
        else:
            opened = min(max(start, log_start), end)
        queue = self._queue(partition)
        former = queue.groups.get(group)
        ends = partial(self._end, partition)
        work = WorkGroup(opened, rules, queue.rules, ends, self._runs_count)
        work.epoch = self._epoch if former is None else former.epoch
        work.requeues = self._version >= REQUEUE_VERSION
        if former is None:
            self._works_bytes += work_group_bytes(group)
        else:
            former.give_up()
            work.activity = former.activity
        queue.groups[group] = work
        self._note_recall(partition, group, work)

    def _queue(self, partition: PartitionId) -> Queue:
        """What is known of a partition, from now on."""
        queue = self._queues.get(partition)
        if queue is None:
            ids, origins = RecentIds(total=self._ids_count), RecentIds(total=self._ids_count)
            queue = self._queues[partition] = Queue(NO_RULES, ids, origins)
        return queue

    def _end(self, partition: PartitionId) -> Offset:
        return self._bounds(partition)[1]

    def _retire(self, work: WorkGroup) -> None:
        """A receipt of before must not fit a lease of after, if the group is opened again."""
        self._epoch = max(self._epoch, work.epoch)
        work.give_up()

    def _note_recall(self, partition: PartitionId, group: str, work: WorkGroup) -> None:
        if work.is_recalling:
            self._recalling[partition, group] = work
        else:
            self._recalling.pop((partition, group), None)

    def _recall(self, command: Recall) -> Applied:
        partition, group = command.partition, command.group
        work = self._require(partition, group)
        if command.fifo is not work.queue.fifo:
            return _changed(partition)  # The rules have changed since they were read.
        said = {row[0]: row for row in command.delivery_headers}
        # In a FIFO queue every message stands in a line, also one that could not be read.
        offsets = range(command.first, command.end) if work.queue.fifo else sorted(said)
        runs = [
            _recalled(*said.get(Offset(offset), (Offset(offset), DEFAULT_PRIORITY, b"", -1, -1)))
            for offset in offsets
            if command.first <= offset < command.end
        ]
        done = work.recall(command.first, command.end, runs)
        self._arm(partition, group, work)
        self._note_recall(partition, group, work)
        return _changed(partition, int(done), wakes=not work.is_recalling)

    # What happens to the partitions.

    def note_append(self, payload: bytes) -> None:
        """Messages were appended; look at those that rules ask to be looked at."""
        if not self._readers and not self._bounded:
            return
        stamp_ms, slices, position = decode_append(payload)
        view = memoryview(payload)
        left = IDS_FORGOTTEN_BESIDE
        for part in slices:
            if part.partition in self._readers:
                self._advance(stamp_ms)
                self._changing(part.partition)
                left = min(left + 2 * part.record_count, IDS_FORGOTTEN_MAX)
                left -= self._forget_ids(part.partition, left)
                self._read_slice(part, view[position : position + part.length])
            if part.partition in self._bounded:
                self._changing(part.partition)
                queue = self._queues[part.partition]
                for work in queue.groups.values():
                    work.drop_oldest(queue.rules.length_max)
            position += part.length

    def note_trim(self, partition: PartitionId, log_start: Offset) -> None:
        """Messages before this offset exist no more."""
        self._changing(partition)
        for work in self.groups(partition).values():
            work.trim(log_start)

    def forget_partition(self, partition: PartitionId) -> None:
        """The partition is gone, or no queue any more."""
        self._changing(partition)
        queue = self._queues.pop(partition, None)
        if queue is not None:
            queue.ids.clear()
            queue.origins.clear()
            self.gone.add(queue.past)
            for name, work in queue.groups.items():
                self._retire(work)
                self._works_bytes -= work_group_bytes(name)
                self.gone.add(work.activity)
        self._readers.discard(partition)
        self._bounded.discard(partition)
        self._remembering.discard(partition)

    def _read_slice(self, part: Slice, data: memoryview) -> None:
        queue = self._queues[part.partition]
        position = 0
        found: list[DeliveryHeaders] = []
        skipped: list[tuple[Offset, Offset]] = []
        for _ in range(part.batch_count):
            base_offset, size, count, _, _ = read_outline(data, position)
            batch = bytes(data[position : position + size])
            if claims_too_many(batch, count, queue.rules):
                skipped.append((Offset(base_offset + 1), Offset(base_offset + count)))
                count = 1
            found += read_delivery_headers(
                batch, Offset(base_offset), count, queue.rules, self._time_ms
            )
            position += size
        if not found and not skipped:
            return
        duplicates: list[Offset] = []
        kept: list[DeliveryHeaders] = []
        for one in found:
            if self._is_duplicate(queue, one):
                duplicates.append(one.run.first)
            else:
                kept.append(one)
        if queue.ids or queue.origins:
            self._remembering.add(part.partition)
        for name, work in queue.groups.items():
            runs = [msgspec.structs.replace(one.run) for one in kept]
            work.add(runs, duplicates, skipped)
            self._arm(part.partition, name, work)

    def _is_duplicate(self, queue: Queue, one: DeliveryHeaders) -> bool:
        first, now_ms = one.run.first, self._time_ms
        if one.origin is not None:
            after_ms = now_ms - ORIGIN_REMEMBERED_MS
            if not queue.origins.note(one.origin, first, now_ms, after_ms):
                return True
        if one.dedup is None:
            return False
        after_ms = now_ms - queue.rules.deduplication_ms
        return not queue.ids.note(one.dedup, first, now_ms, after_ms)

    def _forget_ids(self, partition: PartitionId, ids_max: int) -> int:
        """Forget ids that do not count any more; how many that were."""
        if self._version < BOUNDED_VERSION:
            ids_max = 2 * DEDUPLICATION_IDS_MAX  # More than there are.
        queue, count = self._queues[partition], 0
        for ids, window_ms in (
            (queue.ids, queue.rules.deduplication_ms),
            (queue.origins, ORIGIN_REMEMBERED_MS),
        ):
            seen_ms, before_ms = ids.oldest_ms, self._time_ms - window_ms
            if seen_ms is not None and seen_ms <= before_ms:
                self._changing(partition)
                count += ids.forget(before_ms, ids_max - count)
        return count

    # Time.

    def _advance(self, stamp_ms: int) -> None:
        # Appends carry stamps of their own, which may be later than that of the next command.
        self._time_ms = max(self._time_ms, stamp_ms)

    def _turn(self, partition: PartitionId, group: str) -> tuple[WorkGroup, bool]:
        """A work group in which everything that is due has happened; whether some are ready."""
        work = self._require(partition, group)
        return work, work.turn(self._time_ms)[1]

    def _require(self, partition: PartitionId, group: str) -> WorkGroup:
        work = self.work(partition, group)
        if work is None:
            raise UnknownWork(f"partition {partition} has no work group {group}; open it first")
        return work

    def _arm(self, partition: PartitionId, group: str, work: WorkGroup) -> None:
        """Set the alarm for what is due next in a work group."""
        due_ms = work.due_ms()
        if due_ms is not None and (work.alarm_ms is None or due_ms < work.alarm_ms):
            work.alarm_ms = due_ms
            heappush(self._alarms, (due_ms, partition, group))

    # Snapshots.

    def skip_epochs(self, count: int) -> None:
        """In a restored backup, before any entry: no lease from here on has an epoch that the
        cluster which was backed up may have given out since."""
        self._epoch += count
        for queue in self._queues.values():
            for work in queue.groups.values():
                work.epoch += count

    def _changing(self, partition: PartitionId) -> None:
        """A queue is about to change, or to go: snapshots under way need it as it is."""
        for copies in self._copies:
            if partition in copies and copies[partition] is None:
                copies[partition] = self._copy(partition)

    def _copy(self, partition: PartitionId) -> QueueCopy:
        queue = self._queues[partition]
        return QueueCopy(partition, queue.rules, (queue.ids, queue.origins), queue.groups)

    def _pieces(self) -> Iterator[bytes]:
        # The moment costs a table of names, however much there is. A queue is copied when its turn
        # comes, or just before it changes, so that each is as it was at the moment.
        partitions = sorted(self._queues)
        copies: dict[PartitionId, QueueCopy | None] = dict.fromkeys(partitions)
        self._copies.append(copies)
        fields = len(_Snapshot.__struct_fields__)
        head = array_header(fields) + encoded(self._version, self._time_ms)
        tail = encoded(self._epoch)
        try:
            yield head + array_header(len(partitions))
            for partition in partitions:
                copy = copies[partition] = copies[partition] or self._copy(partition)
                yield from copy.pieces()
                del copies[partition]
            yield tail
        finally:
            self._copies = [one for one in self._copies if one is not copies]
            for left in copies.values():
                if left is not None:
                    left.end()

    def _load(self, state: _Snapshot) -> Restoring:
        queues: dict[PartitionId, Queue] = {}
        ids_count, runs_count = ByteCount(), ByteCount()
        for raw in state.queues:
            row = decode_msgpack(raw, QueueRow)
            queue = queues[row.partition] = Queue(
                row.rules, RecentIds(row.ids, ids_count), RecentIds(row.origins, ids_count)
            )
            ends = partial(self._end, row.partition)
            yield
            for one in row.groups:
                record = decode_msgpack(one.record, WorkRecord)
                queue.groups[one.name] = WorkGroup.restore(
                    record,
                    row.rules,
                    ends,
                    runs_count,
                    requeues=state.version >= REQUEUE_VERSION,
                )
                yield

        def adopt() -> None:
            self._epoch, self._queues = state.epoch, queues
            self._ids_count, self._runs_count = ids_count, runs_count
            self._works_bytes = sum(
                work_group_bytes(name) for queue in queues.values() for name in queue.groups
            )
            self._alarms, self._recalling, self._copies = [], {}, []
            self._readers, self._bounded, self._remembering = set(), set(), set()
            for partition, queue in queues.items():
                if queue.ids or queue.origins:
                    self._remembering.add(partition)
                self._note_rules(partition, queue.rules)
                for name, work in queue.groups.items():
                    self._note_restored(partition, name, work)

        return adopt

    def _note_restored(self, partition: PartitionId, name: str, work: WorkGroup) -> None:
        due_ms = work.alarm_ms = work.due_ms()
        if due_ms is not None:
            heappush(self._alarms, (due_ms, partition, name))
        self._note_recall(partition, name, work)


def work_group_bytes(name: str) -> int:
    """What a work group counts for."""
    return WORK_GROUP_BYTES + text_bytes(name)


def _recalled(
    offset: Offset, level: int, message_group: bytes | None, at_ms: int, expire_ms: int
) -> Run:
    """The run of an old message whose headers were read; if its time has come, the next turn of the
    clock finds out."""
    state = State.READY if at_ms < 0 else State.DELAYED
    return Run(
        offset, 1, state, at_ms, level=level, message_group=message_group, expire_ms=expire_ms
    )


def _wake(partition: PartitionId) -> WakeReaders:
    return WakeReaders(partition, Offset(0))


def _changed(partition: PartitionId, count: int = 0, *, wakes: bool = False) -> Applied:
    return Applied((QueueChanged(count),), (_wake(partition),) if wakes else ())
