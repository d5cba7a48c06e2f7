"""LeaveGroup, key 13: members go.

Versions    0–5.
Behaviour   One member up to version 2, several from 3 on, each with its own outcome. A static
            member may be removed by its instance id alone.
KIPs        345, 482, 800 (the reason is not kept).
Not served  Nothing is left out.
"""

from typing import Final

from penstock.core.errors import InvalidRequest
from penstock.core.limits import GROUP_MEMBERS_MAX
from penstock.engine.groups.requests import LeavingMember
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import group_code

_MANY_MEMBERS: Final = 3


async def handle(request: Message, context: Context) -> Answer:
    """Let them go; what concerns the whole group is raised."""
    if len(request.members) > GROUP_MEMBERS_MAX:
        raise InvalidRequest(f"{len(request.members)} members; {GROUP_MEMBERS_MAX} at most")
    coordinator = context.engine.groups.coordinator(request.group_id)
    if context.version < _MANY_MEMBERS:
        outcome = await coordinator.leave(request.group_id, [LeavingMember(request.member_id)])
        error = outcome[0].error
        return {"error_code": 0 if error is None else group_code(error)}
    outcome = await coordinator.leave(
        request.group_id,
        [LeavingMember(row.member_id, row.group_instance_id) for row in request.members],
    )
    return {
        "members": [
            {
                "member_id": row.member,
                "group_instance_id": row.instance,
                "error_code": 0 if row.error is None else group_code(row.error),
            }
            for row in outcome
        ]
    }
