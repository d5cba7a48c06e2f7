"""boto3: FIFO queues keep the order of groups and know what was sent before, as on Amazon."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sqs_broker import SqsBroker, refused, sqs_broker

pytestmark = pytest.mark.slow

NO_ID = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId"
    " provided explicitly"
)
NOT_HERE = "The request include parameter that is not valid for this queue type."


@pytest.fixture(scope="module")
def sqs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqsBroker]:
    with sqs_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def send(sqs: SqsBroker, url: str, group: str, body: str, **more: object) -> dict[str, Any]:
    asked = {"MessageDeduplicationId": body, **more}
    answer: dict[str, Any] = sqs.client.send_message(
        QueueUrl=url, MessageGroupId=group, MessageBody=body, **asked
    )
    return answer


# Order.


def test_a_group_is_delivered_in_order_and_stands_still_meanwhile(sqs: SqsBroker) -> None:
    url = sqs.create_fifo("order")
    sent = [send(sqs, url, group, f"{group}{number}") for number in range(3) for group in "ab"]
    numbers = [one["SequenceNumber"] for one in sent]
    assert numbers == sorted(numbers)
    assert {len(number) for number in numbers} == {20}
    (first,) = sqs.receive(url, MaxNumberOfMessages=1)
    system = first["Attributes"]
    assert (first["Body"], system["MessageGroupId"]) == ("a0", "a")
    assert system["MessageDeduplicationId"] == "a0"
    assert system["SequenceNumber"] == sent[0]["SequenceNumber"]
    others = sqs.receive(url)
    assert [one["Body"] for one in others] == ["b0", "b1", "b2"]
    assert sqs.receive(url, WaitTimeSeconds=0) == []
    sqs.delete(url, [first])
    rest = sqs.receive(url)
    assert [one["Body"] for one in rest] == ["a1", "a2"]
    sqs.delete(url, [*others, *rest])
    assert sqs.counts(url) == (0, 0, 0)


def test_order_is_restored_when_a_lease_ends(sqs: SqsBroker) -> None:
    url = sqs.create_fifo("restored", VisibilityTimeout="1")
    for number in range(3):
        send(sqs, url, "g", str(number))
    (first,) = sqs.receive(url, MaxNumberOfMessages=1)
    again = sqs.receive(url)
    assert [one["Body"] for one in again] == ["0", "1", "2"]
    assert [one["Attributes"]["ApproximateReceiveCount"] for one in again] == ["2", "1", "1"]
    handle = first["ReceiptHandle"]
    with refused(
        "InvalidParameterValue",
        f"Value {handle} for parameter ReceiptHandle is invalid. Reason: The receipt handle has"
        " expired.",
        shape="InvalidParameterValueException",
    ):
        sqs.client.delete_message(QueueUrl=url, ReceiptHandle=handle)
    failed = sqs.client.delete_message_batch(
        QueueUrl=url, Entries=[{"Id": "a", "ReceiptHandle": handle}]
    )["Failed"]
    assert [(one["Id"], one["Code"]) for one in failed] == [("a", "InvalidParameterValue")]


def test_a_released_message_holds_its_group_back(sqs: SqsBroker) -> None:
    url = sqs.create_fifo("released")
    for number in range(2):
        send(sqs, url, "g", str(number))
    both = sqs.receive(url)
    sqs.client.change_message_visibility(
        QueueUrl=url, ReceiptHandle=both[0]["ReceiptHandle"], VisibilityTimeout=0
    )
    assert sqs.receive(url, WaitTimeSeconds=0) == []  # The other one is still in flight.
    sqs.delete(url, both[1:])
    assert sqs.bodies(url) == ["0"]


# What was sent before.


def test_a_group_that_is_given_back_comes_after_those_that_wait(sqs: SqsBroker) -> None:
    url = sqs.create_fifo("groups-take-turns", ContentBasedDeduplication="true")
    for body in ("g1-m1", "g2-m1", "g2-m2", "g3-m1", "g1-m2"):
        sqs.client.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=body[:2])
    first = sqs.bodies(url, MaxNumberOfMessages=3, VisibilityTimeout=0)
    assert first == ["g1-m1", "g1-m2", "g2-m1"]
    again = sqs.bodies(url, VisibilityTimeout=0)
    assert again == ["g3-m1", "g1-m1", "g1-m2", "g2-m1", "g2-m2"]  # As recorded on Amazon.


def test_what_was_sent_before_is_not_sent_again(sqs: SqsBroker) -> None:
    url = sqs.create_fifo("before")
    first = send(sqs, url, "g", "one", MessageDeduplicationId="id")
    second = send(sqs, url, "other-group", "two", MessageDeduplicationId="id")
    assert second["MessageId"] == first["MessageId"]
    assert second["SequenceNumber"] == first["SequenceNumber"]
    found = sqs.receive(url)
    assert [one["Body"] for one in found] == ["one"]
    sqs.delete(url, found)
    send(sqs, url, "g", "three", MessageDeduplicationId="id")
    assert sqs.receive(url, WaitTimeSeconds=0) == []
    batch = sqs.client.send_message_batch(
        QueueUrl=url,
        Entries=[
            {
                "Id": str(number),
                "MessageBody": str(number),
                "MessageGroupId": "g",
                "MessageDeduplicationId": dedup,
            }
            for number, dedup in enumerate(("id", "new", "new"))
        ],
    )["Successful"]
    assert batch[0]["MessageId"] == first["MessageId"]
    assert batch[1]["MessageId"] == batch[2]["MessageId"]
    assert sqs.bodies(url) == ["1"]


def test_contents_are_compared(sqs: SqsBroker) -> None:
    url = sqs.create_fifo("contents", ContentBasedDeduplication="true")
    for body, more in (
        ("same", {}),
        ("same", {"MessageAttributes": {"a": {"DataType": "String", "StringValue": "b"}}}),
        ("different", {}),
        ("same", {"MessageDeduplicationId": "the-id-wins"}),
    ):
        sqs.client.send_message(QueueUrl=url, MessageGroupId="g", MessageBody=body, **more)
    found = sqs.receive(url)
    assert [one["Body"] for one in found] == ["same", "different", "same"]
    assert found[2]["Attributes"]["MessageDeduplicationId"] == "the-id-wins"
    # The SHA-256 of the body.
    assert found[0]["Attributes"]["MessageDeduplicationId"] == (
        "0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5"
    )


def test_ids_may_count_within_a_group(sqs: SqsBroker) -> None:
    url = sqs.create_fifo(
        "scope", DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId"
    )
    for group in ("a", "b", "a"):
        send(sqs, url, group, group, MessageDeduplicationId="id")
    assert sorted(sqs.bodies(url) + sqs.bodies(url, WaitTimeSeconds=0)) == ["a", "b"]
    with refused("InvalidAttributeValue", "the DeduplicationScope must be messageGroup."):
        sqs.create_fifo("no-scope", FifoThroughputLimit="perMessageGroupId")


def test_a_purge_forgets_what_was_sent(sqs: SqsBroker) -> None:
    url = sqs.create_fifo("forgets")
    send(sqs, url, "g", "x")
    sqs.client.purge_queue(QueueUrl=url)
    send(sqs, url, "g", "x")
    assert sqs.bodies(url) == ["x"]


# Asking again.


def test_who_did_not_hear_the_answer_asks_again(sqs: SqsBroker) -> None:
    url = sqs.create_fifo("attempts")
    for number in range(3):
        send(sqs, url, "g", str(number))
    first = sqs.receive(url, MaxNumberOfMessages=2, ReceiveRequestAttemptId="attempt")
    again = sqs.receive(url, MaxNumberOfMessages=2, ReceiveRequestAttemptId="attempt")
    assert [one["ReceiptHandle"] for one in again] == [one["ReceiptHandle"] for one in first]
    assert again == first
    assert sqs.receive(url, WaitTimeSeconds=0, ReceiveRequestAttemptId="another") == []
    sqs.delete(url, first[:1])
    left = sqs.receive(url, ReceiveRequestAttemptId="attempt")
    assert [one["Body"] for one in left] == ["1"]
    sqs.delete(url, left)
    new = sqs.receive(url, ReceiveRequestAttemptId="attempt")
    assert [one["Body"] for one in new] == ["2"]
    with refused("InvalidParameterValue", "can only include alphanumeric and punctuation"):
        sqs.receive(url, ReceiveRequestAttemptId="x" * 129)


# Rules.


def test_what_a_fifo_queue_needs_and_does_not_take(sqs: SqsBroker) -> None:
    url = sqs.create_fifo("needs")
    client = sqs.client
    with refused("InvalidParameterValue", NO_ID):
        client.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="g")
    with refused(
        "MissingParameter",
        "The request must contain the parameter MessageGroupId.",
        shape="MissingRequiredParameterException",
    ):
        client.send_message(QueueUrl=url, MessageBody="x", MessageDeduplicationId="d")
    with refused(
        "InvalidParameterValue",
        f"Value 2 for parameter DelaySeconds is invalid. Reason: {NOT_HERE}",
    ):
        send(sqs, url, "g", "x", DelaySeconds=2)
    send(sqs, url, "g", "x", DelaySeconds=0)
    for parameter, value in (("MessageGroupId", "a b"), ("MessageDeduplicationId", "x" * 129)):
        asked = {"MessageGroupId": "g", "MessageDeduplicationId": "d", parameter: value}
        with refused("InvalidParameterValue", f"for parameter {parameter} is invalid."):
            client.send_message(QueueUrl=url, MessageBody="x", **asked)
    entry = {"Id": "a", "MessageBody": "x"}
    for more, words in (
        ({"MessageGroupId": "g"}, NO_ID),
        ({"MessageDeduplicationId": "d"}, "The request must contain the parameter MessageGroupId."),
    ):
        with refused("InvalidParameterValue", words):
            client.send_message_batch(QueueUrl=url, Entries=[{**entry, **more}])


def test_a_queue_delays_all_its_messages(sqs: SqsBroker) -> None:
    url = sqs.create_fifo("delays", DelaySeconds="1")
    send(sqs, url, "g", "x")
    assert sqs.receive(url, WaitTimeSeconds=0) == []
    assert sqs.bodies(url) == ["x"]


def test_dead_letters_of_a_fifo_queue_go_to_one(sqs: SqsBroker) -> None:
    standard, dead = sqs.create("not-fifo"), sqs.create_fifo("dead")
    policies = [
        json.dumps({"deadLetterTargetArn": sqs.attributes(one)["QueueArn"], "maxReceiveCount": 1})
        for one in (standard, dead)
    ]
    words = "Dead-letter queue must be same type of queue as the source."
    with refused("InvalidParameterValue", words):
        sqs.create_fifo("living", RedrivePolicy=policies[0])
    with refused("InvalidParameterValue", words):
        sqs.create("living", RedrivePolicy=policies[1])
    url = sqs.create_fifo("living", RedrivePolicy=policies[1])
    for number in range(2):
        send(sqs, url, "g", str(number))
    (first,) = sqs.receive(url, MaxNumberOfMessages=1)
    sqs.client.change_message_visibility(
        QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0
    )
    (letter,) = sqs.receive(dead)
    assert letter["Body"] == "0"
    assert letter["MessageId"] == first["MessageId"]
    assert letter["Attributes"]["MessageGroupId"] == "g"
    assert letter["Attributes"]["MessageDeduplicationId"] == first["MessageId"]
    assert letter["Attributes"]["SentTimestamp"] == first["Attributes"]["SentTimestamp"]
    assert sqs.bodies(url) == ["1"]
