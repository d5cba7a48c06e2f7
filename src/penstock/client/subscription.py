"""Reading a log: every message of some topics, in order within each partition.

    async with client.subscribe("orders", group="billing") as subscription:
        async for record in subscription:
            ...

With a group, its members share the partitions, and each one's progress is committed: a member that
comes next goes on from there. Without one, all partitions are read here, from where `start` says.

A record counts as done when the next one is asked for; only what is done is committed by itself, so
a program that dies in the middle of one gets it again. Who leaves the loop with `break` says so by
`await subscription.commit()`, or gets the last record again. Messages are fetched ahead of time,
within bounds.

A subscription survives what passes by itself: leaders and coordinators that die or move, nodes that
are cut off, members that come and go, topics that do not exist yet. What it raises is what a
program has to know: its static name was taken by another process, or an offset it asked for is not
there.
"""

import asyncio
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, Self, TypeVar

from penstock.client.codecs import Codec
from penstock.client.connection.group_link import GroupLink
from penstock.client.connection.request_router import NOTHING, RequestRouter
from penstock.client.reader.log_reader import LogReader
from penstock.client.reader.offset_commits import Committing
from penstock.client.reader.offsets import find_offsets, milliseconds_of
from penstock.client.reader.positions import Place, TopicPartition
from penstock.client.reader.topic_watch import Topics
from penstock.client.record import Record
from penstock.client.seconds import Seconds, to_milliseconds
from penstock.client.subscription_options import SubscriptionOptions
from penstock.core.errors import InvalidRequest
from penstock.core.types import EARLIEST, LATEST
from penstock.wire.group_requests import AskCommitted, Committed

T = TypeVar("T")

RECORDS_MAX: Final = 500
"""The default of `max_records` in `fetch`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionStatistics:
    """A subscription's numbers at one moment."""

    records: int
    """The number of records handed out."""
    fetches: int
    commits: int
    rebalances: int
    partitions: int
    buffered_messages: int
    buffered_bytes: int


class Subscription(Generic[T]):
    """Records of some topics in order, alone or as a member of a consumer group; made by
    `Client.subscribe`.

    Members of a group share the partitions, and the group's progress is committed by itself: a
    record counts as done when the next one is asked for. Without a group, all partitions are read
    here, from where `start` says.

        async with client.subscribe("orders", group="billing") as records:
            async for record in records:
                print(record.key, record.body)
    """

    def __init__(
        self, router: RequestRouter, topics: Topics, codec: Codec[T], options: SubscriptionOptions
    ) -> None:
        self.options = options
        """The options of the subscription."""
        self._router = router
        self._reader: LogReader[T] = LogReader(router, topics, codec, options)
        weakref.finalize(self, self._reader.let_go).atexit = False
        self._out = self._reader.out
        self._places = self._reader.places

    # Its life.

    async def open(self) -> None:
        """Begin to read; `async with` and iterating do it by themselves."""
        await self._reader.open()

    async def close(self) -> None:
        """Commit the processed records, and leave the group."""
        await self._reader.close()

    async def __aenter__(self) -> Self:
        try:
            await self._reader.open()
        except BaseException:
            await self._reader.close()
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._reader.close()

    # Records.

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record[T]:
        reader, out = self._reader, self._out
        out.finish()
        while True:
            if not reader.is_held_back:
                record = out.next_now()
                if record is not None:
                    return record
            if not await reader.advance(None):
                raise StopAsyncIteration

    async def fetch(
        self, max_records: int = RECORDS_MAX, *, wait: Seconds = 0.0
    ) -> list[Record[T]]:
        """Return up to `max_records` records; wait up to `wait` for the first. The records handed
        out before count as processed."""
        self._out.finish()
        await self._reader.open()
        seconds = to_milliseconds(wait, "wait") / 1_000
        spans = self._router.tracing.on()
        began_ns = 0 if spans is None else spans.now_ns()
        until = asyncio.get_running_loop().time() + seconds
        found = await self._reader.fetch(max_records, until)
        if spans is not None and found:
            spans.fetched(self.options.group, found, began_ns)
        return found

    # Offsets.

    async def commit(
        self, record: Record[T] | None = None, *, timeout: Seconds | None = None
    ) -> bool:
        """Commit everything that was handed out, or up to this record of its partition. False: some
        of it belongs to another member by now, who does it again."""
        committing, _ = self._group()
        await self._reader.open()
        if record is None:
            wanted = {place: place.position for place in self._settled()}
        else:
            known = self._places.get(record.place)
            if known is None or not known.is_settled:
                return False
            wanted = {known: record.offset + 1}
        offsets: dict[Place, int] = {}
        for place, offset in wanted.items():
            if place.committed is None or offset > place.committed:
                offsets[place] = offset
                place.done = max(place.done, min(offset, place.position))
        seconds = None if timeout is None else to_milliseconds(timeout, "timeout") / 1_000
        return await committing.commit(offsets, deadline=self._router.deadline(seconds))

    async def committed(self) -> dict[TopicPartition, int | None]:
        """Return the committed offset of each partition of this member; None where the group has
        none."""
        _, link = self._group()
        await self._reader.open()
        places = {(place.topic_id, place.part.partition): place.part for place in self._settled()}
        found: dict[TopicPartition, int | None] = dict.fromkeys(places.values())
        if places:
            request = AskCommitted(link.group, tuple(places))
            deadline = self._router.deadline(None)
            answer = await link.ask_until(request, Committed, deadline=deadline)
            found |= {places[row.topic_id, row.index]: row.offset for row in answer.rows}
        return found

    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to be handed out, of each partition."""
        return {place.part: place.position for place in self._settled()}

    async def lag(self) -> dict[TopicPartition, int]:
        """Return the number of messages in each partition that are still to be handed out."""
        await self._reader.open()
        positions = self.positions()
        ends = await self._find(dict.fromkeys(positions, LATEST))
        return {part: max(0, ends[part] - position) for part, position in positions.items()}

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are read here now."""
        return tuple(sorted(self._places))

    # Going elsewhere.

    async def seek(self, partition: int, offset: int, topic: str | None = None) -> None:
        """Go on from this offset; the topic can be left out if there is only one."""
        if offset < 0:
            raise InvalidRequest(f"offsets begin at 0, not at {offset}")
        await self._reader.open()
        (place,) = self._chosen([partition], topic)
        await self._move({place: offset})

    async def seek_to_time(self, when: datetime) -> None:
        """Go on, in all partitions, from the first message as late as this."""
        await self._seek_all(milliseconds_of(when))

    async def seek_to_start(self) -> None:
        """Go on, in all partitions, from the first message there is."""
        await self._seek_all(EARLIEST)

    async def seek_to_end(self) -> None:
        """Go on, in all partitions, with what comes from now on."""
        await self._seek_all(LATEST)

    async def replay(self, since: datetime | None = None) -> None:
        """Read everything once more, or everything since a time."""
        await self._seek_all(EARLIEST if since is None else milliseconds_of(since))

    async def _seek_all(self, time_ms: int) -> None:
        await self._reader.open()
        places = list(self._places.values())
        offsets = await self._find({place.part: time_ms for place in places})
        await self._move({place: offsets[place.part] for place in places})

    async def _move(self, offsets: Mapping[Place, int]) -> None:
        for place, offset in offsets.items():
            if place.is_settled:
                place.move(offset)
            else:
                deadline = self._router.deadline(None)
                info = await self._router.find(place.part.topic, NOTHING, deadline)
                place.settle(info.topic_id, offset, None)
        self._reader.prefetch.interrupt(offsets)

    # Pausing.

    def pause(self, *partitions: int, topic: str | None = None) -> None:
        """Hand nothing out of these partitions, or of all if none is named, until `resume`."""
        for place in self._chosen(partitions, topic):
            place.is_paused = True
            place.rewind()  # What was fetched of it would take others' room.
            self._reader.paused.add(place.part)

    def resume(self, *partitions: int, topic: str | None = None) -> None:
        """Go on with these partitions, or with all."""
        chosen = self._chosen(partitions, topic)
        for place in chosen:
            place.is_paused = place.is_leaving
            self._reader.paused.discard(place.part)
            self._reader.note(place)
        # One that was stopped in the middle of a batch has to be fetched from there.
        self._reader.prefetch.interrupt(place for place in chosen if not place.batches)

    def statistics(self) -> SubscriptionStatistics:
        """Return the counters of the subscription."""
        reader = self._reader
        places = self._places.values()
        return SubscriptionStatistics(
            records=self._out.count,
            fetches=reader.prefetch.fetches,
            commits=0 if reader.committing is None else reader.committing.commits,
            rebalances=0 if reader.membership is None else reader.membership.rebalances,
            partitions=len(places),
            buffered_messages=sum(place.buffered_messages for place in places),
            buffered_bytes=sum(place.buffered_bytes for place in places),
        )

    # Which.

    def _settled(self) -> list[Place]:
        return [place for place in self._places.values() if place.is_settled]

    def _chosen(self, partitions: Sequence[int], topic: str | None) -> list[Place]:
        """The places a caller means; `InvalidRequest` if one of them is not read here."""
        name = topic or self._reader.watch.only_name
        if not partitions:
            return [one for one in self._places.values() if topic in (None, one.part.topic)]
        if name is None:
            raise InvalidRequest("the subscription reads several topics: name one")
        chosen = []
        for index in partitions:
            place = self._places.get(TopicPartition(name, index))
            if place is None:
                raise InvalidRequest(f"partition {index} of {name} is not read here now")
            chosen.append(place)
        return chosen

    def _group(self) -> tuple[Committing, GroupLink]:
        reader = self._reader
        if reader.committing is None or reader.link is None:
            raise InvalidRequest("without a group nothing is committed: subscribe with group=")
        return reader.committing, reader.link

    async def _find(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return await find_offsets(self._router, asked, deadline=self._router.deadline(None))
