"""Delivery on the node that leads a partition: send, receive, settle, count, browse.

A receive is three steps: the lease is committed (`acquisition`), then the messages are read, then
they are handed out. No other receiver has a message that was handed out. A receiver that goes away
between the steps leaves a lease that is given back, or expires.

Where a message cannot be read any more, because compaction took it between lease and read, its
lease is acked here: it would be delivered for ever.

Sending is a produce. Where messages have deduplication ids, one whose id is known is not appended
again; if two senders append the same id at the same time, that is found out when the second one is
applied, and both get the place of the first.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import NamedTuple

from penstock.core.clock import Clock
from penstock.core.errors import PenstockError, TooManyInFlight, Unavailable
from penstock.core.limits import BROWSE_STEPS_MAX
from penstock.core.memory_budget import MemoryDraw
from penstock.core.message import Message, NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.message_states import DEAD, DELAYED, LEASED, READY
from penstock.core.queue_rules import DEFAULT_WORK_GROUP, WorkRules
from penstock.core.topic import Topic
from penstock.core.types import Offset, PartitionId
from penstock.core.verdicts import Outcome, Verdict
from penstock.engine.delivery.acquisition import (
    FEW_MESSAGES,
    RECEIVE_BYTES_MAX,
    AcquireLimits,
    Acquisition,
    Acquisitions,
    Place,
    Problems,
    require_leader,
)
from penstock.engine.delivery.first_use import FirstUse, Start
from penstock.engine.delivery.lease_returns import LeaseReturns
from penstock.engine.delivery.leases import PartitionLease
from penstock.engine.delivery.requests import (
    BrowsedMessage,
    Delivery,
    LeasedRange,
    QueueCounts,
    Receipt,
    Sent,
)
from penstock.engine.replica.batcher import Promise
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.topics import Acks, Topics
from penstock.engine.topics.traffic import INTERNAL
from penstock.machines.machine import Refused, Reply, refusal_error
from penstock.machines.queue_commands import Settle, Settlement, TurnClock
from penstock.machines.queue_headers import id_of
from penstock.machines.queues import Settled
from penstock.machines.run import State
from penstock.machines.work import WorkGroup

STATE_NAMES = {
    State.READY: READY,
    State.LEASED: LEASED,
    State.DELAYED: DELAYED,
    State.DEAD: DEAD,
}
_MESSAGE_OVERHEAD_BYTES = 80
_READ_AT_ONCE_MESSAGES = 64
"""Of a lease of many messages, which may be large, each."""


class LeaderDelivery:
    """Delivery for the partitions that this node leads. A request for a partition that another node
    leads raises `NotLeader`."""

    def __init__(
        self, topics: Topics, clock: Clock, returns: LeaseReturns, first_use: FirstUse
    ) -> None:
        self._topics = topics
        self._clock = clock
        self._acquisitions = Acquisitions(topics, clock, returns, first_use)
        self._reader = self._acquisitions.reader
        self.receivers = self._acquisitions.receivers
        self.give_back = returns.give_back
        self.led = self._acquisitions.led
        self.in_turn = self._acquisitions.in_turn
        self.messages = self._acquisitions.messages

    def work(self, topic: Topic, index: int, group: str) -> WorkGroup | None:
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
                base, _, _ = await self._topics.produce(
                    topic, index, batch, Acks.ALL, flow, is_sound=True
                )
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
                is_sound=True,
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

    # Receiving.

    def acquisition(
        self, topic: Topic, group: str, limits: AcquireLimits, receiver: str
    ) -> Acquisition:
        """A request for messages of all partitions that this node leads; raises `NotLeader` if
        there are none."""
        owner = self._acquisitions
        led = require_leader(owner, topic)
        places = [(topic, index) for index in led]
        return Acquisition(owner, places, group, limits, receiver, led=[(topic, led)])

    def acquisition_of(
        self,
        places: Sequence[Place],
        group: str,
        limits: AcquireLimits,
        receiver: str,
        ends_wait: Callable[[Problems], bool],
    ) -> Acquisition:
        """A request for messages of these partitions, in this order, of a group that begins where
        it is configured to. Partitions that cannot be read do not stop the others; `ends_wait` says
        whether the receiver learns of them before there are messages."""
        return Acquisition(
            self._acquisitions,
            places,
            group,
            limits,
            receiver,
            start=Start.CONFIGURED,
            ends_wait=ends_wait,
        )

    async def receive(
        self,
        topic: Topic,
        indexes: Sequence[int],
        group: str,
        *,
        messages_max: int,
        lease_ms: int | None,
        wait_ms: int,
        receiver: str = "",
        draw: MemoryDraw | None = None,
        bytes_max: int = RECEIVE_BYTES_MAX,
    ) -> list[Delivery]:
        """Acquire messages of partitions and read them; waits for some if there are none. What is
        read is drawn on `draw`; without room for it, nothing is acquired."""
        places = [(topic, index) for index in indexes]
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        # No pre-acquire: the service repeats a request of unknown outcome, and the first one may
        # have counted a delivery that reached no receiver.
        limits = AcquireLimits(messages_max, lease_ms=lease_ms, wait_ms=wait_ms, draw=draw)
        while True:
            leases = await Acquisition(self._acquisitions, places, group, limits, receiver).run()
            found = self._hand_out(leases, draw, bytes_max)
            if lease_ms == 0:
                await self._end_leases(leases)
            if found or not leases:
                break
            left_ms = deadline_ms - self._clock.monotonic_ms()
            limits = limits._replace(wait_ms=max(0, left_ms))
        if not found and not wait_ms:  # With a wait, messages may have been settled meanwhile.
            self._refuse_if_full(places, group)
        return found

    async def _end_leases(self, leases: Sequence[PartitionLease]) -> None:
        """Leases of no duration are over now, not at the next tick: counts should show it."""
        for lease in leases:
            with suppress(PenstockError):
                await self._topics.led_shard(lease.partition).change(TurnClock())

    def is_at_in_flight_limit(self, topic: Topic, group: str = DEFAULT_WORK_GROUP) -> bool:
        """Whether a partition that this node leads has as many messages leased as may be."""
        for index in range(len(topic.partitions)):
            with suppress(Unavailable):  # Another node leads it.
                work = self.work(topic, index, group)
                if work is not None and work.leased >= work.rules.in_flight_max:
                    return True
        return False

    def _refuse_if_full(self, places: Sequence[Place], group: str) -> None:
        """Raise if no partition delivers anything because too much is leased."""
        leased = 0
        for place in places:
            work = self._acquisitions.work(place, group)
            if work is None or work.queue.fifo or not work.ready:
                return
            if work.leased < work.rules.in_flight_max:
                return
            leased += work.leased
        raise TooManyInFlight(
            f"{leased} messages are leased (in flight), which is as many as may be; settle some, or"
            " raise queue.in.flight.max"
        )

    def _hand_out(
        self, leases: Sequence[PartitionLease], draw: MemoryDraw | None, bytes_max: int
    ) -> list[Delivery]:
        """Read leased messages; those beyond the bytes of one receive, or beyond the memory there
        is, are given back. One is always handed out."""
        deliveries: list[Delivery] = []
        size = 0
        if draw is not None and leases:
            # What was read to measure the messages is the messages.
            bytes_max = min(bytes_max, draw.held + draw.room(bytes_max))
        try:
            for lease in leases:
                size = self._deliver(lease, deliveries, size, bytes_max)
        except BaseException:
            self.give_back(one for lease in leases for one in lease.leased())
            raise
        if draw is not None and size > draw.held:
            draw.take(size - draw.held)
        return deliveries

    def _read(self, lease: PartitionLease) -> Iterator[Message]:
        """The leased messages. Many are read in parts: most of them may be given back."""
        if lease.messages <= FEW_MESSAGES:
            return iter(self._acquisitions.messages(lease))
        return self._read_in_parts(lease)

    def _read_in_parts(self, lease: PartitionLease) -> Iterator[Message]:
        part: list[tuple[Offset, Offset]] = []
        messages = 0
        for run in lease.runs:
            for first in range(run.first, run.end, _READ_AT_ONCE_MESSAGES):
                end = min(run.end, first + _READ_AT_ONCE_MESSAGES)
                part.append((Offset(first), Offset(end)))
                messages += end - first
                if messages >= _READ_AT_ONCE_MESSAGES:
                    yield from self._acquisitions.read(lease.topic, lease.index, part)
                    part, messages = [], 0
        if part:
            yield from self._acquisitions.read(lease.topic, lease.index, part)

    def _deliver(
        self, lease: PartitionLease, deliveries: list[Delivery], size: int, bytes_max: int
    ) -> int:
        """Add the messages of a lease; returns the bytes of all."""
        partition, group, epoch = lease.partition, lease.group, lease.epoch
        found = self._read(lease)
        message = next(found, None)
        missing: list[Settlement] = []
        late: list[LeasedRange] = []
        for run in lease.runs:
            for offset in range(run.first, run.end):
                if size > bytes_max:
                    late.append(LeasedRange(partition, group, epoch, Offset(offset), run.end))
                    break
                if message is None or message.offset != offset:
                    end = Offset(offset + 1)
                    missing.append(Settlement(Offset(offset), end, epoch, Verdict.ACK))
                    continue
                receipt = Receipt(partition, group, message.offset, epoch)
                deliveries.append(
                    Delivery(
                        message, lease.index, receipt, run.deliveries, run.first_ms, lease.until_ms
                    )
                )
                size += len(message.value or b"")
                message = next(found, None)
        if late:
            self.give_back(late)
        if missing:
            self._ack(partition, group, missing)
        return size

    def _ack(self, partition: PartitionId, group: str, settlements: Sequence[Settlement]) -> None:
        """Ack offsets without a message in the background: they would be delivered for ever."""
        command = Settle(partition=partition, group=group, settlements=tuple(settlements))
        shard = self._topics.led_shard(partition)
        shard.submit(command, _ignore, Promise.COMMITTED)  # If it fails, the lease ends.

    # Settling.

    def begin_settle(
        self, topic: Topic, index: int, group: str, settlements: Sequence[Settlement]
    ) -> "asyncio.Future[Settled]":
        """Submit verdicts on leased messages; the order of calls is the order of the log."""
        partition = topic.partitions[index]
        command = Settle(partition=partition, group=group, settlements=tuple(settlements))
        future: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        shard = self._topics.led_shard(partition)
        shard.submit(command, partial(_answer_settle, future), Promise.COMMITTED)
        return future

    async def settle(
        self, topic: Topic, index: int, group: str, settlements: Sequence[Settlement]
    ) -> list[Outcome]:
        """Carry out verdicts on leased messages."""
        return list((await self.begin_settle(topic, index, group, settlements)).outcomes)

    # Counting and browsing.

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

    def _oldest_ms(self, shard: Shard, partition: PartitionId, work: WorkGroup) -> int:
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
            work = WorkGroup(
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
        return self._acquisitions.read(topic, index, runs)


def _ignore(_reply: Reply | PenstockError) -> None:
    """The outcome does not matter."""


def _answer_settle(future: "asyncio.Future[Settled]", reply: Reply | PenstockError) -> None:
    if future.done():  # The caller has gone away.
        return
    if isinstance(reply, Settled):
        future.set_result(reply)
        return
    error = refusal_error(reply) if isinstance(reply, Refused) else reply
    assert isinstance(error, PenstockError), f"a settle was answered with {reply}"
    future.set_exception(error)


class _Row(NamedTuple):
    offset: Offset
    state: str
    deliveries: int
    first_ms: int
    until_ms: int
    reason: str


def _rows(work: WorkGroup, start: Offset, end: Offset) -> Iterator[_Row]:
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
            yield _Row(offset, state, run.deliveries, run.first_ms, run.until_ms, run.reason)
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
