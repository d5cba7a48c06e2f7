"""Sending to one queue or topic: which partition, which batch, and not more than there is room for.

Every partition has a sender (`PartitionSender`). What waits in all of them together is bounded;
above the bound senders wait, in the order in which they came. That is back-pressure: a program
cannot fill its memory with messages that the broker is too slow to take.

Bodies that are nothing but bytes are never looked at one by one.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from penstock.client.codecs import AUTO, BYTES, Codec
from penstock.client.connection.byte_budget import ByteBudget
from penstock.client.connection.request_router import RequestRouter
from penstock.client.producer.outgoing_message import Outgoing
from penstock.client.producer.partition_sender import RECORD_OVERHEAD_BYTES, Entry, PartitionSender
from penstock.client.producer.partitioners import Partitioner
from penstock.client.sent_message import Sent, SentMany, SentRun
from penstock.client.statistics import Counters
from penstock.core.clock import Clock
from penstock.core.errors import BatchTooLarge, DeadlinePassed, InvalidRequest, UnknownPartition
from penstock.core.message import NewMessage
from penstock.core.murmur2 import partition_of
from penstock.core.records import BATCH_HEADER_BYTES
from penstock.wire.requests import TopicInfo

T = TypeVar("T")

SENDERS_KEPT_MAX: Final = 10_000
_ONLY_BYTES: Final = frozenset({bytes})


class Sender(Generic[T]):
    """For one queue or topic, with one codec and one partitioner."""

    def __init__(
        self,
        name: str,
        codec: Codec[T],
        partitioner: Partitioner,
        senders: "PartitionSenders",
        create: str,
    ) -> None:
        self._name = name
        self._codec = codec
        self._partitioner = partitioner
        self._senders = senders
        self._create = create

    async def send_body(self, body: T, timeout: float | None) -> Sent:
        """Send a message that has only a body."""
        router = self._senders.router
        info = router.metadata.known(self._name)
        if info is None or info.fifo or router.tracing.on() is not None:
            return await self.send(Outgoing(body), timeout)
        deadline = router.deadline(timeout)
        value, headers = self._codec.encode(body)
        if headers or value is None:
            entry = _entry([NewMessage(value, None, headers)], deadline, False)
        else:
            entry = Entry([value], (), RECORD_OVERHEAD_BYTES + len(value), deadline)
        partitions = len(info.leaders)
        index = 0 if partitions == 1 else self._partitioner.choose(None, partitions)
        return await self._deliver(entry, index, info)

    async def send(self, outgoing: Outgoing[T], timeout: float | None) -> Sent:
        """Send one message; returns when it is stored."""
        spans = self._senders.router.tracing.on()
        if spans is None:
            return await self._send(outgoing, timeout)
        with spans.sending(self._name, None) as span:
            sent = await self._send(spans.carry(outgoing), timeout)
            spans.sent(span, sent)
            return sent

    async def _send(self, outgoing: Outgoing[T], timeout: float | None) -> Sent:
        router = self._senders.router
        deadline = router.deadline(timeout)
        message = outgoing.encode(self._codec)
        info = router.metadata.known(self._name)
        if info is None:
            info = await router.find(self._name, self._create, deadline)
        index = self._choose(outgoing, info)
        entry = _entry([message], deadline, outgoing.dedup_id is not None)
        return await self._deliver(entry, index, info)

    async def _deliver(self, entry: Entry, index: int, info: TopicInfo) -> Sent:
        """Put a message into its partition's sender and wait until it is stored."""
        senders = self._senders
        size = entry.size
        if size > info.batch_bytes_max:
            _check_size(size, info)
        if not senders.budget.enter_nowait(size):
            await senders.enter(entry)
        sender = senders.sender(self._name, index, self._create)
        sender.put(entry)
        try:
            offsets, duplicates, topic_id = await entry.done
        except asyncio.CancelledError:
            sender.withdraw(entry)
            raise
        self._partitioner.batch_full(index)
        return Sent(self._name, index, offsets[0], bool(duplicates), topic_id)

    async def send_many(
        self, bodies: Iterable[T | Outgoing[T]], options: Outgoing[Any], timeout: float | None
    ) -> SentMany:
        """Send many messages; returns when all are stored."""
        given = bodies if isinstance(bodies, list | tuple) else list(bodies)
        spans = self._senders.router.tracing.on()
        if spans is None:
            return await self._send_many(given, options, timeout)
        with spans.sending(self._name, len(given)):
            carried = [spans.carry(one) if isinstance(one, Outgoing) else one for one in given]
            return await self._send_many(carried, spans.carry(options), timeout)

    async def _send_many(
        self, given: Sequence[T | Outgoing[T]], options: Outgoing[Any], timeout: float | None
    ) -> SentMany:
        router = self._senders.router
        deadline = router.deadline(timeout)
        info = await router.find(self._name, self._create, deadline)
        work: list[tuple[Sequence[int], PartitionSender, Entry, int]] = []
        try:
            try:
                for numbers, index, entry in self.divide(given, options, info, deadline):
                    _check_size(entry.size, info)
                    if not self._senders.budget.enter_nowait(entry.size):
                        await self._senders.enter(entry)
                    sender = self._senders.sender(self._name, index, self._create)
                    sender.put(entry)
                    work.append((numbers, sender, entry, index))
            finally:
                # One that failed says so when its turn comes: the others are waited for.
                await asyncio.gather(*(one[2].done for one in work), return_exceptions=True)
        except asyncio.CancelledError:
            for _, sender, entry, _ in work:
                sender.withdraw(entry)
            raise
        runs: list[SentRun] = []
        topic_id = info.topic_id
        for numbers, _, entry, index in work:
            offsets, duplicates, topic_id = entry.done.result()
            runs.append(SentRun(numbers, index, offsets, duplicates))
        return SentMany(self._name, topic_id, runs)

    # Dividing.

    def divide(
        self,
        given: Sequence[T | Outgoing[T]],
        options: Outgoing[Any],
        info: TopicInfo,
        deadline: float,
    ) -> Iterator[tuple[Sequence[int], int, Entry]]:
        """Divide messages among partitions, in entries that fit a batch."""
        if self._is_plain(given, options, info):
            plain: Sequence[bytes] = given  # type: ignore[assignment]
            for start, end in self._slices(plain, info):
                index = self._partitioner.choose(None, len(info.leaders))
                self._partitioner.batch_full(index)
                bodies = plain[start:end]
                size = sum(map(len, bodies)) + RECORD_OVERHEAD_BYTES * len(bodies)
                entry = Entry(bodies, (), size, deadline)
                yield range(start, end), index, entry
            return
        shares: dict[int, list[_Numbered]] = {}
        for number, one in enumerate(given):
            outgoing = one if isinstance(one, Outgoing) else replace(options, body=one)
            index = self._choose(outgoing, info)
            message = outgoing.encode(self._codec)
            numbered = _Numbered(number, message, outgoing.dedup_id is not None)
            shares.setdefault(index, []).append(numbered)
        for index, share in shares.items():
            for part in self._parts(share, info):
                numbers = [one.number for one in part]
                entry = _entry([one.message for one in part], deadline, part[0].has_id)
                yield numbers, index, entry
            self._partitioner.batch_full(index)

    def _is_plain(self, given: Sequence[object], options: Outgoing[Any], info: TopicInfo) -> bool:
        """True if the bodies can be sent as they are, to any partition."""
        return (
            bool(given)
            and options.is_plain
            and not info.fifo
            and (self._codec is AUTO or self._codec is BYTES)
            and (self._partitioner.sticky or len(info.leaders) == 1)
            and _ONLY_BYTES.issuperset(map(type, given))
        )

    def _choose(self, outgoing: Outgoing[T], info: TopicInfo) -> int:
        if outgoing.asks_queue and not info.reads_headers:
            raise InvalidRequest(
                f"{self._name} does not read what messages say about delay, priority and time to"
                " live: make it a queue, or set queue.message.headers=true on it"
            )
        partitions = len(info.leaders)
        if outgoing.partition is not None:
            if not 0 <= outgoing.partition < partitions:
                raise UnknownPartition(
                    f"{self._name} has partitions 0 to {partitions - 1}, not {outgoing.partition}"
                )
            return outgoing.partition
        if partitions == 1:
            return 0
        key = outgoing.order_key
        if key is None and outgoing.dedup_id is not None:
            # An id is remembered by its partition: sent again, it must come to the same one.
            return partition_of(outgoing.dedup_id.encode(), partitions)
        if key is None and info.fifo:
            key = b""
        return self._partitioner.choose(key, partitions)

    def _limits(self, info: TopicInfo) -> tuple[int, int]:
        batching = self._senders.router.settings.batching
        room = min(batching.bytes_max, info.batch_bytes_max) - BATCH_HEADER_BYTES
        return max(1, room), batching.messages_max

    def _slices(self, bodies: Sequence[bytes], info: TopicInfo) -> Iterator[tuple[int, int]]:
        bytes_max, messages_max = self._limits(info)
        sizes = set(map(len, bodies))
        if len(sizes) == 1:
            each = sizes.pop() + RECORD_OVERHEAD_BYTES
            step = max(1, min(messages_max, bytes_max // each))
            for start in range(0, len(bodies), step):
                yield start, min(start + step, len(bodies))
            return
        start = size = 0
        for number, body in enumerate(bodies):
            more = len(body) + RECORD_OVERHEAD_BYTES
            if number > start and (size + more > bytes_max or number - start >= messages_max):
                yield start, number
                start, size = number, 0
            size += more
        yield start, len(bodies)

    def _parts(self, share: "list[_Numbered]", info: TopicInfo) -> "Iterator[list[_Numbered]]":
        bytes_max, messages_max = self._limits(info)
        part: list[_Numbered] = []
        size = 0
        for one in share:
            more = message_size(one.message)
            is_full = size + more > bytes_max or len(part) >= messages_max
            if part and (is_full or one.has_id != part[0].has_id):
                yield part
                part, size = [], 0
            part.append(one)
            size += more
        if part:
            yield part


class _Numbered(NamedTuple):
    """A message of a call, with its position."""

    number: int
    message: NewMessage
    has_id: bool


class PartitionSenders:
    """The senders of all partitions, and the byte budget they share."""

    def __init__(self, router: RequestRouter, clock: Clock, counters: Counters) -> None:
        self.router = router
        self.budget = ByteBudget(router.settings.buffer_bytes_max)
        self._clock = clock
        self._counters = counters
        self._senders: dict[tuple[str, int], PartitionSender] = {}

    def sender(self, name: str, index: int, create: str) -> PartitionSender:
        """Return the sender of a partition."""
        found = self._senders.get((name, index))
        if found is None:
            if len(self._senders) >= SENDERS_KEPT_MAX:
                self._senders = {
                    key: sender for key, sender in self._senders.items() if not sender.is_idle
                }
            found = self._senders[name, index] = PartitionSender(
                name, index, self.router, self.budget, self._clock, create, self._counters
            )
        return found

    async def enter(self, entry: Entry) -> None:
        """Wait for room, at most until the entry's deadline."""
        try:
            async with asyncio.timeout_at(entry.deadline):
                await self.budget.enter(entry.size)
        except TimeoutError:
            raise DeadlinePassed(
                f"{self.budget.taken} bytes wait to be sent, which is as many as may be; nothing of"
                " this message was sent within the deadline"
            ) from None

    async def flush(self) -> None:
        """Wait until everything is sent or given up."""
        await asyncio.gather(*(sender.drain() for sender in self._senders.values()))

    async def close(self) -> None:
        """Stop without sending what waits."""
        await asyncio.gather(*(sender.close() for sender in self._senders.values()))


def _entry(messages: Sequence[NewMessage], deadline: float, has_ids: bool) -> Entry:
    size = sum(map(message_size, messages))
    if len(messages) == 1 and not has_ids:
        one = messages[0]
        if one.value is not None and one.key is None and not one.headers and one.timestamp_ms == -1:
            return Entry([one.value], (), size, deadline)
    return Entry(None, messages, size, deadline, has_ids=has_ids)


def message_size(message: NewMessage) -> int:
    """About how many bytes it takes in a batch, and not fewer."""
    size = RECORD_OVERHEAD_BYTES + len(message.value or b"") + len(message.key or b"")
    for name, value in message.headers:
        size += 4 * len(name) + len(value or b"") + 10
    return size


def _check_size(size: int, info: TopicInfo) -> None:
    """A batch that is refused would take its neighbours with it."""
    if size - RECORD_OVERHEAD_BYTES > info.batch_bytes_max:
        raise BatchTooLarge(
            f"a message of about {size} bytes is above the {info.batch_bytes_max} bytes that"
            f" {info.name} takes; send less, or raise its max.message.bytes"
        )
