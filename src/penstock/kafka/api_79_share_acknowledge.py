"""ShareAcknowledge, key 79: say what became of leased messages, without asking for more.

Versions    1–2.
Behaviour   In a share session that ShareFetch has begun: see `kafka.share_sessions`. Each partition
            has a row that tells whether its batches were settled, all of them or none; a message
            that the member does not have any more is INVALID_RECORD_STATE. The request with epoch
            -1 ends the session: what the member still has is released before the answer. When the
            answer comes, what it settles is on disk on a majority.
KIPs        932, 951, 1222 (renewing).
Not served  Nothing is left out.
"""

from penstock.core.types import TopicId
from penstock.kafka.codec import Message
from penstock.kafka.context import Context
from penstock.kafka.share_acknowledgements import acknowledge
from penstock.kafka.share_answers import ShareRows, lock_ms
from penstock.kafka.share_sessions import (
    FINAL_EPOCH,
    INVALID_SHARE_SESSION_EPOCH,
    NEW_EPOCH,
    SessionRefused,
    ShareSession,
)


def start(frame: bytearray, position: int, context: Context) -> None:
    """Find the session now, in the order in which requests came; the rest takes a while."""
    request = context.decode(frame, position)
    sessions = context.port_state.share_sessions
    epoch = request.share_session_epoch
    try:
        if epoch == NEW_EPOCH:
            text = "a share session begins with a fetch"
            raise SessionRefused(INVALID_SHARE_SESSION_EPOCH, text)
        session = sessions.begin(request.group_id, request.member_id, epoch, context.connection)
    except SessionRefused as refused:
        context.count_error(refused.code)
        context.answer(
            {
                "error_code": refused.code, "error_message": str(refused),
                "acquisition_lock_timeout": 0, "responses": [], "node_endpoints": [],
            }
        )  # fmt: skip
        return
    sessions.carry_out(_run(session, request, context), context)


async def _run(session: ShareSession, request: Message, context: Context) -> None:
    async with session.taking_turns():
        acknowledged = await acknowledge(session, request, context)
        if request.share_session_epoch == FINAL_EPOCH:
            await context.port_state.share_sessions.close(session)
    rows = ShareRows(context)
    asked = [
        (TopicId(topic.topic_id), one.partition_index)
        for topic in request.topics
        for one in topic.partitions
    ]
    for key in dict.fromkeys(asked):
        code, text = acknowledged.get(key) or (0, None)
        rows.add(key, {"error_code": code, "error_message": text}, code)
    context.answer({"acquisition_lock_timeout": lock_ms(context.engine, session), **rows.answer()})
