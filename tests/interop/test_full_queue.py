"""Producers that write to a queue that is full: each message gets an answer that can be read, and
producing goes on when there is room.

kafka-python and aiokafka give up an idempotent producer whose message was refused for good, for
whatever reason: there it takes a new producer to go on.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import PolicyViolationError as PolicyViolation
from confluent_kafka import KafkaError, Producer
from kafka.errors import PolicyViolationError

from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.machines.queue_commands import Purge
from tests.kafka_broker import ThreadedBroker

pytestmark = pytest.mark.slow

SECONDS = 20
POLICY_VIOLATION = 44


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedBroker]:
    """One broker for all clients: each has a topic of its own."""
    with ThreadedBroker(Path(tmp_path_factory.mktemp("full"))) as running:
        yield running


def make_queue(broker: ThreadedBroker, name: str) -> None:
    """A topic that may hold three messages."""
    assert broker.broker is not None
    engine = broker.broker.node.engine
    broker.call(engine.topics.create_topic(name, 1, {"queue.length.max": "3"}))


def empty_queue(broker: ThreadedBroker, name: str) -> None:
    """Make room."""
    assert broker.broker is not None
    node = broker.broker.node
    partition = node.engine.topics.topic(name).partitions[0]
    running = node._shards.get(node.engine.topics.shard_of(partition))
    assert running is not None
    broker.call(running.change(Purge(partition=partition, group=DEFAULT_WORK_GROUP)))


@pytest.mark.parametrize("idempotent", [False, True])
def test_confluent_sees_which_messages_were_refused(
    broker: ThreadedBroker, idempotent: bool
) -> None:
    topic = f"confluent-{idempotent}"
    make_queue(broker, topic)
    settings = {"bootstrap.servers": broker.address, "enable.idempotence": idempotent}
    producer = Producer(settings | {"linger.ms": 0, "message.timeout.ms": 10_000})
    codes: list[int] = []

    def told(error: KafkaError | None, _message: Any) -> None:
        codes.append(0 if error is None else error.code())

    def send() -> None:
        producer.produce(topic, b"a message", partition=0, callback=told)
        assert producer.flush(SECONDS) == 0

    for _ in range(5):
        send()
    assert codes == [0, 0, 0, POLICY_VIOLATION, POLICY_VIOLATION]
    empty_queue(broker, topic)
    for _ in range(4):
        send()
    assert codes[5:] == [0, 0, 0, POLICY_VIOLATION]


def test_kafka_python_sees_which_messages_were_refused(broker: ThreadedBroker) -> None:
    make_queue(broker, "pure")
    producer = kafka.KafkaProducer(bootstrap_servers=broker.address, enable_idempotence=False)

    def send() -> int:
        offset: int = producer.send("pure", b"a message", partition=0).get(SECONDS).offset
        return offset

    assert [send() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(PolicyViolationError, match="the queue has 3 messages and may have 3"):
        send()
    empty_queue(broker, "pure")
    assert send() == 3
    producer.close()


def test_aiokafka_sees_which_messages_were_refused(broker: ThreadedBroker) -> None:
    make_queue(broker, "aio")

    async def story() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.address) as producer:

            async def send() -> int:
                sent = await producer.send_and_wait("aio", b"a message", partition=0)
                offset: int = sent.offset
                return offset

            assert [await send() for _ in range(3)] == [0, 1, 2]
            with pytest.raises(PolicyViolation):
                await send()
            await asyncio.to_thread(empty_queue, broker, "aio")
            assert await send() == 3

    asyncio.run(story())
