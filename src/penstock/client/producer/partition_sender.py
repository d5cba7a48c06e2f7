"""The queue of messages to be sent to one partition.

Messages gather while a batch is under way and go out together in the next one: see `coalescer`.
One batch of a partition is under way at a time, so they are stored in the order in which they were
sent, whatever fails in between. A batch has a producer's id and a number: sent again after a lost
answer, it is recognised and stored once. So a retry is always safe, and only two things are
reported to callers: that it is stored, or, when their deadline has passed, that it is not, or that
it is not known.

A batch that is given up while its outcome is unknown leaves a hole in the numbering,
and the sender goes on with a new producer's id.

Messages that have ids of their own (`dedup_id`) go one by one by name: the broker says which of
them it knew already.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from penstock.client.connection.byte_budget import ByteBudget
from penstock.client.connection.channel import Buffer, PreparedRequest
from penstock.client.connection.coalescer import Coalescer
from penstock.client.connection.request_router import RequestRouter, problem_of
from penstock.client.connection.timer import NEVER, Alarm
from penstock.client.producer.compression import Compressor
from penstock.client.statistics import Counters
from penstock.core.clock import Clock
from penstock.core.errors import (
    BatchTooLarge,
    ClientClosed,
    DeadlinePassed,
    InvalidBatch,
    InvalidTimestamp,
    LocalError,
    OutcomeUnknown,
    OutOfOrderSequence,
    PenstockError,
    ProducerFenced,
    UnsupportedBatch,
)
from penstock.core.lone_batches import frame_lone
from penstock.core.message import NewMessage
from penstock.core.message_batches import frame_records, pack_messages
from penstock.core.plain_batches import pack_plain
from penstock.wire.requests import (
    Answer,
    Append,
    Appended,
    AskProducer,
    ProducerInfo,
    Send,
    SentOnes,
    TopicInfo,
)

RECORD_OVERHEAD_BYTES: Final = 40
"""At most what a record has besides its parts, near enough to fill a batch."""
SEQUENCES: Final = 1 << 31
_REFUSED_MESSAGES: Final = (BatchTooLarge, InvalidBatch, InvalidTimestamp, UnsupportedBatch)
"""Errors that refuse a batch because of its content, not its destination."""

_NONE: Final[frozenset[int]] = frozenset()

Places = tuple[Sequence[int], frozenset[int], bytes]
"""Offsets, which of them were duplicates, and the topic's id."""


class Entry:
    """The messages of one call for one partition: bodies alone, or whole messages."""

    __slots__ = ("attempted", "bodies", "count", "deadline", "done", "has_ids", "messages", "size")

    def __init__(
        self,
        bodies: Sequence[bytes] | None,
        messages: Sequence[NewMessage],
        size: int,
        deadline: float,
        *,
        has_ids: bool = False,
    ) -> None:
        self.bodies = bodies
        self.messages = messages
        self.count = len(messages) if bodies is None else len(bodies)
        self.size = size
        self.deadline = deadline
        self.has_ids = has_ids
        self.attempted = False
        self.done: asyncio.Future[Places] = asyncio.get_running_loop().create_future()
        """Resolves to the places where the messages are stored."""

    def fail(self, error: PenstockError) -> None:
        """Fail the call: the messages were not stored, or the outcome is unknown. The waiter, if
        there is one, gets the error."""
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # The waiter may have gone.


class Lone(NamedTuple):
    """A batch of one body, as it is."""

    body: bytes
    time_ms: int
    total: int = 1

    def frame(self, producer_id: int, sequence: int) -> bytes:
        return frame_lone(self.body, self.time_ms, (producer_id, 0, sequence))


class Packed(NamedTuple):
    """The records of a batch, compressed if that is worth it, and what its head says of them."""

    records: bytes
    total: int
    base_ms: int
    max_ms: int
    codec: int

    def frame(self, producer_id: int, sequence: int) -> bytearray:
        return frame_records(
            self.records,
            self.total,
            base_ms=self.base_ms,
            max_ms=self.max_ms,
            attributes=self.codec,
            producer=(producer_id, 0, sequence),
        )


Failed = tuple[Lone | Packed, TopicInfo, PenstockError]
"""A failed attempt: the batch, the topic it was sent to, and the error."""


class PartitionSender(Coalescer):
    def __init__(
        self,
        name: str,
        index: int,
        router: RequestRouter,
        budget: ByteBudget,
        clock: Clock,
        create: str,
        counters: Counters,
    ) -> None:
        super().__init__(name, index, router)
        self._budget = budget
        self._clock = clock
        self._create = create
        self._counters = counters
        self._entries: deque[Entry] = deque()
        self._leaving: list[Entry] = []
        """The entries of the batch under way."""
        self._attempt: tuple[Lone | Packed, TopicInfo] | None = None
        """The batch under way, if no task looks after it."""
        self._producer: tuple[bytes, int, int] | None = None
        """The topic's id, the producer's id, and the next sequence number."""
        self._compressor = Compressor(router.settings.compression)
        self._batching = router.settings.batching
        self._lingers = self._batching.linger > 0
        self._waiting_bytes = self._waiting_messages = 0
        """The totals of entries that no batch has taken yet."""
        self._full = asyncio.Event()
        """Set when a batch is full or must be sent now: lingering ends."""
        self._alarm = Alarm(self._loop, self._expire)

    def put(self, entry: Entry) -> None:
        """Queue an entry; the caller has reserved memory for it, and waits for `entry.done`."""
        self._entries.append(entry)
        self._count(entry, 1)
        if self._lingers and self._is_full():
            self._full.set()
        self._alarm.set(entry.deadline)
        self._wake()

    def withdraw(self, entry: Entry) -> None:
        """The caller has stopped waiting: it is not sent, if there is still time."""
        if not entry.attempted and entry in self._entries:
            self._entries.remove(entry)
            self._count(entry, -1)
            self._budget.leave(entry.size)

    def _expire(self, now: float) -> float:
        """Fail entries whose deadline has passed; return the earliest deadline of the others."""
        soonest = NEVER
        for entry in (*self._leaving, *self._entries):
            if entry.done.done():
                continue
            if entry.deadline > now:
                soonest = min(soonest, entry.deadline)
            elif entry.attempted:
                entry.fail(
                    OutcomeUnknown(
                        "the deadline has passed, and it is not known whether"
                        f" {self._name} has the message"
                    )
                )
            else:
                self.withdraw(entry)
                entry.fail(
                    DeadlinePassed(
                        f"nothing was sent to {self._name} within the deadline: others were waiting"
                    )
                )
        return soonest

    async def drain(self) -> None:
        """Send what waits, without waiting for more."""
        self._lingers = False
        self._full.set()
        try:
            await super().drain()
        finally:
            self._lingers = self._batching.linger > 0

    async def close(self) -> None:
        """Stop without sending what waits."""
        self._alarm.stop()
        await super().close()

    # The next batch.

    def _is_empty(self) -> bool:
        return not self._entries

    def _make(self) -> PreparedRequest | None:
        self._begun = False
        entries = self._gather()
        if not entries:
            self._rest()
            return None
        info, producer = self._router.metadata.known(self._name), self._producer
        if (
            info is None
            or producer is None
            or producer[0] != info.topic_id
            or entries[0].has_ids
            or (packed := self._pack_now(entries)) is None
        ):
            self._work_on(self._send(entries))
            return None
        self._attempt = packed, info
        deadline = self._router.attempt_deadline(_latest(entries))
        return Append(info.topic_id, self._index), packed.frame(*producer[1:]), deadline

    def _count(self, entry: Entry, sign: int) -> None:
        self._waiting_bytes += sign * entry.size
        self._waiting_messages += sign * entry.count

    def _bytes_max(self) -> int:
        info = self._router.metadata.known(self._name)
        own = self._batching.bytes_max
        return own if info is None else min(own, info.batch_bytes_max)

    def _is_full(self) -> bool:
        """True if the waiting messages fill a batch."""
        return (
            self._waiting_messages >= self._batching.messages_max
            or self._waiting_bytes >= self._bytes_max()
        )

    def _gather(self) -> list[Entry]:
        """The entries of the next batch: those that fit and are of one kind."""
        settings = self._batching
        bytes_max = self._bytes_max()
        gathered: list[Entry] = []
        size = count = 0
        while self._entries:
            entry = self._entries[0]
            if gathered and (
                size + entry.size > bytes_max
                or count + entry.count > settings.messages_max
                or entry.has_ids != gathered[0].has_ids
            ):
                break
            self._entries.popleft()
            self._count(entry, -1)
            entry.attempted = True
            gathered.append(entry)
            size += entry.size
            count += entry.count
        self._leaving = gathered
        self._was_alone = len(gathered) == 1
        return gathered

    def _ended(self, outcome: Answer | PenstockError, payload: Buffer) -> None:  # noqa: ARG002
        attempt, self._attempt = self._attempt, None
        if self._begun:  # It could not leave.
            self._begun = False
            self._work_on(self._work())
        elif attempt is None:
            return  # The sender was closed meanwhile.
        elif isinstance(outcome, Appended):
            self._stored(self._leaving, self._count_on(*attempt, outcome))
            self._go_on()
        else:
            failed = *attempt, problem_of(outcome, Appended)
            self._work_on(self._send(self._leaving, failed))

    def _count_on(self, packed: Lone | Packed, info: TopicInfo, answer: Appended) -> Places:
        """Advance the sequence number after a batch was stored, and return its places."""
        assert self._producer is not None, "a batch has a producer"
        topic_id, producer_id, sequence = self._producer
        self._producer = topic_id, producer_id, (sequence + packed.total) % SEQUENCES
        base = answer.base_offset
        return range(base, base + packed.total), _NONE, info.topic_id

    def _stored(self, entries: list[Entry], places: Places) -> None:
        offsets, duplicates, topic_id = places
        at = size = 0
        for entry in entries:
            end = at + entry.count
            if not entry.done.done():
                own = duplicates
                if own:
                    own = frozenset(one - at for one in duplicates if at <= one < end)
                entry.done.set_result((offsets[at:end], own, topic_id))
            size += entry.size
            at = end
        self._leave(entries, size)
        self._counters.sent += at
        self._counters.sent_bytes += size
        self._counters.batches += 1

    def _fail(self, entries: list[Entry], error: PenstockError) -> None:
        for entry in entries:
            entry.fail(error)
        self._leave(entries, sum(entry.size for entry in entries))

    def _leave(self, entries: list[Entry], size: int) -> None:
        """Remove entries that were stored or have failed."""
        self._budget.leave(size)
        if len(entries) == len(self._leaving):
            self._leaving = []
        else:
            over = set(map(id, entries))
            self._leaving = [entry for entry in self._leaving if id(entry) not in over]

    def _give_up(self) -> None:
        self._attempt = None
        self._leaving += self._entries
        self._entries.clear()
        self._waiting_bytes = self._waiting_messages = 0
        closed = ClientClosed("the client was closed while the message was being sent")
        self._fail(self._leaving, closed)

    # Whatever takes longer.

    async def _work(self) -> None:
        if self._lingers and not self._is_full():
            self._full.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._batching.linger):
                    await self._full.wait()
        entries = self._gather()
        if entries:
            await self._send(entries)

    async def _send(self, entries: list[Entry], failed: Failed | None = None) -> None:
        """Send a batch; `failed` is an attempt at it that was made before."""
        deadline = _latest(entries)
        try:
            if entries[0].has_ids:
                places = await self._send_ids(entries, deadline)
            else:
                places = await self._append(entries, deadline, failed)
        except PenstockError as error:
            self._producer = None  # The next batch's number may not follow.
            if isinstance(error, _REFUSED_MESSAGES) and len(entries) > 1:
                # Nothing of it is stored, for what one of them has done: the others go without it.
                middle = len(entries) // 2
                await self._send(entries[:middle])
                await self._send(entries[middle:])
            else:
                self._fail(entries, error)
            return
        self._stored(entries, places)

    def _pack(self, entries: Sequence[Entry]) -> Lone | Packed:
        bodies = entries[0].bodies
        if len(entries) == 1 and bodies is not None and len(bodies) == 1:
            if not self._compressor.applies_to(len(bodies[0]), 1):
                return Lone(bodies[0], self._clock.wall_ms())
        records, count, base_ms, max_ms = pack_entries(entries, self._clock.wall_ms())
        codec, packed = self._compressor.compress(records, count)
        return Packed(packed, count, base_ms, max_ms, codec)

    def _pack_now(self, entries: Sequence[Entry]) -> Lone | Packed | None:
        """None if that cannot be: the next attempt finds out why."""
        try:
            return self._pack(entries)
        except PenstockError:
            return None

    async def _append(self, entries: list[Entry], deadline: float, failed: Failed | None) -> Places:
        packed = self._pack(entries) if failed is None else failed[0]
        tries = 0
        while True:
            before: tuple[TopicInfo, PenstockError] | None = None
            if failed is None:
                info = await self._router.find(self._name, self._create, deadline)
            else:
                before, failed = failed[1:], None
                info = before[0]
            attempts = 0 if before is None else 1
            _, producer_id, sequence = await self._numbered(info, deadline)

            def make(
                now: TopicInfo,
                topic_id: bytes = info.topic_id,
                producer_id: int = producer_id,
                sequence: int = sequence,
            ) -> tuple[Append, Buffer]:
                nonlocal attempts
                attempts += 1
                if now.topic_id != topic_id:
                    raise ProducerFenced(f"{self._name} was deleted and made anew meanwhile")
                return Append(topic_id, self._index), packed.frame(producer_id, sequence)

            try:
                answer, _ = await self._router.ask_leader(
                    self._name,
                    self._index,
                    make,
                    Appended,
                    deadline=deadline,
                    create=self._create,
                    failed=before,
                )
            except (OutOfOrderSequence, ProducerFenced) as error:
                if isinstance(error, OutOfOrderSequence) and attempts > 1:
                    # An earlier attempt may have been heard; under a new id it would count anew.
                    raise OutcomeUnknown(
                        f"it is not known whether it is stored: {error}"
                    ) from error
                # The broker forgot this producer, or the topic is another one: nothing is stored.
                self._producer = None
                tries += 1
                if tries > 1:
                    raise
                continue
            return self._count_on(packed, info, answer)

    async def _numbered(self, info: TopicInfo, deadline: float) -> tuple[bytes, int, int]:
        producer = self._producer
        if producer is None or producer[0] != info.topic_id:
            answer = await self._router.ask(AskProducer(), ProducerInfo, deadline=deadline)
            producer = self._producer = info.topic_id, answer.producer_id, 0
        return producer

    async def _send_ids(self, entries: list[Entry], deadline: float) -> Places:
        messages = tuple(message for entry in entries for message in entry.messages)
        topic_id = b""

        def make(info: TopicInfo) -> tuple[Send, bytes]:
            nonlocal topic_id
            topic_id = info.topic_id
            if not info.remembers_ids:
                raise LocalError(
                    f"{self._name} does not remember ids, so a dedup_id would be of no use: make"
                    ' the queue with deduplication="id", or set queue.deduplication=id on it'
                )
            return Send(topic_id, self._index, messages), b""

        answer, _ = await self._router.ask_leader(
            self._name, self._index, make, SentOnes, deadline=deadline, create=self._create
        )
        duplicates = frozenset(
            number for number, (_, duplicate) in enumerate(answer.places) if duplicate
        )
        return [offset for offset, _ in answer.places], duplicates, topic_id


def _latest(entries: list[Entry]) -> float:
    return max([entry.deadline for entry in entries])


def pack_entries(batch: Sequence[Entry], now_ms: int) -> tuple[bytes, int, int, int]:
    """The records of entries, how many they are, and their first and last time."""
    bodies: list[bytes] = []
    for entry in batch:
        if entry.bodies is None:
            break
        bodies += entry.bodies
    else:
        records = pack_plain(bodies)
        if records is not None:
            return records, len(bodies), now_ms, now_ms
    messages: list[NewMessage] = []
    for entry in batch:
        messages += entry.messages if entry.bodies is None else map(NewMessage, entry.bodies)
    packed, base_ms, max_ms = pack_messages(messages, now_ms)
    return packed, len(messages), base_ms, max_ms
