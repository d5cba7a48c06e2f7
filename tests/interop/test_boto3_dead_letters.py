"""boto3: dead letters, where they go, and how they come back, as on Amazon."""

import json
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sqs_broker import REGION, SqsBroker, refused, sqs_broker

pytestmark = pytest.mark.slow

SECONDS_MAX = 30.0


@pytest.fixture(scope="module")
def sqs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqsBroker]:
    with sqs_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:000000000000:{name}"


def policy(target: str, receives: int = 1) -> str:
    return json.dumps({"deadLetterTargetArn": arn(target), "maxReceiveCount": receives})


def pair(sqs: SqsBroker, name: str, receives: int = 1) -> tuple[str, str]:
    """A queue, and where its dead letters go."""
    dead = sqs.create(f"{name}-dead")
    return sqs.create(name, RedrivePolicy=policy(f"{name}-dead", receives)), dead


def fail(sqs: SqsBroker, url: str, messages: list[dict[str, Any]]) -> None:
    """Messages are given back."""
    for one in messages:
        sqs.client.change_message_visibility(
            QueueUrl=url, ReceiptHandle=one["ReceiptHandle"], VisibilityTimeout=0
        )


def kill(sqs: SqsBroker, url: str, dead: str, count: int) -> None:
    """Send messages and let them die at the first try."""
    for number in range(count):
        sqs.client.send_message(QueueUrl=url, MessageBody=str(number))
    for _ in range(count):
        fail(sqs, url, sqs.receive(url, MaxNumberOfMessages=1))
    until(lambda: sqs.counts(dead)[0] == count)


def until(holds: Any) -> None:
    """Ask until it is so."""
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, "it does not come about"


def move(sqs: SqsBroker, source: str) -> dict[str, Any]:
    """The move that was started last."""
    tasks = sqs.client.list_message_move_tasks(SourceArn=source)["Results"]
    found: dict[str, Any] = tasks[0]
    return found


# Dying.


def test_a_message_dies_after_so_many_receives(sqs: SqsBroker) -> None:
    url, dead = pair(sqs, "exactly", receives=3)
    sent = sqs.client.send_message(
        QueueUrl=url,
        MessageBody="bad",
        MessageAttributes={"a": {"DataType": "Number", "StringValue": "1"}},
    )
    found: dict[str, Any] = {}
    for count in ("1", "2", "3"):
        (found,) = sqs.receive(url)
        assert found["Attributes"]["ApproximateReceiveCount"] == count
        fail(sqs, url, [found])
    (letter,) = sqs.receive(dead)
    assert sqs.receive(url, WaitTimeSeconds=0) == []
    assert letter["MessageId"] == sent["MessageId"]
    assert letter["Body"] == "bad"
    assert letter["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    system = letter["Attributes"]
    assert system["DeadLetterQueueSourceArn"] == arn("exactly")
    assert system["SentTimestamp"] == found["Attributes"]["SentTimestamp"]
    assert system["ApproximateReceiveCount"] == "4"
    assert sqs.counts(url) == (0, 0, 0)


def test_a_message_dies_of_timeouts_too(sqs: SqsBroker) -> None:
    dead = sqs.create("timeouts-dead")
    url = sqs.create("timeouts", RedrivePolicy=policy("timeouts-dead"), VisibilityTimeout="1")
    sqs.client.send_message(QueueUrl=url, MessageBody="slow")
    assert sqs.bodies(url) == ["slow"]
    assert sqs.bodies(dead) == ["slow"]


# Rules.


def test_policies_that_are_refused(sqs: SqsBroker) -> None:
    sqs.create("target")
    good = policy("target")
    for text, code, words in (
        ("nonsense", "InvalidAttributeValue", "Redrive policy is not a valid JSON map."),
        (policy("missing"), "InvalidParameterValue", "Dead letter target does not exist."),
        (policy("target", 0), "InvalidParameterValue", "Invalid value for maxReceiveCount: 0"),
        (good.replace(arn("target"), "x"), "InvalidParameterValue", "deadLetterTargetArn."),
        (
            policy("refused-policies"),
            "InvalidParameterValue",
            "A queue cannot be its own dead-letter queue; name another queue.",
        ),
    ):
        with refused(code, words):
            sqs.create("refused-policies", RedrivePolicy=text)
    url = sqs.create("refused-policies", RedrivePolicy=good)
    assert json.loads(sqs.attributes(url)["RedrivePolicy"]) == json.loads(good)
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})
    assert "RedrivePolicy" not in sqs.attributes(url)


def test_a_queue_says_whose_dead_letters_it_takes(sqs: SqsBroker) -> None:
    allowed = {"redrivePermission": "byQueue", "sourceQueueArns": [arn("friend")]}
    sqs.create("choosy", RedriveAllowPolicy=json.dumps(allowed))
    sqs.create("friend", RedrivePolicy=policy("choosy"))
    with refused("InvalidParameterValue", "for parameter RedrivePolicy is invalid."):
        sqs.create("stranger", RedrivePolicy=policy("choosy"))


def test_sources_are_listed(sqs: SqsBroker) -> None:
    dead = sqs.create("listed-dead")
    assert sqs.client.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == []
    urls = [sqs.create(f"listed-{one}", RedrivePolicy=policy("listed-dead")) for one in "abc"]
    assert sqs.client.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == urls
    page = sqs.client.list_dead_letter_source_queues(QueueUrl=dead, MaxResults=2)
    assert page["queueUrls"] == urls[:2]
    rest = sqs.client.list_dead_letter_source_queues(
        QueueUrl=dead, MaxResults=2, NextToken=page["NextToken"]
    )
    assert rest["queueUrls"] == urls[2:]


# Coming back.


def test_dead_letters_go_back_to_where_they_died(sqs: SqsBroker) -> None:
    url, dead = pair(sqs, "back")
    other = sqs.create("back-too", RedrivePolicy=policy("back-dead"))
    kill(sqs, url, dead, 2)
    sqs.client.send_message(QueueUrl=other, MessageBody="other")
    fail(sqs, other, sqs.receive(other))
    until(lambda: sqs.counts(dead)[0] == 3)
    handle = sqs.client.start_message_move_task(SourceArn=arn("back-dead"))["TaskHandle"]
    until(lambda: move(sqs, arn("back-dead"))["Status"] == "COMPLETED")
    task = move(sqs, arn("back-dead"))
    assert task["ApproximateNumberOfMessagesMoved"] == 3
    assert task["ApproximateNumberOfMessagesToMove"] == 3
    assert task["SourceArn"] == arn("back-dead")
    assert "DestinationArn" not in task
    assert "TaskHandle" not in task
    found = sqs.receive(url)
    assert sorted(one["Body"] for one in found) == ["0", "1"]
    assert {one["Attributes"]["ApproximateReceiveCount"] for one in found} == {"1"}
    assert "DeadLetterQueueSourceArn" not in found[0]["Attributes"]
    assert sqs.bodies(other) == ["other"]
    assert sqs.counts(dead) == (0, 0, 0)
    with refused("ResourceNotFoundException", "Task does not exist.", status=404):
        sqs.client.cancel_message_move_task(TaskHandle=handle)


def test_dead_letters_go_elsewhere_and_not_all_of_them(sqs: SqsBroker) -> None:
    url, dead = pair(sqs, "elsewhere")
    target = sqs.create("elsewhere-target")
    kill(sqs, url, dead, 5)
    asked: dict[str, Any] = {
        "SourceArn": arn("elsewhere-dead"),
        "DestinationArn": arn("elsewhere-target"),
        "MaxNumberOfMessagesPerSecond": 1,
    }
    handle = sqs.client.start_message_move_task(**asked)["TaskHandle"]
    with refused(
        "InvalidParameterValue",
        "There is already a task running. Only one active task is allowed for a source queue arn"
        " at a given time.",
    ):
        sqs.client.start_message_move_task(**asked)
    running = move(sqs, asked["SourceArn"])
    assert (running["Status"], running["TaskHandle"]) == ("RUNNING", handle)
    assert running["DestinationArn"] == asked["DestinationArn"]
    assert running["MaxNumberOfMessagesPerSecond"] == 1
    assert abs(running["StartedTimestamp"] / 1_000 - time.time()) < SECONDS_MAX
    cancelled = sqs.client.cancel_message_move_task(TaskHandle=handle)
    assert cancelled["ApproximateNumberOfMessagesMoved"] < 5
    until(lambda: move(sqs, asked["SourceArn"])["Status"] == "CANCELLED")
    moved = move(sqs, asked["SourceArn"])["ApproximateNumberOfMessagesMoved"]
    assert sqs.counts(target)[0] == moved < 5
    until(lambda: sum(sqs.counts(dead)) == 5 - moved)


def test_a_move_whose_destination_is_deleted(sqs: SqsBroker) -> None:
    url, dead = pair(sqs, "deleted-target")
    target = sqs.create("deleted-target-target")
    kill(sqs, url, dead, 3)
    source = arn("deleted-target-dead")
    sqs.client.start_message_move_task(
        SourceArn=source,
        DestinationArn=arn("deleted-target-target"),
        MaxNumberOfMessagesPerSecond=1,
    )
    sqs.client.delete_queue(QueueUrl=target)
    until(lambda: move(sqs, source)["Status"] == "FAILED")
    assert move(sqs, source)["FailureReason"] == "AWS.SimpleQueueService.NonExistentQueue"


def test_moves_that_are_refused(sqs: SqsBroker) -> None:
    url, _ = pair(sqs, "refused-moves")
    client = sqs.client
    with refused(
        "InvalidParameterValue", "Source queue must be configured as a Dead Letter Queue."
    ):
        client.start_message_move_task(SourceArn=arn("refused-moves"))
    missing = "The resource that you specified for the {} parameter doesn't exist."
    source = arn("refused-moves-dead")
    with refused("ResourceNotFoundException", missing.format("SourceArn"), status=404):
        client.start_message_move_task(SourceArn=arn("missing"))
    with refused("ResourceNotFoundException", missing.format("DestinationArn"), status=404):
        client.start_message_move_task(SourceArn=source, DestinationArn=arn("missing"))
    with refused("InvalidParameterValue", "MaxNumberOfMessagesPerSecond"):
        client.start_message_move_task(SourceArn=source, MaxNumberOfMessagesPerSecond=501)
    with refused("InvalidParameterValue", "You must use this format to specify the SourceArn:"):
        client.list_message_move_tasks(SourceArn=url)
    with refused("MissingParameter", "SourceArn"):
        client.list_message_move_tasks()
    for most in (0, 11):
        with refused("InvalidParameterValue", "MaxResults must be an integer between 1 and 10."):
            client.list_message_move_tasks(SourceArn=source, MaxResults=most)
    assert "Results" not in client.list_message_move_tasks(SourceArn=source)
    with refused("InvalidParameterValue", "Value for parameter TaskHandle is invalid."):
        client.cancel_message_move_task(TaskHandle="nonsense")
    handle = b64encode(json.dumps({"taskId": "x", "sourceArn": source}).encode()).decode()
    with refused("ResourceNotFoundException", "Task does not exist.", status=404):
        client.cancel_message_move_task(TaskHandle=handle)
    elsewhere = b64decode(handle).replace(b"refused-moves-dead", b"missing")
    with refused("ResourceNotFoundException", missing.format("SourceArn"), status=404):
        client.cancel_message_move_task(TaskHandle=b64encode(elsewhere).decode())
