"""ShareGroupDescribe, key 77: the members of share groups and what they read.

Versions    1.
Behaviour   Asked of a group's coordinator; others answer NOT_COORDINATOR. A group without members
            is Empty as long as it has begun with a topic; otherwise it is Dead, with the error
            GROUP_ID_NOT_FOUND.
KIPs        932, 430 (operations).
Not served  Access rights: everything is allowed, and said to be when asked.
"""

from penstock.core.errors import PenstockError
from penstock.engine.groups.share_groups import ASSIGNOR, ShareMember
from penstock.kafka.api_03_metadata import NO_OPERATIONS
from penstock.kafka.api_15_describe_groups import DEAD, GROUP_OPERATIONS
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import group_code
from penstock.kafka.metadata import member_host
from penstock.kafka.row_errors import Row, refused, rows_side_by_side
from penstock.kafka.share_directory import EMPTY, STABLE, ShareSurvey


async def handle(request: Message, context: Context) -> Answer:
    """Describe each group; those that cannot be are answered with the reason."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NO_OPERATIONS

    survey = ShareSurvey(context.engine)

    async def describe(group: str) -> Row:
        row: Row = {
            "group_id": group, "error_message": None, "group_state": DEAD, "group_epoch": 0,
            "assignment_epoch": 0, "assignor_name": "", "members": [],
            "authorized_operations": operations,
        }  # fmt: skip
        try:
            return row | await _describe(group, survey, context)
        except PenstockError as error:
            return row | refused(context, error, group_code)

    rows = rows_side_by_side(describe, dict.fromkeys(request.group_ids))
    return {"groups": await context.rows("groups", rows)}


async def _describe(group: str, survey: ShareSurvey, context: Context) -> Row:
    found = context.engine.groups.share.get(group)
    if found is None:
        await survey.places_of(group)
        return {"group_state": EMPTY, "assignor_name": ASSIGNOR}
    return {
        "group_state": STABLE,
        "group_epoch": found.epoch,
        "assignment_epoch": found.epoch,
        "assignor_name": ASSIGNOR,
        "members": [_member(member, context) for member in found.members.values()],
    }


def _member(member: ShareMember, context: Context) -> Row:
    catalog = context.engine.topics.catalog
    topics = ((catalog.topic_by_id(one), indexes) for one, indexes in member.assignment.items())
    return {
        "member_id": member.member,
        "rack_id": member.rack,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member_host(member.client_host),
        "subscribed_topic_names": member.topics,
        "assignment": {
            "topic_partitions": [
                {"topic_id": topic.topic_id, "topic_name": topic.name, "partitions": indexes}
                for topic, indexes in topics
                if topic is not None
            ]
        },
    }
