"""Where one message is and was, for `penstock trace`.

A message's id follows from where it was sent to (see `core.message_id`), so the place is found by
trying: ids of the places of a topic are computed, newest first, until one is it. Nothing has to be
read for that, and a message that is deleted is found as well. A dead letter keeps its id in a
header, and what was moved out of a dead-letter queue says where it comes from (`card.ORIGIN`); both
are found by reading where they may be: the queue, and its dead-letter topic. The searches are
bounded, and say so when they reach their bounds.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from penstock.cli.stored import Stored, StoredCodec
from penstock.client.client import Client
from penstock.client.descriptions import TopicDescription
from penstock.client.record import Record
from penstock.core import card
from penstock.core.message_id import message_id
from penstock.core.types import Offset, TopicId

PLACES_TRIED_MAX = 5_000_000
"""Over all topics; a few seconds' work."""
RECORDS_READ_MAX = 1_000_000
DEAD_LETTER_CONFIG = "queue.dead.letter.topic"


class Place(msgspec.Struct, frozen=True, order=True):
    """A place in a topic."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic} {self.partition}:{self.offset}"


class State(msgspec.Struct, frozen=True):
    """What a work group has done with a message."""

    group: str
    state: str
    deliveries: int | None = None
    until_ms: int | None = None
    reason: str = ""


class Death(msgspec.Struct, frozen=True):
    """What a dead letter says of itself."""

    place: Place
    group: str
    reason: str
    deliveries: int | None
    time_ms: int | None


class Sighting(msgspec.Struct, frozen=True):
    """A message at one place."""

    place: Place
    is_queue: bool
    is_there: bool
    """It can still be read."""
    timestamp_ms: int = -1
    key: bytes | None = None
    data: bytes | None = None
    headers: dict[str, bytes | None] = {}
    came_from: str = ""
    """Where it was moved from, if it was."""
    died: Death | None = None
    states: tuple[State, ...] = ()


class Search(msgspec.Struct):
    """What is left to try, so that no search goes on for ever."""

    places: int = msgspec.field(default_factory=lambda: PLACES_TRIED_MAX)
    records: int = msgspec.field(default_factory=lambda: RECORDS_READ_MAX)

    @property
    def is_over(self) -> bool:
        """A bound was reached."""
        return self.places <= 0 or self.records <= 0


def find_origin(wanted: str, topics: Iterable[TopicDescription], search: Search) -> Place | None:
    """The place whose id this is."""
    for topic in topics:
        topic_id = TopicId(bytes.fromhex(topic.id))
        for part in topic.partitions:
            # Also of messages that were deleted since: their ids are still theirs.
            first = max(0, part.end - search.places)
            for offset in range(part.end - 1, first - 1, -1):
                if message_id(topic_id, part.index, Offset(offset)) == wanted:
                    return Place(topic.name, part.index, offset)
            search.places -= part.end - first
    return None


async def find_moved(
    client: Client,
    wanted: str,
    topics: Sequence[TopicDescription],
    since: datetime | None,
    search: Search,
) -> list[Place]:
    """Where a message was moved to: what lies there has its id, or comes from such a place."""
    found: list[Place] = []
    known: set[str] = set()
    for topic in topics:
        async for record in client.read(topic.name, start=since or "earliest", codec=StoredCodec()):
            stored = _stored(record)
            if stored is not None and (
                stored.text(card.MESSAGE_ID) == wanted or _origin(stored) in known
            ):
                found.append(Place(topic.name, record.partition, record.offset))
                known.add(f"{topic.id}:{record.partition}:{record.offset}")
            search.records -= 1
            if search.records <= 0:
                return found
    return found


async def look_at(client: Client, place: Place, names: Mapping[str, str]) -> Sighting:
    """What is to be seen at a place; `names` are those of topics, by their ids."""
    topic = await client.describe_topic(place.topic)
    record = await _record(client, topic, place)
    states = await _states(client, place) if topic.is_queue else ()
    if record is None:
        return Sighting(place, topic.is_queue, is_there=False, states=states)
    stored = _stored(record)
    return Sighting(
        place=place,
        is_queue=topic.is_queue,
        is_there=True,
        timestamp_ms=record.timestamp_ms,
        key=record.key,
        data=None if stored is None else stored.data,
        headers=dict(record.headers),
        came_from="" if stored is None else _named(_origin(stored), names),
        died=None if stored is None else _death(stored),
        states=states,
    )


def dead_letters_of(topic: TopicDescription) -> str:
    """Where the messages of a queue go that die; empty if they stay."""
    return topic.configs.get(DEAD_LETTER_CONFIG, "")


def time_of(sighting: Sighting) -> datetime | None:
    """When the message was sent there, if it can still be read."""
    if not sighting.is_there:
        return None
    return datetime.fromtimestamp(sighting.timestamp_ms / 1_000, UTC)


async def _record(client: Client, topic: TopicDescription, place: Place) -> Record[Stored] | None:
    bounds = next((one for one in topic.partitions if one.index == place.partition), None)
    if bounds is None or not bounds.start <= place.offset < bounds.end:
        return None
    start = {place.partition: place.offset}
    end = {place.partition: place.offset + 1}
    async for record in client.read(
        place.topic, start=start, end=end, partitions=[place.partition], codec=StoredCodec()
    ):
        if record.offset == place.offset:
            return record
    return None


async def _states(client: Client, place: Place) -> tuple[State, ...]:
    described = await client.describe_queue(place.topic)
    states = []
    for group in described.groups:
        queue = client.queue(place.topic, group=group, codec=StoredCodec())
        seen = await queue.peek(1, partition=place.partition, start=place.offset)
        if seen and seen[0].offset == place.offset:
            one = seen[0]
            until_ms = None if one.until is None else int(one.until.timestamp() * 1_000)
            states.append(State(group, one.state, one.deliveries, until_ms, one.reason))
        else:
            states.append(State(group, "over"))
    return tuple(states)


def _stored(record: Record[Stored]) -> Stored | None:
    """None for a record without a body, which no codec is asked about."""
    body: Stored | None = record.body
    return body


def _origin(stored: Stored) -> str:
    """Topic id, partition and offset of where it was moved from; nothing if it was not moved."""
    return ":".join((stored.text(card.ORIGIN) or "").split(":", 3)[:3])


def _named(origin: str, names: Mapping[str, str]) -> str:
    topic_id, _, place = origin.partition(":")
    return f"{names.get(topic_id, topic_id)} {place}".strip()


def _death(stored: Stored) -> Death | None:
    topic = stored.text(card.DEAD_TOPIC)
    if topic is None:
        return None
    place = Place(topic, stored.number(card.DEAD_PARTITION) or 0,
                  stored.number(card.DEAD_OFFSET) or 0)  # fmt: skip
    return Death(
        place,
        stored.text(card.DEAD_GROUP) or "",
        stored.text(card.DEAD_REASON) or "",
        stored.number(card.DEAD_DELIVERIES),
        stored.number(card.DEAD_MS),
    )
