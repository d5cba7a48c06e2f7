"""Leasing messages for native clients: many at once, in the batches they are stored in.

A client asks each node that leads partitions of a queue, and the node answers for all of them, each
time beginning with another one. What is leased is sent in the stored batches, unopened; the client
picks its messages out of them by their offsets. Where a part of a batch is wanted, the records are
cut out of it, without looking into them; a few messages, and those of compressed batches of which
little is wanted, are read one by one and make a batch of their own.

Several clients that wait for one queue are called one after the other, as messages come: see
`engine.waiting_room`. What was leased for a client that has gone meanwhile goes back uncounted.
"""

import asyncio
import contextlib
import struct
from collections.abc import Iterable, Sequence
from itertools import count, pairwise
from typing import Final, TypeGuard

from penstock.core.errors import InvalidBatch, NotLeader, PenstockError
from penstock.core.limits import ACQUIRE_MESSAGES_MAX, LEASE_MS_MAX, MIB
from penstock.core.message import Message, NewMessage
from penstock.core.message_batches import Marks, build_messages, cut_batch, new_marks
from penstock.core.receiver import receiver_name
from penstock.core.records import read_outline
from penstock.core.types import Offset, PartitionId, ShardId, TopicId
from penstock.engine.delivery.leader import LOOKS_MAX, lease_command
from penstock.engine.delivery.lease_request import LeaseRequest
from penstock.engine.delivery.stored_batches import (
    Range,
    StoredBatch,
    StoredBatches,
    collect,
    measure,
    ready_ranges,
)
from penstock.engine.delivery.wait_queue import WaitQueue
from penstock.engine.topics.long_polls import Batch
from penstock.engine.topics.queue_upkeep import work_rules
from penstock.machines.catalog import Topic
from penstock.machines.queue_commands import Settlement, Verdict
from penstock.machines.queues import EARLIEST, Acquired
from penstock.machines.work_records import GrantedRun
from penstock.native.context import Buffer, Context
from penstock.wire.leadership_mark import UNKNOWN, led_mark
from penstock.wire.requests import Take, Taken, TakenPart

TAKE_BYTES_MAX: Final = 16 * MIB
TAKE_WAIT_MS_MAX: Final = 60_000
FEW_MESSAGES: Final = 16
"""So few are leased without looking how large they are."""
SMALL_SHARE: Final = 4
"""A compressed batch is sent whole if at least one in so many of its messages is wanted."""
MARKS_KEPT_MAX: Final = 256
SKIPS_KEPT_MAX: Final = 1_024
_OFFSET: Final = struct.Struct(">q")

Part = tuple[TakenPart, Buffer]


class ReceiveService:
    """One per node."""

    def __init__(self, desk: Context) -> None:
        self._desk = desk
        self._engine = desk.engine
        self._turns = count()
        self._rooms: dict[tuple[TopicId, str], WaitQueue[LeaseRequest]] = {}
        self._skips: dict[tuple[TopicId, str], int] = {}
        """What rooms that are closed had left of them; the last closed ones last."""
        self._returning: set[asyncio.Task[None]] = set()
        self._marks: dict[tuple[PartitionId, int], Marks] = {}
        """Where records begin in batches that are taken bit by bit; the last used ones last."""

    async def take(self, request: Take, address: str) -> tuple[Taken, Buffer]:
        """Lease messages; waits for some if there are none. `address` is the client's."""
        receiver = receiver_name("native", address, request.receiver)
        clock, here = self._engine.topics.clock, self._engine.delivery.here
        wait_ms = min(max(request.wait_ms, 0), TAKE_WAIT_MS_MAX)
        deadline_ms = clock.monotonic_ms() + wait_ms
        looks = 0
        while True:
            topic = self._desk.topic(request.topic_id)
            here.askers.note(topic.topic_id, request.group, receiver)
            led = self._led(topic)
            parts = await self._look(topic, led, request, receiver)
            left_ms = deadline_ms - clock.monotonic_ms()
            mark = led_mark(len(topic.partitions), led)
            moved = request.led not in (UNKNOWN, mark)
            if parts or left_ms <= 0 or moved:
                return self._taken(topic, parts, moved)
            # What comes to one partition while another is looked at calls nobody.
            looks += 1
            mine = (topic.partitions[index] for index in led)
            if looks >= LOOKS_MAX or not here.may_have_some(topic, request.group, mine):
                looks = 0
                asked = await self._wait(topic, request, receiver, left_ms, mark)
                parts = [] if asked is None else await self._take_asked(topic, request, asked)
                if parts:
                    return self._taken(topic, parts, moved=False)

    def _taken(self, topic: Topic, parts: list[Part], moved: bool) -> tuple[Taken, Buffer]:
        self._desk.flow.delivered(topic.name, _messages(parts))
        payload = parts[0][1] if len(parts) == 1 else b"".join(part[1] for part in parts)
        return Taken(
            tuple(part[0] for part in parts), self._engine.topics.clock.wall_ms(), moved
        ), payload

    def give_back(self, request: Take, taken: Taken) -> None:
        """Nobody is there any more to take these messages."""
        topic = self._engine.topics.catalog.topic_by_id(TopicId(request.topic_id))
        if topic is not None and taken.parts:
            self._return(topic, request.group, taken.parts)

    async def close(self) -> None:
        """Let go of what is under way."""
        for task in list(self._returning):
            task.cancel()
        await asyncio.gather(*self._returning, return_exceptions=True)

    # Looking.

    def _led(self, topic: Topic) -> list[int]:
        """The partitions this node leads."""
        engine = self._engine
        led: dict[ShardId, bool] = {}
        found = []
        for index, partition in enumerate(topic.partitions):
            shard = engine.topics.shard_of(partition)
            leads = led.get(shard)
            if leads is None:
                leads = led[shard] = engine.topics.leader(shard).node == engine.topics.node_id
            if leads:
                found.append(index)
        return found

    def _in_turn(self, topic: Topic, led: list[int]) -> list[int]:
        """Another one first each time."""
        if not led:
            engine = self._engine
            leader = engine.topics.leader(engine.topics.shard_of(topic.partitions[0])).node
            raise NotLeader(f"this node leads no partition of {topic.name}", leader=leader)
        if len(led) == 1:
            return led
        turn = next(self._turns) % len(led)
        return led[turn:] + led[:turn]

    async def _look(self, topic: Topic, led: list[int], request: Take, receiver: str) -> list[Part]:
        left = min(max(request.messages_max, 0), ACQUIRE_MESSAGES_MAX)
        room_bytes = min(max(request.bytes_max, 1), TAKE_BYTES_MAX)
        parts: list[Part] = []
        problem: PenstockError | None = None
        try:
            for index in self._in_turn(topic, led):
                if left <= 0 or room_bytes <= 0:
                    break
                try:
                    part = await self._lease(topic, index, request, left, room_bytes, receiver)
                except PenstockError as error:  # Another partition may have something.
                    problem = error
                    continue
                if part is not None:
                    parts.append(part)
                    left -= sum(end - first for first, end, _, _ in part[0].runs)
                    room_bytes -= len(part[1])
        except BaseException:
            self._return(topic, request.group, [part[0] for part in parts])
            raise
        if not parts and problem is not None:
            raise problem
        return parts

    async def _lease(
        self,
        topic: Topic,
        index: int,
        request: Take,
        messages_max: int,
        bytes_max: int,
        receiver: str,
    ) -> Part | None:
        engine, group = self._engine, request.group
        partition = topic.partitions[index]
        work = engine.delivery.work_here(topic, index, group)
        if work is None:
            rules = work_rules(engine.topics.catalog, topic, group)
            await engine.delivery.open(topic, group, start=EARLIEST, rules=rules, index=index)
        elif not engine.delivery.here.may_have(partition, group):
            return None
        batches = self._stored(topic, index)
        wanted = messages_max
        work = engine.delivery.work_here(topic, index, group)
        if wanted > FEW_MESSAGES and work is not None:
            end = engine.topics.bounds(topic, index).high_watermark
            wanted = measure(ready_ranges(work, end), batches, wanted, bytes_max) or wanted
            wanted = _fitting(wanted, batches, bytes_max)
        lease_ms = _lease_ms(request)
        acquired = await engine.delivery.acquire_here(
            topic, index, group, wanted, lease_ms, receiver
        )
        return self._packed_or_returned(topic, index, group, acquired, batches)

    def _stored(self, topic: Topic, index: int) -> StoredBatches:
        engine = self._engine
        return StoredBatches(lambda offset, size: engine.topics.read(topic, index, offset, size))

    def _packed_or_returned(
        self,
        topic: Topic,
        index: int,
        group: str,
        acquired: Acquired,
        batches: StoredBatches | None = None,
    ) -> Part | None:
        if not acquired.runs:
            return None
        try:
            stored = batches or self._stored(topic, index)
            return self._pack(topic, index, group, acquired, stored)
        except BaseException:
            self._return(topic, group, [_part(index, acquired, acquired.runs, 0)])
            raise

    def _pack(
        self, topic: Topic, index: int, group: str, acquired: Acquired, batches: StoredBatches
    ) -> Part:
        """The leased messages with their batches; what does not fit goes back. Runs stay in the
        order in which they were granted: that is whose turn it is."""
        runs: Sequence[GrantedRun] = acquired.runs
        ranges: list[Range] = sorted((run.first, run.end) for run in runs)
        wanted = sum(end - first for first, end in ranges)
        if wanted <= FEW_MESSAGES:
            return self._packed(index, acquired, runs, self._rebuilt(topic, index, ranges))
        partition = topic.partitions[index]
        pieces, unsent = collect(ranges, batches, TAKE_BYTES_MAX)
        if unsent:
            cut = unsent[0][0]
            rest = [run._replace(first=max(run.first, cut)) for run in runs if run.end > cut]
            self._return(topic, group, [_part(index, acquired, rest, 0)])
            runs = [run._replace(end=min(run.end, cut)) for run in runs if run.first < cut]
        parts: list[Buffer] = []
        for batch, spans in pieces:
            parts += self._cut(topic, index, partition, batch, spans)
        return self._packed(index, acquired, runs, parts)

    def _packed(
        self, index: int, acquired: Acquired, runs: Sequence[GrantedRun], parts: list[Buffer]
    ) -> Part:
        payload = parts[0] if len(parts) == 1 else b"".join(parts)
        return _part(index, acquired, runs, len(payload)), payload

    def _cut(
        self,
        topic: Topic,
        index: int,
        partition: PartitionId,
        batch: StoredBatch,
        spans: Sequence[Range],
    ) -> list[Buffer]:
        """What is wanted of a stored batch: all of it, or rows of records cut out of it."""
        wanted = sum(end - first for first, end in spans)
        total = batch.end - batch.first
        if wanted == total:
            return [batch.data]
        key = partition, batch.first
        marks = self._marks.pop(key, None)
        if marks is None:
            marks = new_marks()
            if len(self._marks) >= MARKS_KEPT_MAX:
                self._marks.pop(next(iter(self._marks)))
        self._marks[key] = marks
        try:
            cut = cut_batch(batch.data, spans, marks)
        except InvalidBatch:
            return [batch.data]  # The client says what is wrong with it.
        if cut is not None:
            return [cut]
        if wanted * SMALL_SHARE < total:  # It is compressed.
            return self._rebuilt(topic, index, spans)
        return [batch.data]

    def _rebuilt(self, topic: Topic, index: int, spans: Sequence[Range]) -> list[Buffer]:
        return [_rebuild(self._engine.delivery.read_here(topic, index, spans))]

    # Giving back.

    def _return(self, topic: Topic, group: str, parts: Iterable[TakenPart]) -> None:
        for part in parts:
            settlements = [
                Settlement(Offset(first), Offset(end), part.epoch, Verdict.RETURN)
                for first, end, _, _ in part.runs
            ]
            task = asyncio.create_task(self._settle(topic, part.index, group, settlements))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)

    async def _settle(
        self, topic: Topic, index: int, group: str, settlements: Sequence[Settlement]
    ) -> None:
        with contextlib.suppress(PenstockError):  # Then the lease ends by itself.
            await self._engine.delivery.settle_here(topic, index, group, settlements)

    # Waiting.

    async def _wait(
        self, topic: Topic, request: Take, receiver: str, wait_ms: int, mark: int
    ) -> LeaseRequest | None:
        """Wait for one's turn; a request if it was made already, for messages being written."""
        group, here = request.group, self._engine.delivery.here
        key = (topic.topic_id, group)
        room = self._rooms.get(key)
        if room is None:
            room = self._rooms[key] = WaitQueue(
                lambda: self._ready(topic, group, mark),
                lambda wake: self._engine.topics.watch(topic.partitions, wake),
                lambda: self._close_room(key),
                self._skips.pop(key, 0),
            )
        asked = self._ask_for_coming(topic, request, receiver, room)
        if asked is not None:
            return asked
        chosen = room

        def ahead(partition: PartitionId, messages: int, batch: Batch) -> LeaseRequest | None:
            if len(batch) > min(request.bytes_max, TAKE_BYTES_MAX):
                return None
            few = min(request.messages_max, ACQUIRE_MESSAGES_MAX, messages)
            command = lease_command(partition, group, few, _lease_ms(request), receiver)
            return here.ask_ahead(chosen, command, batch)

        return await room.wait(wait_ms / 1_000, ahead, LeaseRequest.abandon)

    def _close_room(self, key: tuple[TopicId, str]) -> None:
        room = self._rooms.pop(key, None)
        if room is not None and room.skips:
            if len(self._skips) >= SKIPS_KEPT_MAX:
                self._skips.pop(next(iter(self._skips)))
            self._skips[key] = room.skips

    def _ask_for_coming(
        self, topic: Topic, request: Take, receiver: str, room: WaitQueue[LeaseRequest]
    ) -> LeaseRequest | None:
        """Ask for messages that are being written while he comes, if there are any; to wait until
        they are there would be a second wait, behind all that has come meanwhile."""
        here = self._engine.delivery.here
        for index in self._led(topic):
            partition = topic.partitions[index]
            try:
                few = room.unclaimed(partition, here.coming(partition))
            except PenstockError:
                return None
            few = min(few, request.messages_max, FEW_MESSAGES)
            if few > 0:
                lease_ms = _lease_ms(request)
                command = lease_command(partition, request.group, few, lease_ms, receiver)
                return here.ask_ahead(room, command, None)
        return None

    async def _take_asked(self, topic: Topic, request: Take, asked: LeaseRequest) -> list[Part]:
        """What a request got that was made while the messages were being written."""
        acquired = await asked.granted()
        index = topic.partitions.index(asked.command.partition)
        if len(acquired.runs) == 1 and _is_just(asked.batch, acquired.runs[0]):
            return [self._packed(index, acquired, acquired.runs, [asked.batch])]
        part = self._packed_or_returned(topic, index, request.group, acquired)
        return [] if part is None else [part]

    def _ready(self, topic: Topic, group: str, mark: int) -> int:
        """How many of those who wait should ask now; all of them if something else is new."""
        everybody = len(self._rooms[topic.topic_id, group])
        known = self._engine.topics.catalog.topic_by_id(topic.topic_id)
        if known is None or known.partitions != topic.partitions:
            return everybody
        led = self._led(topic)
        if not led or led_mark(len(topic.partitions), led) != mark:
            return everybody
        ready = 0
        try:
            for index in led:
                work = self._engine.delivery.work_here(topic, index, group)
                if work is None:
                    return everybody
                ready += work.ready if work.has_ready() else 0
        except PenstockError:
            return everybody  # They will be told who leads now.
        return ready


def _is_just(batch: Batch | None, run: GrantedRun) -> TypeGuard[Batch]:
    """These are just the messages of the batch that was written with the lease: it is sent as it
    is, and nobody reads it again."""
    if batch is None:
        return False
    first, size, count, _, _ = read_outline(batch, 0)
    return (first, first + count, size) == (run.first, run.end, len(batch))


def _lease_ms(request: Take) -> int | None:
    return min(request.lease_ms, LEASE_MS_MAX) if request.lease_ms >= 0 else None


def _messages(parts: Sequence[Part]) -> int:
    """How many were leased; runs are counted, whatever is in them."""
    return sum(end - first for part, _ in parts for first, end, _, _ in part.runs)


def _fitting(wanted: int, batches: StoredBatches, bytes_max: int) -> int:
    """A batch that alone is larger than the answer may be is taken in several turns."""
    first = batches.first()
    if first is None or len(first.data) <= bytes_max:
        return wanted
    return max(1, min(wanted, bytes_max * (first.end - first.first) // len(first.data)))


def _part(index: int, acquired: Acquired, runs: Sequence[GrantedRun], size: int) -> TakenPart:
    plain = tuple((run.first, run.end, run.deliveries, run.first_ms) for run in runs)
    return TakenPart(index, acquired.epoch, acquired.until_ms, plain, size)


def _rebuild(messages: Sequence[Message]) -> Buffer:
    """Batches of exactly these messages, one for each row of neighbours."""
    payload = bytearray()
    starts = [0] + [
        number
        for number, (before, after) in enumerate(pairwise(messages), 1)
        if after.offset != before.offset + 1
    ]
    for start, end in pairwise([*starts, len(messages)]):
        row = messages[start:end]
        if row:
            new = [NewMessage(one.value, one.key, one.headers, one.timestamp_ms) for one in row]
            batch = build_messages(new, 0)
            _OFFSET.pack_into(batch, 0, row[0].offset)
            payload += batch
    return payload
