"""Sending and settling, for native clients: answered by the node that leads the partition."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from penstock.core.errors import InvalidRequest, UnknownPartition
from penstock.core.limits import DEAD_REASON_CHARACTERS_MAX, LEASE_MS_MAX, SETTLEMENTS_MAX
from penstock.core.topic import Topic
from penstock.core.types import Offset
from penstock.core.verdicts import Verdict
from penstock.engine.topics.topics import Acks, Produced
from penstock.machines import queues
from penstock.machines.queue_commands import Settlement
from penstock.native.context import PROTOCOL, Context, Handlers, Reply
from penstock.wire.requests import (
    Answer,
    Append,
    Appended,
    Request,
    Send,
    SentOnes,
    Settle,
    Settled,
)

_VERDICTS = {int(verdict): verdict for verdict in Verdict}
_UNSENT_DELAY_MS = -1


def begin_append(
    context: Context, request: Append, payload: memoryview
) -> "asyncio.Future[Produced]":
    """Append a batch, now: the order of calls is the order of offsets."""
    topic = context.topic(request.topic_id)
    return context.engine.topics.produce(topic, request.index, payload, Acks.ALL, context.flow)


def appended(produced: Produced) -> Appended:
    return Appended(produced.base_offset, produced.log_append_ms)


async def answer_append(context: Context, request: Append, payload: memoryview) -> Reply:
    """Append a batch; there is no await before it is in its place."""
    return appended(await begin_append(context, request, payload)), b""


async def answer_send(context: Context, request: Send, _payload: memoryview) -> Reply:
    """Append messages whose ids count."""
    topic = _checked(context.topic(request.topic_id), request.index)
    if not request.messages:
        return SentOnes(()), b""
    sent = await context.engine.delivery.send(
        topic, request.messages, index=request.index, protocol=PROTOCOL
    )
    return SentOnes(tuple((one.offset, one.duplicate) for one in sent)), b""


def begin_settle(
    context: Context, request: Settle, _payload: memoryview
) -> "asyncio.Future[queues.Settled]":
    """Say what became of leased messages."""
    topic = _checked(context.topic(request.topic_id), request.index)
    if len(request.settlements) > SETTLEMENTS_MAX:
        raise InvalidRequest(
            f"{len(request.settlements)} verdicts in one request; {SETTLEMENTS_MAX} may be"
        )
    settlements = [_settlement(*one) for one in request.settlements]
    delivery = context.engine.delivery
    return delivery.begin_settle(topic, request.index, request.group, settlements)


def settled(reply: queues.Settled) -> Settled:
    return Settled(tuple(map(int, reply.outcomes)))


async def answer_settle(context: Context, request: Settle, payload: memoryview) -> Reply:
    """Say what became of leased messages."""
    return settled(await begin_settle(context, request, payload)), b""


def _settlement(
    first: int, end: int, epoch: int, verdict: int, delay_ms: int, reason: str
) -> Settlement:
    known = _VERDICTS.get(verdict)
    if known is None or not 0 <= first < end:
        raise InvalidRequest(f"verdict {verdict} on messages {first} to {end} is unknown")
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


class Quick(NamedTuple):
    """A request that waits for one thing only, once it is begun: for its shard to say so."""

    begin: Callable[[Context, Any, memoryview], "asyncio.Future[Any]"]
    """Raises what is wrong with the request, or tells it by the future."""
    answer: Callable[[Any], Answer]
    """The answer to the client, from the future's result."""


QUICK_HANDLERS: Final[Mapping[type[Request], Quick]] = {
    Append: Quick(begin_append, appended),
    Settle: Quick(begin_settle, settled),
}
