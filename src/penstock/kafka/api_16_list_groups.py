"""ListGroups, key 16: the consumer groups this broker coordinates.

Versions    0–5.
Behaviour   Clients ask every broker and put the answers together. From version 4 on groups can be
            asked for by state, from version 5 on by type, both in any spelling of capitals; all
            groups are of type classic.
KIPs        518 (states), 848 (types).
Not served  Nothing is left out.
"""

from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context

CLASSIC = "classic"


async def handle(request: Message, context: Context) -> Answer:
    """The groups of all coordinators on this node, sorted by name."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    if types and CLASSIC not in types:
        return {"groups": []}
    overviews = [
        overview
        for coordinator in context.engine.led_coordinators()
        for overview in coordinator.groups()
        if not states or overview.state.lower() in states
    ]
    return {
        "groups": [
            {
                "group_id": overview.group,
                "protocol_type": overview.protocol_type,
                "group_state": overview.state,
                "group_type": CLASSIC,
            }
            for overview in sorted(overviews, key=lambda one: one.group)
        ]
    }
