"""DeleteGroups, key 42: delete consumer groups and share groups with what they remember.

Versions    0–2.
Behaviour   Asked of a group's coordinator; others answer NOT_COORDINATOR. A group that has members
            stays (NON_EMPTY_GROUP), one that is not there is GROUP_ID_NOT_FOUND. A share group
            forgets all its topics; its configuration stays.
KIPs        229, 932.
Not served  Nothing is left out.
"""

from penstock.core.errors import PenstockError
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import group_code
from penstock.kafka.row_errors import Row, refused, side_by_side
from penstock.kafka.share_directory import ShareSurvey, delete_share_group, is_consumer_group


async def handle(request: Message, context: Context) -> Answer:
    """Delete each group; those that cannot be are answered with the reason."""
    survey = ShareSurvey(context.engine)

    async def delete(group: str) -> Row:
        engine = context.engine
        try:
            if is_consumer_group(engine, group):
                await engine.groups.coordinator(group).delete_group(group)
            else:
                await delete_share_group(engine, group, survey)
        except PenstockError as error:
            return {"group_id": group} | refused(context, error, group_code)
        return {"group_id": group}

    return {"results": await side_by_side(delete, dict.fromkeys(request.groups_names))}
