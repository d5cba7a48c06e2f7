"""The history of one message: asked of any node, put together from all replicas.

    find      the place of an id, and the places of its copies         `message_search`
    ask       every node what it knows of each place                   `message_facts`
    tell      the union of what they say, in the order of events       `story`

Who knows what: the replicas of the partition's shard have the message, where it stands in the log
and what the queue's commands did to it; its leader also knows who holds the entry and where the
message is now; the leaders of other shards know how far consumer groups have read. All nodes are
asked the same, at once. One that does not answer in time is left out: what the others say stays
true, and the story says how far back it reaches.
"""

import asyncio
import re
from collections.abc import Iterable, Sequence
from math import inf

import msgspec

from penstock.core import delivery_headers
from penstock.core.errors import InvalidRequest, PenstockError
from penstock.core.limits import KIB
from penstock.core.message import Message
from penstock.core.message_id import message_id
from penstock.core.message_states import current_state
from penstock.core.move_filter import read_number
from penstock.core.topic import Topic
from penstock.core.types import NO_TOPIC_ID, Offset, ShardId, TopicId
from penstock.engine.inspection.queue_survey import QueueSurvey
from penstock.engine.inspection.traces.message_facts import (
    TRACE_PLACE,
    AskedPlace,
    MessageFacts,
    PlaceFacts,
)
from penstock.engine.inspection.traces.message_search import (
    PLACES_TRIED_MAX,
    TRACE_COPIES,
    FindCopies,
    FoundCopy,
    Stretch,
    find_copies,
    find_place,
    origin_of,
    place_text,
    places_of,
)
from penstock.engine.inspection.traces.timeline import Passing, tell
from penstock.engine.moves.moves import Moves
from penstock.engine.peers.calls import RemoteCalls
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.topics.topics import Topics
from penstock.machines.queue_commands import CopyPlace
from penstock.wire.trace_requests import (
    Death,
    Encoded,
    Place,
    Reader,
    Sighting,
    Text,
    TraceInfo,
    Written,
)

BODY_BYTES_MAX = 64 * KIB
SEARCHES_MAX = 2
"""At a time, on one node: one search must not delay others."""
TRACE_BYTES = 55
"""Of the header traceparent: 00, the trace, its parent, flags, with hyphens in between."""
ROUNDS_MAX = 8
"""The number of moves, from queue to queue, that are followed."""
COPIES_MAX = 100
"""The number of copies above which the delivery histories are not followed further."""

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLACE = re.compile(r"(.+):(\d{1,9}):(\d{1,18})")


class Traces:
    """The traces of one node."""

    def __init__(
        self,
        topics: Topics,
        survey: QueueSurvey,
        moves: Moves,
        shards: LocalShards,
        calls: RemoteCalls,
    ) -> None:
        self._topics = topics
        self._survey = survey
        self._moves = moves
        self._shards = shards
        self._calls = calls
        self.facts = MessageFacts(topics, shards)
        self._searching = asyncio.Semaphore(SEARCHES_MAX)
        self._reading = asyncio.Semaphore(SEARCHES_MAX)

    async def trace(self, message: str, within: Sequence[str] = ()) -> TraceInfo:
        """Trace a message from where it was sent first through all its moves."""
        topics = [self._topics.topic(name) for name in within]
        place = _PLACE.fullmatch(message)
        if place is not None and not _ID.fullmatch(message.lower()):
            topic, index = self._topics.topic(place[1]), int(place[2])
            if index >= len(topic.partitions):
                raise InvalidRequest(
                    f"{topic.name} has {len(topic.partitions)} partitions, not {index}"
                )
            seen = [await self._look_at(topic, index, Offset(int(place[3])))]
            await self._follow(seen, seen[0].id, topics)
            return TraceInfo(message, tuple(seen))
        wanted = message.lower()
        if not _ID.fullmatch(wanted):
            raise InvalidRequest(
                f'"{message}" is neither the id of a message nor a place such as jobs:0:17'
            )
        origin, gave_up = await self._find(wanted, topics)
        seen = [] if origin is None else [await self._look_at(*origin)]
        await self._follow(seen, wanted, topics)
        return TraceInfo(wanted, tuple(seen), gave_up and not seen)

    # Finding.

    async def _find(
        self, wanted: str, within: Sequence[Topic]
    ) -> tuple[tuple[Topic, int, Offset] | None, bool]:
        """Return the place of an id, and whether there was more than could be searched."""
        catalog = self._topics.catalog
        topics = within or [topic for _, topic in sorted(catalog.topics.items())]
        ends = await self._survey.places(
            partition for topic in topics for partition in topic.partitions
        )
        stretches = [
            Stretch(topic.topic_id, index, ends[partition].end)
            for topic in topics
            for index, partition in enumerate(topic.partitions)
            if partition in ends
        ]
        async with self._searching:
            found = await find_place(wanted, stretches, PLACES_TRIED_MAX)
        if found is None:
            return None, places_of(stretches) > PLACES_TRIED_MAX
        stretch, offset = found
        topic = catalog.topic_by_id(stretch.topic_id)
        return (None if topic is None else (topic, stretch.index, offset)), False

    async def _follow(self, seen: list[Sighting], wanted: str, within: Sequence[Topic]) -> None:
        """Adds the places that copies went to, and those that their copies went to."""
        known = {one.place for one in seen}
        looked: set[tuple[TopicId, int]] = set()
        for _ in range(ROUNDS_MAX):
            await self._look_at_copies(seen, known)
            candidates = [*within, *await self._next_topics(seen)]
            if not candidates:
                break
            before = len(seen)
            for topic in {one.topic_id: one for one in candidates}.values():
                if (topic.topic_id, len(seen)) in looked:
                    continue
                looked.add((topic.topic_id, len(seen)))
                for copy in await self._copies(topic, wanted, seen):
                    place = Place(topic.name, copy.index, copy.offset)
                    if place not in known:
                        known.add(place)
                        seen.append(await self._look_at(topic, copy.index, copy.offset))
            if len(seen) == before:
                break
        seen[1:] = sorted(seen[1:], key=_arrival)

    async def _look_at_copies(self, seen: list[Sighting], known: set[Place]) -> None:
        """Adds the places that delivery histories say copies went to: what was done and deleted
        there cannot be found by reading."""
        for one in seen:  # And those that are added meanwhile.
            for place in (happening.copy for happening in one.happenings):
                topic = None if place is None else self._topics.catalog.topic(place.topic)
                if place is None or topic is None or place in known or len(known) > COPIES_MAX:
                    continue
                known.add(place)
                seen.append(await self._look_at(topic, place.partition, Offset(place.offset)))

    async def _next_topics(self, seen: Sequence[Sighting]) -> list[Topic]:
        """The topics that the messages may have moved to. Dead-letter queues come first, because a
        message that returns to a queue comes from one."""
        catalog = self._topics.catalog
        found: dict[TopicId, Topic] = {}
        for name in dict.fromkeys(one.place.topic for one in seen):
            source = catalog.topic(name)
            if source is None or not source.settings.queue.is_queue:
                continue
            letters = catalog.topic(source.settings.queue.dead_letter_topic)
            for topic in (letters, source, *self._served(name)):
                if topic is not None:
                    found[topic.topic_id] = topic
                    found |= {one.topic_id: one for one in await self._destinations(topic)}
        return list(found.values())

    def _served(self, letters: str) -> list[Topic]:
        """The queues whose dead letters this queue receives: they may return there."""
        topics = self._topics.catalog.topics.values()
        return [one for one in topics if one.settings.queue.dead_letter_topic == letters]

    async def _destinations(self, source: Topic) -> list[Topic]:
        """The recent destinations of moves out of a queue."""
        try:
            moves = await self._moves.list(source)
        except PenstockError:
            return []
        ids = dict.fromkeys(one.destination for one in moves if one.destination != NO_TOPIC_ID)
        topics = (self._topics.catalog.topic_by_id(one) for one in ids)
        return [topic for topic in topics if topic is not None]

    async def _copies(self, topic: Topic, wanted: str, seen: Sequence[Sighting]) -> list[FoundCopy]:
        origins: list[str] = []
        since_ms = -1
        for one in seen:
            source = self._topics.catalog.topic(one.place.topic)
            if source is not None:
                place = one.place.partition, Offset(one.place.offset)
                origins.append(place_text(source.topic_id, *place))
        times = [one.timestamp_ms for one in seen if one.timestamp_ms is not None]
        if seen and seen[0].timestamp_ms is not None:
            since_ms = min(times)  # Copies come after what they are copies of.
        asked = [
            FindCopies(topic.topic_id, index, wanted, tuple(origins), since_ms)
            for index in range(len(topic.partitions))
        ]
        answers = await asyncio.gather(*(self._ask_copies(topic, one) for one in asked))
        found = [copy for answer in answers for copy in answer]
        return sorted(found, key=lambda one: one.timestamp_ms)

    async def _ask_copies(self, topic: Topic, asked: FindCopies) -> list[FoundCopy]:
        shard = self._topics.shard_of(topic.partitions[asked.index])
        try:
            return await self._calls.ask_leader(shard, TRACE_COPIES, asked)
        except PenstockError:
            return []  # What cannot be reached is not found.

    async def copies_here(self, asked: FindCopies) -> list[FoundCopy]:
        """Copies in a partition of which this node has a replica."""
        topic = self._topics.catalog.topic_by_id(asked.topic_id)
        if topic is None or not 0 <= asked.index < len(topic.partitions):
            return []
        partition = topic.partitions[asked.index]
        running = self._shards.get(self._topics.shard_of(partition))
        if running is None:
            return []
        async with self._reading:
            return await find_copies(running, partition, asked)

    # Looking.

    async def _look_at(self, topic: Topic, index: int, offset: Offset) -> Sighting:
        """Ask all nodes about a place, and merge what they know."""
        asked = AskedPlace(topic.topic_id, index, offset)
        shard = self._topics.shard_of(topic.partitions[index])
        answers = await self._calls.ask_all(TRACE_PLACE, asked)
        return self._put_together(topic, shard, asked, list(answers.replies.values()))

    def _put_together(
        self, topic: Topic, shard: ShardId, asked: AskedPlace, known: Sequence[PlaceFacts]
    ) -> Sighting:
        holders = [one for one in known if one.holds]
        message = next((one.message for one in holders if one.message is not None), None)
        states = tuple(
            msgspec.structs.replace(one, state=current_state(one.state))
            for one in next((one.states for one in holders if one.states), ())
        )
        written = self._written(shard, holders)
        index = 0 if written is None else written.index
        reaching = min(holders, key=lambda one: one.first_index, default=PlaceFacts())
        # Of a message that is not there any more, the time it was written is unknown.
        complete = 0 < reaching.first_index <= index or reaching.first_index == 1
        own = None if message is None else message.header(delivery_headers.MESSAGE_ID)
        seen = Sighting(
            place=Place(topic.name, asked.index, asked.offset),
            id=message_id(topic.topic_id, asked.index, asked.offset)
            if own is None
            else own.decode(errors="replace"),
            is_queue=topic.settings.queue.is_queue,
            is_there=message is not None,
            written=written,
            states=states,
            happenings=tell(
                (note for one in holders for note in one.notes),
                states,
                self._topics.clock.wall_ms(),
                self._place_of,
            ),
            readers=_readers(known),
            is_complete=complete,
            since_ms=None if reaching.since_ms < 0 else reaching.since_ms,
        )
        return seen if message is None else self._add_message(seen, message)

    def _place_of(self, copy: CopyPlace) -> Place | None:
        topic = self._topics.catalog.topic_by_id(copy.topic_id)
        return None if topic is None else Place(topic.name, copy.partition, copy.offset)

    def _written(self, shard: ShardId, holders: Sequence[PlaceFacts]) -> Written | None:
        found = [one for one in holders if one.index]
        if not found:
            return None
        nodes = {node for one in found for node in one.nodes}
        return Written(
            shard=shard,
            index=found[0].index,
            term=found[0].term,
            time_ms=max(one.written_ms for one in found),
            leader=self._topics.leader(shard).node,
            nodes=tuple(sorted(nodes)),
        )

    def _add_message(self, seen: Sighting, message: Message) -> Sighting:
        """Add the facts in the message itself."""
        value = message.value
        parent = message.header("traceparent") or b""
        return msgspec.structs.replace(
            seen,
            timestamp_ms=message.timestamp_ms,
            key=_text(message.key),
            body=_text(None if value is None else value[:BODY_BYTES_MAX]),
            body_bytes=len(value or b""),
            headers={name: _text(value) for name, value in message.headers},
            trace=parent.decode(errors="replace")[3:35] if len(parent) >= TRACE_BYTES else "",
            came_from=self._came_from(message),
            died=_death(message),
        )

    def _came_from(self, message: Message) -> Place | None:
        parts = origin_of(message).split(":")
        if len(parts) != 3 or not parts[1].isdecimal() or not parts[2].isdecimal():
            return None
        try:
            topic = self._topics.catalog.topic_by_id(TopicId(bytes.fromhex(parts[0])))
        except ValueError:
            return None
        name = parts[0] if topic is None else topic.name
        return Place(name, int(parts[1]), int(parts[2]))


def _arrival(seen: Sighting) -> float:
    """The time when a copy was written, since it may carry the timestamp of the original. A copy
    that was removed counts as older than its events."""
    if seen.written is not None:
        return seen.written.time_ms
    if seen.timestamp_ms is not None:
        return seen.timestamp_ms
    return min((one.time_ms for one in seen.happenings), default=inf)


def _readers(known: Iterable[PlaceFacts]) -> tuple[Reader, ...]:
    """Each group once, with when it went by, if some history knows."""
    passings: dict[str, Passing] = {}
    readers: dict[str, Reader] = {}
    for one in known:
        readers |= {reader.group: reader for reader in one.readers}
        for passing in one.passings:
            first = passings.get(passing.group)
            if first is None or passing.index < first.index:
                passings[passing.group] = passing
    return tuple(
        msgspec.structs.replace(
            reader,
            passed_ms=passings[name].time_ms if name in passings else None,
            member=passings[name].member if name in passings else "",
        )
        for name, reader in sorted(readers.items())
    )


def _text(data: bytes | None) -> Text:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Encoded(data)


def _death(message: Message) -> Death | None:
    topic = message.header(delivery_headers.DEAD_TOPIC)
    if topic is None:
        return None

    def text(name: str) -> str:
        return (message.header(name) or b"").decode(errors="replace")

    def number(name: str) -> int:
        return read_number(message.header(name), -1)

    place = Place(
        topic.decode(errors="replace"),
        max(0, number(delivery_headers.DEAD_PARTITION)),
        max(0, number(delivery_headers.DEAD_OFFSET)),
    )
    deliveries, time_ms = number(delivery_headers.DEAD_DELIVERIES), number(delivery_headers.DEAD_MS)
    return Death(
        place=place,
        group=text(delivery_headers.DEAD_GROUP),
        reason=text(delivery_headers.DEAD_REASON),
        deliveries=None if deliveries < 0 else deliveries,
        time_ms=None if time_ms < 0 else time_ms,
    )
