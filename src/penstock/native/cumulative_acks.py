"""Cumulative acks of native clients: work groups that are read by offset and acknowledged by
range."""

from penstock.core.errors import InvalidRequest, UnknownPartition
from penstock.core.limits import DEAD_REASON_CHARACTERS_MAX
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.core.types import EARLIEST, Offset
from penstock.engine.delivery.cumulative_acks import ack_range, standing
from penstock.engine.topics.queue_upkeep import work_rules
from penstock.native.context import Context, Handlers, Reply
from penstock.wire.cumulative_ack_requests import (
    AskStanding,
    BeginWork,
    CumulativeAck,
    CumulativeAckResult,
    Standing,
)
from penstock.wire.requests import Done

DEAD_LETTERS = "share.dead.letter.policy"


async def answer_begin(context: Context, request: BeginWork, _payload: memoryview) -> Reply:
    """Let a work group begin. On a topic that is no queue it would drop dead messages, as Kafka's
    share groups do; a reader that says why a message died wants it to be kept."""
    if request.start < EARLIEST:
        raise InvalidRequest(f"a work group cannot begin at {request.start}")
    engine = context.engine
    topic, group = engine.topics.topic(request.name), request.group
    is_share_group = group != DEFAULT_WORK_GROUP and not topic.settings.queue.is_queue
    if is_share_group and DEAD_LETTERS not in engine.groups.group_configs(group):
        await engine.groups.configure_group(group, {DEAD_LETTERS: "move"})
    rules = work_rules(engine.topics.catalog, topic, group)
    await engine.delivery.open(topic, group, start=request.start, rules=rules)
    return Done(), b""


async def answer_standing(context: Context, request: AskStanding, _payload: memoryview) -> Reply:
    topic = _checked(context.topic(request.topic_id), request.index)
    offset = Offset(max(request.offset, 0))
    found = standing(context.engine.topics, topic, request.index, request.group, offset)
    return Standing(*found), b""


async def answer_cumulative_ack(
    context: Context, request: CumulativeAck, _payload: memoryview
) -> Reply:
    """A range is done, but for the dead."""
    topic = _checked(context.topic(request.topic_id), request.index)
    reply = await ack_range(
        context.engine.topics,
        context.engine.delivery.open_at_first_use,
        topic,
        request.index,
        request.group,
        first=Offset(request.first),
        end=Offset(request.end),
        dead=[
            (Offset(offset), reason[:DEAD_REASON_CHARACTERS_MAX]) for offset, reason in request.dead
        ],
        stream=request.stream,
        batch=request.batch,
    )
    return CumulativeAckResult(reply.count, reply.upto), b""


def _checked(topic: Topic, index: int) -> Topic:
    if not 0 <= index < len(topic.partitions):
        raise UnknownPartition(
            f"{topic.name} has partitions 0 to {len(topic.partitions) - 1}, not {index}"
        )
    return topic


CUMULATIVE_ACK_HANDLERS: Handlers = {
    AskStanding: answer_standing,
    BeginWork: answer_begin,
    CumulativeAck: answer_cumulative_ack,
}
