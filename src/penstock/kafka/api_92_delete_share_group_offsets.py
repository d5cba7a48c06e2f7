"""DeleteShareGroupOffsets, key 92: let a share group forget topics.

Versions    0.
Behaviour   Asked of the group's coordinator; others answer NOT_COORDINATOR. The group must have no
            members (NON_EMPTY_GROUP). A topic that the group has not begun with is
            UNKNOWN_TOPIC_OR_PARTITION. When it reads one of them again, it begins anew. A group
            without any topics is there until it is deleted or its coordinator changes.
KIPs        932.
Not served  Nothing is left out.
"""

from penstock.core.errors import GroupNotEmpty, PenstockError
from penstock.core.types import NO_TOPIC_ID
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import UNKNOWN_TOPIC_OR_PARTITION, share_acknowledge_code
from penstock.kafka.row_errors import Row, refused, refused_with, side_by_side
from penstock.kafka.share_directory import forget_topic, places_of


async def handle(request: Message, context: Context) -> Answer:
    """Forget each topic; those that cannot be are answered with the reason."""
    group, engine = request.group_id, context.engine
    begun = await places_of(engine, group)
    if engine.groups.share.get(group) is not None:
        raise GroupNotEmpty(f"share group {group} has members; stop them first")

    async def forget(asked: Message) -> Row:
        name = asked.topic_name
        topic = engine.topics.catalog.topic(name)
        row: Row = {
            "topic_name": name,
            "topic_id": NO_TOPIC_ID if topic is None else topic.topic_id,
            "error_message": None,
        }
        if topic is None or name not in begun:
            text = f"share group {group} has not begun with {name}"
            return row | refused_with(context, UNKNOWN_TOPIC_OR_PARTITION, text)
        try:
            await forget_topic(engine, group, topic, begun[name])
        except PenstockError as error:
            row |= refused(context, error, share_acknowledge_code)
        return row

    rows = await side_by_side(forget, request.topics)
    engine.groups.share.note_empty(group)
    return {"error_message": None, "responses": rows}
