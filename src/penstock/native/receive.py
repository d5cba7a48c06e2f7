"""Receiving for native clients: leased messages, in the batches they are stored in.

A client asks each node that leads partitions of a queue, and the node answers for all of them
(`engine.delivery.acquisition`). Stored batches are sent unopened; the client picks its messages out
of them by their offsets. Where a part of a batch is leased, its records are cut out of it, without
decoding them; a few messages, and those of compressed batches of which little is leased, are read
one by one and make a batch of their own.
"""

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from penstock.core.errors import InvalidBatch
from penstock.core.limits import LEASE_MS_MAX
from penstock.core.memory_budget import MemoryAccount, MemoryDraw
from penstock.core.message import Message, NewMessage
from penstock.core.message_batches import Marks, build_messages, cut_batch, new_marks
from penstock.core.receiver import receiver_name
from penstock.core.topic import Topic
from penstock.core.types import Offset, PartitionId, TopicId
from penstock.engine.delivery.acquisition import RECEIVE_BYTES_MAX, AcquireLimits
from penstock.engine.delivery.leases import PartitionLease
from penstock.engine.delivery.requests import LeasedRange
from penstock.engine.delivery.stored_batches import SMALL_SHARE, Piece, Range
from penstock.native.context import Buffer, Context
from penstock.wire.leadership_mark import UNKNOWN, led_mark
from penstock.wire.requests import ReceivedPart, ReceiveRequest, ReceiveResponse

RECEIVE_WAIT_MS_MAX: Final = 60_000
MARKS_KEPT_MAX: Final = 256
_OFFSET: Final = struct.Struct(">q")


class ReceiveService:
    """One per node."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._delivery = context.engine.delivery
        self._clock = context.engine.topics.clock
        self._marks: dict[tuple[PartitionId, int], Marks] = {}
        """Where records begin in batches that are sent in parts; the last used ones last."""

    async def answer(
        self, request: ReceiveRequest, address: str, account: MemoryAccount | None
    ) -> tuple[ReceiveResponse, Buffer]:
        """Lease messages; waits for some if there are none. `address` is the client's; messages are
        read on its `account`."""
        draw = None if account is None else MemoryDraw(account)
        try:
            return await self._receive(request, address, draw)
        finally:
            if draw is not None:  # The connection has the answer now, and draws for it.
                draw.close()

    async def _receive(
        self, request: ReceiveRequest, address: str, draw: MemoryDraw | None
    ) -> tuple[ReceiveResponse, Buffer]:
        receiver = receiver_name("native", address, request.receiver)
        wait_ms = min(max(request.wait_ms, 0), RECEIVE_WAIT_MS_MAX)
        limits = AcquireLimits(
            messages=request.messages_max,
            bytes=min(max(request.bytes_max, 1), RECEIVE_BYTES_MAX),
            lease_ms=min(request.lease_ms, LEASE_MS_MAX) if request.lease_ms >= 0 else None,
            wait_ms=wait_ms,
            pre_acquire=True,
            draw=draw,
        )
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        while True:
            topic = self._context.topic(request.topic_id)
            acquisition = self._delivery.acquisition(topic, request.group, limits, receiver)
            mark = led_mark(len(topic.partitions), acquisition.led_indexes)
            moved = request.led not in (UNKNOWN, mark)
            if moved:  # The client is answered at once, so that it finds out who leads.
                acquisition.stop()
            leases = await acquisition.run()
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if leases or moved or left_ms <= 0:
                return self._response(topic, leases, moved)
            limits = limits._replace(wait_ms=left_ms)

    def _response(
        self, topic: Topic, leases: Sequence[PartitionLease], moved: bool
    ) -> tuple[ReceiveResponse, Buffer]:
        try:
            payloads = [self._pack(lease) for lease in leases]
        except BaseException:
            self._delivery.give_back(one for lease in leases for one in lease.leased())
            raise
        parts = tuple(map(_part, leases, map(len, payloads)))
        self._context.flow.delivered(topic.name, sum(lease.messages for lease in leases))
        payload = payloads[0] if len(payloads) == 1 else b"".join(payloads)
        return ReceiveResponse(parts, self._clock.wall_ms(), moved), payload

    def give_back(self, request: ReceiveRequest, response: ReceiveResponse) -> None:
        """The answer reached no client."""
        topic = self._context.engine.topics.catalog.topic_by_id(TopicId(request.topic_id))
        if topic is None or not response.parts:
            return
        partitions, group = topic.partitions, request.group
        self._delivery.give_back(
            LeasedRange(partitions[part.index], group, part.epoch, Offset(first), Offset(end))
            for part in response.parts
            for first, end, _, _ in part.runs
        )

    # Packing.

    def _pack(self, lease: PartitionLease) -> Buffer:
        """The batches that hold the leased messages."""
        if lease.written is not None:
            return lease.written
        if lease.pieces is None:
            return self._rebuilt(lease, lease.ranges())
        parts = [self._cut(lease, piece) for piece in lease.pieces]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _cut(self, lease: PartitionLease, piece: Piece) -> Buffer:
        """A stored batch, or the leased records of it."""
        batch, spans = piece
        wanted = sum(end - first for first, end in spans)
        total = batch.end - batch.first
        if wanted == total:
            return batch.data
        key = lease.partition, batch.first
        marks = self._marks.pop(key, None)
        if marks is None:
            marks = new_marks()
            if len(self._marks) >= MARKS_KEPT_MAX:
                self._marks.pop(next(iter(self._marks)))
        self._marks[key] = marks
        try:
            cut = cut_batch(batch.data, spans, marks)
        except InvalidBatch:
            return batch.data  # The client says what is wrong with it.
        if cut is not None:
            return cut
        if wanted * SMALL_SHARE < total:  # It is compressed.
            return self._rebuilt(lease, spans)
        return batch.data

    def _rebuilt(self, lease: PartitionLease, ranges: Sequence[Range]) -> Buffer:
        return _rebuild(self._delivery.read_at_leader(lease.topic, lease.index, ranges))


def _part(lease: PartitionLease, size: int) -> ReceivedPart:
    plain = tuple((run.first, run.end, run.deliveries, run.first_ms) for run in lease.runs)
    return ReceivedPart(lease.index, lease.epoch, lease.until_ms, plain, size)


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
