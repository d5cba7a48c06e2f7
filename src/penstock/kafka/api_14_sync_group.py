"""SyncGroup, key 14: the leader hands out the work, the others ask for their part.

Versions    0–5.
Behaviour   Waits until the leader has brought the assignments. What they mean only clients know.
KIPs        345, 482, 559 (protocol type and name are checked and given back).
Not served  Nothing is left out.
"""

from penstock.core.errors import InvalidRequest
from penstock.core.limits import GROUP_MEMBERS_MAX
from penstock.engine.groups.requests import SyncGroup
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context


async def handle(request: Message, context: Context) -> Answer:
    """The member's assignment."""
    if len(request.assignments) > GROUP_MEMBERS_MAX:
        text = f"{len(request.assignments)} assignments; {GROUP_MEMBERS_MAX} at most"
        raise InvalidRequest(text)
    synced = await context.engine.groups.coordinator(request.group_id).sync(
        SyncGroup(
            group=request.group_id,
            member=request.member_id,
            generation=request.generation_id,
            instance=request.group_instance_id,
            protocol_type=request.protocol_type,
            protocol=request.protocol_name,
            assignments=tuple((row.member_id, row.assignment) for row in request.assignments),
        )
    )
    return {
        "protocol_type": synced.protocol_type,
        "protocol_name": synced.protocol,
        "assignment": synced.assignment,
    }
