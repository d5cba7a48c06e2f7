"""Search of a message by its id, and of its copies.

A message's id follows from where it was sent to (see `core.message_id`), so the place is found by
trying: ids of places are computed, the newest of every partition first, until one is it. Nothing is
read for that, and a message that is deleted is found as well.

A dead letter keeps its id in a header, what was moved out of a dead-letter queue says which one it
had (`delivery_headers.FORMER_ID`), and whatever was moved says where it comes from
(`delivery_headers.ORIGIN`). They are found by reading where they may be, on the node that leads the
partition. Batches in which no header of ours stands are passed over unopened.

Both are bounded in what they look at, and let others have their turn meanwhile.
"""

import asyncio
from collections.abc import Iterator, Sequence
from hashlib import blake2b

import msgspec

from penstock.core import delivery_headers
from penstock.core.errors import InvalidBatch, OffsetOutOfRange, UnknownPartition
from penstock.core.limits import COPIES_CALL_SECONDS, KIB, MIB
from penstock.core.message import Message
from penstock.core.message_batches import has_delivery_headers, iter_batches, read_messages
from penstock.core.message_id import MESSAGE_ID_PERSON, message_id
from penstock.core.records import read_header
from penstock.core.types import Offset, PartitionId, TopicId
from penstock.engine.inspection.partition_places import first_from
from penstock.engine.peers.calls import RemoteCall
from penstock.engine.replica.shard import Shard

PLACES_TRIED_MAX = 3_000_000
"""Over all topics; a few seconds' work."""
PLACES_AT_ONCE = 2_000
"""Tried before others have their turn: about a millisecond."""
ROUND_PLACES = 50_000
"""Tried of one partition before the next one has its turn."""
COPIES_BYTES_MAX = 128 * MIB
"""Read of one partition to find copies."""
COPIES_MAX = 100
READ_BYTES = 256 * KIB


class Stretch(msgspec.Struct, frozen=True):
    """The places of one partition: offsets below `end`."""

    topic_id: TopicId
    index: int
    end: Offset


class FoundCopy(msgspec.Struct, frozen=True, array_like=True):
    """A message that is a copy of another."""

    topic_id: TopicId
    index: int
    offset: Offset
    timestamp_ms: int


class FindCopies(msgspec.Struct, frozen=True, array_like=True):
    """Requests the messages of a partition that have this id, or come from one of these places."""

    topic_id: TopicId
    index: int
    wanted: str
    origins: tuple[str, ...]
    since_ms: int


TRACE_COPIES = RemoteCall("trace_copies", FindCopies, list[FoundCopy], COPIES_CALL_SECONDS)


async def find_place(
    wanted: str, stretches: Sequence[Stretch], places_max: int = PLACES_TRIED_MAX
) -> tuple[Stretch, Offset] | None:
    """Return the place of an id; None if it is not among the newest `places_max` places."""
    digits = bytes.fromhex(wanted.replace("-", ""))
    left = places_max
    for stretch, first, end in _rounds(stretches):
        for high in range(end, first, -PLACES_AT_ONCE):
            low = max(first, high - PLACES_AT_ONCE)
            found = _try_places(wanted, digits, stretch, low, high)
            if found is not None:
                return stretch, found
            left -= high - low
            if left <= 0:
                return None
            await asyncio.sleep(0)
    return None


def places_of(stretches: Sequence[Stretch]) -> int:
    """The number of places to try."""
    return sum(one.end for one in stretches)


def _rounds(stretches: Sequence[Stretch]) -> Iterator[tuple[Stretch, int, int]]:
    """The newest of every partition, then those before them, and so on."""
    ends = [(one, int(one.end)) for one in stretches if one.end > 0]
    while ends:
        for stretch, end in ends:
            yield stretch, max(0, end - ROUND_PLACES), end
        ends = [(one, end - ROUND_PLACES) for one, end in ends if end > ROUND_PLACES]


def _try_places(wanted: str, digits: bytes, stretch: Stretch, low: int, high: int) -> Offset | None:
    """Compares the first bytes of the hash; who passes is compared in full."""
    topic_id, index, head = stretch.topic_id, stretch.index, digits[:6]
    begun = blake2b(topic_id + index.to_bytes(4, "big"), digest_size=16, person=MESSAGE_ID_PERSON)
    for offset in range(high - 1, low - 1, -1):
        one = begun.copy()
        one.update(offset.to_bytes(8, "big"))
        if one.digest().startswith(head) and message_id(topic_id, index, Offset(offset)) == wanted:
            return Offset(offset)
    return None


async def find_copies(running: Shard, partition: PartitionId, asked: FindCopies) -> list[FoundCopy]:
    """Reads on from when the message was sent."""
    try:
        start = running.machine.bounds(partition).log_start
        if asked.since_ms >= 0:
            start = first_from(running, partition, asked.since_ms)
    except UnknownPartition:
        return []
    found: list[FoundCopy] = []
    known = set(asked.origins)
    room = COPIES_BYTES_MAX
    while room > 0 and len(found) < COPIES_MAX:
        try:
            data = running.fetch(partition, start, READ_BYTES)
        except (OffsetOutOfRange, UnknownPartition):
            break
        if not data:
            break
        room -= len(data)
        for batch in iter_batches(data):
            for message in _carded(batch):
                if message.offset >= start and _is_copy(message, asked.wanted, known):
                    place = asked.topic_id, asked.index, message.offset
                    known.add(place_text(*place))
                    found.append(FoundCopy(*place, message.timestamp_ms))
        start = _end_of(data)
        await asyncio.sleep(0)
    return found[:COPIES_MAX]


def place_text(topic_id: TopicId, index: int, offset: Offset) -> str:
    """A place as the header `delivery_headers.ORIGIN` begins."""
    return f"{topic_id.hex()}:{index}:{offset}"


def origin_of(message: Message) -> str:
    """The place a message was moved from, as `place_text` formats it; empty if it was not moved."""
    said = message.header(delivery_headers.ORIGIN) or b""
    return ":".join(said.decode(errors="replace").split(":", 3)[:3])


def _is_copy(message: Message, wanted: str, known: set[str]) -> bool:
    for name in (delivery_headers.MESSAGE_ID, delivery_headers.FORMER_ID):
        one = message.header(name)
        if one is not None and one.decode(errors="replace") == wanted:
            return True
    return bool(known) and origin_of(message) in known


def _carded(batch: memoryview) -> list[Message]:
    try:
        return read_messages(batch) if has_delivery_headers(batch) else []
    except InvalidBatch:
        return []


def _end_of(data: bytes) -> Offset:
    last = None
    for batch in iter_batches(data):
        last = batch
    assert last is not None, "a read that brought something has a batch"
    header = read_header(last)
    return Offset(header.base_offset + header.last_offset_delta + 1)
