"""DeleteGroups, key 42: delete consumer groups with their offsets.

Versions    0–2.
Behaviour   Asked of a group's coordinator; others answer NOT_COORDINATOR. A group that has members
            stays (NON_EMPTY_GROUP), one that is not there is GROUP_ID_NOT_FOUND.
KIPs        229.
Not served  Nothing is left out.
"""

from penstock.core.errors import PenstockError
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import group_code
from penstock.kafka.row_errors import Row, refused, side_by_side


async def handle(request: Message, context: Context) -> Answer:
    """Delete each group; those that cannot be are answered with the reason."""

    async def delete(group: str) -> Row:
        try:
            await context.engine.coordinator(group).delete_group(group)
        except PenstockError as error:
            return {"group_id": group} | refused(context, error, group_code)
        return {"group_id": group}

    return {"results": await side_by_side(delete, dict.fromkeys(request.groups_names))}
