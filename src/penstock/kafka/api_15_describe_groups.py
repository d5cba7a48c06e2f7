"""DescribeGroups, key 15: members of consumer groups and what they work on.

Versions    0–6.
Behaviour   Asked of a group's coordinator; others answer NOT_COORDINATOR. A group that is not there
            is described as Dead, and from version 6 on has the error GROUP_ID_NOT_FOUND besides.
            Metadata and assignments are shown while the group is stable. A share group is shown
            with the protocol type share, its state and its members; ShareGroupDescribe tells more.
KIPs        345 (static members), 430 (operations), 932, 1043 (GROUP_ID_NOT_FOUND).
Not served  Access rights: everything is allowed, and said to be when asked.
"""

from typing import Final

from penstock.core.errors import PenstockError, UnknownGroup
from penstock.engine.groups.requests import GroupDescription, MemberDescription
from penstock.engine.groups.share_groups import ASSIGNOR
from penstock.kafka.api_03_metadata import NO_OPERATIONS
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import group_code
from penstock.kafka.metadata import member_host
from penstock.kafka.row_errors import Row, refused, rows_side_by_side
from penstock.kafka.share_directory import EMPTY, SHARE, STABLE, ShareSurvey

DEAD: Final = "Dead"
# KIP-430, a bit for each: read, delete, describe.
GROUP_OPERATIONS: Final = sum(1 << bit for bit in (3, 6, 8))
_NOT_FOUND_FROM: Final = 6


async def handle(request: Message, context: Context) -> Answer:
    """Describe each group; those of other coordinators are answered with the reason."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NO_OPERATIONS

    survey = ShareSurvey(context.engine)

    async def describe(group: str) -> Row:
        return await _describe(group, survey, context) | {"authorized_operations": operations}

    rows = rows_side_by_side(describe, dict.fromkeys(request.groups))
    return {"groups": await context.rows("groups", rows)}


async def _describe(group: str, survey: ShareSurvey, context: Context) -> Row:
    try:
        found = context.engine.groups.coordinator(group).describe(group)
        if found.state == DEAD:
            found = await _describe_share_group(group, survey, context) or found
    except PenstockError as error:
        nothing = GroupDescription(group=group, state="")
        return _row(nothing) | refused(context, error, group_code)
    if found.state == DEAD and context.version >= _NOT_FOUND_FROM:
        missing = UnknownGroup(f"there is no group {group}")
        return _row(found) | refused(context, missing, group_code)
    return _row(found)


async def _describe_share_group(
    group: str, survey: ShareSurvey, context: Context
) -> GroupDescription | None:
    engine = context.engine
    known = engine.groups.share.get(group)
    if known is None:
        try:
            await survey.places_of(group)
        except UnknownGroup:
            return None
        return GroupDescription(group=group, state=EMPTY, protocol_type=SHARE)
    return GroupDescription(
        group=group,
        state=STABLE,
        protocol_type=SHARE,
        protocol=ASSIGNOR,
        members=tuple(
            MemberDescription(
                member=one.member,
                instance=None,
                client_id=one.client_id,
                client_host=one.client_host,
                metadata=b"",
                assignment=b"",
            )
            for one in known.members.values()
        ),
    )


def _row(found: GroupDescription) -> Row:
    return {
        "group_id": found.group,
        "group_state": found.state,
        "protocol_type": found.protocol_type,
        "protocol_data": found.protocol,
        "members": [
            {
                "member_id": member.member,
                "group_instance_id": member.instance,
                "client_id": member.client_id,
                "client_host": member_host(member.client_host),
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in found.members
        ],
    }
