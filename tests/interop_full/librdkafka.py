"""confluent-kafka, which is librdkafka."""

from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.interop_full.kinds import (
    HEARTBEAT_MS,
    POLL_MS,
    POLL_RECORDS_MAX,
    SESSION_TIMEOUT_MS,
    Record,
)


def send_all(bootstrap: str, topic: str, codec: str, messages: Iterable[tuple[int, bytes]]) -> int:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "compression.type": codec,
            "linger.ms": 5,
            "log_level": 2,
        }
    )
    acked = 0
    failures: list[str] = []

    def reported(error: KafkaError | None, message: Message) -> None:
        nonlocal acked
        if error is None:
            acked += 1
        else:
            failures.append(error.str())

    for partition, value in messages:
        while True:
            try:
                producer.produce(topic, value, partition=partition, on_delivery=reported)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(120)
    assert not failures, f"{len(failures)} messages failed, the first with: {failures[0]}"
    assert not left, f"{left} messages were not acknowledged"
    return acked


class LibrdkafkaMember:
    """A member by `Consumer.subscribe`."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "log_level": 2,
            }
        )
        self._consumer.subscribe([topic])

    def poll(self) -> list[Record]:
        records = []
        for message in self._consumer.consume(POLL_RECORDS_MAX, POLL_MS / 1_000):
            if message.error() is None:
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None
                assert offset is not None
                assert value is not None
                records.append(Record(partition, offset, value))
        return records

    def commit(self, positions: Mapping[int, int]) -> bool:
        wanted = [TopicPartition(self._topic, *position) for position in positions.items()]
        try:
            answers = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            return False
        return all(answer.error is None for answer in answers or ())

    def close(self) -> None:
        self._consumer.close()
