"""One partition's queue of messages to be sent, and the task that sends them.

Messages gather while a batch is under way and go out together in the next one. One batch of a
partition is under way at a time, so they are stored in the order in which they were sent, whatever
fails in between. A batch has a producer's id and a number: sent again after a lost answer, it is
recognised and stored once. So a retry is always safe, and only two things are reported to callers:
that it is stored, or, when their deadline has passed, that it is not, or that it is not known.

A batch that is given up on while nobody knows whether it is stored leaves a hole in the numbering,
and the lane goes on with a new producer's id.

Messages that have ids of their own (`dedup_id`) go one by one by name: the broker says which of
them it knew already.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from penstock.client.asking import Asking
from penstock.client.compression import Compressor
from penstock.client.room import Room
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
from penstock.core.message import NewMessage
from penstock.core.message_batches import frame_records, pack_messages
from penstock.core.plain_batches import pack_plain
from penstock.wire.requests import (
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
"""A batch is refused so for what is in it, and not for where it goes."""

Places = tuple[Sequence[int], frozenset[int], bytes]
"""Offsets, which of them were duplicates, and the topic's id."""


class Entry:
    """What one call sends to one partition: bodies alone, or whole messages."""

    __slots__ = ("attempted", "bodies", "count", "deadline", "done", "has_ids", "messages", "size")

    def __init__(
        self,
        *,
        bodies: Sequence[bytes] | None,
        messages: Sequence[NewMessage],
        size: int,
        deadline: float,
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


class Lane:
    """See the top of this module."""

    def __init__(
        self,
        name: str,
        index: int,
        asking: Asking,
        room: Room,
        clock: Clock,
        create: str,
        on_batch: Callable[[int, int, int], None],
    ) -> None:
        self._name = name
        self._index = index
        self._asking = asking
        self._room = room
        self._clock = clock
        self._create = create
        self._on_batch = on_batch
        """Told partition, messages and bytes of each batch that was stored."""
        self._entries: deque[Entry] = deque()
        self._task: asyncio.Task[None] | None = None
        self._producer: tuple[bytes, int, int] | None = None
        """The topic's id, the producer's id, and the next sequence number."""
        self._compressor = Compressor(asking.settings.compression)

    @property
    def is_idle(self) -> bool:
        return self._task is None

    def put(self, entry: Entry) -> None:
        """Queue what is to be sent; the caller has made room for it."""
        self._entries.append(entry)
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    async def wait(self, entry: Entry) -> Places:
        """Wait until it is stored, or for its deadline."""
        try:
            async with asyncio.timeout_at(entry.deadline):
                return await asyncio.shield(entry.done)
        except TimeoutError:
            if entry.done.done():
                return entry.done.result()
            if not entry.attempted:
                self._withdraw(entry)
                raise DeadlinePassed(
                    f"nothing was sent to {self._name} within the deadline: others were waiting"
                ) from None
            raise OutcomeUnknown(
                f"the deadline has passed, and it is not known whether {self._name} has the message"
            ) from None
        except asyncio.CancelledError:
            if not entry.attempted:
                self._withdraw(entry)
            raise

    def _withdraw(self, entry: Entry) -> None:
        if entry in self._entries:
            self._entries.remove(entry)
            self._room.leave(entry.size)

    async def close(self) -> None:
        """Stop at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def drain(self) -> None:
        """Wait until everything that was put is sent or given up."""
        while self._task is not None:
            await asyncio.wait([self._task])

    # Sending.

    async def _work(self) -> None:
        linger = self._asking.settings.batching.linger
        batch: list[Entry] = []
        try:
            while self._entries:
                if linger > 0 and self._waiting_bytes() < self._asking.settings.batching.bytes_max:
                    await asyncio.sleep(linger)
                batch = self._gather()
                if batch:
                    await self._send(batch)
                    batch = []
        except asyncio.CancelledError:
            unknown = ClientClosed("the client was closed while the message was being sent")
            for entry in (*batch, *self._entries):
                self._fail(entry, unknown)
            self._entries.clear()
            raise
        finally:
            self._task = None

    def _waiting_bytes(self) -> int:
        return sum(entry.size for entry in self._entries)

    def _gather(self) -> list[Entry]:
        """The entries of the next batch: those that fit and are of one kind."""
        settings = self._asking.settings.batching
        info = self._asking.directory.known(self._name)
        bytes_max = settings.bytes_max
        if info is not None:
            bytes_max = min(bytes_max, info.batch_bytes_max)
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
            gathered.append(entry)
            size += entry.size
            count += entry.count
        return gathered

    async def _send(self, batch: list[Entry]) -> None:
        deadline = max(entry.deadline for entry in batch)
        for entry in batch:
            entry.attempted = True
        try:
            if batch[0].has_ids:
                places = await self._send_ids(batch, deadline)
            else:
                places = await self._append(batch, deadline)
        except PenstockError as error:
            self._producer = None  # The next batch's number may not follow.
            if isinstance(error, _REFUSED_MESSAGES) and len(batch) > 1:
                # Nothing of it is stored, for what one of them has done: the others go without it.
                middle = len(batch) // 2
                await self._send(batch[:middle])
                await self._send(batch[middle:])
                return
            for entry in batch:
                self._fail(entry, error)
            return
        offsets, duplicates, topic_id = places
        at = 0
        for entry in batch:
            end = at + entry.count
            own = frozenset(one - at for one in duplicates if at <= one < end)
            if not entry.done.done():
                entry.done.set_result((offsets[at:end], own, topic_id))
            self._room.leave(entry.size)
            at = end
        self._on_batch(self._index, at, sum(entry.size for entry in batch))

    def _fail(self, entry: Entry, error: PenstockError) -> None:
        if not entry.done.done():
            self._room.leave(entry.size)
            entry.done.set_exception(error)
            entry.done.exception()  # Whoever waited may have gone.

    async def _append(self, batch: list[Entry], deadline: float) -> Places:
        records, count, base_ms, max_ms = pack_entries(batch, self._clock.wall_ms())
        codec, packed = self._compressor.compress(records, count)
        tries = 0
        while True:
            info = await self._asking.find(self._name, self._create, deadline)
            _, producer_id, sequence = await self._numbered(info, deadline)
            attempts: list[TopicInfo] = []

            def make(
                now: TopicInfo,
                topic_id: bytes = info.topic_id,
                producer: tuple[int, int, int] = (producer_id, 0, sequence),
                attempts: list[TopicInfo] = attempts,
            ) -> tuple[Append, bytearray]:
                attempts.append(now)
                if now.topic_id != topic_id:
                    raise ProducerFenced(f"{self._name} was deleted and made anew meanwhile")
                framed = frame_records(
                    packed,
                    count,
                    base_ms=base_ms,
                    max_ms=max_ms,
                    attributes=codec,
                    producer=producer,
                )
                return Append(topic_id, self._index), framed

            try:
                answer, _ = await self._asking.ask_leader(
                    self._name, self._index, make, Appended, deadline=deadline, create=self._create
                )
            except (OutOfOrderSequence, ProducerFenced) as error:
                if isinstance(error, OutOfOrderSequence) and len(attempts) > 1:
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
            self._producer = info.topic_id, producer_id, (sequence + count) % SEQUENCES
            base = answer.base_offset
            return range(base, base + count), frozenset(), info.topic_id

    async def _numbered(self, info: TopicInfo, deadline: float) -> tuple[bytes, int, int]:
        producer = self._producer
        if producer is None or producer[0] != info.topic_id:
            answer = await self._asking.ask(AskProducer(), ProducerInfo, deadline=deadline)
            producer = self._producer = info.topic_id, answer.producer_id, 0
        return producer

    async def _send_ids(self, batch: list[Entry], deadline: float) -> Places:
        messages = tuple(message for entry in batch for message in entry.messages)
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

        answer, _ = await self._asking.ask_leader(
            self._name, self._index, make, SentOnes, deadline=deadline, create=self._create
        )
        duplicates = frozenset(
            number for number, (_, duplicate) in enumerate(answer.places) if duplicate
        )
        return [offset for offset, _ in answer.places], duplicates, topic_id


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
