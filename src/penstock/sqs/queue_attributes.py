"""GetQueueAttributes and SetQueueAttributes; and AddPermission and RemovePermission, which change
one attribute, the policy, statement by statement.

A policy is stored and returned, and not enforced: every client may do everything.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.core.decoders import decode_json
from penstock.sqs.answers import QueueAttributes
from penstock.sqs.attributes import (
    ATTRIBUTE_NAMES,
    COUNTS,
    DELAYED,
    IN_FLIGHT,
    POLICY,
    VISIBLE,
    check_queue_attributes,
    describe_queue,
    queue_configs,
)
from penstock.sqs.batches import is_id
from penstock.sqs.context import Call, Context
from penstock.sqs.errors import (
    InvalidAttributeName,
    InvalidParameterValue,
    MissingParameter,
    OverLimit,
    invalid_value,
)
from penstock.sqs.names import queue_arn
from penstock.sqs.queue_document import read_document
from penstock.sqs.queue_life import check_redrive
from penstock.sqs.requests import (
    AddPermission,
    GetQueueAttributes,
    RemovePermission,
    SetQueueAttributes,
)

STATEMENTS_MAX = 20
ACTIONS_MAX = 7
ACCOUNT_DIGITS = 12

_GRANTABLE = frozenset({
    "*",
    "ChangeMessageVisibility",
    "DeleteMessage",
    "GetQueueAttributes",
    "GetQueueUrl",
    "ListDeadLetterSourceQueues",
    "PurgeQueue",
    "ReceiveMessage",
    "SendMessage",
})  # fmt: skip
_OWNERS_ONLY = frozenset({
    "AddPermission",
    "CancelMessageMoveTask",
    "CreateQueue",
    "DeleteQueue",
    "ListMessageMoveTasks",
    "ListQueueTags",
    "ListQueues",
    "RemovePermission",
    "SetQueueAttributes",
    "StartMessageMoveTask",
    "TagQueue",
    "UntagQueue",
})  # fmt: skip


async def get_queue_attributes(
    context: Context, request: GetQueueAttributes, call: Call
) -> QueueAttributes:
    """Return the requested attributes that the queue has."""
    topic = context.queue(request.queue_url)
    names = request.attribute_names or []
    for name in names:
        if name not in ATTRIBUTE_NAMES:
            raise InvalidAttributeName.unknown(name)
    wanted = ATTRIBUTE_NAMES if "All" in names else frozenset(names)
    if not wanted:
        return QueueAttributes()
    described = describe_queue(topic, call.region)
    if wanted & COUNTS:
        counts = await context.delivery.counts(topic)
        described |= {
            VISIBLE: str(counts.ready),
            IN_FLIGHT: str(counts.leased),
            DELAYED: str(counts.delayed),
        }
    chosen = {name: value for name, value in described.items() if name in wanted}
    return QueueAttributes(attributes=chosen)


async def set_queue_attributes(context: Context, request: SetQueueAttributes, _: Call) -> None:
    """Change the attributes of a queue."""
    if request.attributes is None:
        raise MissingParameter("Attributes")
    await _set(context, request.queue_url, request.attributes)


async def _set(context: Context, url: str | None, attributes: Mapping[str, str]) -> None:
    fifo = context.queue(url).settings.queue.fifo
    checked = check_queue_attributes(attributes, fifo=fifo)
    if not checked:
        return
    async with context.changing:
        topic = context.queue(url)
        check_redrive(context, topic.name, checked, fifo=fifo)
        now_s = context.engine.topics.clock.wall_ms() // 1_000
        changes = queue_configs(checked, topic, now_s=now_s)
        await context.engine.topics.configure_topic(topic.name, changes)


# The policy.


async def add_permission(context: Context, request: AddPermission, call: Call) -> None:
    """Add a statement to the queue's policy."""
    topic = context.queue(request.queue_url)
    label, accounts, actions = request.label or "", request.aws_account_ids, request.actions
    if not is_id(label):
        raise invalid_value(
            label,
            "Label",
            "Label can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in"
            " length.",
        )
    if not accounts or not all(map(_is_account, accounts)):
        listed = ", ".join(accounts or ())
        raise invalid_value(f"[{listed}]", "PrincipalId", "Unable to verify.")
    _check_actions(actions)
    arn = queue_arn(call.region, topic.name)
    policy = _read_policy(topic.settings.queue.sqs, arn)
    statements = policy["Statement"]
    if any(one.get("Sid") == label for one in statements):
        raise invalid_value(label, "Label", "Already exists.")
    if len(statements) >= STATEMENTS_MAX:
        raise OverLimit(f"{STATEMENTS_MAX} AddPermission statements are allowed per policy.")
    principals = [f"arn:aws:iam::{account}:root" for account in accounts]
    statements.append(
        {
            "Sid": label,
            "Effect": "Allow",
            "Principal": {"AWS": _alone(principals)},
            "Action": _alone([f"SQS:{action}" for action in actions or ()]),
            "Resource": arn,
        }
    )
    await _set(context, request.queue_url, {POLICY: msgspec.json.encode(policy).decode()})


async def remove_permission(context: Context, request: RemovePermission, call: Call) -> None:
    """Take a statement out of the queue's policy."""
    topic = context.queue(request.queue_url)
    label = request.label
    if not label:
        raise MissingParameter("Label")
    policy = _read_policy(topic.settings.queue.sqs, queue_arn(call.region, topic.name))
    left = [one for one in policy["Statement"] if one.get("Sid") != label]
    if len(left) == len(policy["Statement"]):
        raise invalid_value(label, "Label", "can't find label.")
    policy["Statement"] = left
    text = msgspec.json.encode(policy).decode() if left else ""
    await _set(context, request.queue_url, {POLICY: text})


def _is_account(text: str) -> bool:
    return len(text) == ACCOUNT_DIGITS and text.isascii() and text.isdecimal()


def _check_actions(actions: list[str] | None) -> None:
    if not actions:
        raise MissingParameter("Actions")
    if len(actions) > ACTIONS_MAX:
        raise OverLimit(f"{len(actions)} Actions were found, maximum allowed is {ACTIONS_MAX}.")
    for action in actions:
        if action in _OWNERS_ONLY:
            raise invalid_value(
                f"SQS:{action}",
                "ActionName",
                "Only the queue owner is allowed to invoke this action.",
            )
        if action not in _GRANTABLE:
            raise invalid_value(
                f"SQS:{action}",
                "ActionName",
                "Please refer to the appropriate WSDL for a list of valid actions. ",
            )


def _read_policy(sqs: str, arn: str) -> dict[str, Any]:
    """The policy as it is, or an empty one; its statements are a list of maps."""
    text = read_document(sqs).attributes.get(POLICY)
    policy: dict[str, Any] = {"Version": "2008-10-17", "Id": f"{arn}/SQSDefaultPolicy"}
    if text:
        policy = decode_json(text, dict[str, Any])
    statements = policy.get("Statement", [])
    if isinstance(statements, dict):
        statements = [statements]
    if not isinstance(statements, list) or not all(isinstance(one, dict) for one in statements):
        raise InvalidParameterValue("The queue's policy has statements that are none.")
    return {**policy, "Statement": statements}


def _alone(values: list[str]) -> str | list[str]:
    """Amazon writes a list of one without the list."""
    return values[0] if len(values) == 1 else values
