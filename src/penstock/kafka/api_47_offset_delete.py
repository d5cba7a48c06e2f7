"""OffsetDelete, key 47: forget how far a group has got in some partitions.

Versions    0.
Behaviour   Asked of the group's coordinator. Partitions of a topic that a member of the group reads
            stay (GROUP_SUBSCRIBED_TO_TOPIC). Forgetting what was never committed succeeds.
KIPs        496.
Not served  Nothing is left out.
"""

from penstock.core.errors import PenstockError, UnknownPartition
from penstock.engine.groups.requests import OffsetKey
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import group_code
from penstock.kafka.row_errors import Row, refused


async def handle(request: Message, context: Context) -> Answer:
    """Forget each partition's offset; what concerns the group as a whole is said at the top."""
    keys = {topic.name: _keys(topic, context) for topic in request.topics}
    names = {key: name for name, rows in keys.items() for key in rows.values()}
    try:
        coordinator = context.engine.groups.coordinator(request.group_id)
        outcomes = await coordinator.delete_offsets(request.group_id, names)
    except PenstockError as error:
        fields = refused(context, error, group_code)
        return {"error_code": fields["error_code"], "topics": []}

    def row(topic: str, index: int) -> Row:
        key = keys[topic].get(index)
        outcome = UnknownPartition("not there") if key is None else outcomes[key]
        if outcome is None:
            return {"partition_index": index}
        return {"partition_index": index} | refused(context, outcome, group_code)

    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    row(topic.name, one.partition_index)
                    async for one in context.each(topic.partitions)
                ],
            }
            for topic in request.topics
        ]
    }


def _keys(asked: Message, context: Context) -> dict[int, OffsetKey]:
    """The partitions that are there, by index."""
    topic = context.engine.topics.catalog.topic(asked.name)
    if topic is None:
        return {}
    indexes = {one.partition_index for one in asked.partitions}
    return {
        index: (topic.topic_id, index) for index in indexes if 0 <= index < len(topic.partitions)
    }
