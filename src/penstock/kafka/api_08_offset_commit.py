"""OffsetCommit, key 8: remember how far a group has read.

Versions    2–10.
Behaviour   Offsets are kept by topic id, so a topic that is deleted and made again starts without
            any. Unknown topics and partitions are answered with their error and the others are
            committed. The metadata that comes with an offset is given back as it came.
KIPs        211 (retention_time, versions 2–4, is not used: offsets of an empty group live for the
            broker's offset retention), 320, 345, 482, 848 (topic ids, version 10).
Not served  Member epochs of the newer group protocol (KIP-848).
"""

from penstock.core.errors import PenstockError, UnknownPartition
from penstock.core.topic import Topic
from penstock.core.types import Offset
from penstock.engine.groups.requests import CommitOffsets, OffsetKey, OffsetToCommit
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import group_code
from penstock.kafka.fast_codec import TopicKey
from penstock.kafka.metadata import find_topic

_TOPIC_IDS = 10


async def handle(request: Message, context: Context) -> Answer:
    """Commit what is known; one row for every partition."""
    offsets: list[OffsetToCommit] = []
    rows: list[tuple[Message, list[tuple[int, OffsetKey | PenstockError]]]] = []
    for asked in request.topics:
        topic = _find(asked, context)
        places: list[tuple[int, OffsetKey | PenstockError]] = []
        async for part in context.each(asked.partitions):
            index: int = part.partition_index
            if isinstance(topic, PenstockError):
                places.append((index, topic))
            elif not 0 <= index < len(topic.partitions):
                places.append((index, UnknownPartition(f"{topic.name} has no partition {index}")))
            else:
                places.append((index, (topic.topic_id, index)))
                offsets.append(_offset(topic, part))
        rows.append((asked, places))
    outcome = await _commit(request, offsets, context)
    topics = [await _topic_row(asked, places, outcome, context) for asked, places in rows]
    return {"topics": topics}


def _find(asked: Message, context: Context) -> Topic | PenstockError:
    key: TopicKey = asked.topic_id if context.version >= _TOPIC_IDS else asked.name
    try:
        return find_topic(context.engine, key)
    except PenstockError as error:
        return error


def _offset(topic: Topic, part: Message) -> OffsetToCommit:
    return OffsetToCommit(
        topic.topic_id,
        part.partition_index,
        Offset(part.committed_offset),
        part.committed_leader_epoch,
        part.committed_metadata or "",
    )


async def _commit(
    request: Message, offsets: list[OffsetToCommit], context: Context
) -> dict[OffsetKey, PenstockError | None]:
    """What came of each partition; an error of the whole request applies to each."""
    try:
        return await context.engine.groups.coordinator(request.group_id).commit_offsets(
            CommitOffsets(
                group=request.group_id,
                member=request.member_id,
                generation=request.generation_id_or_member_epoch,
                instance=request.group_instance_id,
                offsets=tuple(offsets),
            )
        )
    except PenstockError as error:
        return {(offset.topic_id, offset.partition): error for offset in offsets}


async def _topic_row(
    asked: Message,
    places: list[tuple[int, OffsetKey | PenstockError]],
    outcome: dict[OffsetKey, PenstockError | None],
    context: Context,
) -> Answer:
    rows = []
    async for index, place in context.each(places):
        error = place if isinstance(place, PenstockError) else outcome[place]
        code = 0
        if error is not None:
            code = group_code(error)
            context.count_error(code)
        rows.append({"partition_index": index, "error_code": code})
    return {"name": asked.name, "topic_id": asked.topic_id, "partitions": rows}
