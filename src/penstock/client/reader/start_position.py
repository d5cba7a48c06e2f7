"""The start position of a reader in a partition.

A group goes on where it had got to. Where it has nothing to go on from, and for readers without a
group, `start` decides:

    "earliest"              the first message there is
    "latest"                behind the last one: only what comes from now on
    a datetime              the first message as late as that
    {partition: offset}     offsets, by partition or `TopicPartition`; "earliest" for the others

A partition that appears later is read from its beginning whatever `start` says: it did not exist
when the reader began, so nothing in it is older than that.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeAlias, cast

from penstock.client.connection.group_link import GroupLink
from penstock.client.connection.request_router import NOTHING, RequestRouter
from penstock.client.reader.offsets import find_offsets, milliseconds_of
from penstock.client.reader.positions import Place, TopicPartition
from penstock.core.errors import InvalidRequest, OffsetOutOfRange, UnknownPartition
from penstock.core.types import EARLIEST, LATEST
from penstock.wire.group_requests import AskCommitted, Committed

Start: TypeAlias = str | datetime | Mapping[int, int] | Mapping[TopicPartition, int]

ALLOWED = "it is 'earliest', 'latest', a datetime, or offsets by partition such as {0: 17}"
_WORDS = {"earliest": EARLIEST, "latest": LATEST}


class StartRule:
    """The validated argument `start`."""

    def __init__(self, start: Start) -> None:
        self.time_ms: int = EARLIEST
        self.offsets: dict[TopicPartition | int, int] | None = None
        if isinstance(start, str):
            if start not in _WORDS:
                raise InvalidRequest(f"start is {start!r}; {ALLOWED}")
            self.time_ms = _WORDS[start]
        elif isinstance(start, Mapping):
            self.offsets = {**cast(Mapping[TopicPartition | int, int], start)}
            if any(offset < 0 for offset in self.offsets.values()):
                raise InvalidRequest(f"offsets begin at 0: {self.offsets}")
        elif isinstance(start, datetime):
            self.time_ms = milliseconds_of(start)
        else:
            raise InvalidRequest(f"start is {start!r}; {ALLOWED}")

    def offset_of(self, part: TopicPartition) -> int | None:
        """The offset that was given for a partition."""
        if self.offsets is None:
            return None
        return self.offsets.get(part, self.offsets.get(part.partition))


class Starting:
    """Finds out where places begin."""

    def __init__(self, router: RequestRouter, rule: StartRule, link: GroupLink | None) -> None:
        self._router = router
        self._rule = rule
        self._link = link
        self.known: dict[str, int] = {}
        """The number of partitions of each topic when the reader began; a topic that came later has
        none."""

    async def settle(self, places: Sequence[Place], deadline: float) -> None:
        """Set the start offsets of places. One that is moved by hand meanwhile keeps its offset."""
        versions = [place.version for place in places]
        ids: dict[str, bytes] = {}
        for place in places:
            info = await self._router.find(place.part.topic, NOTHING, deadline)
            ids[place.part.topic] = info.topic_id
            if place.part.partition >= len(info.leaders):
                self._router.metadata.forget(place.part.topic, info)
                raise UnknownPartition(f"{place.part} is not there yet")
        committed = await self._committed(places, ids, deadline)
        asked: dict[TopicPartition, int] = {}
        offsets: dict[TopicPartition, int] = {}
        for place in places:
            part = place.part
            given = self._rule.offset_of(part)
            if part in committed:
                offsets[part] = committed[part]
            elif given is not None and not place.was_out_of_range:
                offsets[part] = given
            else:
                asked[part] = self._time_for(place)
        offsets |= await find_offsets(self._router, asked, deadline=deadline)
        for place, version in zip(places, versions, strict=True):
            if place.version == version:
                part = place.part
                place.settle(ids[part.topic], offsets[part], committed.get(part))

    def check_in_range(self, place: Place) -> None:
        """Raise an error for a place outside of its log, unless an option defines a fallback."""
        if self._rule.offset_of(place.part) is not None:
            raise OffsetOutOfRange(
                f"partition {place.part.partition} of {place.part.topic} has no offset"
                f" {place.fetched}, which was asked for: it has been deleted, or is yet to come"
            )

    def _time_for(self, place: Place) -> int:
        part = place.part
        is_new = part.partition >= self.known.get(part.topic, 0)
        return EARLIEST if is_new and not place.was_out_of_range else self._rule.time_ms

    async def _committed(
        self, places: Sequence[Place], ids: Mapping[str, bytes], deadline: float
    ) -> dict[TopicPartition, int]:
        """Return the committed offsets of the group that can be used."""
        keys = {
            (ids[place.part.topic], place.part.partition): place.part
            for place in places
            if not place.was_out_of_range
        }
        if self._link is None or not keys:
            return {}
        request = AskCommitted(self._link.group, tuple(keys))
        answer = await self._link.ask_until(request, Committed, deadline=deadline)
        return {keys[row.topic_id, row.index]: row.offset for row in answer.rows}
