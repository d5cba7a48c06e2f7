"""FindCoordinator, key 10: which broker looks after a group.

Versions    0–6.
Behaviour   A group is looked after by the leader of its shard. While that is not known the answer
            is COORDINATOR_NOT_AVAILABLE, which clients wait out. Several keys from version 4 on.
            Share groups (key type 2, `group:topic id:partition`) keep their state in the partition:
            its leader is named.
KIPs        98, 482, 699 (several keys), 932.
Not served  Transactions (key type 1) are refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, the
            one code that makes every client stop and say why instead of asking again for ever.
"""

from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, Final

from penstock.core.types import ShardId, TopicId
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    INVALID_REQUEST,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from penstock.kafka.metadata import NO_BROKER, reachable_leader
from penstock.kafka.row_errors import Row, refused_with

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

_MANY_KEYS: Final = 4
_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2


async def handle(request: Message, context: Context) -> Answer:
    """The coordinator of each key."""
    if context.version >= _MANY_KEYS:
        keys = context.each(request.coordinator_keys)
        rows = (_row(key, request.key_type, context) async for key in keys)
        return {"coordinators": await context.rows("coordinators", rows)}
    row = {**_row(request.key, request.key_type, context)}
    del row["key"]
    return row


def _row(key: str, key_type: int, context: Context) -> Row:
    engine = context.engine
    if key_type == _TRANSACTION:
        text = "transactions are not served by this broker"
        context.port_state.complaints.note(
            f"client {context.client_id} asks for transaction {key}: {text}"
        )
        return _refusal(key, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text, context)
    if key_type not in (_GROUP, _SHARE):
        text = f"key type {key_type} is not served by this broker"
        return _refusal(key, INVALID_REQUEST, text, context)
    shard = engine.topics.group_shard(key) if key_type == _GROUP else _share_shard(key, engine)
    if shard is None:
        text = f"{key} does not name a group, a topic's id and a partition that is there"
        return _refusal(key, INVALID_REQUEST, text, context)
    found = reachable_leader(engine, shard)
    if found is None:
        text = f"the shard of group {key} has no leader at the moment"
        return _refusal(key, COORDINATOR_NOT_AVAILABLE, text, context)
    place = found[1]
    return {
        "key": key, "node_id": place.node, "host": place.host, "port": place.port,
        "error_message": None,
    }  # fmt: skip


def _share_shard(key: str, engine: "Engine") -> ShardId | None:
    """The shard of the partition that a share group's key names."""
    group, *place = key.rsplit(":", 2)
    try:
        topic_id, index = place
        topic = engine.topics.catalog.topic_by_id(TopicId(urlsafe_b64decode(topic_id + "==")))
        number = int(index)
    except ValueError:
        return None
    if not group or topic is None or not 0 <= number < len(topic.partitions):
        return None
    return engine.topics.shard_of(topic.partitions[number])


def _refusal(key: str, code: int, text: str, context: Context) -> Row:
    return {"key": key, "node_id": NO_BROKER, "host": "", "port": -1} | refused_with(
        context, code, text
    )
