"""The actions of SQS, independent of the protocol.

A protocol reads a request into the struct that `ACTIONS` names, calls `Service.call`, and writes
down what it returns, or the `SqsError` or `PenstockError` that it raises. Nothing here knows about
HTTP.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from penstock.engine.engine import Engine
from penstock.sqs import requests
from penstock.sqs.answers import Answer
from penstock.sqs.context import AGAIN, Call, Context, OnDone, SqsSettings
from penstock.sqs.move_tasks import (
    cancel_message_move_task,
    list_message_move_tasks,
    start_message_move_task,
)
from penstock.sqs.queue_attributes import (
    add_permission,
    get_queue_attributes,
    remove_permission,
    set_queue_attributes,
)
from penstock.sqs.queue_life import (
    create_queue,
    delete_queue,
    get_queue_url,
    list_dead_letter_source_queues,
    list_queues,
    purge_queue,
)
from penstock.sqs.receive import begin_receive_message, receive_message
from penstock.sqs.requests import Request
from penstock.sqs.send import (
    begin_send_message,
    begin_send_message_batch,
    send_message,
    send_message_batch,
)
from penstock.sqs.settle import (
    begin_delete_message,
    begin_delete_message_batch,
    change_message_visibility,
    change_message_visibility_batch,
    delete_message,
    delete_message_batch,
)
from penstock.sqs.tags import list_queue_tags, tag_queue, untag_queue

__all__ = [
    "ACTIONS",
    "AGAIN",
    "BRIEF",
    "UNCHANGING",
    "Action",
    "Call",
    "Service",
    "SqsSettings",
    "OnDone",
]


class Action(NamedTuple):
    name: str
    request: type[Request]
    answer: Callable[[Context, Any, Call], Awaitable[Answer | None]]


ACTIONS: dict[str, Action] = {
    request.__name__: Action(request.__name__, request, answer)
    for request, answer in (
        (requests.AddPermission, add_permission),
        (requests.CancelMessageMoveTask, cancel_message_move_task),
        (requests.ChangeMessageVisibility, change_message_visibility),
        (requests.ChangeMessageVisibilityBatch, change_message_visibility_batch),
        (requests.CreateQueue, create_queue),
        (requests.DeleteMessage, delete_message),
        (requests.DeleteMessageBatch, delete_message_batch),
        (requests.DeleteQueue, delete_queue),
        (requests.GetQueueAttributes, get_queue_attributes),
        (requests.GetQueueUrl, get_queue_url),
        (requests.ListDeadLetterSourceQueues, list_dead_letter_source_queues),
        (requests.ListMessageMoveTasks, list_message_move_tasks),
        (requests.ListQueueTags, list_queue_tags),
        (requests.ListQueues, list_queues),
        (requests.PurgeQueue, purge_queue),
        (requests.ReceiveMessage, receive_message),
        (requests.RemovePermission, remove_permission),
        (requests.SendMessage, send_message),
        (requests.SendMessageBatch, send_message_batch),
        (requests.SetQueueAttributes, set_queue_attributes),
        (requests.StartMessageMoveTask, start_message_move_task),
        (requests.TagQueue, tag_queue),
        (requests.UntagQueue, untag_queue),
    )
}
"""All 23 actions, by name."""


UNCHANGING = frozenset(
    (
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "ListMessageMoveTasks",
        "ListQueueTags",
        "ListQueues",
    )
)
"""The actions that a GET may ask for. `ReceiveMessage` is none of them: it leases messages."""


class Brief(NamedTuple):
    """A way to carry out an action without a task."""

    begin: Callable[[Context, Any, Any, OnDone], bool]
    asks_who: bool = False
    """Whether the action needs the caller; otherwise it gets None."""
    sends: bool = False
    """Whether a trace header of the request belongs to its messages. Then it takes a task."""


BRIEF: dict[str, Brief] = {
    "DeleteMessage": Brief(begin_delete_message),
    "DeleteMessageBatch": Brief(begin_delete_message_batch),
    "ReceiveMessage": Brief(begin_receive_message, asks_who=True),
    "SendMessage": Brief(begin_send_message, sends=True),
    "SendMessageBatch": Brief(begin_send_message_batch, sends=True),
}
"""The frequent small actions, which are coalesced with those of other clients."""


class Service:
    """The SQS service of one node."""

    def __init__(self, engine: Engine, settings: SqsSettings) -> None:
        self._context = Context(engine, settings)

    async def call(self, action: str, request: Request, call: Call) -> Answer | None:
        """Carry out an action of `ACTIONS`; None if there is nothing to answer."""
        return await ACTIONS[action].answer(self._context, request, call)

    def begin(self, action: str, request: Request, call: Call | None, on_done: OnDone) -> bool:
        """Carry out an action that takes no task; `on_done` is called with what comes of it, later,
        or with `AGAIN`. False: it takes one, and nothing has happened."""
        brief = BRIEF.get(action)
        return brief is not None and brief.begin(self._context, request, call, on_done)
