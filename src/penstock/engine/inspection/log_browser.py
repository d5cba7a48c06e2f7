"""A look into the log of a topic, asked of any node: messages from a place on, or back from it.

A look is for people. It reads what is committed, touches nothing, and is bounded in everything: how
many messages, how many bytes of answer, how much of the log it goes through. Where it stopped is
part of the answer, partition by partition, and the next look goes on there. So a search through
terabytes is many short looks, and closing the page ends it.

Partitions are looked at by the nodes that lead them, where the filter is applied as well: only what
matches travels. What cannot be reached now is named and stays where it was.

Batches are opened in a thread, and one look at a time on each node: people wait for workers, never
the other way round.

**Back.** A log can only be read onwards. A look back takes a window before its place, reads it, and
keeps the end of what it finds; if that is not enough, it takes a larger window before that one.
A window that turns out too long to be read is taken again, shorter.
"""

import asyncio
from collections.abc import Mapping

import msgspec

from penstock.core.errors import NotLeader, Unavailable, UnknownPartition
from penstock.core.limits import KIB, LOOK_CALL_SECONDS, MIB
from penstock.core.log_filter import LogFilter
from penstock.core.topic import Topic
from penstock.core.types import NodeId, Offset, TopicId
from penstock.engine.inspection.log_scan import LogScan, SeenMessage
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.engine.topics.topics import Topics

MESSAGES_MAX = 1_000
"""The messages of one partition in one request."""
VALUE_BYTES_MAX = 1 * MIB
SCAN_BYTES_MAX = 16 * MIB
"""The number of log bytes that a node reads for one request."""
ANSWER_BYTES_MAX = 8 * MIB
STEP_BYTES = 256 * KIB
SHARE_BYTES_MIN = 64 * KIB
WINDOW_MESSAGES = 1_000
"""With a filter, the minimal number of messages in the first window of a backward search."""
WINDOW_GROWTH = 4
PARTS_MAX = 1_000
THE_END = Offset(1 << 62)
"""An offset after all messages."""


class LogBrowseRequest(msgspec.Struct, frozen=True, array_like=True):
    """A filter and the places to search."""

    topic_id: TopicId
    parts: tuple[tuple[int, Offset], ...]
    """Each partition's index, and the place: the first offset to see, or, back, the first not to
    see."""
    back: bool
    filter: LogFilter
    messages_max: int
    """The limit for each partition."""
    value_bytes: int
    """The limit above which a value is cut."""


class LogPart(msgspec.Struct, frozen=True, array_like=True):
    """The messages found in one partition, in the order of the log."""

    index: int
    messages: tuple[SeenMessage, ...]
    next: Offset
    """The place where the next search continues."""
    log_start: Offset
    end: Offset
    is_over: bool
    """True if there is nothing more in this direction now."""


LOOK = RemoteCall("look", LogBrowseRequest, list[LogPart], LOOK_CALL_SECONDS)


class LogBrowseResult(msgspec.Struct, frozen=True):
    """The messages found."""

    parts: tuple[LogPart, ...]
    unreachable: tuple[int, ...]
    """The partitions whose leader could not be reached."""


class LogBrowser:
    """Looks at the partitions that this node leads, and at all others by asking."""

    def __init__(self, topics: Topics, calls: RemoteCalls) -> None:
        self._topics = topics
        self._calls = calls
        self._turn = asyncio.Semaphore(1)

    # Asked of any node.

    async def look(
        self,
        topic: Topic,
        places: Mapping[int, Offset],
        *,
        back: bool = False,
        filter: LogFilter | None = None,  # noqa: A002
        messages_max: int = 100,
        value_bytes: int = VALUE_BYTES_MAX,
    ) -> LogBrowseResult:
        """See messages of some partitions, by index and place; `Unavailable` if none of them can be
        reached."""
        assert 0 < len(places) <= PARTS_MAX, f"a look at {len(places)} partitions"
        wanted = filter or LogFilter()
        wanted.check()
        by_leader: dict[NodeId, list[tuple[int, Offset]]] = {}
        for index, place in places.items():
            leader = self._topics.leader(self._topics.shard_of(topic.partitions[index])).node
            by_leader.setdefault(leader, []).append((index, place))
        looks = {
            leader: LogBrowseRequest(
                topic.topic_id, tuple(parts), back, wanted, messages_max, value_bytes
            )
            for leader, parts in by_leader.items()
        }
        answers = await self._calls.ask_each(LOOK, looks)
        found = (part for reply in answers.replies.values() for part in reply)
        seen = sorted(found, key=lambda one: one.index)
        reached = {part.index for part in seen}
        if not reached:
            raise Unavailable(f"no partition of {topic.name} can be reached now; try again")
        return LogBrowseResult(tuple(seen), tuple(sorted(places.keys() - reached)))

    # On this node.

    async def look_here(self, asked: LogBrowseRequest) -> list[LogPart]:
        """Browse partitions that this node leads; others are skipped. This node enforces the
        limits, whatever the request says."""
        look = msgspec.structs.replace(
            asked,
            parts=asked.parts[:PARTS_MAX],
            messages_max=max(1, min(asked.messages_max, MESSAGES_MAX)),
            value_bytes=max(0, min(asked.value_bytes, VALUE_BYTES_MAX)),
        )
        topic = self._topics.catalog.topic_by_id(look.topic_id)
        if topic is None:
            return []
        seen: list[LogPart] = []
        scan_left, answer_left = SCAN_BYTES_MAX, ANSWER_BYTES_MAX
        async with self._turn:
            for number, (index, place) in enumerate(look.parts):
                left = len(look.parts) - number
                sight = _Sight(
                    self._topics,
                    topic,
                    index,
                    look,
                    scan_bytes=max(scan_left // left, SHARE_BYTES_MIN) if scan_left > 0 else 0,
                    answer_bytes=max(answer_left // left, SHARE_BYTES_MIN),
                )
                try:
                    seen.append(await (sight.back(place) if look.back else sight.onwards(place)))
                except (NotLeader, UnknownPartition):
                    continue
                scan_left -= sight.scanned
                answer_left -= sight.answered
        return seen


class _Sight:
    """A search in one partition."""

    def __init__(
        self,
        topics: Topics,
        topic: Topic,
        index: int,
        look: LogBrowseRequest,
        *,
        scan_bytes: int,
        answer_bytes: int,
    ) -> None:
        self._topics = topics
        self._topic = topic
        self._index = index
        self._look = look
        self._scan_bytes = scan_bytes
        self._answer_bytes = answer_bytes
        self.scanned = 0
        self.answered = 0
        self.log_start, self.end = topics.bounds(topic, index)

    async def onwards(self, place: Offset) -> LogPart:
        """Search forwards from a place."""
        first = min(max(place, self.log_start), self.end)
        sieve = self._sieve(first, self.end, self._look.messages_max, self._answer_bytes)
        await self._fill(sieve, self.end, self._scan_bytes)
        self.answered = sieve.bytes
        return self._seen(list(sieve.found), sieve.next, is_over=sieve.next >= self.end)

    async def back(self, place: Offset) -> LogPart:
        """Search backwards from a place."""
        before = min(max(place, self.log_start), self.end)
        found: list[SeenMessage] = []
        width = self._first_width()
        gets_on = self._scan_bytes <= 0  # One window is read in any case, however short.
        while before > self.log_start and (self.scanned < self._scan_bytes or not gets_on):
            wanted = self._look.messages_max - len(found)
            room = self._answer_bytes - self.answered
            if wanted <= 0 or room <= 0:
                break
            first = max(self.log_start, Offset(before - width))
            sieve = self._sieve(first, before, wanted, room)
            await self._fill(sieve, before, max((self._scan_bytes - self.scanned) // 2, STEP_BYTES))
            if sieve.next < before and before - first > 1:
                width = max(1, (before - first) // (2 * WINDOW_GROWTH))
                continue
            gets_on = True
            found = [*sieve.found, *found]
            self.answered += sieve.bytes
            before = sieve.found[0].message.offset if sieve.has_dropped else first
            width *= WINDOW_GROWTH
        return self._seen(found, before, is_over=before <= self.log_start)

    def _first_width(self) -> int:
        """The width of the first window: large enough to hold the wanted messages and small enough
        to be read."""
        count = self.end - self.log_start
        size = self._topics.partition_bytes(self._topic, self._index)
        wanted = self._look.messages_max
        if not self._look.filter.is_empty:
            wanted = max(wanted, WINDOW_MESSAGES)
        affordable = self._scan_bytes * count // (2 * size) if size > 0 else wanted
        return max(1, min(wanted, affordable))

    def _sieve(self, first: Offset, stop: Offset, messages_max: int, bytes_max: int) -> LogScan:
        return LogScan(
            first,
            stop,
            filter=self._look.filter,
            messages_max=messages_max,
            bytes_max=bytes_max,
            value_bytes=self._look.value_bytes,
            keeps_last=self._look.back,
        )

    async def _fill(self, sieve: LogScan, stop: Offset, bytes_max: int) -> None:
        """Feed a sieve until it is full, has reached `stop`, or `bytes_max` bytes are read."""
        left = bytes_max
        while sieve.next < stop and not sieve.is_full and left > 0:
            data = self._topics.read(self._topic, self._index, sieve.next, STEP_BYTES)
            if not data:  # Nothing is left of the messages up to the end.
                sieve.next = stop
                return
            self.scanned += len(data)
            left -= len(data)
            await asyncio.to_thread(sieve.feed, data)

    def _seen(self, found: list[SeenMessage], place: Offset, *, is_over: bool) -> LogPart:
        return LogPart(self._index, tuple(found), place, self.log_start, self.end, is_over=is_over)
