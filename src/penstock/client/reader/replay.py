"""Replaying a topic: all its messages, or those between two places, once, and then it ends.

Partitions come one after the other, each in the order of its offsets. Where it ends is decided when
it begins: what is sent meanwhile is not part of it. No committed position moves.

One answer is read while the next is fetched, so about two of them are in memory.
"""

import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from penstock.client.codecs import Codec
from penstock.client.connection.request_router import NOTHING, RequestRouter
from penstock.client.reader.handout import open_batch, unreadable
from penstock.client.reader.offsets import ends_of, find_offsets, starts_of
from penstock.client.reader.positions import Place, TopicPartition
from penstock.client.reader.raw_log import RangeReader
from penstock.client.reader.start_position import Start, StartRule
from penstock.client.record import Record
from penstock.core.errors import InvalidBatch, OffsetOutOfRange, UnknownPartition

log = logging.getLogger("penstock.client")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A range of offsets of one partition."""

    part: TopicPartition
    start: int
    end: int
    is_exact: bool
    """The caller has named the offset to begin with."""


async def read_records(
    router: RequestRouter,
    topic: str,
    *,
    codec: Codec[T],
    start: Start = "earliest",
    end: Start | None = None,
    partitions: Iterable[int] | None = None,
) -> AsyncIterator[Record[T]]:
    """The records of a topic from `start` up to `end`, which is not included; without one, up to
    the end of the log as it is now."""
    for stretch in await _plan(router, topic, start, end, partitions):
        reader = _PartitionReader(router, stretch)
        try:
            async for record in reader.records(codec):
                yield record
        finally:
            await reader.close()


async def _plan(
    router: RequestRouter,
    topic: str,
    start: Start,
    end: Start | None,
    partitions: Iterable[int] | None,
) -> list[_Stretch]:
    deadline = router.deadline(None)
    info = await router.find(topic, NOTHING, deadline)
    indexes = range(len(info.leaders)) if partitions is None else sorted(set(partitions))
    parts = [TopicPartition(topic, index) for index in indexes]
    strangers = [part.partition for part in parts if not 0 <= part.partition < len(info.leaders)]
    if strangers:
        raise UnknownPartition(
            f"{topic} has partitions 0 to {len(info.leaders) - 1}, not {strangers[0]}"
        )
    first = StartRule(start)
    starts = await _offsets(router, parts, first, deadline)
    ends = await ends_of(router, parts, deadline=deadline)
    if end is not None:
        last = StartRule(end)
        bounded = [one for one in parts if last.offsets is None or last.offset_of(one) is not None]
        wanted = await _offsets(router, bounded, last, deadline)
        ends |= {part: min(ends[part], wanted[part]) for part in bounded}
    return [
        _Stretch(part, starts[part], ends[part], first.offset_of(part) is not None)
        for part in parts
    ]


async def _offsets(
    router: RequestRouter, parts: Iterable[TopicPartition], rule: StartRule, deadline: float
) -> Mapping[TopicPartition, int]:
    given = {part: offset for part in parts if (offset := rule.offset_of(part)) is not None}
    asked = {part: rule.time_ms for part in parts if part not in given}
    return given | await find_offsets(router, asked, deadline=deadline)


class _PartitionReader:
    """Reads one range."""

    def __init__(self, router: RequestRouter, stretch: _Stretch) -> None:
        self._router = router
        self._stretch = stretch
        self._reader = RangeReader(router, stretch.part, stretch.start, stretch.end)

    async def records(self, codec: Codec[T]) -> AsyncIterator[Record[T]]:
        """Read all records of the range, in order."""
        stretch = self._stretch
        place = Place(stretch.part)
        place.move(stretch.start)
        name, index = stretch.part
        while (data := await self._next()) is not None:
            place.add(data)
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
                        yield Record(name, self._reader.topic_id, index, message, codec)
                except InvalidBatch as error:
                    raise unreadable(place, error) from error

    async def close(self) -> None:
        """The caller has stopped reading."""
        await self._reader.close()

    async def _next(self) -> memoryview | None:
        """The next batches; None at the end, or if all that was to be read is gone."""
        part = self._stretch.part
        while True:
            try:
                return await self._reader.next()
            except OffsetOutOfRange:
                if self._stretch.is_exact:
                    raise
                # It was deleted while it was read; what is left begins here.
                deadline = self._router.deadline(None)
                offset = (await starts_of(self._router, [part], deadline=deadline))[part]
                log.warning("%s was deleted up to offset %d while it was read", part, offset)
                await self._reader.move(offset)
