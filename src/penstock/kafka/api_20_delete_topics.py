"""DeleteTopics, key 20: remove topics with everything in them.

Versions    1–6.
Behaviour   Topics of one request are removed side by side, by name or (from version 6 on) by id. An
            id removes that very topic, never one that was made under its name since. The offsets
            that groups have committed for a removed topic are forgotten.
KIPs        4, 516 (by id).
Not served  Nothing is left out.
"""

from collections import Counter
from typing import NamedTuple

from penstock.core.errors import InvalidRequest, PenstockError, UnknownTopicId
from penstock.core.types import NO_TOPIC_ID, TopicId
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.row_errors import Row, refused, side_by_side


class _Wanted(NamedTuple):
    name: str | None
    topic_id: TopicId


async def handle(request: Message, context: Context) -> Answer:
    """Remove each topic; one that cannot be is answered with the reason and the others go on."""
    asked = [_Wanted(one.name, one.topic_id) for one in request.topics]
    asked += [_Wanted(name, NO_TOPIC_ID) for name in request.topic_names]
    named = Counter(asked)

    async def delete(wanted: _Wanted) -> Row:
        row: Row = {"name": wanted.name, "topic_id": wanted.topic_id, "error_message": None}
        try:
            if named[wanted] > 1:
                raise InvalidRequest("the topic is named more than once in the request")
            topic = await context.engine.topics.delete_topic(
                _name(wanted, context), wanted.topic_id
            )
        except PenstockError as error:
            return row | refused(context, error)
        return row | {"name": topic.name, "topic_id": topic.topic_id}

    return {"responses": await side_by_side(delete, named)}


def _name(wanted: _Wanted, context: Context) -> str:
    if (wanted.name is None) == (wanted.topic_id == NO_TOPIC_ID):
        raise InvalidRequest("give the name of a topic or its id, and not both")
    if wanted.name is not None:
        return wanted.name
    topic = context.engine.topics.catalog.topic_by_id(wanted.topic_id)
    if topic is None:
        raise UnknownTopicId(f"there is no topic with the id {wanted.topic_id.hex()}")
    return topic.name
