"""DescribeShareGroupOffsets, key 90: how far share groups have got.

Versions    0–1.
Behaviour   Asked of a group's coordinator; others answer NOT_COORDINATOR. The start offset is the
            first message that is not done with; -1 if the group has not begun with the partition.
            The lag (version 1 on) counts messages from there to the end. No topics given: all that
            the group has begun with. A group that is not there has begun with none. A partition
            whose leader cannot be reached has the error LEADER_NOT_AVAILABLE.
KIPs        932, 1226 (lag).
Not served  The lag counts messages behind the start offset that are done with, too.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.core.errors import PenstockError
from penstock.core.topic import Topic
from penstock.core.types import NO_TOPIC_ID, PartitionId
from penstock.engine.delivery.requests import QueuePlace
from penstock.kafka.codec import Answer, EncodedRows, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import (
    LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
    group_code,
)
from penstock.kafka.row_errors import Row, refused, refused_with, rows_side_by_side
from penstock.kafka.share_directory import ShareSurvey

_NOT_BEGUN: Final = -1


async def handle(request: Message, context: Context) -> Answer:
    """Describe each group; those that cannot be are answered with the reason."""
    survey = ShareSurvey(context.engine)

    async def describe(asked: Message) -> Row:
        row: Row = {"group_id": asked.group_id, "topics": [], "error_message": None}
        try:
            begun = await survey.offsets_of(asked.group_id)
        except PenstockError as error:
            return row | refused(context, error, group_code)
        wanted: Mapping[str, Sequence[int]] = begun
        if asked.topics is not None:
            wanted = {one.topic_name: list(dict.fromkeys(one.partitions)) for one in asked.topics}
        row["topics"] = await _topics(asked.group_id, wanted, context)
        return row

    once = {asked.group_id: asked for asked in request.groups}
    rows = rows_side_by_side(describe, once.values())
    return {"groups": await context.rows("groups", rows)}


async def _topics(group: str, wanted: Mapping[str, Sequence[int]], context: Context) -> EncodedRows:
    engine = context.engine
    topics = {name: engine.topics.catalog.topic(name) for name in wanted}
    numbers = [
        topic.partitions[index]
        for name, indexes in wanted.items()
        if (topic := topics[name]) is not None
        for index in indexes
        if 0 <= index < len(topic.partitions)
    ]
    places = await engine.survey.places(numbers)
    rows = (
        {
            "topic_name": name,
            "topic_id": NO_TOPIC_ID if topic is None else topic.topic_id,
            "partitions": await context.rows(
                "groups topics partitions",
                (
                    _partition(group, topic, index, places, context)
                    async for index in context.each(indexes)
                ),
            ),
        }
        for (name, topic), indexes in zip(topics.items(), wanted.values(), strict=True)
    )
    return await context.rows("groups topics", rows)


def _partition(
    group: str,
    topic: Topic | None,
    index: int,
    places: Mapping[PartitionId, QueuePlace],
    context: Context,
) -> Row:
    row: Row = {
        "partition_index": index, "start_offset": _NOT_BEGUN, "leader_epoch": 0, "lag": -1,
        "error_message": None,
    }  # fmt: skip
    if topic is None or not 0 <= index < len(topic.partitions):
        text = "there is no such partition"
        return row | refused_with(context, UNKNOWN_TOPIC_OR_PARTITION, text)
    partition = topic.partitions[index]
    place = places.get(partition)
    if place is None:
        text = "the partition's leader cannot be reached; ask again"
        return row | refused_with(context, LEADER_NOT_AVAILABLE, text)
    engine = context.engine
    row["leader_epoch"] = engine.topics.leader(engine.topics.shard_of(partition)).term
    if group in place.starts:
        row["start_offset"] = place.starts[group]
        row["lag"] = place.end - place.starts[group]
    return row
