"""ListGroups, key 16: the consumer groups and share groups this broker coordinates.

Versions    0–5.
Behaviour   Clients ask every broker and put the answers together. From version 4 on groups can be
            asked for by state, from version 5 on by type, both in any spelling of capitals: classic
            or share. A share group is listed if it has members or has begun with a topic.
KIPs        518 (states), 848 (types), 932.
Not served  Nothing is left out.
"""

from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.share_directory import SHARE, share_groups

CLASSIC = "classic"


async def handle(request: Message, context: Context) -> Answer:
    """The groups of all coordinators on this node, sorted by name."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter} or {CLASSIC, SHARE}
    rows: list[tuple[str, str, str, str]] = []
    if CLASSIC in types:
        rows += [
            (overview.group, overview.protocol_type, overview.state, CLASSIC)
            for coordinator in context.engine.groups.led_coordinators()
            async for overview in context.each(coordinator.groups())
        ]
    if SHARE in types:
        found = await share_groups(context.engine)
        rows += [(group, SHARE, state, SHARE) for group, state in found.items()]
    found_rows = (
        {
            "group_id": group,
            "protocol_type": protocol_type,
            "group_state": state,
            "group_type": group_type,
        }
        async for group, protocol_type, state, group_type in context.each(sorted(rows))
        if not states or state.lower() in states
    )
    return {"groups": await context.rows("groups", found_rows)}
