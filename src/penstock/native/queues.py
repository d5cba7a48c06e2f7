"""Looking into queues and after them, for native clients: answered by any node."""

import msgspec

from penstock.core.errors import InvalidRequest, UnknownMove
from penstock.core.limits import BROWSE_STEPS_MAX
from penstock.core.message_states import ALL_STATES, STATES, old_state, parse_states
from penstock.core.move_filter import MoveFilter
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.core.types import Offset
from penstock.engine.moves.letter_counts import dead_lettered
from penstock.native.context import Context, Handlers, Reply
from penstock.wire.requests import (
    AskMove,
    AskWorkGroups,
    AskWorkSettings,
    Browse,
    Browsed,
    BrowsedOne,
    ConfigureWork,
    Count,
    Counted,
    Done,
    MoveInfo,
    Purge,
    Redrive,
    Redriven,
    WorkGroups,
    WorkSettingRows,
)

BROWSE_MESSAGES_MAX = 1_000


async def answer_browse(context: Context, request: Browse, _payload: memoryview) -> Reply:
    """Messages as they lie there."""
    topic = _partition(context.engine.topics.topic(request.name), request.index)
    try:
        states = parse_states(request.states) or ALL_STATES
    except ValueError as error:
        raise InvalidRequest(f"{error}; the states are {', '.join(STATES)}") from None
    found = await context.engine.delivery.browse(
        topic,
        group=request.group,
        index=request.index,
        start=max(0, request.start),
        states=states,
        messages_max=max(0, min(request.messages_max, BROWSE_MESSAGES_MAX, BROWSE_STEPS_MAX)),
    )
    rows = (
        BrowsedOne(
            one.message,
            old_state(one.state),
            one.deliveries,
            one.first_received_ms,
            one.until_ms,
            one.reason,
        )
        for one in found
    )
    return Browsed(tuple(rows)), b""


async def answer_count(context: Context, request: Count, _payload: memoryview) -> Reply:
    """Messages by state."""
    engine = context.engine
    topic = engine.topics.topic(request.name)
    counts = await engine.delivery.counts(topic, request.group)
    found = msgspec.structs.asdict(counts)
    found["dead_lettered"] = await dead_lettered(
        engine.topics, engine.delivery, topic, request.group
    )
    found |= {"visible": counts.ready, "in_flight": counts.leased}  # For clients of release 0.1.
    return Counted(found, engine.topics.clock.wall_ms()), b""


async def answer_work_groups(
    context: Context, request: AskWorkGroups, _payload: memoryview
) -> Reply:
    partitions = set(context.engine.topics.topic(request.name).partitions)
    found = await context.engine.survey.groups()
    names = {name for one, groups in found.items() if one in partitions for name in groups}
    return WorkGroups(tuple(sorted(names))), b""


async def answer_work_settings(
    context: Context, request: AskWorkSettings, _payload: memoryview
) -> Reply:
    """What a work group goes by."""
    return _work_settings(context, context.engine.topics.topic(request.name), request.group)


async def answer_configure_work(
    context: Context, request: ConfigureWork, _payload: memoryview
) -> Reply:
    """Change that."""
    topic = context.engine.topics.topic(request.name)
    await context.engine.groups.configure_work_group(topic, request.group, request.changes)
    return _work_settings(context, context.engine.topics.topic(request.name), request.group)


def _work_settings(context: Context, topic: Topic, group: str) -> Reply:
    found = context.engine.groups.work_settings(topic, group)
    return WorkSettingRows(tuple((name, *one) for name, one in found.items())), b""


async def answer_purge(context: Context, request: Purge, _payload: memoryview) -> Reply:
    """Drop what is left to do."""
    count = await context.engine.delivery.purge(
        context.engine.topics.topic(request.name), request.group
    )
    return Done(count), b""


async def answer_redrive(context: Context, request: Redrive, _payload: memoryview) -> Reply:
    """Deliver dead messages anew. Those that stayed in the queue come back at once; the others are
    in a dead-letter queue, and that is what was named: they are moved."""
    engine = context.engine
    topic = engine.topics.topic(request.name)
    group = request.group or DEFAULT_WORK_GROUP
    wanted = None
    if request.places:
        wanted = MoveFilter(places=tuple((index, Offset(at)) for index, at in request.places))
    counts = await engine.delivery.counts(topic, group)
    if counts.dead and not request.to:
        if request.dry_run and wanted is None:
            return Redriven(counts.dead), b""
        count = await engine.moves.redrive_in_place(
            topic, group=group, filter=wanted, dry_run=request.dry_run
        )
        return Redriven(count), b""
    destination = engine.topics.topic(request.to) if request.to else None
    move = await engine.moves.start(
        topic,
        destination,
        rate=request.rate or None,
        filter=wanted,
        dry_run=request.dry_run,
    )
    return Redriven(move.to_move, move.move_id), b""


async def answer_move(context: Context, request: AskMove, _payload: memoryview) -> Reply:
    """How far a move is."""
    for move in await context.engine.moves.list(context.engine.topics.topic(request.name)):
        if move.move_id == request.move_id:
            state = move.state.name.lower()
            return MoveInfo(state, move.moved, move.to_move, move.failure), b""
    raise UnknownMove(f"queue {request.name} has no move {request.move_id}")


def _partition(topic: Topic, index: int) -> Topic:
    if not 0 <= index < len(topic.partitions):
        raise InvalidRequest(f"{topic.name} has {len(topic.partitions)} partitions, not {index}")
    return topic


QUEUE_HANDLERS: Handlers = {
    AskMove: answer_move,
    AskWorkGroups: answer_work_groups,
    AskWorkSettings: answer_work_settings,
    ConfigureWork: answer_configure_work,
    Browse: answer_browse,
    Count: answer_count,
    Purge: answer_purge,
    Redrive: answer_redrive,
}
