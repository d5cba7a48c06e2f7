"""Heartbeat, key 12: a member is still there.

Versions    0–4.
Behaviour   Extends the member's session, and tells it when it has to join again. Answered at once.
KIPs        345, 482.
Not served  Nothing is left out.
"""

from penstock.core.errors import PenstockError
from penstock.kafka.context import Context
from penstock.kafka.error_codes import group_code


def start(frame: bytearray, position: int, context: Context) -> None:
    """Tell the coordinator; what it says is the answer."""
    request = context.decode(frame, position)
    code = 0
    try:
        context.engine.groups.coordinator(request.group_id).heartbeat(
            request.group_id,
            member=request.member_id,
            generation=request.generation_id,
            instance=request.group_instance_id,
        )
    except PenstockError as error:
        code = group_code(error)
        context.count_error(code)
    context.answer({"error_code": code})
