"""StartMessageMoveTask, CancelMessageMoveTask, ListMessageMoveTasks: dead letters go back.

The engine moves (see `engine.moves`); here is what Amazon calls it. A task's handle holds the
source and the move's id, so that it can be cancelled at any node.
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64

import msgspec

from penstock.core.decoders import decode_json
from penstock.core.errors import InvalidRequest, MoveRunning, UnknownMove
from penstock.core.limits import MOVE_RATE
from penstock.core.topic import Topic
from penstock.core.types import NO_TOPIC_ID
from penstock.machines.moves import Move
from penstock.sqs.answers import MoveCancelled, MoveListed, MovesListed, MoveStarted
from penstock.sqs.context import Call, Context
from penstock.sqs.errors import (
    InvalidParameterValue,
    MissingParameter,
    QueueDoesNotExist,
    ResourceNotFound,
    invalid_value,
)
from penstock.sqs.names import name_of_arn, queue_arn
from penstock.sqs.queue_life import dead_letter_sources
from penstock.sqs.requests import (
    CancelMessageMoveTask,
    ListMessageMoveTasks,
    StartMessageMoveTask,
)

TASKS_MAX = 10
_SOURCE = "SourceArn"


class _Handle(msgspec.Struct, frozen=True, rename="camel"):
    task_id: str
    source_arn: str


async def start_message_move_task(
    context: Context, request: StartMessageMoveTask, call: Call
) -> MoveStarted:
    """Move the messages of a dead-letter queue back to where they died, or elsewhere."""
    source = _topic(context, request.source_arn, _SOURCE)
    if not dead_letter_sources(context, source.name):
        raise InvalidParameterValue("Source queue must be configured as a Dead Letter Queue.")
    destination = None
    if request.destination_arn:
        destination = _topic(context, request.destination_arn, "DestinationArn")
    rate = request.max_number_of_messages_per_second
    if rate is not None and not 1 <= rate <= MOVE_RATE:
        raise invalid_value(
            rate, "MaxNumberOfMessagesPerSecond", f"Must be between 1 and {MOVE_RATE}, if provided."
        )
    try:
        move = await context.engine.moves.start(source, destination, rate=rate)
    except MoveRunning as error:
        raise InvalidParameterValue(
            "There is already a task running. Only one active task is allowed for a source queue"
            " arn at a given time."
        ) from error
    except InvalidRequest as error:
        raise InvalidParameterValue(str(error)) from error
    return MoveStarted(task_handle=_write_handle(move, source, call))


async def cancel_message_move_task(
    context: Context, request: CancelMessageMoveTask, _: Call
) -> MoveCancelled:
    """Cancel a move; messages already moved stay moved."""
    if not request.task_handle:
        raise MissingParameter("TaskHandle")
    handle = _read_handle(request.task_handle)
    source = _topic(context, handle.source_arn, _SOURCE)
    try:
        move = await context.engine.moves.cancel(source, handle.task_id)
    except UnknownMove as error:
        raise ResourceNotFound("Task does not exist.") from error
    return MoveCancelled(approximate_number_of_messages_moved=move.moved)


async def list_message_move_tasks(
    context: Context, request: ListMessageMoveTasks, call: Call
) -> MovesListed:
    """List the moves of a queue, those started last first."""
    source = _topic(context, request.source_arn, _SOURCE)
    most = request.max_results
    if most is None:
        most = 1
    elif not 1 <= most <= TASKS_MAX:
        raise invalid_value(
            most, "MaxResults", f"MaxResults must be an integer between 1 and {TASKS_MAX}."
        )
    moves = await context.engine.moves.list(source)
    return MovesListed(results=[_show(context, move, source, call) for move in moves[:most]])


def _show(context: Context, move: Move, source: Topic, call: Call) -> MoveListed:
    destination = None
    if move.destination != NO_TOPIC_ID:
        topic = context.engine.topics.catalog.topic_by_id(move.destination)
        destination = queue_arn(call.region, topic.name) if topic is not None else None
    running = move.state.name == "RUNNING"
    return MoveListed(
        task_handle=_write_handle(move, source, call) if running else None,
        status=move.state.name,
        source_arn=queue_arn(call.region, source.name),
        destination_arn=destination,
        max_number_of_messages_per_second=None if move.rate == MOVE_RATE else move.rate,
        approximate_number_of_messages_moved=move.moved,
        approximate_number_of_messages_to_move=move.to_move,
        failure_reason=_failure(context, move),
        started_timestamp=move.started_ms,
    )


def _failure(context: Context, move: Move) -> str | None:
    """Why a move failed: by Amazon's code where it has one."""
    known = context.engine.topics.catalog.topic_by_id(move.destination)
    if move.failure and move.destination != NO_TOPIC_ID and known is None:
        return QueueDoesNotExist.code
    return move.failure or None


def _topic(context: Context, arn: str | None, parameter: str) -> Topic:
    """The queue that a parameter names."""
    if not arn:
        raise MissingParameter(parameter)
    name = name_of_arn(arn)
    if name is None:
        raise InvalidParameterValue(
            f"You must use this format to specify the {parameter}:"
            " arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
        )
    topic = context.engine.topics.catalog.topic(name)
    if topic is None:
        raise ResourceNotFound(
            f"The resource that you specified for the {parameter} parameter doesn't exist."
        )
    return topic


def _write_handle(move: Move, source: Topic, call: Call) -> str:
    handle = _Handle(move.move_id, queue_arn(call.region, source.name))
    return b64encode(msgspec.json.encode(handle)).decode()


def _read_handle(text: str) -> _Handle:
    try:
        return decode_json(b64decode(text.encode("ascii"), validate=True), _Handle)
    except (NotBase64, UnicodeError, ValueError) as error:
        raise InvalidParameterValue("Value for parameter TaskHandle is invalid.") from error
