"""kafka-python: produce, consume, groups and times."""

import contextlib
import time
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.kafka_broker import ThreadedBroker

# Its background threads outlive some of its objects, which pytest would report as failures.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

SECONDS_MAX = 30


@contextlib.contextmanager
def consumer(
    broker: ThreadedBroker, group: str | None = None, **more: object
) -> Iterator[KafkaConsumer]:
    made = KafkaConsumer(
        bootstrap_servers=broker.address,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **more,
    )
    try:
        yield made
    finally:
        made.close()


def produce(
    broker: ThreadedBroker, topic: str, count: int, **more: object
) -> list[tuple[int, int]]:
    """Where the messages went: (partition, offset)."""
    producer = KafkaProducer(bootstrap_servers=broker.address, linger_ms=5, **more)
    futures = [
        producer.send(topic, b"value %d" % number, key=b"%d" % (number % 7))
        for number in range(count)
    ]
    producer.flush(SECONDS_MAX)
    places = [future.get(SECONDS_MAX) for future in futures]
    producer.close()
    return [(place.partition, place.offset) for place in places]


def consume(client: KafkaConsumer, count: int) -> list[object]:
    found: list[object] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < count and time.monotonic() < deadline:
        for messages in client.poll(timeout_ms=1_000).values():
            found += messages
    return found


@pytest.mark.parametrize("codec", [None, "gzip"])
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_messages_come_back_in_their_order(
    broker: ThreadedBroker, codec: str | None, idempotent: bool
) -> None:
    topic = f"order-{codec}-{idempotent}"
    places = produce(broker, topic, 300, compression_type=codec, enable_idempotence=idempotent)
    with consumer(broker) as client:
        client.assign([TopicPartition(topic, index) for index in range(4)])
        found = consume(client, 300)
    got = [(message.partition, message.offset) for message in found]  # type: ignore[attr-defined]
    assert sorted(got) == sorted(places)
    assert sorted(message.value for message in found) == sorted(  # type: ignore[attr-defined]
        b"value %d" % number for number in range(300)
    )


def test_a_group_goes_on_where_it_was(broker: ThreadedBroker) -> None:
    produce(broker, "resume", 20)
    with consumer(broker, "resumers") as client:
        client.subscribe(["resume"])
        assert len(consume(client, 20)) == 20
        client.commit()
    produce(broker, "resume", 10)
    with consumer(broker, "resumers") as client:
        client.subscribe(["resume"])
        assert len(consume(client, 10)) == 10


def test_times_and_ends(broker: ThreadedBroker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.address)
    for number in range(10):
        producer.send("times", b"v", partition=0, timestamp_ms=1_000_000 + number * 1_000)
    producer.flush(SECONDS_MAX)
    producer.close()
    place = TopicPartition("times", 0)
    with consumer(broker) as client:
        assert client.beginning_offsets([place]) == {place: 0}
        assert client.end_offsets([place]) == {place: 10}
        found = client.offsets_for_times({place: 1_003_500})[place]
        assert (found.offset, found.timestamp) == (4, 1_004_000)
