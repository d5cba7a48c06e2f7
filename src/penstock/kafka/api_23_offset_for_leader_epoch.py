"""OffsetForLeaderEpoch, key 23: whether what a client has read is still in the log.

Versions    2–4.
Behaviour   Clients ask after a change of leaders, to see whether the log was cut below them. Here
            it never is: a client reads only what a majority has, and a leader has all of that. An
            epoch is the term of the partition's shard. The answer to an epoch up to the leader's is
            that epoch and the high watermark, after a majority has confirmed that this node leads
            and is current; a new leader that has not committed anything yet could name one that is
            too low, and the client would throw away what is good. For an old epoch the end would be
            lower in Kafka, but never below what the client has read of it, so the outcome is the
            same. While a shard has no majority, which of its replicas has everything is not known,
            and the answer is the highest offset there can be: nothing is cut then either. An epoch
            above the leader's is UNKNOWN_LEADER_EPOCH, which is asked again, one below 0 has no
            offset. The client's own idea of the leader's epoch is checked as everywhere.
KIPs        101, 279, 320.
Not served  Where an old epoch ended: nothing that Kafka's clients need.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from penstock.core.errors import PenstockError
from penstock.core.topic import Topic
from penstock.core.types import ShardId
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, read_code
from penstock.kafka.metadata import find_topic
from penstock.kafka.row_errors import Row, refused, refused_with

_NO_EPOCH: Final = -1
_OFFSET_MAX: Final = (1 << 63) - 1


async def handle(request: Message, context: Context) -> Answer:
    """One row for every partition: an epoch and where it ends, or an error."""
    unsure = await _confirm(request, context)
    topics = (
        {
            "topic": asked.topic,
            "partitions": await context.rows(
                "topics partitions",
                (
                    _row(asked.topic, one, unsure, context)
                    async for one in context.each(asked.partitions)
                ),
            ),
        }
        for asked in request.topics
    )
    return {"topics": await context.rows("topics", topics)}


async def _confirm(request: Message, context: Context) -> dict[ShardId, PenstockError]:
    """Be sure to be current, once for each shard; those of which this node is not, and why."""
    engine = context.engine
    by_shard: dict[ShardId, tuple[Topic, int]] = {}
    for asked in request.topics:
        topic = engine.topics.catalog.topic(asked.topic)
        async for one in context.each(asked.partitions if topic is not None else ()):
            assert topic is not None
            if 0 <= one.partition < len(topic.partitions):
                by_shard[engine.topics.shard_of(topic.partitions[one.partition])] = (
                    topic,
                    one.partition,
                )
    outcomes = await asyncio.gather(
        *(engine.topics.confirm(topic, index) for topic, index in by_shard.values()),
        return_exceptions=True,
    )
    unsure = {}
    for shard, outcome in zip(by_shard, outcomes, strict=True):
        if isinstance(outcome, PenstockError):
            unsure[shard] = outcome
        elif outcome is not None:
            raise outcome
    return unsure


def _row(
    name: str, asked: Message, unsure: Mapping[ShardId, PenstockError], context: Context
) -> Row:
    engine = context.engine
    row: Row = {"partition": asked.partition}
    try:
        topic = find_topic(engine, name)
        bounds = engine.topics.bounds(topic, asked.partition)
        shard = engine.topics.shard_of(topic.partitions[asked.partition])
        if shard in unsure:
            raise unsure[shard]
    except PenstockError as error:
        return row | refused(context, error, read_code)
    term, believed = engine.topics.leader(shard).term, asked.current_leader_epoch
    if believed != _NO_EPOCH and believed < term:
        text = f"the leader's epoch is {term}, not {believed}; ask who leads"
        return row | refused_with(context, FENCED_LEADER_EPOCH, text)
    if max(believed, asked.leader_epoch) > term:
        text = f"the leader's epoch is {term} as far as is known here; ask again"
        return row | refused_with(context, UNKNOWN_LEADER_EPOCH, text)
    if asked.leader_epoch < 0:
        return row
    end = _OFFSET_MAX if engine.topics.is_read_only(shard) else bounds.high_watermark
    return row | {"leader_epoch": asked.leader_epoch, "end_offset": end}
