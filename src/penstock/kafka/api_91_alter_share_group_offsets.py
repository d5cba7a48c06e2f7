"""AlterShareGroupOffsets, key 91: reset the offsets of a share group.

Versions    0.
Behaviour   Asked of the group's coordinator; others answer NOT_COORDINATOR. The group must have no
            members (NON_EMPTY_GROUP). All messages from the offset on are delivered, with counts of
            deliveries from zero; what was leased is so no more. An offset out of range is taken for
            the nearer end. A partition that the group has not begun with is begun, and a group that
            is not there is made: so its start is set before its first member comes.
KIPs        932.
Not served  Nothing is left out.
"""

from penstock.core.errors import GroupNotEmpty, InvalidRequest, PenstockError
from penstock.core.types import NO_TOPIC_ID
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import UNKNOWN_TOPIC_OR_PARTITION, share_acknowledge_code
from penstock.kafka.row_errors import Row, refused, refused_with, side_by_side
from penstock.kafka.share_directory import ShareSurvey


async def handle(request: Message, context: Context) -> Answer:
    """Move the group in each partition; those that cannot be are answered with the reason."""
    group, engine = request.group_id, context.engine
    await ShareSurvey(engine).offsets_of(group)
    if engine.groups.share.get(group) is not None:
        raise GroupNotEmpty(f"share group {group} has members; stop them first")
    asked = [(topic.topic_name, one) for topic in request.topics for one in topic.partitions]

    async def move(pair: tuple[str, Message]) -> Row:
        return await _move(group, *pair, context)

    rows = iter(await side_by_side(move, asked))
    found = {
        topic.topic_name: engine.topics.catalog.topic(topic.topic_name) for topic in request.topics
    }
    return {
        "error_message": None,
        "responses": [
            {
                "topic_name": topic.topic_name,
                "topic_id": known.topic_id
                if (known := found[topic.topic_name]) is not None
                else NO_TOPIC_ID,
                "partitions": [next(rows) for _ in topic.partitions],
            }
            for topic in request.topics
        ],
    }


async def _move(group: str, name: str, asked: Message, context: Context) -> Row:
    engine, index, start = context.engine, asked.partition_index, asked.start_offset
    row: Row = {"partition_index": index, "error_message": None}
    topic = engine.topics.catalog.topic(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        text = "there is no such partition"
        return row | refused_with(context, UNKNOWN_TOPIC_OR_PARTITION, text)
    try:
        if start < 0:
            raise InvalidRequest(f"{start} is no offset; 0 is the first there may be")
        await engine.delivery.open(topic, group, start=start, index=index)
        await engine.delivery.reset(topic, group, start=start, index=index)
    except PenstockError as error:
        row |= refused(context, error, share_acknowledge_code)
    return row
