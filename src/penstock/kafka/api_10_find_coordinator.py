"""FindCoordinator, key 10: which broker looks after a group.

Versions    0–6.
Behaviour   A group is looked after by the leader of its shard. While that is not known the answer
            is COORDINATOR_NOT_AVAILABLE, which clients wait out. Several keys from version 4 on.
KIPs        98, 482, 699 (several keys).
Not served  Transactions (key type 1) are refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, the
            one code that makes every client stop and say why instead of asking again for ever.
            Share groups (key type 2, KIP-932) are refused with INVALID_REQUEST.
"""

from typing import Final

from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.directory import NO_BROKER, reachable_leader
from penstock.kafka.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    INVALID_REQUEST,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)

_MANY_KEYS: Final = 4
_GROUP: Final = 0
_TRANSACTION: Final = 1


async def handle(request: Message, context: Context) -> Answer:
    """The coordinator of each key."""
    if context.version >= _MANY_KEYS:
        keys = request.coordinator_keys
        return {"coordinators": [_row(key, request.key_type, context) for key in keys]}
    row = {**_row(request.key, request.key_type, context)}
    del row["key"]
    return row


def _row(key: str, key_type: int, context: Context) -> dict[str, object]:
    engine = context.engine
    if key_type == _TRANSACTION:
        text = "transactions are not served by this broker"
        context.board.complain(f"client {context.client_id} asks for transaction {key}: {text}")
        return _refusal(key, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text, context)
    if key_type != _GROUP:
        text = f"key type {key_type} is not served by this broker"
        return _refusal(key, INVALID_REQUEST, text, context)
    found = reachable_leader(engine, engine.group_shard(key))
    if found is None:
        text = f"the shard of group {key} has no leader at the moment"
        return _refusal(key, COORDINATOR_NOT_AVAILABLE, text, context)
    place = found[1]
    return {
        "key": key, "node_id": place.node, "host": place.host, "port": place.port,
        "error_message": None,
    }  # fmt: skip


def _refusal(key: str, code: int, text: str, context: Context) -> dict[str, object]:
    context.count_error(code)
    return {
        "key": key, "node_id": NO_BROKER, "host": "", "port": -1, "error_code": code,
        "error_message": text,
    }  # fmt: skip
