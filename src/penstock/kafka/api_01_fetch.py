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
KIPs        74, 227, 320, 392 (no preferred replica is ever named), 482, 516, 903, 951.
Not served  Fetch sessions: every answer has session 0, which makes clients send full requests.
            Reading from followers. Replicas do not fetch: they speak another protocol.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.core import limits
from penstock.core.clock import precise_seconds
from penstock.core.errors import OffsetOutOfRange, PenstockError
from penstock.core.records import read_outline
from penstock.core.types import Offset
from penstock.kafka.codec import Message
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
)
from penstock.kafka.metadata import find_topic, hint

if TYPE_CHECKING:
    from penstock.core.topic import Topic
    from penstock.engine.topics.long_polls import Watch

FETCH_SESSION_ID_NOT_FOUND: Final = 70
_NO_EPOCH: Final = -1


def start(frame: bytearray, position: int, context: Context) -> None:
    """Answer now if there is enough, or else as soon as there is."""
    request = context.decode(frame, position)
    if request.session_id and request.session_epoch > 0:
        context.count_error(FETCH_SESSION_ID_NOT_FOUND)
        context.finish(
            write_fetch(
                context.version, context.correlation_id, (), code=FETCH_SESSION_ID_NOT_FOUND
            )
        )
        return
    _Fetch(request, context).begin()


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
        self.records: list[Buffer] = []
        self.hint: LeaderHint | None = None

    def row(self) -> FetchRow:
        return FetchRow(
            self.index, self.code, self.high_watermark, self.log_start, self.records, self.hint
        )


class _Fetch:
    """One request: looks for messages, and waits for more if there are too few."""

    __slots__ = (
        "bytes_max", "bytes_min", "context", "endpoints", "failed", "got_bytes", "held_bytes",
        "is_answered", "is_woken", "parked_at", "timer", "topics", "wait_ms", "watch",
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
        self.is_answered = False
        self.is_woken = False
        self.parked_at = 0.0
        self.timer: asyncio.TimerHandle | None = None
        self.watch: Watch | None = None
        self.topics: list[tuple[TopicKey, list[_Part]]] = []
        by_id = context.version >= FETCH_TOPIC_IDS
        for asked in request.topics:
            key: TopicKey = asked.topic_id if by_id else asked.topic
            try:
                topic = find_topic(context.engine, key)
            except PenstockError as error:
                parts = [_Part(None, row) for row in asked.partitions]
                for part in parts:
                    self._fail(part, read_code(error))
            else:
                parts = [_Part(topic, row) for row in asked.partitions]
            self.topics.append((key, parts))

    def begin(self) -> None:
        self._look()
        if self._is_enough():
            self._answer()
            return
        self._hold()
        context = self.context
        partitions = [
            part.topic.partitions[part.index]
            for _, parts in self.topics
            for part in parts
            if part.topic is not None
        ]
        self.watch = context.engine.topics.watch(partitions, self._wake)
        self.timer = asyncio.get_running_loop().call_later(self.wait_ms / 1_000, self._give_up)
        self.parked_at = precise_seconds()
        context.on_cancel = self._give_up

    # Looking.

    def _look(self) -> None:
        """Read what there is, as far as the bounds allow."""
        bytes_max = min(self.bytes_max, self.context.port_state.fetch_allowance())
        for _, parts in self.topics:
            for part in parts:
                if not part.code:
                    self._look_at(part, bytes_max)

    def _look_at(self, part: _Part, bytes_max: int) -> None:
        engine = self.context.engine
        topic = part.topic
        assert topic is not None, "a partition of no topic has an error"
        try:
            part.log_start, part.high_watermark = engine.topics.bounds(topic, part.index)
            if part.epoch != _NO_EPOCH:
                self._check_epoch(part, topic)
            if part.offset == part.high_watermark or part.code:
                return
            left = min(part.bytes_max - sum(map(len, part.records)), bytes_max - self.got_bytes)
            if left <= 0 and self.got_bytes:
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
                self.got_bytes += len(data)

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
            or self.got_bytes >= min(self.bytes_min, self.bytes_max)
            or not any(parts for _, parts in self.topics)
        )

    # Waiting.

    def _hold(self) -> None:
        """Keep what was read, so that the next look goes on behind it."""
        port_state = self.context.port_state
        port_state.fetches_held_bytes += self.got_bytes - self.held_bytes
        self.held_bytes = self.got_bytes
        if not self.got_bytes:
            return
        for _, parts in self.topics:
            for part in parts:
                if part.records:
                    part.offset = _end_offset(part.records[-1], part.offset)

    def _wake(self) -> None:
        """Called by the engine in the middle of its work: look in the loop's next turn."""
        if not self.is_woken:
            self.is_woken = True
            asyncio.get_running_loop().call_soon(self._look_again)

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
        if self.is_answered:
            return
        self.is_answered = True
        if self.watch is not None:
            self.watch.cancel()
        if self.timer is not None:
            self.timer.cancel()
        context = self.context
        context.port_state.fetches_held_bytes -= self.held_bytes
        if not context.abandoned:
            self._count()
        rows = [(key, [part.row() for part in parts]) for key, parts in self.topics]
        context.finish(
            write_fetch(
                context.version, context.correlation_id, rows, tuple(self.endpoints.values())
            )
        )

    def _count(self) -> None:
        delivered = self.context.port_state.flow.delivered
        for _, parts in self.topics:
            for part in parts:
                if part.messages and part.topic is not None:
                    delivered(part.topic.name, part.messages)


def _end_offset(data: Buffer, offset: int) -> int:
    """The offset behind the last of these stored batches."""
    position = 0
    view = memoryview(data)
    while position < len(view):
        base_offset, size, count, _, _ = read_outline(view, position)
        offset = base_offset + count
        position += size
    return offset
