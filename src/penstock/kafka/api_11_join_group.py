"""JoinGroup, key 11: take part in the next generation of a group.

Versions    0–9.
Behaviour   Waits until all members have joined or their time is up. A new member is given an id and
            must come back with it (version 4 on), unless it is a static one. The name of a share
            group with members is refused with INCONSISTENT_GROUP_PROTOCOL.
KIPs        62 (rebalance timeout; version 0 has none: the session's counts), 345 (static members),
            394 (member ids), 482, 559, 800 (the reason is not kept), 814 (skipped assignments).
Not served  The newer group protocol (KIP-848) has other APIs.
"""

from typing import Final

from penstock.core.errors import (
    InconsistentGroupProtocol,
    InvalidRequest,
    MemberIdRequired,
    PenstockError,
)
from penstock.core.limits import GROUP_PROTOCOLS_MAX
from penstock.engine.groups.requests import Joined, JoinGroup
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import group_code

_MEMBER_IDS: Final = 4
_NULL_PROTOCOL: Final = 7
_SKIPS_ASSIGNMENT: Final = 9


async def handle(request: Message, context: Context) -> Answer:
    """Join, and answer when the generation is complete."""
    version = context.version
    rebalance_ms: int = request.rebalance_timeout
    try:
        if len(request.protocols) > GROUP_PROTOCOLS_MAX:
            raise InvalidRequest(
                f"{len(request.protocols)} protocols; {GROUP_PROTOCOLS_MAX} at most"
            )
        coordinator = context.engine.groups.coordinator(request.group_id)
        if context.engine.groups.share.get(request.group_id) is not None:
            raise InconsistentGroupProtocol(f"{request.group_id} is a share group")
        joined = await coordinator.join(
            JoinGroup(
                group=request.group_id,
                member=request.member_id,
                instance=request.group_instance_id,
                client_id=context.client_id,
                client_host=context.client_host,
                session_timeout_ms=request.session_timeout,
                rebalance_timeout_ms=rebalance_ms if version > 0 else request.session_timeout,
                protocol_type=request.protocol_type,
                protocols=tuple((row.name, row.metadata) for row in request.protocols),
                require_known_member=version >= _MEMBER_IDS and request.group_instance_id is None,
                skips_assignment=version >= _SKIPS_ASSIGNMENT,
            )
        )
    except PenstockError as error:
        return _refusal(request, error, context)
    return _answer(joined)


def _answer(joined: Joined) -> Answer:
    return {
        "generation_id": joined.generation,
        "protocol_type": joined.protocol_type,
        "protocol_name": joined.protocol,
        "leader": joined.leader,
        "skip_assignment": joined.skip_assignment,
        "member_id": joined.member,
        "members": [
            {
                "member_id": row.member,
                "group_instance_id": row.instance,
                "metadata": row.metadata,
            }
            for row in joined.members
        ],
    }


def _refusal(request: Message, error: PenstockError, context: Context) -> Answer:
    code = group_code(error)
    context.count_error(code)
    return {
        "error_code": code,
        "protocol_name": None if context.version >= _NULL_PROTOCOL else "",
        "leader": "",
        "member_id": error.member_id if isinstance(error, MemberIdRequired) else request.member_id,
        "members": [],
    }
