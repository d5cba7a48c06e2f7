"""confluent-kafka (librdkafka): produce, consume, groups, times and what is not served."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.kafka_broker import ThreadedBroker

pytestmark = pytest.mark.slow

SECONDS_MAX = 30.0


@contextmanager
def consumer(broker: ThreadedBroker, group: str, **more: object) -> Iterator[Consumer]:
    made = Consumer(
        {
            "bootstrap.servers": broker.address, "group.id": group,
            "auto.offset.reset": "earliest", "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200, **more,
        }
    )  # fmt: skip
    try:
        yield made
    finally:
        made.close()


def produce(broker: ThreadedBroker, topic: str, count: int, **more: object) -> list[Message]:
    failed: list[object] = []
    sent: list[Message] = []

    def delivered(error: object, message: Message) -> None:
        failed.append(error) if error else sent.append(message)

    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 5, **more})
    for number in range(count):
        producer.produce(
            topic, b"value %d" % number, key=b"%d" % (number % 7), on_delivery=delivered
        )
    assert producer.flush(SECONDS_MAX) == 0
    assert failed == []
    return sent


def consume(client: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < count and time.monotonic() < deadline:
        message = client.poll(1.0)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message)
    return found


def values(messages: list[Message]) -> list[bytes]:
    return sorted(message.value() or b"" for message in messages)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_messages_come_back_in_their_order(
    broker: ThreadedBroker, codec: str, idempotent: bool
) -> None:
    topic = f"order-{codec}-{idempotent}"
    more: dict[str, object] = {"compression.type": codec, "enable.idempotence": idempotent}
    sent = produce(broker, topic, 500, **more)
    with consumer(broker, "nobody") as client:
        partitions = client.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions
        assert len(partitions) == 4
        client.assign([TopicPartition(topic, index, 0) for index in partitions])
        found = consume(client, 500)
    assert values(found) == sorted(b"value %d" % number for number in range(500))
    placed = {(message.partition(), message.offset()): message.value() for message in sent}
    assert placed == {(message.partition(), message.offset()): message.value() for message in found}
    for index in partitions:
        offsets = [message.offset() for message in found if message.partition() == index]
        assert offsets == list(range(len(offsets)))


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_every_kind_of_acks(broker: ThreadedBroker, acks: int) -> None:
    topic = f"acks-{acks}"
    produce(broker, topic, 50, acks=acks)
    with consumer(broker, f"acks-{acks}") as client:
        client.subscribe([topic])
        assert len(consume(client, 50)) == 50


def test_a_group_goes_on_where_it_was(broker: ThreadedBroker) -> None:
    produce(broker, "resume", 20)
    with consumer(broker, "resumers", **{"enable.auto.commit": False}) as client:
        client.subscribe(["resume"])
        first = consume(client, 20)
        client.commit(asynchronous=False)
    produce(broker, "resume", 10)
    with consumer(broker, "resumers") as client:
        client.subscribe(["resume"])
        second = consume(client, 10)
    assert (len(first), len(second)) == (20, 10)
    places = {(message.partition(), message.offset()) for message in first}
    assert not places & {(message.partition(), message.offset()) for message in second}


def test_two_members_share_the_work(broker: ThreadedBroker) -> None:
    produce(broker, "shared", 40)
    with consumer(broker, "sharers") as one, consumer(broker, "sharers") as two:
        one.subscribe(["shared"])
        found = consume(one, 40)
        two.subscribe(["shared"])
        deadline = time.monotonic() + SECONDS_MAX
        while not two.assignment() and time.monotonic() < deadline:
            found += [message for message in (one.poll(0.1), two.poll(0.1)) if message is not None]
        while len(one.assignment()) != 2 and time.monotonic() < deadline:
            one.poll(0.1)
            two.poll(0.1)
        mine = {place.partition for place in one.assignment()}
        theirs = {place.partition for place in two.assignment()}
        assert (len(mine), len(theirs), mine | theirs) == (2, 2, {0, 1, 2, 3})


def test_a_consumer_waits_for_messages(broker: ThreadedBroker) -> None:
    produce(broker, "later", 1)
    with consumer(broker, "later") as client:
        client.assign([TopicPartition("later", index, OFFSET_END) for index in range(4)])
        assert client.poll(0.5) is None
        started = time.monotonic()
        produce(broker, "later", 10)
        assert len(consume(client, 10)) == 10
        assert time.monotonic() - started < SECONDS_MAX / 2


def test_times_and_watermarks(broker: ThreadedBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "compression.type": "gzip"})
    for number in range(10):
        producer.produce("times", b"v", partition=0, timestamp=1_000_000 + number * 1_000)
    producer.flush(SECONDS_MAX)
    with consumer(broker, "times") as client:
        place = TopicPartition("times", 0)
        assert client.get_watermark_offsets(place, timeout=SECONDS_MAX) == (0, 10)
        (found,) = client.offsets_for_times(
            [TopicPartition("times", 0, 1_003_500)], timeout=SECONDS_MAX
        )
        assert found.offset == 4


def test_metadata_of_a_commit_comes_back(broker: ThreadedBroker) -> None:
    produce(broker, "noted", 1)
    with consumer(broker, "noters") as client:
        place = TopicPartition("noted", 0, 0, metadata="a note")
        client.commit(offsets=[place], asynchronous=False)
        (found,) = client.committed([TopicPartition("noted", 0)], timeout=SECONDS_MAX)
        assert (found.offset, found.metadata) == (0, "a note")


def test_transactions_are_refused_at_once(broker: ThreadedBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "t"})
    with pytest.raises(KafkaException):
        producer.init_transactions(SECONDS_MAX)


def test_large_messages(broker: ThreadedBroker) -> None:
    payload = bytes(900_000)
    producer = Producer({"bootstrap.servers": broker.address, "message.max.bytes": 1_000_000})
    for _ in range(5):
        producer.produce("large", payload, partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    with consumer(broker, "large") as client:
        client.assign([TopicPartition("large", 0, 0)])
        found = consume(client, 5)
    assert [message.value() == payload for message in found] == [True] * 5


def test_the_new_group_protocol_fails_at_once_and_says_so(broker: ThreadedBroker) -> None:
    produce(broker, "modern", 1)
    made = Consumer(
        {
            "bootstrap.servers": broker.address, "group.id": "modern", "group.protocol": "consumer"
        }
    )  # fmt: skip
    try:
        made.subscribe(["modern"])
        message = made.poll(SECONDS_MAX)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._FATAL
        assert "ConsumerGroupHeartbeat" in error.str()
    finally:
        made.close()
