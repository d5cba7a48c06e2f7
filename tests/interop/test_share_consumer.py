"""confluent-kafka's ShareConsumer (librdkafka) as it is: leases, verdicts, redelivery, close."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer

from tests.kafka_broker import ThreadedBroker

pytestmark = pytest.mark.slow

SECONDS_MAX = 30.0

rdkafka: Any = confluent_kafka.admin
"""Its names are public, but not to the type checker."""

EXPLICIT = {"share.acknowledgement.mode": "explicit"}


@contextmanager
def share_consumer(
    broker: ThreadedBroker, group: str, *topics: str, **more: object
) -> Iterator[ShareConsumer]:
    made = ShareConsumer({"bootstrap.servers": broker.address, "group.id": group, **more})
    try:
        made.subscribe(list(topics))
        yield made
    finally:
        made.close()


def configure(broker: ThreadedBroker, group: str, **configs: str) -> None:
    """Set configs of a group, as the client's own tests do."""
    named = {"share.auto.offset.reset": "earliest"}
    named |= {f"share.{name.replace('_', '.')}": value for name, value in configs.items()}
    entries = [
        rdkafka.ConfigEntry(name, value, incremental_operation=rdkafka.AlterConfigOpType.SET)
        for name, value in named.items()
    ]
    resource = rdkafka.ConfigResource(
        rdkafka.ResourceType.GROUP, group, incremental_configs=entries
    )
    admin = rdkafka.AdminClient({"bootstrap.servers": broker.address})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(SECONDS_MAX)


def create(broker: ThreadedBroker, topic: str, partitions: int = 1) -> None:
    admin = rdkafka.AdminClient({"bootstrap.servers": broker.address})
    for future in admin.create_topics([rdkafka.NewTopic(topic, partitions)]).values():
        future.result(SECONDS_MAX)


def produce(broker: ThreadedBroker, topic: str, values: Sequence[str], **more: object) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0, **more})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions_of(broker, topic))
    assert producer.flush(SECONDS_MAX) == 0


def partitions_of(broker: ThreadedBroker, topic: str) -> int:
    assert broker.broker is not None
    return len(broker.broker.node.engine.topics.topic(topic).partitions)


def prepare(broker: ThreadedBroker, name: str, count: int, partitions: int = 1) -> list[str]:
    """A group and a topic of this name, with so many messages."""
    configure(broker, name)
    create(broker, name, partitions)
    values = [f"{name} {number}" for number in range(count)]
    produce(broker, name, values)
    return values


def poll(client: ShareConsumer, count: int, seconds: float = SECONDS_MAX) -> list[Message]:
    """Messages of as many polls as it takes; in explicit mode, of the first that has any."""
    found: list[Message] = []
    deadline = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        for message in client.poll(0.2):
            assert message.error() is None, message.error()
            found.append(message)
    return found


def texts(messages: Iterable[Message]) -> list[str]:
    return sorted((message.value() or b"").decode() for message in messages)


def left(broker: ThreadedBroker, name: str) -> tuple[int, int, int]:
    """How many messages of a group wait, are leased, and were accepted."""
    assert broker.broker is not None
    engine = broker.broker.node.engine
    counts = broker.call(engine.delivery.counts(engine.topics.topic(name), name))
    return counts.ready, counts.leased, counts.acked


def test_messages_are_accepted_by_the_next_poll(broker: ThreadedBroker) -> None:
    values = prepare(broker, "implicit", 50, partitions=4)
    with share_consumer(broker, "implicit", "implicit") as client:
        found = poll(client, 50)
        assert texts(found) == sorted(values)
        assert {message.delivery_count() for message in found} == {1}
        while left(broker, "implicit") != (0, 0, 50):
            assert texts(client.poll(0.2)) == []
    assert left(broker, "implicit") == (0, 0, 50)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(broker: ThreadedBroker, codec: str) -> None:
    name = f"share-{codec}"
    configure(broker, name)
    create(broker, name)
    values = [f"{number:04}" for number in range(300)]
    produce(broker, name, values, **{"compression.type": codec, "linger.ms": 50})
    with share_consumer(broker, name, name, **{"max.poll.records": 100}) as client:
        assert texts(poll(client, 300)) == values


def test_commit_tells_of_every_partition(broker: ThreadedBroker) -> None:
    prepare(broker, "committed", 8, partitions=2)
    with share_consumer(broker, "committed", "committed") as client:
        assert len(poll(client, 8)) == 8
        outcome = client.commit_sync(SECONDS_MAX)
        assert {(place.topic, place.partition): error for place, error in outcome.items()} in (
            {("committed", index): None for index in range(2)},
            {("committed", 0): None},
            {("committed", 1): None},
        )
        assert left(broker, "committed")[1] == 0


def test_each_message_has_a_verdict_of_its_own(broker: ThreadedBroker) -> None:
    values = prepare(broker, "verdicts", 6)
    with share_consumer(broker, "verdicts", "verdicts", **EXPLICIT) as client:
        found = poll(client, 6)
        assert texts(found) == values
        kinds = [AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT]
        for message in found:
            client.acknowledge(message, kinds[(message.offset() or 0) % 3])
        assert set(client.commit_sync(SECONDS_MAX).values()) == {None}
        again = poll(client, 2)
        assert texts(again) == [values[1], values[4]]
        assert {message.delivery_count() for message in again} == {2}
        for message in again:
            client.acknowledge(message)
        client.commit_sync(SECONDS_MAX)
        assert texts(client.poll(0.2)) == []
    assert left(broker, "verdicts") == (0, 0, 4)


def test_what_is_held_too_long_is_delivered_again(broker: ThreadedBroker) -> None:
    values = prepare(broker, "expired", 3)
    configure(broker, "expired", record_lock_duration_ms="1000")
    with (
        share_consumer(broker, "expired", "expired", **EXPLICIT) as slow,
        share_consumer(broker, "expired", "expired", **EXPLICIT) as other,
    ):
        held = poll(slow, 3)
        assert texts(held) == values
        again = poll(other, 3)
        assert texts(again) == values
        assert {message.delivery_count() for message in again} == {2}
        for message in held:
            slow.acknowledge(message)
        (error,) = slow.commit_sync(SECONDS_MAX).values()
        assert error is not None
        assert error.args[0].name() == "INVALID_RECORD_STATE"
        for message in again:
            other.acknowledge(message)
        assert set(other.commit_sync(SECONDS_MAX).values()) == {None}
    assert left(broker, "expired") == (0, 0, 3)


def test_a_message_is_given_up(broker: ThreadedBroker) -> None:
    prepare(broker, "hopeless", 1)
    configure(broker, "hopeless", delivery_count_limit="3")
    with share_consumer(broker, "hopeless", "hopeless", **EXPLICIT) as client:
        for delivery in (1, 2, 3):
            (message,) = poll(client, 1)
            assert message.delivery_count() == delivery
            client.acknowledge(message, AcknowledgeType.RELEASE)
            client.commit_sync(SECONDS_MAX)
        assert texts(client.poll(0.3)) == []
    assert left(broker, "hopeless") == (0, 0, 0)


def test_what_a_closed_consumer_held_is_free_at_once(broker: ThreadedBroker) -> None:
    values = prepare(broker, "handed-over", 5)
    with share_consumer(broker, "handed-over", "handed-over", **EXPLICIT) as first:
        found = poll(first, 5)
        first.acknowledge(found[0])
    assert left(broker, "handed-over") == (4, 0, 1)
    with share_consumer(broker, "handed-over", "handed-over") as second:
        again = poll(second, 4)
        assert texts(again) == values[1:]
        assert {message.delivery_count() for message in again} == {2}
        second.commit_sync(SECONDS_MAX)
    assert left(broker, "handed-over") == (0, 0, 5)


def test_closing_takes_no_time(broker: ThreadedBroker) -> None:
    prepare(broker, "closing", 1)
    client = ShareConsumer({"bootstrap.servers": broker.address, "group.id": "closing"})
    client.subscribe(["closing"])
    poll(client, 1)
    started = time.monotonic()
    client.close()
    assert time.monotonic() - started < SECONDS_MAX / 6
    unused = ShareConsumer({"bootstrap.servers": broker.address, "group.id": "closing"})
    unused.close()


def test_two_consumers_share_one_partition(broker: ThreadedBroker) -> None:
    configure(broker, "shared")
    create(broker, "shared")
    values = [f"shared {number}" for number in range(200)]
    produce(broker, "shared", values, **{"batch.num.messages": 10})  # A batch goes to one of them.
    few = {"max.poll.records": 10}
    with (
        share_consumer(broker, "shared", "shared", **few) as one,
        share_consumer(broker, "shared", "shared", **few) as two,
    ):
        found: list[list[str]] = [[], []]
        deadline = time.monotonic() + SECONDS_MAX
        while sum(map(len, found)) < 200 and time.monotonic() < deadline:
            for number, client in enumerate((one, two)):
                found[number] += texts(poll(client, 1, seconds=0.5))
    assert sorted(found[0] + found[1]) == sorted(values), "each message to one of them"
    assert all(found), "and both have got some"


def test_groups_do_not_see_each_other(broker: ThreadedBroker) -> None:
    values = prepare(broker, "both", 10)
    configure(broker, "both-too")
    for group in ("both", "both-too"):
        with share_consumer(broker, group, "both") as client:
            assert texts(poll(client, 10)) == values


def test_without_a_word_a_group_begins_with_what_comes(broker: ThreadedBroker) -> None:
    create(broker, "from-now")
    produce(broker, "from-now", ["before"])
    with share_consumer(broker, "from-now", "from-now") as client:
        deadline = time.monotonic() + SECONDS_MAX
        while left(broker, "from-now")[0] and time.monotonic() < deadline:
            assert texts(client.poll(0.1)) == []
        produce(broker, "from-now", ["after"])
        assert texts(poll(client, 1)) == ["after"]


def test_a_topic_that_comes_later_is_found_and_none_is_made(broker: ThreadedBroker) -> None:
    configure(broker, "later", heartbeat_interval_ms="200")
    more = {"topic.metadata.refresh.interval.ms": 200}
    with share_consumer(broker, "later", "later", **more) as client:
        client.poll(0.5)
        assert broker.broker is not None
        assert broker.broker.node.engine.topics.catalog.topic("later") is None
        create(broker, "later")
        produce(broker, "later", ["found"])
        assert texts(poll(client, 1)) == ["found"]


def test_large_batches_come_in_pieces(broker: ThreadedBroker) -> None:
    configure(broker, "pieces")
    create(broker, "pieces")
    values = [f"{number:05}" + "x" * 995 for number in range(3_000)]
    produce(broker, "pieces", values, **{"linger.ms": 100})
    with share_consumer(broker, "pieces", "pieces", **{"fetch.max.bytes": 200_000}) as client:
        assert texts(poll(client, 3_000)) == values
        client.commit_sync(SECONDS_MAX)
    assert left(broker, "pieces") == (0, 0, 3_000)
