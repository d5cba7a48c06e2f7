"""OffsetFetch, key 9: how far groups have read.

Versions    1–10.
Behaviour   One group up to version 7, several from 8 on. A partition without a committed offset has
            the offset -1 and no error, one of an unknown topic too, but for topics that are asked
            for by id (version 10), which have UNKNOWN_TOPIC_ID. No list of topics means everything
            that is committed.
KIPs        88 (all topics), 320, 447 (`require_stable`: everything is stable), 482, 709 (several
            groups), 848 (topic ids).
Not served  Member epochs of the newer group protocol (KIP-848).
"""

from collections.abc import AsyncIterator, Iterable

from penstock.core.errors import PenstockError
from penstock.core.topic import Topic
from penstock.core.types import NO_TOPIC_ID, Offset, TopicId
from penstock.engine.groups.coordinator import Coordinator
from penstock.engine.groups.requests import OffsetKey
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import UNKNOWN_TOPIC_ID, group_code
from penstock.machines.group import CommittedOffset

_MANY_GROUPS = 8
_TOPIC_IDS = 10
_NOTHING = CommittedOffset(offset=Offset(-1), leader_epoch=-1, metadata="", commit_ms=0)


async def handle(request: Message, context: Context) -> Answer:
    """The offsets of every group asked for."""
    if context.version >= _MANY_GROUPS:
        once = {asked.group_id: asked for asked in request.groups}
        rows = (await _group_row(asked, context) for asked in once.values())
        return {"groups": await context.rows("groups", rows)}
    row = await _group_row(request, context)
    return {"topics": row["topics"], "error_code": row["error_code"]}


async def _group_row(asked: Message, context: Context) -> Answer:
    """`asked` is a part of the request, or up to version 7 the request itself."""
    group, code = asked.group_id, 0
    try:
        coordinator = context.engine.groups.coordinator(group)
        await context.engine.groups.confirm_group(group)
    except PenstockError as error:
        code = group_code(error)
        context.count_error(code)
        rows = _failed_topics(asked.topics or (), code, context)
    else:
        rows = (
            _all_topics(coordinator.offsets(group), context)
            if asked.topics is None
            else _named_topics(group, asked.topics, coordinator, context)
        )
    topics = await context.rows(_array("topics", context), rows)
    return {"group_id": group, "topics": topics, "error_code": code}


def _array(name: str, context: Context) -> str:
    return name if context.version < _MANY_GROUPS else f"groups {name}"


def _topic_id(asked: Message, context: Context) -> TopicId | None:
    catalog = context.engine.topics.catalog
    if context.version >= _TOPIC_IDS:
        return None if catalog.topic_by_id(asked.topic_id) is None else TopicId(asked.topic_id)
    topic = catalog.topic(asked.name)
    return None if topic is None else topic.topic_id


async def _named_topics(
    group: str, asked: Iterable[Message], coordinator: Coordinator, context: Context
) -> AsyncIterator[Answer]:
    # Each topic and each partition is answered once: a row may be long.
    by_id = context.version >= _TOPIC_IDS
    once = {topic.topic_id if by_id else topic.name: topic for topic in asked}
    for topic in once.values():
        topic_id = _topic_id(topic, context)
        indexes = dict.fromkeys(topic.partition_indexes)
        keys = [(topic_id, index) for index in indexes] if topic_id is not None else []
        found = coordinator.offsets(group, keys)
        code = UNKNOWN_TOPIC_ID if topic_id is None and by_id else 0
        rows = (
            _partition_row(index, found.get((topic_id or NO_TOPIC_ID, index), _NOTHING), code)
            async for index in context.each(indexes)
        )
        yield await _named(topic, rows, context)


async def _all_topics(
    found: dict[OffsetKey, CommittedOffset], context: Context
) -> AsyncIterator[Answer]:
    by_topic: dict[TopicId, dict[int, CommittedOffset]] = {}
    async for (topic_id, index), committed in context.each(found.items()):
        by_topic.setdefault(topic_id, {})[index] = committed
    for topic_id, offsets in sorted(by_topic.items()):
        topic = context.engine.topics.catalog.topic_by_id(topic_id)
        if topic is not None:
            ordered = context.each(sorted(offsets))
            rows = (_partition_row(index, offsets[index], 0) async for index in ordered)
            yield await _named(topic, rows, context)


async def _failed_topics(
    asked: Iterable[Message], code: int, context: Context
) -> AsyncIterator[Answer]:
    for topic in asked:
        indexes = context.each(topic.partition_indexes)
        rows = (_partition_row(index, _NOTHING, code) async for index in indexes)
        yield await _named(topic, rows, context)


async def _named(topic: Message | Topic, rows: AsyncIterator[Answer], context: Context) -> Answer:
    partitions = await context.rows(_array("topics partitions", context), rows)
    if context.version < _MANY_GROUPS:
        return {"name": topic.name, "partitions": partitions}
    return {"name": topic.name, "topic_id": topic.topic_id, "partitions": partitions}


def _partition_row(index: int, committed: CommittedOffset, code: int) -> Answer:
    return {
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": code,
    }
