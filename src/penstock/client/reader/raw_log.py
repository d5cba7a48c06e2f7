"""The log as it is stored: whole batches, unopened, for programs that decode them themselves.

    log = client.raw_log()
    sights = await log.watch("orders").look(…)     which topics there are, and their partitions
    ends = await log.find_offsets({part: LATEST})  where a partition begins, ends, was at a time
    reader = log.read(part, 0, ends[part])         its batches
    while (data := await reader.next()) is not None:
        …

A reader asks the leader of the partition, follows the leadership when it moves, and has one fetch
under way while its caller is busy with the one before: about two of them are in memory.

Only what is committed is read. `OffsetOutOfRange` says that what was to be read next has been
deleted: the caller decides whether that is a failure or where to go on (`move`).
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from penstock.client.connection.channel import Buffer
from penstock.client.connection.request_router import GONE_TRIES_MAX, NOTHING, RequestRouter
from penstock.client.reader.offsets import find_offsets
from penstock.client.reader.positions import TopicPartition
from penstock.client.reader.topic_watch import Topics, TopicWatch
from penstock.core.errors import (
    DeadlinePassed,
    InvalidBatch,
    NotLeader,
    OutcomeUnknown,
    Unavailable,
    UnknownPartition,
    UnknownTopicId,
)
from penstock.core.records import BATCH_HEADER_BYTES, read_outline
from penstock.wire.failures import remake_error
from penstock.wire.read_requests import FETCH_PARTS_MAX, Fetch, Fetched, FetchPart
from penstock.wire.requests import TopicInfo

WAIT_SECONDS: Final = 0.5
"""The longest wait of a fetch for records that should exist: a new leader may not know all of them
yet."""


OTHER_TRIES_MAX: Final = 4
"""A name that stands for another topic now will stay so; a node may be a moment behind."""


class RawLog:
    """See the top of this module; made by `Client.raw_log`."""

    def __init__(self, router: RequestRouter) -> None:
        self._router = router

    def watch(self, topics: Topics, *, patience: float = 0.0) -> TopicWatch:
        """Watch topics for existence; one that existed counts as deleted after `patience`
        seconds."""
        return TopicWatch(self._router, topics, patience=patience)

    def deadline(self, timeout: float | None = None) -> float:
        """The loop's time by which a call must be over, as `TopicWatch` wants it."""
        return self._router.deadline(timeout)

    async def find_offsets(
        self, asked: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset for each partition's time in milliseconds, `LATEST` or `EARLIEST`."""
        return await find_offsets(self._router, asked, deadline=self._router.deadline(timeout))

    async def wait_for_growth(self, ends: Mapping[TopicPartition, int], *, seconds: float) -> None:
        """Return when one of these partitions has grown beyond this end, or when the time is up.
        Nothing is promised: the caller checks again."""
        by_node: dict[int, list[FetchPart]] = {}
        deadline = self._router.deadline(None)
        for part, end in ends.items():
            info = await self._router.find(part.topic, NOTHING, deadline)
            node = info.leaders[part.partition] if part.partition < len(info.leaders) else 0
            if node:
                by_node.setdefault(node, []).append(FetchPart(info.topic_id, part.partition, end))
        tasks = [
            asyncio.create_task(self._wait_at(node, tuple(rows[:FETCH_PARTS_MAX]), seconds))
            for node, rows in by_node.items()
        ]
        if not tasks:
            await asyncio.sleep(seconds)
            return
        try:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _wait_at(self, node: int, parts: tuple[FetchPart, ...], seconds: float) -> None:
        request = Fetch(parts, 0, int(seconds * 1_000))
        try:
            timeout = seconds + self._router.settings.attempt_timeout
            await self._router.ask_node(node, request, Fetched, timeout)
        except (Unavailable, OutcomeUnknown):
            await asyncio.sleep(seconds)  # It is looked for at the next call.

    def read(
        self,
        part: TopicPartition,
        start: int,
        end: int,
        *,
        topic_id: bytes = b"",
        bytes_max: int | None = None,
        timeout: float | None = None,
    ) -> "RangeReader":
        """Reads a partition from `start` up to `end`. With an id, only of the topic that has it;
        `timeout` is for each fetch, retries included."""
        return RangeReader(
            self._router, part, start, end, topic_id=topic_id, bytes_max=bytes_max, timeout=timeout
        )


class RangeReader:
    """Reads one stretch of one partition."""

    def __init__(
        self,
        router: RequestRouter,
        part: TopicPartition,
        start: int,
        end: int,
        *,
        topic_id: bytes = b"",
        bytes_max: int | None = None,
        timeout: float | None = None,
    ) -> None:
        self._router = router
        self._part = part
        self._end = end
        self._bytes_max = bytes_max or router.settings.receive_bytes_max
        self._timeout = timeout
        self._ahead: asyncio.Task[Buffer] | None = None
        self.position = start
        """The next offset to fetch."""
        self.topic_id = topic_id

    async def next(self) -> memoryview | None:
        """Return the next batches, at least one; None at the end. The first may begin before the
        requested offset, the last may extend beyond the end."""
        if self.position >= self._end:
            return None
        task, self._ahead = self._ahead, None
        data = memoryview(await (self._fetch(self.position) if task is None else task))
        if not data:
            self.position = self._end
            return None
        self.position = max(self.position + 1, _end_of(data))
        if self.position < self._end:
            self._ahead = asyncio.create_task(self._fetch(self.position))
        return data

    async def move(self, offset: int) -> None:
        """Continue at another offset."""
        await self.close()
        self.position = offset

    async def close(self) -> None:
        """The caller has stopped reading."""
        task, self._ahead = self._ahead, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _fetch(self, offset: int) -> Buffer:
        """At least one batch from this offset on, from the leader; nothing if there is none any
        more: the last messages before the end may have been compacted away."""
        router, part = self._router, self._part
        deadline = router.deadline(self._timeout)
        retries = router.retrier.until(deadline)
        gone = 0
        while True:
            info = await router.find(part.topic, NOTHING, deadline)
            try:
                self._check(info)
                payload, has_all = await self._fetch_once(info, offset)
                if payload or has_all:
                    return payload
                problem: Unavailable | OutcomeUnknown | UnknownPartition = Unavailable(
                    "the leader does not have it yet"
                )
            except (Unavailable, OutcomeUnknown) as error:
                router.metadata.forget(part.topic, info)
                problem = error
            except UnknownPartition as error:
                # What is known here of the topic may be old, and a node that has just begun may
                # not know it yet; one that was deleted stays so.
                gone += 1
                most = GONE_TRIES_MAX if info.topic_id == self.topic_id else OTHER_TRIES_MAX
                if gone >= most:
                    raise
                router.metadata.forget(part.topic, info)
                problem = error
            if not await retries.pause(problem):
                raise DeadlinePassed(f"{part} could not be read: {problem}") from problem

    def _check(self, info: TopicInfo) -> None:
        """Check that the topic was not replaced by another of its name, and that the partition
        exists."""
        part = self._part
        if not self.topic_id:
            self.topic_id = info.topic_id
        if info.topic_id != self.topic_id:
            raise UnknownTopicId(f"{part.topic} was deleted, and another topic has its name now")
        if not 0 <= part.partition < len(info.leaders):
            raise UnknownPartition(
                f"{part.topic} has partitions 0 to {len(info.leaders) - 1}, not {part.partition}"
            )

    async def _fetch_once(self, info: TopicInfo, offset: int) -> tuple[Buffer, bool]:
        """Batches, and whether the node that was asked has all that is to be read."""
        index = self._part.partition
        node = info.leaders[index]
        if not node:
            raise NotLeader(f"partition {index} of {self._part.topic} has no leader now")
        request = Fetch(
            (FetchPart(info.topic_id, index, offset),), self._bytes_max, int(WAIT_SECONDS * 1_000)
        )
        seconds = WAIT_SECONDS + self._router.settings.attempt_timeout
        answer, payload = await self._router.ask_node(node, request, Fetched, seconds)
        (row,) = answer.parts
        if row.failure is not None:
            raise remake_error(row.failure)
        return payload, row.high_watermark >= self._end


def _end_of(data: memoryview) -> int:
    """Behind the last offset of some batches."""
    position, end, size = 0, 0, len(data)
    while position < size:
        if size - position < BATCH_HEADER_BYTES:
            raise InvalidBatch(f"{size - position} bytes are no record batch")
        base_offset, length, count, _, _ = read_outline(data, position)
        if length < BATCH_HEADER_BYTES:
            raise InvalidBatch(f"a batch says it has {length} bytes")
        end = base_offset + count
        position += length
    return end
