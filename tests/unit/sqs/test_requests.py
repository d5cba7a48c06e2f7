"""Requests and answers have the members that Amazon's model has."""

import msgspec
import pytest
from botocore.session import get_session

from penstock.sqs import answers, requests
from penstock.sqs.answers import Answer
from penstock.sqs.requests import Request
from penstock.sqs.service import ACTIONS

MODEL = get_session().get_service_model("sqs")


def members(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def test_there_are_all_actions_and_no_others() -> None:
    assert set(ACTIONS) == set(MODEL.operation_names)
    assert len(ACTIONS) == 23
    assert all(action.name == name for name, action in ACTIONS.items())


@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_requests_have_the_members_of_the_model(name: str) -> None:
    shape = MODEL.operation_model(name).input_shape
    assert members(ACTIONS[name].request) == set(shape.members)


ANSWERS: dict[str, type[Answer]] = {
    "CancelMessageMoveTask": answers.MoveCancelled,
    "ChangeMessageVisibilityBatch": answers.BatchDone,
    "CreateQueue": answers.QueueLocated,
    "DeleteMessageBatch": answers.BatchDone,
    "GetQueueAttributes": answers.QueueAttributes,
    "GetQueueUrl": answers.QueueLocated,
    "ListDeadLetterSourceQueues": answers.DeadLetterSourcesListed,
    "ListMessageMoveTasks": answers.MovesListed,
    "ListQueueTags": answers.QueueTags,
    "ListQueues": answers.QueuesListed,
    "ReceiveMessage": answers.MessagesReceived,
    "SendMessage": answers.MessageSent,
    "SendMessageBatch": answers.BatchSent,
    "StartMessageMoveTask": answers.MoveStarted,
}


def test_answers_have_the_members_of_the_model() -> None:
    for name in ACTIONS:
        shape = MODEL.operation_model(name).output_shape
        known = set(shape.members) if shape is not None else set()
        kind = ANSWERS.get(name)
        assert (members(kind) if kind is not None else set()) == known, name


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ("MessageAttributeValue", requests.MessageAttributeValue),
        ("SendMessageBatchRequestEntry", requests.SendMessageBatchEntry),
        ("DeleteMessageBatchRequestEntry", requests.DeleteMessageBatchEntry),
        ("ChangeMessageVisibilityBatchRequestEntry", requests.ChangeMessageVisibilityBatchEntry),
        ("SendMessageBatchResultEntry", answers.MessageOfBatchSent),
        ("BatchResultErrorEntry", answers.Refusal),
        ("DeleteMessageBatchResultEntry", answers.BatchEntryDone),
        ("Message", answers.ReceivedMessage),
        ("ListMessageMoveTasksResultEntry", answers.MoveListed),
    ],
)
def test_parts_have_the_members_of_the_model(
    shape: str, kind: type[Request] | type[Answer]
) -> None:
    assert members(kind) == set(MODEL.shape_for(shape).members)


def test_what_is_empty_is_not_said() -> None:
    assert msgspec.json.encode(answers.MessagesReceived()) == b"{}"
    assert msgspec.json.encode(answers.BatchDone()) == b"{}"
    sent = answers.MessageSent(md5_of_message_body="m", message_id="i")
    assert msgspec.json.encode(sent) == b'{"MD5OfMessageBody":"m","MessageId":"i"}'
