"""At the edges: the largest and the longest that SQS allows, and queues that are made again."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.interop.served import Served, code_of, counts, serving
from tests.interop.sqs_groups import work_off_groups

pytestmark = pytest.mark.slow

MIB = 1 << 20
TWELVE_HOURS = 43_200
GROUPS = 1_000
SECONDS_MAX = 30


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("limits"), "--sqs.cooldown=0s") as broker:
        yield broker


@pytest.fixture
def client(served: Served) -> Any:
    return served.client()


def create(client: Any, name: str, **attributes: str) -> str:
    url: str = client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url


def receive(client: Any, url: str, **more: object) -> list[dict[str, Any]]:
    answer = client.receive_message(
        **{"QueueUrl": url, "MaxNumberOfMessages": 10, "AttributeNames": ["All"], **more}
    )
    messages: list[dict[str, Any]] = answer.get("Messages", [])
    return messages


def delete(client: Any, url: str, messages: list[dict[str, Any]]) -> None:
    entries = [
        {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
        for number, message in enumerate(messages)
    ]
    assert "Failed" not in client.delete_message_batch(QueueUrl=url, Entries=entries)


# Size.


@pytest.mark.parametrize("letter", ["x", "é", "€", "😀", '"', "\n"])
def test_a_message_has_a_mebibyte_and_not_a_byte_more(client: Any, letter: str) -> None:
    url = create(client, f"mebibyte-{ord(letter)}")
    size = len(letter.encode())
    whole = letter * (MIB // size) + "x" * (MIB % size)
    client.send_message(QueueUrl=url, MessageBody=whole)
    attributes = {"name": {"DataType": "String", "StringValue": "value"}}
    taken = len("nameStringvalue")
    client.send_message(QueueUrl=url, MessageBody="x" * (MIB - taken), MessageAttributes=attributes)
    for body, more in ((whole + "x", {}), ("x" * (MIB - taken + 1), attributes)):
        with pytest.raises(ClientError) as refused:
            client.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=more)
        assert code_of(refused.value) == "InvalidParameterValue"
    found = receive(client, url, MessageAttributeNames=["All"])
    assert [message["Body"] for message in found] == [whole, "x" * (MIB - taken)]
    assert found[1]["MessageAttributes"] == attributes
    delete(client, url, found)


def test_ten_messages_have_a_mebibyte_together(client: Any) -> None:
    url = create(client, "together")
    tenth = 100 * 1024

    def entries(size: int) -> list[dict[str, str]]:
        return [{"Id": str(number), "MessageBody": f"{number}" * size} for number in range(10)]

    assert len(client.send_message_batch(QueueUrl=url, Entries=entries(tenth))["Successful"]) == 10
    with pytest.raises(ClientError) as refused:
        client.send_message_batch(QueueUrl=url, Entries=entries(MIB // 10 + 1))
    assert code_of(refused.value) == "AWS.SimpleQueueService.BatchRequestTooLong"
    found = receive(client, url)
    assert [message["Body"] for message in found] == [f"{number}" * tenth for number in range(10)]
    delete(client, url, found)


def test_ten_of_the_largest_come_in_one_answer(client: Any) -> None:
    url = create(client, "ten-large")
    for number in range(10):
        client.send_message(QueueUrl=url, MessageBody=str(number) * MIB)
    found = receive(client, url)
    assert [message["Body"][0] for message in found] == [str(number) for number in range(10)]
    assert {len(message["Body"]) for message in found} == {MIB}
    delete(client, url, found)


def test_a_queue_may_take_less(client: Any) -> None:
    url = create(client, "takes-less", MaximumMessageSize="1024")
    client.send_message(QueueUrl=url, MessageBody="x" * 1024)
    with pytest.raises(ClientError) as refused:
        client.send_message(QueueUrl=url, MessageBody="x" * 1025)
    assert code_of(refused.value) == "InvalidParameterValue"
    assert counts(client, url) == (1, 0, 0)


# Time.


def test_no_time_at_all(client: Any) -> None:
    """A visibility timeout of zero hides nothing, and what it gives is not held."""
    url = create(client, "no-time", VisibilityTimeout="0")
    client.send_message(QueueUrl=url, MessageBody="x")
    found = [receive(client, url)[0] for _ in range(3)]
    received = [message["Attributes"]["ApproximateReceiveCount"] for message in found]
    assert received == ["1", "2", "3"]
    for seconds, held in ((3_600, 1), (0, 0)):  # A late change counts: no other receive has it.
        client.change_message_visibility(
            QueueUrl=url, ReceiptHandle=found[-1]["ReceiptHandle"], VisibilityTimeout=seconds
        )
        assert counts(client, url) == (1 - held, held, 0)
    (message,) = receive(client, url, VisibilityTimeout=30)
    assert receive(client, url) == []
    delete(client, url, [message])
    assert counts(client, url) == (0, 0, 0)


def test_twelve_hours_and_no_more(client: Any) -> None:
    url = create(client, "twelve-hours", VisibilityTimeout=str(TWELVE_HOURS))
    client.send_message(QueueUrl=url, MessageBody="x")
    (message,) = receive(client, url)
    handle = message["ReceiptHandle"]
    client.change_message_visibility(
        QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=TWELVE_HOURS
    )
    with pytest.raises(ClientError) as refused:
        client.change_message_visibility(
            QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=TWELVE_HOURS + 1
        )
    assert code_of(refused.value) == "InvalidParameterValue"
    assert counts(client, url) == (0, 1, 0)
    client.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    assert len(receive(client, url)) == 1


def test_who_waits_gets_what_comes_back(client: Any, served: Served) -> None:
    """Leases and delays end while somebody waits, who is told at once."""
    url = create(client, "comes-back")
    client.send_message(QueueUrl=url, MessageBody="leased")
    assert len(receive(client, url, VisibilityTimeout=1)) == 1
    (again,) = receive(client, url, WaitTimeSeconds=20)
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    delete(client, url, [again])
    client.send_message(QueueUrl=url, MessageBody="delayed", DelaySeconds=1)
    assert counts(client, url) == (0, 0, 1)
    (later,) = receive(client, url, WaitTimeSeconds=20)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(receive, served.client(), url, WaitTimeSeconds=20)
        client.change_message_visibility(
            QueueUrl=url, ReceiptHandle=later["ReceiptHandle"], VisibilityTimeout=0
        )
        (released,) = waiting.result(SECONDS_MAX)
    assert released["Body"] == "delayed"


# The same name again.


@pytest.mark.parametrize("kind", ["standard", "fifo"])
def test_a_queue_made_again_knows_nothing_of_the_one_before(client: Any, kind: str) -> None:
    name = "again.fifo" if kind == "fifo" else "again"
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    made = attributes if kind == "fifo" else {}
    more = {"MessageGroupId": "g"} if kind == "fifo" else {}
    url = create(client, name, **made)
    ids = [
        client.send_message(QueueUrl=url, MessageBody=body, **more)["MessageId"]
        for body in ("leased", "waiting")
    ]
    (old,) = receive(client, url, MaxNumberOfMessages=1)
    client.delete_queue(QueueUrl=url)
    assert create(client, name, **made) == url
    assert counts(client, url) == (0, 0, 0)
    assert receive(client, url) == []
    ids.append(client.send_message(QueueUrl=url, MessageBody="leased", **more)["MessageId"])
    assert len(set(ids)) == 3
    (new,) = receive(client, url, MaxNumberOfMessages=1)
    handle = {"QueueUrl": url, "ReceiptHandle": old["ReceiptHandle"]}
    with pytest.raises(ClientError) as refused:
        client.delete_message(**handle)
    assert code_of(refused.value) == "ReceiptHandleIsInvalid"
    with pytest.raises(ClientError) as refused:
        client.change_message_visibility(**handle, VisibilityTimeout=0)
    assert code_of(refused.value) == "ReceiptHandleIsInvalid"
    assert counts(client, url) == (0, 1, 0)
    delete(client, url, [new])
    assert counts(client, url) == (0, 0, 0)


# Groups.


def test_many_groups(served: Served) -> None:
    work_off_groups(served, GROUPS, 2)
