"""The receive loop of every front-end: acquires messages of partitions that this node leads.

An `Acquisition` is one request of one receiver:

    look      acquires what is ready, partition by partition, each time beginning with another one;
              a work group that is used for the first time is opened (`first_use`)
    measure   where the answer is bounded in bytes, counts how many messages fit before it acquires
              them, so that little has to be given back
    wait      if there was nothing, waits in the fair wait queue of the work group (`wait_queue`),
              with a pre-acquire if the receiver allows it

The outcome is a `PartitionLease` for each partition that had messages. A lease is committed before
its messages are read: no two receivers get the same message. What does not fit, and what was leased
for a receiver that has gone, is given back (`lease_returns`).

Long because what an acquisition reads, waits for and gives back is one sequence of decisions.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple, TypeVar

from penstock.core.clock import Clock
from penstock.core.errors import NotLeader, PenstockError, TooManyReceives
from penstock.core.limits import ACQUIRE_MESSAGES_MAX, MIB, RECEIVES_WAITING_MAX
from penstock.core.memory_budget import MemoryDraw
from penstock.core.message import Message
from penstock.core.records import read_outline
from penstock.core.topic import Topic
from penstock.core.types import Offset, PartitionId, ShardId
from penstock.engine.delivery.first_use import FirstUse, Start
from penstock.engine.delivery.lease_returns import LeaseReturns
from penstock.engine.delivery.leases import LeaseRequest, PartitionLease
from penstock.engine.delivery.receivers import Receivers
from penstock.engine.delivery.requests import LeasedRange
from penstock.engine.delivery.stored_batches import (
    Range,
    StoredBatches,
    collect,
    measure,
    ready_ranges,
    sent_bytes,
)
from penstock.engine.delivery.wait_queue import WaitQueue
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.long_polls import Batch
from penstock.engine.topics.message_reader import MessageReader
from penstock.engine.topics.poll_time import parked
from penstock.engine.topics.topics import Topics
from penstock.machines.queue_commands import Acquire
from penstock.machines.queues import Acquired
from penstock.machines.work import WorkGroup
from penstock.machines.work_records import GrantedRun

RECEIVE_BYTES_MAX: Final = 16 * MIB
"""How much one receive hands out, besides one message or batch more; the rest is given back."""
FEW_MESSAGES: Final = 16
"""So few messages are acquired without measuring them, and read one by one."""
RECALL_MS: Final = 5_000
"""How long even a receive without a wait waits for a group that still reads what old messages
say."""
LOOKS_MAX: Final = 10
"""How often a receiver looks in vain, although there may be something, before it waits again."""
SKIPS_KEPT_MAX: Final = 1_024
TURNS_MAX: Final = 10_000
"""Of how many work groups a node remembers which partition is next."""

T = TypeVar("T")
Place = tuple[Topic, int]
"""A topic, and the index of a partition in it."""
WaitKey = tuple[str, tuple[PartitionId, ...]]
"""A work group and partitions: receivers of the same ones share a wait queue."""
Led = list[tuple[Topic, list[int]]]
"""The partitions that this node leads, by topic."""
Problems = dict[PartitionId, PenstockError]


class AcquireLimits(NamedTuple):
    """How much a receiver wants, and how long it waits."""

    messages: int
    bytes: int | None = None
    """None: the messages are not measured before they are acquired."""
    lease_ms: int | None = None
    """None: as the rules of the work group say."""
    wait_ms: int = 0
    pre_acquire: bool = False
    """Whether messages may be acquired while they are being written. A caller that repeats a
    request of unknown outcome must not: the first one may have counted a delivery."""
    whole_batches: bool = False
    """The answer holds stored batches, unchanged. Their size is only known by measuring, and the
    measure only holds if no other receiver acquires meanwhile: they take turns."""
    rounds_up: bool = False
    """With `whole_batches`: the number of messages is rounded up to the end of a batch."""
    draw: MemoryDraw | None = None
    """Where the memory for what is read comes from; without room for it, nothing is acquired."""


class Acquisitions:
    """What the acquisitions of a node share."""

    def __init__(
        self, topics: Topics, clock: Clock, returns: LeaseReturns, first_use: FirstUse
    ) -> None:
        self.topics = topics
        self.clock = clock
        self.returns = returns
        self.first_use = first_use
        self.receivers = Receivers(clock)
        """The receivers of the last minute, for people."""
        self.reader = MessageReader()
        self.waiting = 0
        """How many receives wait for messages."""
        self._turns: dict[Hashable, int] = {}
        self._queues: dict[WaitKey, WaitQueue[LeaseRequest]] = {}
        self._skips: dict[WaitKey, int] = {}
        """What closed wait queues had left of them; the last closed ones last."""
        self._gates: dict[tuple[PartitionId, str], tuple[asyncio.Lock, int]] = {}

    # Partitions.

    def led(self, topic: Topic) -> list[int]:
        """The indexes of the partitions that this node leads."""
        topics = self.topics
        led: dict[ShardId, bool] = {}
        found = []
        for index, partition in enumerate(topic.partitions):
            shard = topics.shard_of(partition)
            leads = led.get(shard)
            if leads is None:
                leads = led[shard] = topics.leader(shard).node == topics.node_id
            if leads:
                found.append(index)
        return found

    def in_turn(self, partitions: Sequence[T], key: Hashable) -> Sequence[T]:
        """Begin with the next one each time, so that all partitions are worked off alike. `key` is
        what takes turns: counted together, two queues that are asked alternately would each begin
        with every other partition only."""
        if len(partitions) < 2:
            return partitions
        turns = self._turns
        if key not in turns and len(turns) >= TURNS_MAX:
            turns.clear()  # Of deleted queues, too; the others begin anew.
        turn = turns.get(key, 0) % len(partitions)
        turns[key] = turn + 1
        return [*partitions[turn:], *partitions[:turn]]

    def work(self, place: Place, group: str) -> WorkGroup | None:
        """The state of a work group, not to be changed; raises `NotLeader`."""
        partition = place[0].partitions[place[1]]
        return self.topics.led_shard(partition).machine.queues.work(partition, group)

    def may_have(self, work: WorkGroup) -> bool:
        """Whether an acquire may get something."""
        if work.has_ready():
            return True
        due_ms = work.due_ms()  # An acquire also ends leases and delays that are over.
        return due_ms is not None and due_ms <= self.clock.wall_ms()

    # Reading.

    def messages(self, lease: PartitionLease) -> list[Message]:
        """The leased messages, in the order of their runs; some may be missing from the log."""
        if lease.read is None:
            lease.read = self.read(lease.topic, lease.index, [run[:2] for run in lease.runs])
        return lease.read

    def read(self, topic: Topic, index: int, ranges: Iterable[Range]) -> list[Message]:
        """Messages of a partition that this node leads, by their offsets."""
        partition = topic.partitions[index]
        return self.reader.read(self.topics.led_shard(partition), partition, ranges)

    # Acquiring.

    def submit(self, shard: Shard, command: Acquire, batch: Batch | None = None) -> LeaseRequest:
        """Submit an acquire; what is granted to a receiver that has gone goes back."""
        return LeaseRequest(shard, command, self._give_back, batch)

    def _give_back(self, command: Acquire, acquired: Acquired) -> None:
        self.returns.give_back(
            LeasedRange(command.partition, command.group, acquired.epoch, run.first, run.end)
            for run in acquired.runs
        )

    def pre_acquire(
        self, queue: WaitQueue[LeaseRequest], command: Acquire, batch: Batch | None
    ) -> LeaseRequest | None:
        """Acquire messages that are being written, if it is likely that they can be had; `batch`
        holds them, if the caller has it."""
        try:
            shard = self.topics.led_shard(command.partition)
        except PenstockError:
            return None
        work = shard.machine.queues.work(command.partition, command.group)
        if work is None or work.is_held or work.queue.delay_ms > 0:
            return None
        if work.leased >= work.rules.in_flight_max:
            return None
        if batch is not None and len(batch) > RECEIVE_BYTES_MAX:
            return None
        request = self.submit(shard, command, batch)
        on_outcome = queue.reserve(command.partition, command.messages_max)
        request.on_outcome(lambda: on_outcome(request.got_some))
        return request

    def coming(self, partition: PartitionId) -> int:
        """How many messages are being written to a partition that this node leads."""
        partitions = self.topics.led_shard(partition).machine.partitions
        return partitions.planned_end(partition) - partitions.bounds(partition).high_watermark

    @asynccontextmanager
    async def gate(self, partition: PartitionId, group: str) -> AsyncIterator[None]:
        """Let one receiver at a time measure and acquire messages of a partition."""
        key = (partition, group)
        lock, waiting = self._gates.get(key, (asyncio.Lock(), 0))
        self._gates[key] = lock, waiting + 1
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._gates[key]
            if waiting == 1:
                del self._gates[key]
            else:
                self._gates[key] = lock, waiting - 1

    # Waiting.

    def wait_queue(self, key: WaitKey, led: Led) -> WaitQueue[LeaseRequest]:
        """The wait queue of a work group; `led` is what the waiter knows of leadership."""
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = WaitQueue(
                lambda waiting: self._ready(key, led, waiting),
                lambda wake: self.topics.watch(key[1], wake),
                lambda idle: self._close_queue(key, idle),
                self._skips.pop(key, 0),
            )
        return queue

    def wake_next(self, key: WaitKey) -> None:
        """A receiver that was woken is done: what is left is for the next one."""
        queue = self._queues.get(key)
        if queue is not None:
            queue.wake()

    def _close_queue(self, key: WaitKey, queue: WaitQueue[LeaseRequest]) -> None:
        # Of two receivers that were woken together, the first may already wait again, in a new
        # queue, when the second one finds the old queue idle once more.
        if self._queues.get(key) is not queue:
            return
        del self._queues[key]
        if queue.skips:
            if len(self._skips) >= SKIPS_KEPT_MAX:
                self._skips.pop(next(iter(self._skips)))
            self._skips[key] = queue.skips

    def _ready(self, key: WaitKey, led: Led, everyone: int) -> int:
        """How many waiters should look now; all of them if leadership has changed."""
        group, partitions = key
        ready = 0
        try:
            # While the node stops, its catalog is closed before its other shards are.
            if self.has_moved(led):
                return everyone
            for partition in partitions:
                work = self.topics.led_shard(partition).machine.queues.work(partition, group)
                if work is None:
                    return everyone
                ready += work.ready if work.has_ready() else 0
        except PenstockError:
            return everyone
        return ready

    def has_moved(self, led: Led) -> bool:
        """Whether this node leads other partitions of these topics than it did, or the topics
        themselves have changed."""
        catalog = self.topics.catalog
        for topic, indexes in led:
            known = catalog.topic_by_id(topic.topic_id)
            if known is None or known.partitions != topic.partitions:
                return True
            if self.led(topic) != indexes:
                return True
        return False


class Acquisition:
    """One request of one receiver; see the top of this module."""

    __slots__ = (
        "_end_wait", "_ends_wait", "_is_short", "_key", "_owner", "_places", "_queue", "_start",
        "_stopped", "group", "led", "limits", "problems", "receiver",
    )  # fmt: skip

    def __init__(
        self,
        owner: Acquisitions,
        places: Sequence[Place],
        group: str,
        limits: AcquireLimits,
        receiver: str,
        *,
        start: Start = Start.EARLIEST,
        ends_wait: Callable[[Problems], bool] | None = None,
        led: Led | None = None,
    ) -> None:
        """`ends_wait`: whether the receiver is answered now, although there are no messages, since
        these partitions cannot be read; places are then looked at in their order. Without it,
        partitions take turns, and a problem that all of them have is raised."""
        self._owner = owner
        self._places = places
        self.group = group
        self.limits = limits
        self.receiver = receiver
        self._start = start
        self._ends_wait = ends_wait
        self.problems: Problems = {}
        """Which partitions could not be read when they were last looked at."""
        self.led = led
        self._key: WaitKey | None = None
        self._queue: WaitQueue[LeaseRequest] | None = None
        self._end_wait: Callable[[], None] | None = None
        self._stopped = False
        self._is_short = False
        """There was something to acquire, and no memory to read it into."""

    @property
    def led_indexes(self) -> list[int]:
        """The partitions of the one topic that this node leads."""
        assert self.led is not None, "the request is not for all partitions of a topic"
        return self.led[0][1]

    def stop(self) -> None:
        """Wait no longer."""
        self._stopped = True
        if self._end_wait is not None:
            self._end_wait()

    async def run(self) -> list[PartitionLease]:
        """Acquire messages; waits for some if there are none. Returns nothing when the time is up,
        or earlier when the leadership of partitions has changed: the caller then finds out who
        leads them."""
        owner, clock = self._owner, self._owner.clock
        began_ms = clock.monotonic_ms()
        topics = {topic.topic_id: topic for topic, _ in self._places}
        if self.led is None and self.limits.wait_ms > 0:
            self.led = [(topic, owner.led(topic)) for topic in topics.values()]
        looks = 0
        try:
            while True:
                for topic_id in topics:
                    owner.receivers.note(topic_id, self.group, self.receiver)
                leases = await self._look()
                if leases or self._stopped or (self.problems and self._is_answered_now()):
                    return leases
                left_ms = began_ms + self._patience_ms() - clock.monotonic_ms()
                if left_ms <= 0:
                    return []
                if self._is_short:
                    await self._wait_for_room(left_ms)
                    continue
                if owner.waiting >= RECEIVES_WAITING_MAX:
                    return self._refuse_to_wait()
                # What became ready in one partition while another was looked at woke no one.
                looks += 1
                if looks < LOOKS_MAX and self._may_have():
                    continue
                looks = 0
                owner.waiting += 1
                try:
                    lease = await self._wait(left_ms)
                finally:
                    owner.waiting -= 1
                if lease is not None:
                    return [lease]
                if self.led is not None and owner.has_moved(self.led):
                    return []
        finally:
            if self._key is not None:
                owner.wake_next(self._key)

    def _is_answered_now(self) -> bool:
        return self._ends_wait is not None and self._ends_wait(self.problems)

    def _patience_ms(self) -> int:
        """How long to wait: as asked, or until a group that has just begun is ready to deliver."""
        wait_ms = self.limits.wait_ms
        if wait_ms >= RECALL_MS or self._ends_wait is not None:
            return wait_ms
        works = map(self._work, self._places)
        return RECALL_MS if any(one is not None and one.is_recalling for one in works) else wait_ms

    def _may_have(self) -> bool:
        works = map(self._work, self._places)
        return any(one is not None and self._owner.may_have(one) for one in works)

    def _work(self, place: Place) -> WorkGroup | None:
        try:
            return self._owner.work(place, self.group)
        except PenstockError:
            return None

    # Looking.

    async def _look(self) -> list[PartitionLease]:
        messages, room = min(self.limits.messages, ACQUIRE_MESSAGES_MAX), self.limits.bytes
        leases: list[PartitionLease] = []
        self.problems, self._is_short = {}, False
        places = self._places
        if self._ends_wait is None and len(places) > 1:
            places = self._owner.in_turn(places, (places[0][0].topic_id, self.group))
        last = places[-1] if places else None
        try:
            for place in places:
                if messages <= 0 or (
                    leases and (self._stopped or (room is not None and room <= 0))
                ):
                    break
                try:
                    lease = await self._lease(place, messages, room)
                except PenstockError as error:
                    topic, index = place  # Another partition may have something.
                    self.problems[topic.partitions[index]] = error
                    continue
                if lease is not None:
                    leases.append(lease)
                    messages -= lease.messages
                    if room is not None and place is not last:
                        room -= self._bytes(lease)
        except BaseException:
            self._owner.returns.give_back(one for lease in leases for one in lease.leased())
            raise
        if self._ends_wait is None and len(self.problems) == len(places) > 0:
            raise next(iter(self.problems.values()))
        return leases

    async def _lease(self, place: Place, messages: int, room: int | None) -> PartitionLease | None:
        owner, group = self._owner, self.group
        topic, index = place
        partition = topic.partitions[index]
        shard = owner.topics.led_shard(partition)
        work = shard.machine.queues.work(partition, group)
        if work is None:
            await owner.first_use.open(topic, index, group, self._start)
            work = shard.machine.queues.work(partition, group)
        if work is None or not owner.may_have(work):
            return None
        if self.limits.draw is not None:
            wanted = RECEIVE_BYTES_MAX if room is None else max(room, 1)
            got = self.limits.draw.room(wanted)
            if not got:
                self._is_short = True
                return None
            room = got if got < wanted else room
        if self.limits.whole_batches:
            async with owner.gate(partition, group):
                batches = self._stored(place)
                fitting = self._measured(place, work, batches, messages, room or 0)
                return await self._acquire(shard, place, fitting, batches) if fitting else None
        if room is None or messages <= FEW_MESSAGES:
            return await self._acquire(shard, place, messages, None)
        batches = self._stored(place)
        fitting = self._measured(place, work, batches, messages, room) or messages
        return await self._acquire(shard, place, _cut_to(fitting, batches, room), batches)

    def _stored(self, place: Place) -> StoredBatches:
        topics, draw, (topic, index) = self._owner.topics, self.limits.draw, place

        def read(offset: Offset, size: int) -> bytes:
            found = topics.read(topic, index, offset, size)
            if draw is not None:
                draw.take(len(found))
            return found

        return StoredBatches(read)

    def _measured(
        self, place: Place, work: WorkGroup, batches: StoredBatches, messages: int, room: int
    ) -> int:
        """How many messages fit the answer."""
        end = self._owner.topics.bounds(*place).high_watermark
        found = measure(
            ready_ranges(work, end), batches, messages, room, rounds_up=self.limits.rounds_up
        )
        return min(found, ACQUIRE_MESSAGES_MAX)

    async def _acquire(
        self, shard: Shard, place: Place, messages: int, batches: StoredBatches | None
    ) -> PartitionLease | None:
        command = self._command(place[0].partitions[place[1]], messages)
        acquired = await self._owner.submit(shard, command).granted()
        if not acquired.runs:
            return None
        return self._collected(PartitionLease(*place, self.group, acquired), batches)

    def _command(self, partition: PartitionId, messages: int) -> Acquire:
        lease_ms = self.limits.lease_ms
        return Acquire(
            partition=partition,
            group=self.group,
            messages_max=messages,
            lease_ms=-1 if lease_ms is None else lease_ms,
            receiver=self.receiver,
        )

    def _collected(
        self, lease: PartitionLease, batches: StoredBatches | None
    ) -> PartitionLease | None:
        """Read the stored batches of a lease, unless its messages are read one by one. What does
        not fit the answer, or the memory there is, is given back."""
        limits = self.limits
        bound = max(limits.bytes or 0, 0 if limits.whole_batches else RECEIVE_BYTES_MAX)
        if batches is None and limits.draw is not None:
            bound = limits.draw.room(bound)
            if not bound:
                self._is_short = True
                self._owner.returns.give_back(lease.leased())
                return None
        if limits.bytes is None or (lease.messages <= FEW_MESSAGES and not limits.whole_batches):
            return lease
        returns = self._owner.returns
        try:
            stored = batches or self._stored((lease.topic, lease.index))
            lease.pieces, unsent = collect(lease.ranges(), stored, bound)
        except BaseException:
            returns.give_back(lease.leased())
            raise
        if unsent:
            returns.give_back(lease.leased(unsent))
            lease.cut_off(unsent[0][0])
        return lease

    def _bytes(self, lease: PartitionLease) -> int:
        """How much of the answer a lease takes."""
        if lease.pieces is not None:
            return sent_bytes(lease.pieces, whole=self.limits.whole_batches)
        size = sum(len(one.value or b"") for one in self._owner.messages(lease))
        if self.limits.draw is not None:
            self.limits.draw.take(size)
        return size

    # Waiting.

    def _refuse_to_wait(self) -> list[PartitionLease]:
        """Too many receives wait already: raise, or answer with it as the problem of each place."""
        error = TooManyReceives(
            f"{self._owner.waiting} receives wait for messages on this node, which is as many as"
            " may; try again later, or receive without a wait",
            retry_after_ms=1_000,
        )
        if self._ends_wait is None:
            raise error
        self.problems = {topic.partitions[index]: error for topic, index in self._places}
        return []

    async def _wait(self, wait_ms: int) -> PartitionLease | None:
        """Wait for this receiver's turn; a lease, if messages were pre-acquired."""
        owner = self._owner
        partitions = tuple(topic.partitions[index] for topic, index in self._places)
        if self._ends_wait is not None:  # Sorted: each receiver has an order of its own.
            partitions = tuple(sorted(one for one in partitions if one not in self.problems))
        self._key = self.group, partitions
        self._queue = queue = owner.wait_queue(self._key, self.led or [])
        if not self.limits.pre_acquire:
            await queue.wait(wait_ms / 1_000, on_wait=self._on_wait)
            self._end_wait = None
            return None
        # Of the messages that are being written when it arrives, a receiver of whole batches would
        # have to know where the batches end.
        request = None
        if not self.limits.whole_batches:
            request = self._pre_acquire_coming(queue, partitions)
        if request is None:
            request = await queue.wait(
                wait_ms / 1_000, self._pre_acquire, LeaseRequest.abandon, self._on_wait
            )
            self._end_wait = None
        return None if request is None else await self._pre_acquired(request)

    async def _wait_for_room(self, wait_ms: int) -> None:
        """Wait until there may be memory for what can be acquired."""
        assert self.limits.draw is not None, "only a draw can be short"
        woken = asyncio.Event()
        self._end_wait = woken.set
        self.limits.draw.account.wait(woken.set)
        with parked(), suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1_000):
                await woken.wait()
        self._end_wait = None

    def _on_wait(self, end_wait: Callable[[], None]) -> None:
        self._end_wait = end_wait

    def _pre_acquire(
        self, partition: PartitionId, messages: int, batch: Batch
    ) -> LeaseRequest | None:
        """Acquire a batch that is being written."""
        limits, queue = self.limits, self._queue
        if queue is None or (limits.bytes is not None and len(batch) > limits.bytes):
            return None
        wanted = min(messages, ACQUIRE_MESSAGES_MAX)
        if not limits.rounds_up:
            wanted = min(wanted, limits.messages)
        return self._owner.pre_acquire(queue, self._command(partition, wanted), batch)

    def _pre_acquire_coming(
        self, queue: WaitQueue[LeaseRequest], partitions: Iterable[PartitionId]
    ) -> LeaseRequest | None:
        """Acquire messages that are being written while the receiver arrives, if there are any. To
        wait until they are committed would be a second wait, behind all that came meanwhile."""
        owner = self._owner
        for partition in partitions:
            try:
                free = queue.unreserved(partition, owner.coming(partition))
            except PenstockError:
                return None
            wanted = min(free, self.limits.messages, FEW_MESSAGES)
            if wanted > 0:
                return owner.pre_acquire(queue, self._command(partition, wanted), None)
        return None

    async def _pre_acquired(self, request: LeaseRequest) -> PartitionLease | None:
        acquired = await request.granted()
        if not acquired.runs:
            return None
        partition = request.command.partition
        place = next(one for one in self._places if one[0].partitions[one[1]] == partition)
        lease = PartitionLease(*place, self.group, acquired)
        if request.batch is not None and len(acquired.runs) == 1:
            if _is_just(request.batch, acquired.runs[0]):
                lease.written = request.batch
                if self.limits.draw is not None:
                    self.limits.draw.take(len(request.batch))
                return lease
        return self._collected(lease, None)


def require_leader(owner: Acquisitions, topic: Topic) -> list[int]:
    """The partitions that this node leads; raises `NotLeader` if there are none."""
    led = owner.led(topic)
    if not led:
        leader = owner.topics.leader(owner.topics.shard_of(topic.partitions[0])).node
        raise NotLeader(f"this node leads no partition of {topic.name}", leader=leader)
    return led


def _is_just(batch: Batch, run: GrantedRun) -> bool:
    """Whether a lease is for exactly the messages of a batch that was written with it: the batch is
    sent as it is, and nothing is read."""
    first, size, messages, _, _ = read_outline(batch, 0)
    return (first, first + messages, size) == (run.first, run.end, len(batch))


def _cut_to(messages: int, batches: StoredBatches, bytes_max: int) -> int:
    """A batch that alone is larger than the answer may be is delivered in several answers."""
    first = batches.first()
    if first is None or len(first.data) <= bytes_max:
        return messages
    return max(1, min(messages, bytes_max * (first.end - first.first) // len(first.data)))
