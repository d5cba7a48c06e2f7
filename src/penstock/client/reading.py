"""Replaying a topic: all its messages, or those between two places, once, and then it ends.

Partitions come one after the other, each in the order of its offsets. Where it ends is decided when
it begins: what is sent meanwhile is not part of it. Nobody's position moves.

One answer is read while the next is fetched, so about two of them are in memory.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from penstock.client.asking import NOTHING, Asking
from penstock.client.backoff import Backoff
from penstock.client.channel import Buffer
from penstock.client.codecs import Codec
from penstock.client.hand_out import open_batch, unreadable
from penstock.client.offsets import ends_of, find_offsets, starts_of
from penstock.client.positions import Place, TopicPartition
from penstock.client.record import Record
from penstock.client.starting import Start, StartRule
from penstock.core.errors import (
    DeadlinePassed,
    InvalidBatch,
    NotLeader,
    OffsetOutOfRange,
    OutcomeUnknown,
    Unavailable,
    UnknownPartition,
)
from penstock.wire.failures import remake_error
from penstock.wire.read_requests import Fetch, Fetched, FetchPart

log = logging.getLogger("penstock.client")

T = TypeVar("T")

WAIT_SECONDS: Final = 0.5
"""How long a fetch may wait for what should be there: a leader may be new and not know it all."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What is to be read of one partition."""

    part: TopicPartition
    start: int
    end: int
    is_exact: bool
    """The caller has named the offset to begin with."""


async def read_records(
    asking: Asking,
    topic: str,
    *,
    codec: Codec[T],
    start: Start = "earliest",
    end: Start | None = None,
    partitions: Iterable[int] | None = None,
) -> AsyncIterator[Record[T]]:
    """The records of a topic from `start` up to `end`, which is not included; without one, up to
    the end of the log as it is now."""
    for stretch in await _plan(asking, topic, start, end, partitions):
        reader = _PartitionReader(asking, stretch)
        try:
            async for record in reader.records(codec):
                yield record
        finally:
            await reader.close()


async def _plan(
    asking: Asking,
    topic: str,
    start: Start,
    end: Start | None,
    partitions: Iterable[int] | None,
) -> list[_Stretch]:
    deadline = asking.deadline(None)
    info = await asking.find(topic, NOTHING, deadline)
    indexes = range(len(info.leaders)) if partitions is None else sorted(set(partitions))
    parts = [TopicPartition(topic, index) for index in indexes]
    strangers = [part.partition for part in parts if not 0 <= part.partition < len(info.leaders)]
    if strangers:
        raise UnknownPartition(
            f"{topic} has partitions 0 to {len(info.leaders) - 1}, not {strangers[0]}"
        )
    first = StartRule(start)
    starts = await _offsets(asking, parts, first, deadline)
    ends = await ends_of(asking, parts, deadline=deadline)
    if end is not None:
        last = StartRule(end)
        bounded = [one for one in parts if last.offsets is None or last.offset_of(one) is not None]
        wanted = await _offsets(asking, bounded, last, deadline)
        ends |= {part: min(ends[part], wanted[part]) for part in bounded}
    return [
        _Stretch(part, starts[part], ends[part], first.offset_of(part) is not None)
        for part in parts
    ]


async def _offsets(
    asking: Asking, parts: Iterable[TopicPartition], rule: StartRule, deadline: float
) -> Mapping[TopicPartition, int]:
    given = {part: offset for part in parts if (offset := rule.offset_of(part)) is not None}
    asked = {part: rule.time_ms for part in parts if part not in given}
    return given | await find_offsets(asking, asked, deadline=deadline)


class _PartitionReader:
    """Reads one stretch."""

    def __init__(self, asking: Asking, stretch: _Stretch) -> None:
        self._asking = asking
        self._stretch = stretch
        self._topic_id = b""
        self._ahead: asyncio.Task[Buffer] | None = None

    async def records(self, codec: Codec[T]) -> AsyncIterator[Record[T]]:
        """All of them, in order."""
        stretch = self._stretch
        place = Place(stretch.part)
        place.move(stretch.start)
        name, index = stretch.part
        while place.fetched < stretch.end:
            data = await self._next(place.fetched)
            if not data:
                return
            place.add(memoryview(data))
            if place.fetched < stretch.end:
                self._ahead = asyncio.create_task(self._fetch(place.fetched))
            while place.batches:
                batch = place.take_batch()
                try:
                    opened = await open_batch(batch)
                    for message in opened.messages():
                        if message.offset < place.position:
                            continue
                        if message.offset >= stretch.end:
                            return
                        place.position = message.offset + 1
                        yield Record(name, self._topic_id, index, message, codec)
                except InvalidBatch as error:
                    raise unreadable(place, error) from error

    async def close(self) -> None:
        """Somebody has read enough."""
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.wait([self._ahead])

    async def _next(self, offset: int) -> Buffer:
        task, self._ahead = self._ahead, None
        return await (self._fetch(offset) if task is None else task)

    async def _fetch(self, offset: int) -> Buffer:
        """At least one batch from this offset on, from whoever leads; nothing if all that was to be
        read is gone."""
        asking, part = self._asking, self._stretch.part
        loop = asyncio.get_running_loop()
        deadline = asking.deadline(None)
        backoff = Backoff(random=asking.random)
        while True:
            info = await asking.find(part.topic, NOTHING, deadline)
            try:
                payload = await self._fetch_once(
                    info.leaders[part.partition], info.topic_id, offset
                )
                if payload:
                    return payload
                problem: Unavailable | OutcomeUnknown = Unavailable("the leader has not got it yet")
            except (Unavailable, OutcomeUnknown) as error:
                asking.directory.forget(part.topic, info)
                problem = error
            except OffsetOutOfRange:
                if self._stretch.is_exact:
                    raise
                # It was deleted while it was read; what is left begins here.
                offset = (await starts_of(asking, [part], deadline=deadline))[part]
                log.warning("%s was deleted up to offset %d while it was read", part, offset)
                if offset >= self._stretch.end:
                    return b""
                continue
            pause = backoff.next(problem)
            if loop.time() + pause >= deadline:
                raise DeadlinePassed(f"{part} could not be read: {problem}") from problem
            await asyncio.sleep(pause)

    async def _fetch_once(self, node: int, topic_id: bytes, offset: int) -> Buffer:
        part = self._stretch.part
        if not node:
            raise NotLeader(f"partition {part.partition} of {part.topic} has no leader now")
        self._topic_id = topic_id
        settings = self._asking.settings
        request = Fetch(
            (FetchPart(topic_id, part.partition, offset),),
            settings.receive_bytes_max,
            int(WAIT_SECONDS * 1_000),
        )
        seconds = WAIT_SECONDS + settings.attempt_timeout
        answer, payload = await self._asking.ask_node(node, request, Fetched, seconds)
        (row,) = answer.parts
        if row.failure is not None:
            raise remake_error(row.failure)
        return payload
