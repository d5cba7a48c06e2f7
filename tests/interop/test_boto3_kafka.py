"""One queue, two protocols: Kafka's messages for workers of SQS, and the other way round."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import confluent_kafka.admin
import pytest
from aiobotocore.session import get_session
from confluent_kafka import Consumer, Message, Producer

from tests.sqs_broker import CREDENTIALS, REGION, SqsBroker, refused, sqs_broker

pytestmark = pytest.mark.slow

SECONDS_MAX = 30.0
rdkafka: Any = confluent_kafka.admin


@pytest.fixture(scope="module")
def sqs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqsBroker]:
    with sqs_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def create_topic(sqs: SqsBroker, name: str, partitions: int = 1, **configs: str) -> str:
    named = {key.replace("__", "."): value for key, value in configs.items()}
    admin = rdkafka.AdminClient({"bootstrap.servers": sqs.kafka})
    made = admin.create_topics([rdkafka.NewTopic(name, num_partitions=partitions, config=named)])
    made[name].result(SECONDS_MAX)
    return f"{sqs.url}/000000000000/{name}"


def produce(sqs: SqsBroker, topic: str, *records: dict[str, Any]) -> None:
    producer = Producer({"bootstrap.servers": sqs.kafka, "linger.ms": 5})
    for record in records:
        producer.produce(topic, **record)
    assert producer.flush(SECONDS_MAX) == 0


def consume(sqs: SqsBroker, topic: str, count: int) -> list[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": sqs.kafka, "group.id": f"{topic}-readers",
            "auto.offset.reset": "earliest",
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    try:
        found: list[Message] = []
        while len(found) < count:
            more = consumer.consume(count - len(found), SECONDS_MAX)
            assert more, f"{len(found)} messages of {count}"
            found += more
        return found
    finally:
        consumer.close()


def test_what_kafka_writes_workers_of_sqs_get(sqs: SqsBroker) -> None:
    url = create_topic(sqs, "from.kafka")  # No queue of SQS could have this name.
    produce(
        sqs,
        "from.kafka",
        {
            "value": "Grüße",
            "key": b"key",
            "headers": [("trace", b"t-1"), ("bytes", b"\xff"), ("none", None)],
            "timestamp": 1_600_000_000_000,
        },
        {"value": b"\xff\0"},
        {"value": None, "key": b"gone"},
    )
    assert sqs.client.get_queue_url(QueueName="from.kafka")["QueueUrl"] == url
    first, second, third = sqs.receive(url)
    assert first["Body"] == "Grüße"
    assert first["MessageAttributes"] == {
        "trace": {"DataType": "String", "StringValue": "t-1"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\xff"},
        "none": {"DataType": "String", "StringValue": ""},
        "penstock.key": {"DataType": "String", "StringValue": "key"},
    }
    assert first["Attributes"]["SentTimestamp"] == "1600000000000"
    assert second["Body"] == "/wA="
    assert second["MessageAttributes"]["penstock.encoding"]["StringValue"] == "base64"
    assert third["MessageAttributes"]["penstock.tombstone"]["StringValue"] == "true"
    sqs.delete(url, [first, second, third])
    assert sqs.counts(url) == (0, 0, 0)
    assert "QueueUrls" not in sqs.client.list_queues(QueueNamePrefix="from.kafka")


def test_what_workers_of_sqs_send_kafka_reads(sqs: SqsBroker) -> None:
    url = sqs.create("to-kafka")
    sqs.client.send_message(
        QueueUrl=url,
        MessageBody="body",
        MessageAttributes={
            "text": {"DataType": "String", "StringValue": "x"},
            "number": {"DataType": "Number", "StringValue": "5"},
        },
        DelaySeconds=900,
    )
    (record,) = consume(sqs, "to-kafka", 1)
    assert (record.value(), record.key()) == (b"body", None)
    assert dict(record.headers() or []) == {
        "text": b"x",
        "number": b"5",
        "sqs-types": b'{"number":"Number"}',
        "penstock-delay-ms": b"900000",
    }


def test_a_topic_in_order_is_a_fifo_queue_whatever_its_name(sqs: SqsBroker) -> None:
    url = create_topic(sqs, "in-order", queue__order="fifo", queue__message__headers="true")
    produce(
        sqs,
        "in-order",
        {"value": b"a0", "key": b"a"},
        {"value": b"a1", "key": b"a"},
        {"value": b"b0", "key": b"x", "headers": [("penstock-group", b"b")]},
    )
    assert sqs.attributes(url)["FifoQueue"] == "true"
    (first,) = sqs.receive(url, MaxNumberOfMessages=1)
    (second,) = sqs.receive(url)
    assert first["Attributes"]["MessageGroupId"] == "a"
    assert (second["Body"], second["Attributes"]["MessageGroupId"]) == ("b0", "b")
    sqs.client.send_message(QueueUrl=url, MessageBody="a2", MessageGroupId="a")
    sqs.delete(url, [first])
    assert sqs.bodies(url) == ["a1", "a2"]
    assert [record.key() for record in consume(sqs, "in-order", 4)] == [b"a", b"a", b"x", b"a"]


def test_attributes_are_configs_and_configs_are_attributes(sqs: SqsBroker) -> None:
    dead = create_topic(sqs, "configs-dead")
    url = create_topic(
        sqs,
        "configs",
        queue__lease__ms="7000",
        queue__dead__letter__topic="configs-dead",
        queue__deliveries__max="2",
        retention__ms="60000",
    )
    found = sqs.attributes(url)
    assert found["VisibilityTimeout"] == "7"
    assert found["MessageRetentionPeriod"] == "60"
    assert '"maxReceiveCount":2' in found["RedrivePolicy"]
    sources = sqs.client.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"]
    assert sources == [url]
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "9"})
    assert sqs.attributes(url)["VisibilityTimeout"] == "9"
    assert sqs.attributes(url)["RedrivePolicy"] == found["RedrivePolicy"]


def test_so_many_messages_may_be_in_flight(sqs: SqsBroker) -> None:
    url = create_topic(sqs, "in-flight", queue__in__flight__max="2")
    produce(sqs, "in-flight", *({"value": str(number)} for number in range(3)))
    found = sqs.receive(url)
    assert len(found) == 2
    assert sqs.receive(url, WaitTimeSeconds=1) == []
    with refused("OverLimit", "in flight", status=403, shape="OverLimit"):
        sqs.receive(url, WaitTimeSeconds=0)
    sqs.delete(url, found)
    assert sqs.bodies(url) == ["2"]


def test_many_workers_share_the_messages_of_many_partitions(sqs: SqsBroker) -> None:
    url = create_topic(sqs, "shared", partitions=4, queue__delete__acked="true")
    produce(sqs, "shared", *({"value": str(number)} for number in range(200)))
    done: Counter[str] = Counter()

    async def work(client: Any) -> None:
        while sum(done.values()) < 200:
            answer = await client.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1
            )
            messages = answer.get("Messages", [])
            done.update(one["Body"] for one in messages)
            if messages:
                entries = [
                    {"Id": str(number), "ReceiptHandle": one["ReceiptHandle"]}
                    for number, one in enumerate(messages)
                ]
                await client.delete_message_batch(QueueUrl=url, Entries=entries)

    async def share() -> None:
        session = get_session()
        options = {"endpoint_url": sqs.url, "region_name": REGION, **CREDENTIALS}
        async with session.create_client("sqs", **options) as client:
            await asyncio.gather(*(work(client) for _ in range(8)))

    asyncio.run(share())
    assert done == Counter(str(number) for number in range(200))
    assert sqs.counts(url) == (0, 0, 0)
