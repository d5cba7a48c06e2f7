"""Fetch, key 1: read record batches from an offset on.

Versions    4–18.
Behaviour   Whole batches as they are stored, the first of which may begin before the offset; at
            least one batch even if it is above the bounds, in the first partition that has any.
            Partitions are served in the client's order. The answer waits for `min_bytes` up to
            `max_wait`, and goes out at once when a partition has an error. All that can be read is
            committed and stable: the last stable offset is the high watermark, whatever the
            isolation level. Topics by id from version 13; an epoch that is not the leader's is
            fenced; a request to the wrong broker is answered with the leader (from version 12, its
            address from 16).
            A partition that is named more than once is answered once. A long request is carried
            out in time slices. Of the waiting fetches of a connection only the oldest is woken.
KIPs        74, 227, 320, 392 (no preferred replica is ever named), 482, 516, 903, 951.
Not served  Fetch sessions: every answer has session 0, which makes clients send full requests.
            Reading from followers. Replicas do not fetch: they speak another protocol.
"""

import asyncio
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final

from penstock.core import limits
from penstock.core.clock import precise_seconds
from penstock.core.errors import OffsetOutOfRange, PenstockError
from penstock.core.memory_budget import FETCHES, ONE_BATCH
from penstock.core.types import Offset
from penstock.kafka.codec import ROWS_PER_PORTION, Message
from penstock.kafka.context import Buffer, Context
from penstock.kafka.error_codes import (
    FENCED_LEADER_EPOCH,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_LEADER_EPOCH,
    read_code,
)
from penstock.kafka.fast_codec import (
    FETCH_TOPIC_IDS,
    Endpoint,
    FetchRow,
    LeaderHint,
    TopicKey,
    write_fetch,
    write_fetch_in_portions,
)
from penstock.kafka.metadata import find_topic, hint

if TYPE_CHECKING:
    from penstock.core.topic import Topic
    from penstock.engine.topics.long_polls import Watch

FETCH_SESSION_ID_NOT_FOUND: Final = 70
_NO_EPOCH: Final = -1


def start(frame: bytearray, position: int, context: Context) -> None:
    """Answer now if there is enough, or else as soon as there is."""
    if context.is_long:
        context.run_alone(_serve_long(frame, position, context))
        return
    request = context.decode(frame, position)
    if not _refuses_session(request, context):
        fetch = _Fetch(request, context)
        for _ in fetch.find(request):
            pass
        fetch.begin()


async def _serve_long(frame: bytearray, position: int, context: Context) -> None:
    request = await context.decode_in_slices(frame, position)
    if not _refuses_session(request, context):
        fetch = _LongFetch(request, context)
        await context.run_in_slices(fetch.find(request))
        await fetch.run()


def _refuses_session(request: Message, context: Context) -> bool:
    if not request.session_id or request.session_epoch <= 0:
        return False
    context.count_error(FETCH_SESSION_ID_NOT_FOUND)
    context.finish(
        write_fetch(context.version, context.correlation_id, (), code=FETCH_SESSION_ID_NOT_FOUND)
    )
    return True


class _Part:
    """One partition of a fetch, and what has been read of it."""

    __slots__ = (
        "bytes_max",
        "code",
        "epoch",
        "high_watermark",
        "hint",
        "index",
        "log_start",
        "messages",
        "next_offset",
        "offset",
        "records",
        "topic",
    )  # fmt: skip

    def __init__(self, topic: "Topic | None", asked: Message) -> None:
        self.topic = topic
        self.index: int = asked.partition
        self.offset: int = asked.fetch_offset
        self.bytes_max: int = asked.partition_max_bytes
        self.epoch: int = asked.current_leader_epoch
        self.code = 0
        self.high_watermark = -1
        self.log_start = -1
        self.messages = 0
        self.next_offset = self.offset
        """The offset behind the messages that were read."""
        self.records: list[Buffer] = []
        self.hint: LeaderHint | None = None

    def row(self) -> FetchRow:
        return FetchRow(
            self.index, self.code, self.high_watermark, self.log_start, self.records, self.hint
        )


class _Rows:
    """The rows of one topic, made while they are written."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[_Part]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[FetchRow]:
        return (part.row() for part in self._parts)


class _Fetch:
    """One request: looks for messages, and waits for more if there are too few."""

    __slots__ = (
        "bytes_max", "bytes_min", "context", "endpoints", "failed", "got_bytes", "held_bytes",
        "is_answered", "is_parked", "is_short", "is_woken", "parked_at", "parked_bytes", "parts",
        "room_end", "timer", "topics", "wait_ms", "watch",
    )  # fmt: skip

    def __init__(self, request: Message, context: Context) -> None:
        settings = context.port_state.settings
        self.context = context
        self.bytes_min: int = request.min_bytes
        self.bytes_max: int = min(request.max_bytes, settings.fetch_bytes_max)
        self.wait_ms: int = min(request.max_wait, settings.connection_idle_ms)
        self.endpoints: dict[int, Endpoint] = {}
        self.failed = False
        self.got_bytes = 0
        self.held_bytes = 0
        """Of the messages it has read, what is drawn on the memory budget."""
        self.parked_bytes = 0
        self.room_end = -1
        """How much it may have got by the end of this look; -1 if that was not asked."""
        self.is_short = False
        """The budget has less room than it would read."""
        self.is_answered = False
        self.is_parked = False
        self.is_woken = False
        self.parked_at = 0.0
        self.timer: asyncio.TimerHandle | None = None
        self.watch: Watch | None = None
        self.topics: dict[TopicKey, list[_Part]] = {}
        self.parts: list[_Part] = []
        """The partitions of all topics, in the client's order."""

    def find(self, request: Message) -> Generator[None, None, None]:
        """Find the partitions, each of them once; yields in between."""
        by_id = self.context.version >= FETCH_TOPIC_IDS
        seen: set[tuple[TopicKey, int]] = set()
        looked_at = 0
        for asked in request.topics:
            key: TopicKey = asked.topic_id if by_id else asked.topic
            topic, code = self._find_topic(key)
            parts = self.topics.setdefault(key, [])
            for row in asked.partitions:
                looked_at += 1
                if looked_at % ROWS_PER_PORTION == 0:
                    yield
                if (key, row.partition) in seen:
                    continue
                seen.add((key, row.partition))
                part = _Part(topic, row)
                parts.append(part)
                self.parts.append(part)
                if code:
                    self._fail(part, code)

    def _find_topic(self, key: TopicKey) -> "tuple[Topic | None, int]":
        try:
            return find_topic(self.context.engine, key), 0
        except PenstockError as error:
            return None, read_code(error)

    def begin(self) -> None:
        self._look()
        if self._is_enough():
            self._answer()
            return
        self._hold()
        self._park()

    def _park(self) -> None:
        """Wait for messages or for the end of the client's patience."""
        context = self.context
        self.is_parked = True
        if context.port_state.parked_fetches.park(context.connection, self):
            self._watch()
        self.timer = asyncio.get_running_loop().call_later(self.wait_ms / 1_000, self._give_up)
        self.parked_at = precise_seconds()
        context.on_cancel = self._give_up

    def _watch(self) -> None:
        partitions = [
            part.topic.partitions[part.index] for part in self.parts if part.topic is not None
        ]
        self.watch = self.context.engine.topics.watch(partitions, self._wake)

    def lead(self) -> None:
        """All fetches before it are answered: look for what came meanwhile."""
        self._watch()
        self._wake()

    # Looking.

    def _look(self) -> None:
        """Read what there is, as far as the bounds allow."""
        self.room_end, self.is_short = -1, False
        for part in self.parts:
            if not part.code:
                self._look_at(part)

    def _draw(self) -> int:
        """How much it may have got by the end of this look, as far as there is memory."""
        wanted = max(self.bytes_max - self.got_bytes, ONE_BATCH)
        room = self.context.connection.account.room(wanted)
        self.is_short = self.is_short or room < wanted
        self.room_end = self.got_bytes + room
        return self.room_end

    def _look_at(self, part: _Part) -> None:
        engine = self.context.engine
        topic = part.topic
        assert topic is not None, "a partition of no topic has an error"
        try:
            part.log_start, part.high_watermark = engine.topics.bounds(topic, part.index)
            if part.epoch != _NO_EPOCH:
                self._check_epoch(part, topic)
            if part.offset == part.high_watermark or part.code:
                return
            end_bytes = self._draw() if self.room_end < 0 else self.room_end
            left = min(part.bytes_max - sum(map(len, part.records)), end_bytes - self.got_bytes)
            if left <= 0 and (self.got_bytes or end_bytes <= 0):
                return
            data, end = engine.topics.read_stretch(
                topic, part.index, Offset(part.offset), max(left, 0)
            )
        except OffsetOutOfRange:
            self._fail(part, OFFSET_OUT_OF_RANGE)
        except PenstockError as error:
            self._fail(part, read_code(error))
        else:
            # The first messages of an answer may be too many, so that every reader gets on.
            if data and (len(data) <= left or not self.got_bytes):
                part.records.append(data)
                part.messages += end - part.offset
                part.next_offset = end
                self.got_bytes += len(data)
                self.held_bytes += len(data)
                self.context.connection.account.take(FETCHES, len(data))

    def _check_epoch(self, part: _Part, topic: "Topic") -> None:
        """KIP-320: the client's idea of who leads must be neither older nor newer than ours."""
        engine = self.context.engine
        term = engine.topics.leader(engine.topics.shard_of(topic.partitions[part.index])).term
        if part.epoch < term:
            self._fail(part, FENCED_LEADER_EPOCH)
        elif part.epoch > term:
            self._fail(part, UNKNOWN_LEADER_EPOCH)

    def _fail(self, part: _Part, code: int) -> None:
        part.code = code
        self.failed = True
        self.context.count_error(code)
        if code in (NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH) and part.topic is not None:
            found = hint(self.context.engine, part.topic.partitions[part.index])
            if found is not None:
                part.hint, place = found
                self.endpoints[place.node] = place

    def _is_enough(self) -> bool:
        return (
            self.failed
            or self.wait_ms <= 0
            or (self.is_short and self.got_bytes > 0)
            or self.got_bytes >= min(self.bytes_min, self.bytes_max)
            or not self.parts
        )

    # Waiting.

    def _hold(self) -> None:
        """Keep what was read, so that the next look goes on behind it."""
        self.context.port_state.fetches_held_bytes += self.got_bytes - self.parked_bytes
        self.parked_bytes = self.got_bytes
        if self.is_short:
            self.context.connection.account.wait(self._wake)
        if self.got_bytes:
            for part in self.parts:
                part.offset = part.next_offset

    def _wake(self) -> None:
        """Called by the engine in the middle of its work: look in the loop's next turn."""
        if not self.is_woken:
            self.is_woken = True
            self.context.port_state.parked_fetches.looks.call_soon(self._look_again)

    def _give_up(self) -> None:
        """The client's patience is at an end, or the node's."""
        self.context.waited = precise_seconds() - self.parked_at
        self._answer()

    def _look_again(self) -> None:
        self.is_woken = False
        if self.is_answered:
            return
        self.context.waited = precise_seconds() - self.parked_at
        try:
            self._look()
        except Exception as error:  # noqa: BLE001
            self.context.fail(error)
            return
        port_state = self.context.port_state
        if self._is_enough() or port_state.fetches_held_bytes > limits.KAFKA_FETCHES_HELD_BYTES_MAX:
            self._answer()
        else:
            self._hold()

    def _answer(self) -> None:
        if self._end():
            buffers = write_fetch(
                self.context.version, self.context.correlation_id, *self._content()
            )
            self.context.finish(buffers)
            self._give_back()

    def _give_back(self) -> None:
        """The connection draws for the answer now."""
        self.context.connection.account.give_back(FETCHES, self.held_bytes)
        self.held_bytes = 0

    def _end(self) -> bool:
        """Stop to wait; whether there is still an answer to give."""
        if self.is_answered:
            return False
        self.is_answered = True
        if self.watch is not None:
            self.watch.cancel()
        if self.timer is not None:
            self.timer.cancel()
        context = self.context
        if self.is_parked:
            context.port_state.parked_fetches.leave(context.connection, self)
        context.port_state.fetches_held_bytes -= self.parked_bytes
        if not context.abandoned:
            self._count()
        return True

    def _content(self) -> tuple[list[tuple[TopicKey, _Rows]], tuple[Endpoint, ...]]:
        rows = [(key, _Rows(parts)) for key, parts in self.topics.items()]
        return rows, tuple(self.endpoints.values())

    def _count(self) -> None:
        delivered = self.context.port_state.flow.delivered
        for part in self.parts:
            if part.messages and part.topic is not None:
                delivered(part.topic.name, part.messages)


class _LongFetch(_Fetch):
    """A fetch of so many partitions that each look at them is made in time slices."""

    __slots__ = ("is_out_of_time", "woken")

    def __init__(self, request: Message, context: Context) -> None:
        super().__init__(request, context)
        self.is_out_of_time = False
        self.woken = asyncio.Event()

    async def run(self) -> None:
        """Look, wait and look again, and answer."""
        try:
            await self._look_in_slices()
            if not self._is_enough():
                self._hold()
                self._park()
                await self._look_until_enough()
            await self._answer_in_slices()
        finally:
            self._end()
            self._give_back()

    async def _look_until_enough(self) -> None:
        """Look whenever there may be more; the first time at once, for what came meanwhile."""
        context, port_state = self.context, self.context.port_state
        while True:
            await self._look_in_slices()
            if self._is_enough() or self.is_out_of_time or context.abandoned:
                return
            if port_state.fetches_held_bytes > limits.KAFKA_FETCHES_HELD_BYTES_MAX:
                return
            self._hold()
            parked_at = precise_seconds()
            await self.woken.wait()
            context.waited += precise_seconds() - parked_at
            context.slices.begin()
            self.woken.clear()

    async def _look_in_slices(self) -> None:
        self.is_short = False
        for part in self.parts:
            if not part.code:
                self.room_end = -1  # Others have drawn meanwhile.
                self._look_at(part)
                await self.context.let_others()
                if self.context.abandoned:
                    return

    def _wake(self) -> None:
        self.woken.set()

    def _give_up(self) -> None:
        self.is_out_of_time = True
        self.woken.set()

    async def _answer_in_slices(self) -> None:
        if self._end():
            context = self.context
            buffers: list[Buffer] = []
            await context.run_in_slices(
                write_fetch_in_portions(
                    buffers, context.version, context.correlation_id, *self._content()
                )
            )
            context.finish(buffers)
