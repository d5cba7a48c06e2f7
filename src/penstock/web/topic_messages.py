"""The messages of a topic over HTTP, for people who look: any place, any filter, from any node.

    GET     /v1/topics/{name}/messages
                ?from=        start, end, an offset, -10, +5, @TIME, or `next` of an answer
                &order=       newest (the default) reads backwards, oldest forwards from there
                &partition=   only this one
                &text=        part of the key, the body or a header
                &key= &body=  part of it
                &header=      NAME, or NAME=PART of its value
                &limit=       how many, 50 by default
                &body_bytes=  longer bodies are cut, 65536 by default
                &wait_ms=     oldest first: wait so long for a first message, as a live tail does

Messages of several partitions are merged by their times, each partition in its own order. An answer
is bounded in rows and bytes, and so is how much of the log one request goes through: `next` goes on
where it stopped, also when nothing was found so far. It is one offset for each partition, parted by
commas.

A tail asks again and again, oldest first, with what `next` or `newer` said and some `wait_ms`. It
is not held open, so it survives whichever node dies; only so many wait at once.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from heapq import merge
from itertools import islice
from typing import Annotated, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.core.errors import InvalidRequest, Overloaded, Unavailable
from penstock.core.limits import KIB
from penstock.core.log_filter import LogFilter
from penstock.core.log_place import Anchor, Place
from penstock.core.message import Message
from penstock.core.move_filter import id_of
from penstock.core.topic import Topic
from penstock.core.types import Offset, PartitionId
from penstock.engine.cluster.node import Node
from penstock.engine.engine import Engine
from penstock.engine.inspection.log_browser import (
    PARTS_MAX,
    THE_END,
    VALUE_BYTES_MAX,
    LogBrowseResult,
    LogPart,
)
from penstock.engine.inspection.log_scan import SeenMessage
from penstock.engine.inspection.offset_resets import offset_at
from penstock.engine.inspection.partition_places import NO_TIME
from penstock.engine.topics.poll_time import parked
from penstock.engine.topics.topics import partition_of
from penstock.web.answers import json_answer
from penstock.web.api_operation import (
    INDEX_MAX,
    ApiOperation,
    QueryParameter,
    limit_parameter,
)
from penstock.web.broker import Broker, node_of
from penstock.web.queue_messages import header_texts, text
from penstock.web.requests import unless_gone, whole_number
from penstock.web.topic_lines import LogMessage, LogPage
from penstock.web.topics import read_place

LIMIT = 50
LIMIT_MAX = 500
BODY_BYTES = 64 * KIB
LOOK_SECONDS = 2.0
"""The longest search of one request that has found nothing yet."""
WAIT_MS_MAX = 30_000
WAITING_MAX = 64
"""The number of tails that may wait at once; each one polls other nodes' partitions."""
ELSEWHERE_SECONDS = 0.25
NEWEST, OLDEST = "newest", "oldest"
_DIGITS_MAX = 19


class LookWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A query for messages of a topic."""

    written: str = "end"
    """The start position."""
    order: str = NEWEST
    partition: int | None = None
    filter: LogFilter = LogFilter()
    limit: int = LIMIT
    body_bytes: int = BODY_BYTES
    wait_ms: int = 0

    @property
    def back(self) -> bool:
        """True if the log is read backwards."""
        return self.order == NEWEST


def _number(most: int) -> object:
    return Annotated[int, msgspec.Meta(ge=0, le=most)]


_PARTITION = Annotated[int, msgspec.Meta(ge=0, le=INDEX_MAX)] | Literal[""]
_PARAMETERS = (
    QueryParameter("from", str, "start, end, an offset, -10, +5, @TIME, or `next` of an answer"),
    QueryParameter(
        "order",
        Literal["", "newest", "oldest"],
        "newest (the default) reads backwards, oldest forwards",
    ),
    QueryParameter("partition", _PARTITION, "Only this partition"),
    QueryParameter("text", str, "Part of the key, the body or a header"),
    QueryParameter("key", str, "Part of the key"),
    QueryParameter("body", str, "Part of the body"),
    QueryParameter("header", str, "NAME, or NAME=PART of its value"),
    limit_parameter(LIMIT, LIMIT_MAX),
    QueryParameter("body_bytes", _number(VALUE_BYTES_MAX), "The size above which bodies are cut"),
    QueryParameter("wait_ms", _number(WAIT_MS_MAX), "The wait for the first message"),
)


class MessageBrowser:
    """Looks into topics for one HTTP port."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting = 0

    def routes(self) -> Sequence[ApiOperation]:
        return [
            ApiOperation(
                "GET",
                "/v1/topics/{name}/messages",
                self.answer,
                "Browse the messages of a topic, from any place, with a filter",
                query=_PARAMETERS,
                answers={200: LogPage},
            )
        ]

    async def answer(self, request: Request) -> Response:
        """Serve one page of messages as JSON."""
        node = node_of(self._broker)
        topic = node.engine.topics.topic(request.path_params["name"])
        page = await unless_gone(request, self.look(node, topic, look_wanted(request)))
        return json_answer(page)

    async def look(self, node: Node, topic: Topic, wanted: LookWanted) -> LogPage:
        """Return a page of messages; a tail waits for the next ones."""
        places = await _places(node, topic, wanted)
        page, places = await _look(node, topic, wanted, places)
        if page.messages or wanted.back or not wanted.wait_ms:
            return page
        if self._waiting >= WAITING_MAX:
            raise Overloaded(f"{WAITING_MAX} tails wait already; close some", retry_after_ms=5_000)
        self._waiting += 1
        try:
            return await _tail(node, topic, wanted, places, page)
        finally:
            self._waiting -= 1


def look_wanted(request: Request) -> LookWanted:
    """Parse the parameters of a request."""
    asked = request.query_params
    order = asked.get("order") or NEWEST
    if order not in (NEWEST, OLDEST):
        raise InvalidRequest(f"order must be {NEWEST} or {OLDEST}")
    header, _, part = asked.get("header", "").partition("=")
    partition: int | None = None
    if asked.get("partition"):
        partition = whole_number(request, "partition", 0, most=1 << 31)
    chosen = LogFilter(
        text=asked.get("text", ""),
        key=asked.get("key", ""),
        value=asked.get("body", ""),
        header=header,
        header_value=part,
    )
    chosen.check()
    return LookWanted(
        written=asked.get("from") or ("end" if order == NEWEST else "start"),
        order=order,
        partition=partition,
        filter=chosen,
        limit=whole_number(request, "limit", LIMIT, least=1, most=LIMIT_MAX),
        body_bytes=whole_number(request, "body_bytes", BODY_BYTES, most=VALUE_BYTES_MAX),
        wait_ms=whole_number(request, "wait_ms", 0, most=WAIT_MS_MAX),
    )


Places = dict[int, Offset]
"""The offset to continue at, by index of the partition."""


async def _places(node: Node, topic: Topic, wanted: LookWanted) -> Places:
    """Return the start offset of each selected partition."""
    count = len(topic.partitions)
    if wanted.partition is not None:
        partition_of(topic, wanted.partition)
        indexes = range(wanted.partition, wanted.partition + 1)
    elif count > PARTS_MAX:
        raise InvalidRequest(f"{topic.name} has {count} partitions: name one")
    else:
        indexes = range(count)
    if "," in wanted.written:
        return _read_cursor(wanted.written, indexes)
    place = read_place(wanted.written, node.engine.topics.clock.wall_ms())
    if place.anchor is Anchor.ZERO:
        return dict.fromkeys(indexes, Offset(place.number))
    if place == Place(anchor=Anchor.START):
        return dict.fromkeys(indexes, Offset(0))
    if place == Place(anchor=Anchor.END) and wanted.back:
        return dict.fromkeys(indexes, THE_END)
    time_ms = place.number if place.anchor is Anchor.TIME else NO_TIME
    found = await node.log_queries.survey.places(
        [topic.partitions[index] for index in indexes], time_ms=time_ms
    )
    missing = [index for index in indexes if topic.partitions[index] not in found]
    if missing:
        raise Unavailable(f"partition {missing[0]} of {topic.name} cannot be reached now")
    return {index: offset_at(place, found[topic.partitions[index]]) for index in indexes}


def _read_cursor(written: str, indexes: Sequence[int]) -> Places:
    numbers = written.split(",")
    if len(numbers) == len(indexes) + 1 and not numbers[-1]:
        numbers.pop()  # A single partition's is told from an offset by its comma.
    if len(numbers) != len(indexes):
        raise InvalidRequest(f"from has {len(numbers)} offsets, for {len(indexes)} partitions")
    if not all(one.isascii() and one.isdecimal() and len(one) <= _DIGITS_MAX for one in numbers):
        raise InvalidRequest("from must be one offset for each partition, parted by commas")
    return {
        index: Offset(min(int(one), THE_END)) for index, one in zip(indexes, numbers, strict=True)
    }


def _cursor(places: Places) -> str:
    written = ",".join(str(place) for _, place in sorted(places.items()))
    return written if len(places) > 1 else f"{written},"


async def _look(
    node: Node, topic: Topic, wanted: LookWanted, places: Places
) -> tuple[LogPage, Places]:
    """Look until something is found, there is nothing more, or it has taken long enough."""
    deadline_ms = node.engine.topics.clock.monotonic_ms() + int(LOOK_SECONDS * 1_000)
    while True:
        seen = await node.log_queries.looks.look(
            topic,
            places,
            back=wanted.back,
            filter=wanted.filter,
            messages_max=wanted.limit,
            value_bytes=wanted.body_bytes,
        )
        found = any(part.messages for part in seen.parts)
        if found or all(part.is_over for part in seen.parts):
            break
        places = places | {part.index: part.next for part in seen.parts}
        if node.engine.topics.clock.monotonic_ms() >= deadline_ms:
            break
    return _page(topic, wanted, places, seen)


def _page(
    topic: Topic, wanted: LookWanted, places: Places, seen: LogBrowseResult
) -> tuple[LogPage, Places]:
    taken = list(islice(_merged(seen.parts, back=wanted.back), wanted.limit))
    counts: dict[int, int] = {}
    for index, _ in taken:
        counts[index] = counts.get(index, 0) + 1
    after = dict(places)
    has_more = bool(seen.unreachable)
    for part in seen.parts:
        left = len(part.messages) - counts.get(part.index, 0)
        if left == 0:
            after[part.index] = part.next
        elif wanted.back:
            after[part.index] = Offset(part.messages[left - 1].message.offset + 1)
        else:
            after[part.index] = part.messages[-left].message.offset
        has_more = has_more or left > 0 or not part.is_over
    ends = dict(places) | {part.index: part.end for part in seen.parts}
    page = LogPage(
        messages=[_line(topic, index, one) for index, one in taken],
        next=_cursor(after) if has_more or not wanted.back else None,
        newer=_cursor(ends if wanted.back else after),
        unreachable=list(seen.unreachable),
    )
    return page, after


def _merged(parts: Iterable[LogPart], *, back: bool) -> Iterable[tuple[int, SeenMessage]]:
    """Merge by time; messages of one partition stay in order, whatever their times are."""
    rows = [
        [(part.index, one) for one in (reversed(part.messages) if back else part.messages)]
        for part in parts
    ]
    return merge(*rows, key=lambda row: row[1].message.timestamp_ms, reverse=back)


def _line(topic: Topic, index: int, seen: SeenMessage) -> LogMessage:
    message: Message = seen.message
    return LogMessage(
        partition=index,
        offset=message.offset,
        id=id_of(topic.topic_id, index, message),
        timestamp_ms=message.timestamp_ms,
        key=text(message.key),
        body=text(message.value),
        headers=header_texts(message.headers),
        key_bytes=seen.key_bytes,
        body_bytes=seen.value_bytes,
        is_cut=seen.is_cut,
    )


async def _tail(
    node: Node, topic: Topic, wanted: LookWanted, places: Places, page: LogPage
) -> LogPage:
    """Look whenever a partition that is led here has grown, and every now and then at the others;
    what there was when the time is up."""
    engine = node.engine
    partitions = [topic.partitions[index] for index in places]
    woken = asyncio.Event()
    watch = engine.topics.watch(partitions, woken.set)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(wanted.wait_ms / 1_000):
                while not page.messages:
                    woken.clear()  # Before the look: what comes meanwhile calls again.
                    page, places = await _look(node, topic, wanted, places)
                    if not page.messages:
                        await _wait(engine, partitions, woken)
    finally:
        watch.cancel()
    return page


async def _wait(engine: Engine, partitions: Sequence[PartitionId], woken: asyncio.Event) -> None:
    here = all(
        engine.topics.leader(engine.topics.shard_of(one)).node == engine.topics.node_id
        for one in partitions
    )
    with parked(), suppress(TimeoutError):
        async with asyncio.timeout(None if here else ELSEWHERE_SECONDS):
            await woken.wait()
