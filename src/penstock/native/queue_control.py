"""Cancelling, resetting, dead messages and moves, for native clients: answered by any node."""

from penstock.core.errors import InvalidRequest
from penstock.core.limits import MOVE_FILTER_PLACES_MAX
from penstock.core.move_filter import EVERYTHING
from penstock.core.types import EARLIEST, LATEST, NO_TOPIC_ID, Offset
from penstock.machines.moves import Move
from penstock.native.context import Context, Handlers, Reply
from penstock.wire.queue_control_requests import (
    AskMoves,
    CancelMessages,
    DecideDead,
    MoveMessages,
    MoveRow,
    MoveRows,
    RestartWork,
    StopMove,
)
from penstock.wire.requests import Done, MoveInfo, Redriven


async def answer_cancel(context: Context, request: CancelMessages, _payload: memoryview) -> Reply:
    """Cancel messages one by one."""
    topic = context.engine.topics.topic(request.name)
    if len(request.places) > MOVE_FILTER_PLACES_MAX:
        raise InvalidRequest(f"at most {MOVE_FILTER_PLACES_MAX} messages are cancelled at once")
    places = []
    for index, offset in request.places:
        if not 0 <= index < len(topic.partitions) or offset < 0:
            raise InvalidRequest(f"{request.name} has no message at {index}:{offset}")
        places.append((index, Offset(offset)))
    return Done(await context.engine.delivery.cancel(topic, places, request.group)), b""


async def answer_reset(context: Context, request: RestartWork, _payload: memoryview) -> Reply:
    """Reset the offsets of a work group."""
    topic = context.engine.topics.topic(request.name)
    if not 0 <= request.index < len(topic.partitions):
        raise InvalidRequest(f"{topic.name} has {len(topic.partitions)} partitions")
    if request.start < 0 and request.start not in (EARLIEST, LATEST):
        raise InvalidRequest(f"a reset to {request.start}: it goes to an offset, from 0 on")
    await context.node.survey.require(topic, request.group)
    await context.engine.delivery.reset(
        topic, request.group, index=request.index, start=request.start
    )
    return Done(), b""


async def answer_dead(context: Context, request: DecideDead, _payload: memoryview) -> Reply:
    """Revive or discard dead messages that stayed in their queue."""
    topic = context.engine.topics.topic(request.name)
    await context.node.survey.require(topic, request.group)
    moves = context.engine.moves
    chosen = None if request.filter == EVERYTHING else request.filter
    if chosen is not None:
        chosen.check()
    if request.discard:
        if request.dry_run:
            raise InvalidRequest("a discard has no dry run: use the dry run of a revival to count")
        count = await moves.discard_in_place(topic, group=request.group, filter=chosen)
    else:
        count = await moves.redrive_in_place(
            topic, group=request.group, filter=chosen, dry_run=request.dry_run
        )
    return Done(count), b""


async def answer_move_messages(
    context: Context, request: MoveMessages, _payload: memoryview
) -> Reply:
    """Redrive what passes a filter."""
    topics = context.engine.topics
    move = await context.engine.moves.start(
        topics.topic(request.name),
        topics.topic(request.to) if request.to else None,
        rate=request.rate or None,
        filter=request.filter,
        dry_run=request.dry_run,
    )
    return Redriven(move.to_move, move.move_id), b""


async def answer_cancel_move(context: Context, request: StopMove, _payload: memoryview) -> Reply:
    """Stop a move."""
    topic = context.engine.topics.topic(request.name)
    move = await context.engine.moves.cancel(topic, request.move_id)
    return MoveInfo(move.state.name.lower(), move.moved, move.to_move, move.failure), b""


async def answer_moves(context: Context, request: AskMoves, _payload: memoryview) -> Reply:
    found = await context.engine.moves.list(context.engine.topics.topic(request.name))
    return MoveRows(tuple(_row(context, move) for move in found)), b""


def _row(context: Context, move: Move) -> MoveRow:
    to = ""
    if move.destination != NO_TOPIC_ID:
        found = context.engine.topics.catalog.topic_by_id(move.destination)
        to = "a queue that is deleted" if found is None else found.name
    state = move.state.name.lower()
    return MoveRow(move.move_id, state, move.moved, move.to_move, move.failure, to, move.started_ms)


CONTROL_HANDLERS: Handlers = {
    AskMoves: answer_moves,
    CancelMessages: answer_cancel,
    StopMove: answer_cancel_move,
    DecideDead: answer_dead,
    MoveMessages: answer_move_messages,
    RestartWork: answer_reset,
}
