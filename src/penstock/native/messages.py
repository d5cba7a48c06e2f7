"""Sending and settling, for native clients: answered by the node that leads the partition."""

import asyncio

from penstock.core.errors import InvalidRequest, PenstockError, UnknownPartition
from penstock.core.limits import DEAD_REASON_CHARACTERS_MAX, LEASE_MS_MAX, SETTLEMENTS_MAX
from penstock.core.types import Offset
from penstock.engine.engine import Acks, Produced
from penstock.machines.catalog import Topic
from penstock.machines.queue_commands import Settlement, Verdict
from penstock.native.handling import PROTOCOL, Desk, Handlers, Reply
from penstock.wire.requests import Append, Appended, Send, SentOnes, Settle, Settled

_VERDICTS = {int(verdict): verdict for verdict in Verdict}
_UNSENT_DELAY_MS = -1


def begin_append(desk: Desk, request: Append, payload: memoryview) -> "asyncio.Future[Produced]":
    """Append a batch, now: the order of calls is the order of offsets. What is wrong with it is
    told by the future, too."""
    try:
        topic = desk.topic(request.topic_id)
    except PenstockError as error:
        refused: asyncio.Future[Produced] = asyncio.get_running_loop().create_future()
        refused.set_exception(error)
        return refused
    return desk.engine.produce(topic, request.index, payload, Acks.ALL, desk.flow)


def appended(produced: Produced) -> Appended:
    """The answer."""
    return Appended(produced.base_offset, produced.log_append_ms)


async def answer_append(desk: Desk, request: Append, payload: memoryview) -> Reply:
    """Append a batch; there is no await before it is in its place."""
    return appended(await begin_append(desk, request, payload)), b""


async def answer_send(desk: Desk, request: Send, _payload: memoryview) -> Reply:
    """Append messages whose ids count."""
    topic = _checked(desk.topic(request.topic_id), request.index)
    if not request.messages:
        return SentOnes(()), b""
    sent = await desk.engine.queues.send(
        topic, request.messages, index=request.index, protocol=PROTOCOL
    )
    return SentOnes(tuple((one.offset, one.duplicate) for one in sent)), b""


async def answer_settle(desk: Desk, request: Settle, _payload: memoryview) -> Reply:
    """Say what became of leased messages."""
    topic = _checked(desk.topic(request.topic_id), request.index)
    if len(request.settlements) > SETTLEMENTS_MAX:
        raise InvalidRequest(
            f"{len(request.settlements)} verdicts in one request; {SETTLEMENTS_MAX} may be"
        )
    settlements = [_settlement(*one) for one in request.settlements]
    outcomes = await desk.engine.queues.settle_here(
        topic, request.index, request.group, settlements
    )
    return Settled(tuple(map(int, outcomes))), b""


def _settlement(
    first: int, end: int, epoch: int, verdict: int, delay_ms: int, reason: str
) -> Settlement:
    known = _VERDICTS.get(verdict)
    if known is None or not 0 <= first < end:
        raise InvalidRequest(f"verdict {verdict} on messages {first} to {end} means nothing")
    delay_ms = max(_UNSENT_DELAY_MS, min(delay_ms, LEASE_MS_MAX))
    reason = reason[:DEAD_REASON_CHARACTERS_MAX]
    return Settlement(Offset(first), Offset(end), epoch, known, delay_ms, reason)


def _checked(topic: Topic, index: int) -> Topic:
    if not 0 <= index < len(topic.partitions):
        raise UnknownPartition(
            f"topic {topic.name} has partitions 0 to {len(topic.partitions) - 1}, not {index}"
        )
    return topic


MESSAGE_HANDLERS: Handlers = {Append: answer_append, Send: answer_send, Settle: answer_settle}
