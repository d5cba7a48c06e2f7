"""Share consumers of Kafka and workers of SQS on one queue."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer

from tests.sqs_broker import SqsBroker, sqs_broker

pytestmark = pytest.mark.slow

SECONDS_MAX = 30.0


@pytest.fixture(scope="module")
def sqs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqsBroker]:
    with sqs_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def lease(
    sqs: SqsBroker, group: str, queue: str, count: int
) -> tuple[ShareConsumer, list[Message]]:
    """A consumer that has so many messages."""
    client = ShareConsumer(
        {
            "bootstrap.servers": sqs.kafka,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
        }
    )
    client.subscribe([queue])
    deadline = time.monotonic() + SECONDS_MAX
    found: list[Message] = []
    while len(found) < count and time.monotonic() < deadline:
        found += client.poll(0.2)
    return client, found


def test_the_share_group_called_queue_works_on_the_queue_itself(sqs: SqsBroker) -> None:
    url = sqs.client.create_queue(QueueName="both")["QueueUrl"]
    for body in ("one", "two", "three"):
        sqs.client.send_message(QueueUrl=url, MessageBody=body)
    (first,) = sqs.client.receive_message(QueueUrl=url)["Messages"]
    assert first["Body"] == "one"
    client, found = lease(sqs, "queue", "both", 2)
    try:
        assert [message.value() for message in found] == [b"two", b"three"]
        assert "Messages" not in sqs.client.receive_message(QueueUrl=url)
        client.acknowledge(found[0], AcknowledgeType.ACCEPT)
        client.acknowledge(found[1], AcknowledgeType.RELEASE)
        assert set(client.commit_sync(SECONDS_MAX).values()) == {None}
    finally:
        client.close()
    (again,) = sqs.client.receive_message(
        QueueUrl=url, AttributeNames=["ApproximateReceiveCount"], WaitTimeSeconds=20
    )["Messages"]
    assert (again["Body"], again["Attributes"]["ApproximateReceiveCount"]) == ("three", "2")
    for message in (first, again):
        sqs.client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_other_share_groups_do_not_see_what_workers_of_sqs_do(sqs: SqsBroker) -> None:
    url = sqs.client.create_queue(QueueName="apart")["QueueUrl"]
    client, found = lease(sqs, "auditors", "apart", 0)
    try:
        while not found:
            sqs.client.send_message(QueueUrl=url, MessageBody="seen by both")
            found = list(client.poll(0.5))
        for message in found:
            assert message.value() == b"seen by both"
            client.acknowledge(message)
        assert set(client.commit_sync(SECONDS_MAX).values()) == {None}
    finally:
        client.close()
    assert sqs.client.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "seen by both"
