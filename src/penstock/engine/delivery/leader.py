"""Queues of partitions that this node leads: sending, leasing, settling, looking.

A receive is three steps: the lease is committed (`Acquire`), then the messages are read, then they
are handed out. Whoever gets a message can be sure that nobody else has it. A worker that goes away
between the steps leaves a lease that ends by itself.

Where a message cannot be read any more (compaction took it between lease and read), its lease is
acked here: it would come back for ever.

Sending is a produce. Where ids count, one that is known is not appended again; one that is just
being appended by somebody else is found out when it is applied, and both get the first one's place.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from penstock.core.clock import Clock
from penstock.core.errors import PenstockError, TooManyInFlight, UnknownWork
from penstock.core.limits import BROWSE_STEPS_MAX, MIB
from penstock.core.message import Message, NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.message_states import DEAD, DELAYED, LEASED, READY
from penstock.core.queue_rules import DEFAULT_WORK_GROUP, WorkRules
from penstock.core.types import Offset, PartitionId
from penstock.engine.delivery.lease_request import LeaseRequest
from penstock.engine.delivery.receivers import Receivers
from penstock.engine.delivery.requests import (
    BrowsedMessage,
    Delivery,
    QueueCounts,
    Receipt,
    Sent,
)
from penstock.engine.delivery.wait_queue import WaitQueue
from penstock.engine.replica.batcher import Promise
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.long_polls import Batch
from penstock.engine.topics.message_reader import MessageReader
from penstock.engine.topics.queue_upkeep import work_rules
from penstock.engine.topics.topics import Acks, Topics
from penstock.engine.topics.traffic import INTERNAL
from penstock.machines.catalog import Topic
from penstock.machines.machine import Refused, Reply, Request, refusal_error
from penstock.machines.queue_commands import (
    Acquire,
    OpenWork,
    Outcome,
    Settle,
    Settlement,
    Verdict,
)
from penstock.machines.queue_headers import id_of
from penstock.machines.queues import EARLIEST, Acquired, Settled
from penstock.machines.run import State
from penstock.machines.work import Work
from penstock.machines.work_records import GrantedRun

STATE_NAMES = {
    State.READY: READY,
    State.LEASED: LEASED,
    State.DELAYED: DELAYED,
    State.DEAD: DEAD,
}
RECEIVE_BYTES_MAX = 16 * MIB
"""What one receive hands out, and one message more; the rest goes back."""
RECALL_MS = 5_000
"""How long a receive waits for a group that is told what old messages say, if it must."""
LOOKS_MAX = 10
"""How often a receiver looks in vain, although there may be something, before it waits again."""
_MESSAGE_OVERHEAD_BYTES = 80


class LeaderQueues:
    """Whatever is asked of a partition that is led elsewhere raises
    `NotLeader`."""

    def __init__(self, topics: Topics, clock: Clock) -> None:
        self._topics = topics
        self._clock = clock
        self.askers = Receivers(clock)
        """Who asks, for people."""
        self._reader = MessageReader()
        self._rooms: dict[tuple[PartitionId, str], WaitQueue[LeaseRequest]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def work(self, topic: Topic, index: int, group: str) -> Work | None:
        """The state of a work group; not to be changed."""
        partition = topic.partitions[index]
        return self._topics.led_shard(partition).machine.queues.work(partition, group)

    # Sending.

    async def send(
        self,
        topic: Topic,
        index: int,
        messages: Sequence[NewMessage],
        protocol: str = INTERNAL,
    ) -> list[Sent]:
        """Append messages, in order; returns when they are durable on a majority."""
        partition = topic.partitions[index]
        queues = self._topics.led_shard(partition).machine.queues
        rules = queues.rules(partition)
        now_ms = self._clock.wall_ms()
        ids: list[bytes | None] = []
        flow = self._topics.traffic.of(protocol)
        if rules is not None and rules.deduplication:
            ids = [id_of(message, rules) for message in messages]
        elif messages:  # Nearly always it is one batch, of which every message is new.
            batch = build_messages(messages, now_ms)
            if len(batch) <= topic.settings.message_bytes_max:
                base = (await self._topics.produce(topic, index, batch, Acks.ALL, flow)).base_offset
                return [Sent(index, Offset(offset)) for offset in range(base, base + len(messages))]
        sent: list[Sent | None] = [None] * len(messages)
        for number, one in enumerate(ids):
            first = None if one is None else queues.first_with_id(partition, one, now_ms)
            if first is not None:
                sent[number] = Sent(index, first, duplicate=True)
        new = [number for number, one in enumerate(sent) if one is None]
        chunks = list(_chunks(messages, new, topic.settings.message_bytes_max))
        produced = [
            self._topics.produce(
                topic,
                index,
                build_messages([messages[number] for number in chunk], now_ms),
                Acks.ALL,
                flow,
            )
            for chunk in chunks
        ]
        if len(produced) == 1:
            outcomes = [await produced[0]]
        else:
            outcomes = await asyncio.gather(*produced)
        if not ids and len(chunks) == 1:
            base = outcomes[0].base_offset
            return [Sent(index, Offset(base + number)) for number in range(len(messages))]
        for chunk, outcome in zip(chunks, outcomes, strict=True):
            for offset, number in enumerate(chunk, outcome.base_offset):
                id_now = ids[number] if ids else None
                first = None if id_now is None else queues.first_with_id(partition, id_now)
                if first is None or first == offset:
                    sent[number] = Sent(index, Offset(offset))
                else:
                    sent[number] = Sent(index, first, duplicate=True)
        return [one for one in sent if one is not None]

    # Leasing.

    async def acquire(
        self,
        topic: Topic,
        index: int,
        group: str,
        messages_max: int,
        lease_ms: int | None = None,
        receiver: str = "",
    ) -> Acquired:
        """Lease messages; what they are is for the caller to read."""
        partition = topic.partitions[index]
        command = lease_command(partition, group, messages_max, lease_ms, receiver)
        try:
            return await self._ask(command).granted()
        except UnknownWork:
            if group != DEFAULT_WORK_GROUP:
                raise
            await self._open_default(topic, partition)
            return await self._ask(command).granted()

    def _ask(self, command: Acquire) -> LeaseRequest:
        shard = self._topics.led_shard(command.partition)
        return LeaseRequest(shard, command, self._give_back)

    def ask_ahead(
        self, room: WaitQueue[LeaseRequest], command: Acquire, batch: Batch | None
    ) -> LeaseRequest | None:
        """Ask for messages that are just being written, if it is likely that they can be had;
        `batch` is theirs, for who has it."""
        try:
            shard = self._topics.led_shard(command.partition)
        except PenstockError:
            return None
        work = shard.machine.queues.work(command.partition, command.group)
        if work is None or work.is_held or work.queue.delay_ms > 0:
            return None
        if work.leased >= work.rules.in_flight_max:
            return None
        if batch is not None and len(batch) > RECEIVE_BYTES_MAX:
            return None
        asked = LeaseRequest(shard, command, self._give_back, batch)
        answered = room.claim(command.partition, command.messages_max)
        asked.on_answer(lambda: answered(asked.got_some))
        return asked

    def _give_back(self, command: Acquire, acquired: Acquired) -> None:
        self._return(command.partition, command.group, acquired.epoch, acquired.runs)

    def _return(
        self,
        partition: PartitionId,
        group: str,
        epoch: int,
        runs: Iterable[tuple[Offset, Offset, int, int]],
    ) -> None:
        settlements = tuple(
            Settlement(first, end, epoch, Verdict.RETURN) for first, end, _, _ in runs
        )
        self._spawn(Settle(partition=partition, group=group, settlements=settlements))

    async def receive(
        self,
        topic: Topic,
        index: int,
        group: str,
        *,
        messages_max: int,
        lease_ms: int | None,
        wait_ms: int,
        receiver: str = "",
    ) -> list[Delivery]:
        """Lease messages and read them; waits for some if there are none."""
        self.askers.note(topic.topic_id, group, receiver)
        partition = topic.partitions[index]
        began_ms = self._clock.monotonic_ms()
        looks = 0
        while True:
            if self.may_have(partition, group):
                acquired = await self.acquire(topic, index, group, messages_max, lease_ms, receiver)
                room = self._rooms.get((partition, group))
                if room is not None:
                    room.call()
                deliveries = self._read(topic, index, group, acquired)
                if deliveries:
                    return deliveries
                looks += 1
                if wait_ms and looks < LOOKS_MAX:
                    continue  # Others were faster; what came meanwhile calls nobody who looks.
            looks = 0
            patience_ms = self._patience_ms(partition, group, wait_ms)
            left_ms = began_ms + patience_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                if not wait_ms:  # Who waits is not told: some may have come back by then.
                    self._refuse_if_full(partition, group)
                return []
            # Nothing is asked ahead here: a request whose outcome is unknown is made again by
            # `Queues`, and then the first may have counted a delivery that nobody got.
            await self._wait(partition, group, left_ms)

    def may_have_some(
        self, topic: Topic, group: str, led: Iterable[PartitionId] | None = None
    ) -> bool:
        """Whether it is worth asking for messages of the partitions that this node leads; `led` is
        for those who know them already."""
        topics = self._topics
        if led is None:
            led = [
                partition
                for partition in topic.partitions
                if topics.leader(topics.shard_of(partition)).node == topics.node_id
            ]
        try:
            return any(self.may_have(partition, group) for partition in led)
        except PenstockError:
            return False  # Somebody else leads by now.

    def may_have(self, partition: PartitionId, group: str) -> bool:
        """Whether it is worth asking for messages."""
        work = self._topics.led_shard(partition).machine.queues.work(partition, group)
        if work is None or work.has_ready():
            return True
        due_ms = work.due_ms()  # A lease that is over, or a delay, ends when somebody asks.
        return due_ms is not None and due_ms <= self._clock.wall_ms()

    def coming(self, partition: PartitionId) -> int:
        """How many messages are being written to a partition that this node leads."""
        partitions = self._topics.led_shard(partition).machine.partitions
        return partitions.planned_end(partition) - partitions.bounds(partition).high_watermark

    def _patience_ms(self, partition: PartitionId, group: str, wait_ms: int) -> int:
        """How long to wait: as asked, or until a group that has just begun is ready to deliver."""
        work = self._topics.led_shard(partition).machine.queues.work(partition, group)
        return max(wait_ms, RECALL_MS) if work is not None and work.is_recalling else wait_ms

    def _refuse_if_full(self, partition: PartitionId, group: str) -> None:
        work = self._topics.led_shard(partition).machine.queues.work(partition, group)
        if work is not None and not work.queue.fifo and work.ready:
            if work.leased >= work.rules.in_flight_max:
                raise TooManyInFlight(
                    f"{work.leased} messages are leased, which is as many as may be; settle"
                    " some, or raise queue.in.flight.max"
                )

    async def _wait(self, partition: PartitionId, group: str, wait_ms: int) -> None:
        key = (partition, group)
        room = self._rooms.get(key)
        if room is None:
            room = self._rooms[key] = WaitQueue(
                lambda: self._ready(partition, group),
                lambda wake: self._topics.watch([partition], wake),
                lambda: self._rooms.pop(key, None),
            )
        await room.wait(wait_ms / 1_000)

    def _ready(self, partition: PartitionId, group: str) -> int:
        """How many of those who wait should ask now."""
        try:
            shard = self._topics.led_shard(partition)
        except PenstockError:
            return len(self._rooms[partition, group])  # They will be told who leads now.
        work = shard.machine.queues.work(partition, group)
        if work is None:
            return len(self._rooms[partition, group])  # Or that it was deleted.
        return work.ready if work.has_ready() else 0

    def _read(self, topic: Topic, index: int, group: str, acquired: Acquired) -> list[Delivery]:
        if not acquired.runs:
            return []
        partition = topic.partitions[index]
        shard = self._topics.led_shard(partition)
        messages = self._reader.read(shard, partition, [run[:2] for run in acquired.runs])
        found = iter(messages)
        message = next(found, None)
        deliveries: list[Delivery] = []
        missing: list[Settlement] = []
        size = 0
        for run in acquired.runs:
            for offset in range(run.first, run.end):
                if size > RECEIVE_BYTES_MAX:
                    one = GrantedRun(Offset(offset), run.end, run.deliveries, run.first_ms)
                    self._return(partition, group, acquired.epoch, [one])
                    break
                if message is None or message.offset != offset:
                    missing.append(
                        Settlement(Offset(offset), Offset(offset + 1), acquired.epoch, Verdict.ACK)
                    )
                    continue
                receipt = Receipt(partition, group, message.offset, acquired.epoch)
                deliveries.append(
                    Delivery(
                        message, index, receipt, run.deliveries, run.first_ms, acquired.until_ms
                    )
                )
                size += len(message.value or b"")
                message = next(found, None)
        if missing:
            self._spawn(Settle(partition=partition, group=group, settlements=tuple(missing)))
        return deliveries

    def begin_settle(
        self, topic: Topic, index: int, group: str, settlements: Sequence[Settlement]
    ) -> "asyncio.Future[Settled]":
        """Say what became of leased messages, now."""
        partition = topic.partitions[index]
        command = Settle(partition=partition, group=group, settlements=tuple(settlements))
        future: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        shard = self._topics.led_shard(partition)
        shard.submit(command, partial(_answer_settle, future), Promise.COMMITTED)
        return future

    async def settle(
        self, topic: Topic, index: int, group: str, settlements: Sequence[Settlement]
    ) -> list[Outcome]:
        """Say what became of leased messages."""
        return list((await self.begin_settle(topic, index, group, settlements)).outcomes)

    # Looking.

    def counts(self, topic: Topic, index: int, group: str) -> QueueCounts:
        """How many messages are in which state."""
        partition = topic.partitions[index]
        shard = self._topics.led_shard(partition)
        work = shard.machine.queues.work(partition, group)
        if work is None:
            start, end = shard.machine.bounds(partition)
            return QueueCounts(sent=end - start, ready=end - start)
        tally = work.tally
        return QueueCounts(
            sent=work.sent,
            ready=work.ready,
            leased=work.leased,
            delayed=work.delayed,
            dead=work.dead,
            acked=tally.acked,
            moved=tally.moved,
            expired=tally.expired,
            purged=tally.purged,
            dropped=tally.dropped,
            duplicates=tally.duplicates,
            oldest_ms=self._oldest_ms(shard, partition, work),
        )

    def _oldest_ms(self, shard: Shard, partition: PartitionId, work: Work) -> int:
        if not work.living + work.dead:
            return -1
        messages = self._reader.read(shard, partition, [(work.start, Offset(work.start + 1))])
        return messages[0].timestamp_ms if messages else -1

    def browse(
        self,
        topic: Topic,
        index: int,
        group: str,
        *,
        start: Offset,
        states: frozenset[str],
        messages_max: int,
    ) -> list[BrowsedMessage]:
        """Messages from an offset on, without touching them."""
        partition = topic.partitions[index]
        shard = self._topics.led_shard(partition)
        work = shard.machine.queues.work(partition, group)
        if work is None:
            log_start, _ = shard.machine.bounds(partition)
            work = Work(
                log_start,
                WorkRules(),
                topic.settings.queue.queue_rules,
                lambda: shard.machine.bounds(partition).high_watermark,
            )
        rows = _rows(work, start, shard.machine.bounds(partition).high_watermark)
        chosen = list(islice((row for row in rows if row.state in states), messages_max))
        messages = self._reader.read(
            shard, partition, [(row.offset, Offset(row.offset + 1)) for row in chosen]
        )
        by_offset = {message.offset: message for message in messages}
        return [
            BrowsedMessage(
                by_offset.get(row.offset) or Message(row.offset, -1, None, None), index, *row[1:]
            )
            for row in chosen
        ]

    def read(
        self, topic: Topic, index: int, runs: Sequence[tuple[Offset, Offset]]
    ) -> list[Message]:
        """Messages by their offsets."""
        partition = topic.partitions[index]
        return self._reader.read(self._topics.led_shard(partition), partition, runs)

    # Opening.

    async def _open_default(self, topic: Topic, partition: PartitionId) -> None:
        rules = topic.settings.queue.work_rules
        await self._change(
            partition,
            OpenWork(partition=partition, group=DEFAULT_WORK_GROUP, start=EARLIEST, rules=rules),
        )

    def rules_of(self, topic: Topic, group: str) -> WorkRules:
        """The rules a work group has by its topic's configs, or by its own."""
        return work_rules(self._topics.catalog, topic, group)

    # Asking.

    async def _change(self, partition: PartitionId, command: Request) -> Reply:
        reply = await self._topics.led_shard(partition).change(command)
        if isinstance(reply, Refused):
            raise refusal_error(reply)
        return reply

    def _spawn(self, command: Settle) -> None:
        async def carry() -> None:
            with contextlib.suppress(PenstockError):  # The lease ends, and it is tried again.
                await self._change(command.partition, command)

        task = asyncio.create_task(carry())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Let go of what is under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _answer_settle(future: "asyncio.Future[Settled]", reply: Reply | PenstockError) -> None:
    if future.done():  # Whoever asked is gone.
        return
    if isinstance(reply, Settled):
        future.set_result(reply)
        return
    error = refusal_error(reply) if isinstance(reply, Refused) else reply
    assert isinstance(error, PenstockError), f"a settle was answered with {reply}"
    future.set_exception(error)


def lease_command(
    partition: PartitionId, group: str, messages_max: int, lease_ms: int | None, receiver: str
) -> Acquire:
    """The request for a lease; None: for as long as the queue's rules say."""
    return Acquire(
        partition=partition,
        group=group,
        messages_max=messages_max,
        lease_ms=-1 if lease_ms is None else lease_ms,
        receiver=receiver,
    )


class _Row(NamedTuple):
    offset: Offset
    state: str
    deliveries: int
    first_ms: int
    until_ms: int
    reason: str


def _rows(work: Work, start: Offset, end: Offset) -> Iterator[_Row]:
    """The messages of a work group from an offset on: offset, state, deliveries, first received,
    until, reason. Looks at a bounded number."""
    offset = max(start, work.start)
    steps = 0
    runs = work.runs_from(offset)
    run = next(runs, None)
    while offset < end and steps < BROWSE_STEPS_MAX:
        steps += 1
        while run is not None and run.end <= offset:
            run = next(runs, None)
        if run is not None and run.first <= offset:
            state = STATE_NAMES[run.state]
            yield _Row(offset, state, run.deliveries, run.first_ms, run.at_ms, run.reason)
        elif offset < work.cursor:
            offset = min(work.cursor, end if run is None else run.first)
            continue
        elif work.is_waiting(offset):
            yield _Row(offset, STATE_NAMES[State.READY], 0, -1, -1, "")
        offset = Offset(offset + 1)


def _chunks(
    messages: Sequence[NewMessage], numbers: Sequence[int], bytes_max: int
) -> Iterator[list[int]]:
    """Messages that go into one batch together."""
    chunk: list[int] = []
    size = 0
    for number in numbers:
        more = _size(messages[number])
        if chunk and size + more > bytes_max - _MESSAGE_OVERHEAD_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(number)
        size += more
    if chunk:
        yield chunk


def _size(message: NewMessage) -> int:
    size = _MESSAGE_OVERHEAD_BYTES + len(message.value or b"") + len(message.key or b"")
    for name, value in message.headers:
        size += len(name) + len(value or b"") + 8
    return size
