"""ListOffsets, key 2: offsets by time, and the ends of a partition.

Versions    1–11.
Behaviour   Time -1 is the high watermark, after a majority has confirmed that this node still
            leads, so that a reader sees what was acknowledged before it asked. -2 and -4 are the
            log start. -3 is the message with the highest time. -5 and -6 ask about tiered storage,
            of which there is none: offset -1. A time below 0 that the version does not know is
            UNSUPPORTED_VERSION. Any other time is the first message that is as late or later; a row
            tells the epoch in which that was written. An epoch that is not the leader's is fenced.
            The isolation level changes nothing. A partition that is named again with another time
            is INVALID_REQUEST.
KIPs        79, 207, 320, 405, 1005 and 1023 (-4, -5 and -6), 734 (-3), 1075 (the timeout is not
            used).
Not served  Nothing is left out.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.core.batch_times import first_message_from, latest_message
from penstock.core.errors import PenstockError
from penstock.core.types import EARLIEST, LATEST, Offset, ShardId
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import (
    FENCED_LEADER_EPOCH,
    INVALID_REQUEST,
    UNKNOWN_LEADER_EPOCH,
    UNSUPPORTED_VERSION,
    read_code,
)
from penstock.kafka.metadata import find_topic

if TYPE_CHECKING:
    from penstock.core.topic import Topic
    from penstock.engine.engine import Engine

MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
_KNOWN_FROM: Final = {
    int(LATEST): 1, int(EARLIEST): 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, -5: 9, -6: 11,
}  # fmt: skip
"""The times below 0, and the versions from which on they have a meaning."""

_NO_EPOCH: Final = -1
_TIME_MAX: Final = (1 << 63) - 1
_BYTES_READ: Final = 1


async def handle(request: Message, context: Context) -> Answer:
    """One row for every partition, with its offset or its error."""
    unconfirmed = await _confirm(request, context)
    found: dict[tuple[str, int], tuple[Message, Answer]] = {}
    topics = []
    for asked in request.topics:
        rows = []
        async for part in context.each(asked.partitions):
            key = (asked.name, part.partition_index)
            if key not in found:
                found[key] = part, await _row(asked.name, part, context, unconfirmed)
            first, row = found[key]
            rows.append(row if part == first else _named_twice(part, context))
        topics.append({"name": asked.name, "partitions": rows})
    return {"topics": topics}


def _named_twice(part: Message, context: Context) -> Answer:
    """Kafka refuses these too. Each time would open a batch, and a request has many rows."""
    context.count_error(INVALID_REQUEST)
    return {"partition_index": part.partition_index, "error_code": INVALID_REQUEST}


async def _confirm(request: Message, context: Context) -> dict[ShardId, PenstockError]:
    """Be sure to be current, once for each shard that is asked about; the shards that are not."""
    engine = context.engine
    by_shard: dict[ShardId, tuple[Topic, int]] = {}
    for asked in request.topics:
        topic = engine.topics.catalog.topic(asked.name)
        async for part in context.each(asked.partitions if topic is not None else ()):
            assert topic is not None
            if part.timestamp != EARLIEST and 0 <= part.partition_index < len(topic.partitions):
                shard = engine.topics.shard_of(topic.partitions[part.partition_index])
                by_shard[shard] = (topic, part.partition_index)
    outcomes = await asyncio.gather(
        *(engine.topics.confirm(topic, index) for topic, index in by_shard.values()),
        return_exceptions=True,
    )
    unconfirmed: dict[ShardId, PenstockError] = {}
    for shard, outcome in zip(by_shard, outcomes, strict=True):
        if isinstance(outcome, PenstockError):
            unconfirmed[shard] = outcome
        elif outcome is not None:
            raise outcome
    return unconfirmed


async def _row(
    name: str, asked: Message, context: Context, unconfirmed: dict[ShardId, PenstockError]
) -> Answer:
    index: int = asked.partition_index
    engine = context.engine
    if asked.timestamp < 0 and context.version < _KNOWN_FROM.get(asked.timestamp, 1 << 15):
        context.count_error(UNSUPPORTED_VERSION)
        return {"partition_index": index, "error_code": UNSUPPORTED_VERSION}
    try:
        topic = find_topic(engine, name)
        code, term = _check_epoch(topic, asked, engine)
        refusal = unconfirmed.get(engine.topics.shard_of(topic.partitions[index]))
        if refusal is not None and asked.timestamp != EARLIEST:
            raise refusal
        if code == 0:
            offset, time_ms = await _find(engine, topic, index, asked.timestamp)
            epoch = _NO_EPOCH
            if offset >= 0:
                written = asked.timestamp != LATEST and engine.topics.epoch_of(
                    topic, index, Offset(offset)
                )
                epoch = written or term
            return {
                "partition_index": index, "timestamp": time_ms, "offset": offset,
                "leader_epoch": epoch,
            }  # fmt: skip
    except PenstockError as error:
        code = read_code(error)
    context.count_error(code)
    return {"partition_index": index, "error_code": code}


def _check_epoch(topic: "Topic", asked: Message, engine: "Engine") -> tuple[int, int]:
    engine.topics.bounds(topic, asked.partition_index)  # Raises if the partition is not led here.
    term = engine.topics.leader(
        engine.topics.shard_of(topic.partitions[asked.partition_index])
    ).term
    epoch = asked.current_leader_epoch
    if epoch in (_NO_EPOCH, term):
        return 0, term
    return (FENCED_LEADER_EPOCH if epoch < term else UNKNOWN_LEADER_EPOCH), term


async def _find(engine: "Engine", topic: "Topic", index: int, time_ms: int) -> tuple[int, int]:
    """(offset, time) as the protocol wants them; -1 for what is not there or not asked."""
    bounds = engine.topics.bounds(topic, index)
    if time_ms == LATEST:
        return bounds.high_watermark, -1
    if time_ms in (EARLIEST, EARLIEST_LOCAL):
        return bounds.log_start, -1
    if bounds.log_start >= bounds.high_watermark:
        return -1, -1  # What the log may still hold is deleted.
    if time_ms == MAX_TIMESTAMP:
        return await _find_latest(engine, topic, index)
    if time_ms < 0:
        return -1, -1
    found = engine.topics.offset_for_time(topic, index, time_ms)
    if found is None:
        return -1, -1
    batches = engine.topics.read(topic, index, found[0], _BYTES_READ)
    # Opening a batch may take long, and the node has more to do.
    exact = await asyncio.to_thread(first_message_from, batches, time_ms, bounds.log_start)
    offset, time_found_ms = exact or found
    return max(offset, bounds.log_start), time_found_ms


async def _find_latest(engine: "Engine", topic: "Topic", index: int) -> tuple[int, int]:
    """The message with the highest time: asks for later and later times until there is none."""
    best: tuple[Offset, int] | None = None
    low, high = 0, _TIME_MAX
    while low <= high:
        middle = (low + high) // 2
        found = engine.topics.offset_for_time(topic, index, middle)
        if found is None:
            high = middle - 1
        else:
            best, low = found, max(found[1], middle) + 1
    if best is None:
        return -1, -1
    batches = engine.topics.read(topic, index, best[0], _BYTES_READ)
    return await asyncio.to_thread(latest_message, batches) or best
