"""One queue by the native client, boto3 and Kafka: what goes in by one comes out of the others.

A message is the same message whoever looks: its id, its body, its headers, how often it has been
delivered, and its lease.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import penstock
from tests.interop.served import Served, serving

pytestmark = pytest.mark.slow

SECONDS_MAX = 30.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("native-queue")) as broker:
        yield broker


def url(served: Served) -> str:
    return f"penstock://{served.kafka}"


def test_boto3_receives_what_the_client_sent(served: Served) -> None:
    async def send() -> penstock.Sent:
        async with penstock.connect(url(served)) as client:
            return await client.send("from-native", "order 7", headers={"who": "me"})

    sent = asyncio.run(send())
    sqs: Any = served.client()
    address = sqs.get_queue_url(QueueName="from-native")["QueueUrl"]
    (message,) = sqs.receive_message(
        QueueUrl=address, MessageAttributeNames=["All"], AttributeNames=["All"]
    )["Messages"]
    assert message["MessageId"] == sent.id
    assert message["Body"] == "order 7"
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    sqs.delete_message(QueueUrl=address, ReceiptHandle=message["ReceiptHandle"])

    async def stats() -> penstock.QueueStats:
        async with penstock.connect(url(served)) as client:
            return await client.queue("from-native").stats()

    assert asyncio.run(stats()).acked == 1


def test_the_client_receives_what_boto3_sent(served: Served) -> None:
    sqs: Any = served.client()
    address = sqs.create_queue(QueueName="from-boto3")["QueueUrl"]
    sent = sqs.send_message(QueueUrl=address, MessageBody="order 8")

    async def receive() -> None:
        async with penstock.connect(url(served)) as client:
            (message,) = await client.receive("from-boto3", wait=10)
            assert (message.id, message.raw) == (sent["MessageId"], b"order 8")
            assert not sqs.receive_message(QueueUrl=address).get("Messages")  # It is leased.
            assert await message.release(delay=0)
            (again,) = sqs.receive_message(
                QueueUrl=address, AttributeNames=["All"], WaitTimeSeconds=10
            )["Messages"]
            assert again["Attributes"]["ApproximateReceiveCount"] == "2"
            assert await message.ack() is False  # It is boto3's now.

    asyncio.run(receive())


def test_kafka_and_the_client_read_each_other(served: Served) -> None:
    producer = Producer({"bootstrap.servers": served.kafka, "compression.type": "zstd"})
    for number in range(500):
        producer.produce("both", f"kafka {number}", f"key {number % 7}", headers=[("n", b"1")])
    assert producer.flush(SECONDS_MAX) == 0

    async def work() -> list[penstock.Message[Any]]:
        async with penstock.connect(url(served)) as client:
            queue = client.queue("both")
            received: list[penstock.Message[Any]] = []
            while len(received) < 500:
                received += await queue.receive(100, wait=10)
            assert await queue.ack(received) == 500
            await queue.send_many([f"native {number}" for number in range(100)], key="k")
            return received

    received = asyncio.run(work())
    assert {one.raw for one in received} == {b"kafka %d" % number for number in range(500)}
    assert all(one.headers == {"n": b"1"} and one.key is not None for one in received)
    bodies = [body for body in read_all(served, "both") if body.startswith(b"native")]
    assert bodies == [b"native %d" % number for number in range(100)]


def test_a_key_goes_where_kafka_sends_it(served: Served) -> None:
    async def send() -> dict[bytes, int]:
        async with penstock.connect(url(served)) as client:
            await client.create_topic("keyed", partitions=7)
            topic = client.topic("keyed")
            keys = [b"key %d" % number for number in range(200)]
            return {key: (await topic.send(b"x", key=key)).partition for key in keys}

    chosen = asyncio.run(send())
    producer = Producer({"bootstrap.servers": served.kafka, "partitioner": "murmur2_random"})
    found: dict[bytes, int] = {}

    def note(_problem: object, message: Any) -> None:
        found[message.key()] = message.partition()

    for key in chosen:
        producer.produce("keyed", b"y", key, on_delivery=note)
    assert producer.flush(SECONDS_MAX) == 0
    assert found == chosen


def read_all(served: Served, topic: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": served.kafka, "group.id": "readers"})
    try:
        partitions = consumer.list_topics(topic, SECONDS_MAX).topics[topic].partitions
        places = [TopicPartition(topic, index, 0) for index in partitions]
        left = sum(consumer.get_watermark_offsets(one, SECONDS_MAX)[1] for one in places)
        consumer.assign(places)
        found: list[bytes] = []
        while left:
            for message in consumer.consume(left, SECONDS_MAX):
                assert message.error() is None, message.error()
                found.append(message.value() or b"")
                left -= 1
        return found
    finally:
        consumer.close()
