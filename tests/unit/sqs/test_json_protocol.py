"""AWS JSON: what is read, what is written, and what broken input is answered."""

from typing import Any

import msgspec
import pytest

from penstock.sqs.answers import BatchSent, MessageOfBatchSent, MessagesReceived, ReceivedMessage
from penstock.sqs.errors import QueueDoesNotExist
from penstock.sqs.json_protocol import read_json, write_json, write_json_error
from penstock.sqs.protocol_errors import MalformedBody, UnknownAction
from penstock.sqs.requests import MessageAttributeValue, SendMessageBatch
from penstock.sqs.service import ACTIONS
from tests.unit.sqs.actions import lines

ID = b"00000000-0000-4000-8000-000000000001"


def decoded(body: bytes) -> Any:
    return msgspec.json.decode(body)


def test_a_request_is_read_by_amazons_names() -> None:
    body = (
        b'{"QueueUrl":"http://h/0/q","Unknown":[1],"Entries":[{"Id":"a","MessageBody":"\\u00e9",'
        b'"DelaySeconds":3,"MessageAttributes":{"n":{"DataType":"Binary","BinaryValue":"AAE="}}}]}'
    )
    name, request = read_json(b"AmazonSQS.SendMessageBatch", body)
    assert name == "SendMessageBatch"
    assert isinstance(request, SendMessageBatch)
    assert request.queue_url == "http://h/0/q"
    assert request.entries is not None
    (entry,) = request.entries
    assert (entry.id, entry.message_body, entry.delay_seconds) == ("a", "é", 3)
    assert entry.message_attributes == {
        "n": MessageAttributeValue(data_type="Binary", binary_value=b"\x00\x01")
    }


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_is_read_also_without_a_body(name: str) -> None:
    target = b"AmazonSQS." + name.encode()
    assert read_json(target, b"{}") == read_json(target, b"")
    assert type(read_json(target, b"")[1]) is ACTIONS[name].request


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b'{"MessageBody":1}',
        b'{"DelaySeconds":"3"}',
        b'{"MessageBody":"\xff"}',
        b'{"MessageBody":"\\ud800"}',
        b'{"MessageAttributes":{"n":{"BinaryValue":"no base64"}}}',
        b'{"Unknown":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_no_request_is_told_so(body: bytes) -> None:
    with pytest.raises(MalformedBody):
        read_json(b"AmazonSQS.SendMessage", body)


@pytest.mark.parametrize(
    "target", [b"AmazonSQS.SendMail", b"AmazonSNS.SendMessage", b"SendMessage", b"", b"\xff"]
)
def test_what_is_no_action_is_told_so(target: bytes) -> None:
    with pytest.raises(UnknownAction):
        read_json(target, b"{}")


def test_an_answer_has_amazons_names_and_nothing_that_is_empty() -> None:
    sent = MessageOfBatchSent(id="a", message_id="m", md5_of_message_body="5d")
    reply = write_json(BatchSent(successful=[sent]), {}, ID)
    assert reply.status == 200
    assert lines(reply) == {
        "content-type": "application/x-amz-json-1.0",
        "x-amzn-requestid": ID.decode(),
    }
    assert decoded(reply.body) == {
        "Successful": [{"Id": "a", "MessageId": "m", "MD5OfMessageBody": "5d"}]
    }


def test_bytes_are_written_in_base64() -> None:
    value = MessageAttributeValue(data_type="Binary", binary_value=b"\x00\xff")
    message = ReceivedMessage(
        message_id="m",
        receipt_handle="r",
        md5_of_body="5d",
        body="b",
        message_attributes={"n": value},
    )
    reply = write_json(MessagesReceived(messages=[message]), {}, ID)
    attributes = decoded(reply.body)["Messages"][0]["MessageAttributes"]
    assert attributes == {"n": {"DataType": "Binary", "BinaryValue": "AP8="}}


def test_nothing_is_an_empty_object() -> None:
    assert write_json(None, {}, ID).body == b"{}"


def test_a_client_gets_the_version_it_speaks() -> None:
    reply = write_json(None, {b"content-type": b"application/x-amz-json-1.1"}, ID)
    assert lines(reply)["content-type"] == "application/x-amz-json-1.1"


def test_an_error_is_named_by_its_shape_and_by_its_code() -> None:
    reply = write_json_error(QueueDoesNotExist(), {}, ID)
    assert reply.status == 400
    assert decoded(reply.body) == {
        "__type": "com.amazonaws.sqs#QueueDoesNotExist",
        "message": "The specified queue does not exist.",
    }
    assert lines(reply)["x-amzn-query-error"] == "AWS.SimpleQueueService.NonExistentQueue;Sender"
