"""The clients of the measurements: librdkafka by way of confluent-kafka, with its defaults.

These functions run in a client process. They are set up as a user's program would be: acks=all,
which is the default, a linger of 5 ms, batches of up to a megabyte. Only failed messages are
reported back, so that Python is not called once more for each message; and a reader whose queue is
full looks again after 5 ms instead of a second. Connections are made and partitions found before
the clock starts.
"""

import os
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.broker.orders import Consumption, Moved, Production, Setting, Target

CLIENT: Mapping[str, Setting] = {"log_level": 2}
CREATE_WITHIN_SECONDS = 120.0
ANSWER_WITHIN_SECONDS = 20.0
FLUSH_WITHIN_SECONDS = 60.0
_LOOK_AT_CLOCK_EVERY = 100
_LOOK_AGAIN_SECONDS = 0.02
_ROOM_WITHIN_SECONDS = 0.01
_CHUNK_MESSAGES = 1_000
_CHUNK_WITHIN_SECONDS = 1.0


class ClientFailed(Exception):
    """A client was refused, or did not get what it was promised."""


def create_topics(bootstrap: str, topics: Mapping[str, int]) -> float:
    """Create topics of so many partitions each, in one request; the seconds it took."""
    admin = AdminClient({**CLIENT, "bootstrap.servers": bootstrap})
    _wait_brokers(admin, len(bootstrap.split(",")))
    wanted = [NewTopic(name, num_partitions=count) for name, count in topics.items()]
    began = time.perf_counter()
    answers = admin.create_topics(
        wanted,
        operation_timeout=CREATE_WITHIN_SECONDS,
        request_timeout=CREATE_WITHIN_SECONDS,
    )
    for answer in answers.values():
        answer.result(CREATE_WITHIN_SECONDS)
    return time.perf_counter() - began


def _wait_brokers(admin: AdminClient, count: int) -> None:
    """Until all nodes know each other: a port may answer before that."""
    deadline = time.monotonic() + ANSWER_WITHIN_SECONDS
    known: object = None
    while time.monotonic() < deadline:
        try:
            known = admin.list_topics(timeout=ANSWER_WITHIN_SECONDS).brokers
            if len(known) >= count:
                return
        except KafkaException as error:
            known = error
        time.sleep(_LOOK_AGAIN_SECONDS)
    raise ClientFailed(f"there should be {count} brokers, and there is {known}")


def leaders(target: Target) -> int:
    """How many nodes lead a partition of the topic; waits until every partition has a leader."""
    admin = AdminClient({**CLIENT, "bootstrap.servers": target.bootstrap})
    deadline = time.monotonic() + ANSWER_WITHIN_SECONDS
    while True:
        topic = admin.list_topics(target.topic, timeout=ANSWER_WITHIN_SECONDS).topics[target.topic]
        nodes = [partition.leader for partition in topic.partitions.values()]
        if len(nodes) == target.partitions and min(nodes) >= 0:
            return len(set(nodes))
        if time.monotonic() >= deadline:
            raise ClientFailed(f"{target.topic} has the leaders {nodes}")
        time.sleep(_LOOK_AGAIN_SECONDS)


def produce(order: Production) -> Moved:
    """Send to all partitions in turn; it is over when the last message was acknowledged."""
    producer, failures = connected_producer(order.target, order.settings)
    topic, partitions = order.target.topic, order.target.partitions
    value = os.urandom(order.value_bytes)
    send, poll = producer.produce, producer.poll
    sent = 0
    began_cpu = time.process_time()
    began = time.perf_counter()
    deadline = began + order.seconds
    while sent < order.messages_max and time.perf_counter() < deadline:
        for _ in range(min(_LOOK_AT_CLOCK_EVERY, order.messages_max - sent)):
            try:
                send(topic, value, partition=sent % partitions)
            except BufferError:
                poll(_ROOM_WITHIN_SECONDS)
                continue
            sent += 1
        poll(0)
    flush(producer, failures)
    took = time.perf_counter() - began
    return Moved(sent, took, time.process_time() - began_cpu)


def connected_producer(
    target: Target, settings: Mapping[str, Setting]
) -> tuple[Producer, list[str]]:
    """A producer that has sent a message to each partition, and the failures to come."""
    producer, failures = _producer(target.bootstrap, settings)
    for partition in range(target.partitions):
        producer.produce(target.topic, b"", partition=partition)
    flush(producer, failures)
    return producer, failures


def _producer(
    bootstrap: str, settings: Mapping[str, Setting] | None = None
) -> tuple[Producer, list[str]]:
    failures: list[str] = []

    def reported(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(f"{message.topic()}-{message.partition()}: {error}")

    options = {
        **CLIENT,
        "bootstrap.servers": bootstrap,
        "delivery.report.only.error": True,
        "on_delivery": reported,
        **(settings or {}),
    }
    return Producer(options), failures


def flush(producer: Producer, failures: Sequence[str]) -> None:
    """Wait until everything was acknowledged."""
    left = producer.flush(FLUSH_WITHIN_SECONDS)
    if failures:
        raise ClientFailed(f"{len(failures)} messages failed; the first, {failures[0]}")
    if left:
        raise ClientFailed(f"{left} messages waited over {FLUSH_WITHIN_SECONDS:.0f} s")


def consume(order: Consumption) -> Moved:
    """Read the whole topic, without a group. The clock starts with the first messages, which do not
    count: what precedes them is the connecting, and the same for a topic of any size."""
    target = order.target
    consumer = _consumer(target)
    try:
        places = [
            TopicPartition(topic, part, OFFSET_BEGINNING)
            for topic in (target.topic, *order.more_topics)
            for part in range(target.partitions)
        ]
        bounds = [_bounds(consumer, place) for place in places]
        wanted = sum(high - low for low, high in bounds)
        deadline = time.perf_counter() + order.seconds
        messages, seconds, cpu_seconds = 0, 0.0, 0.0
        while True:
            once = _read_once(consumer, places, wanted, deadline)
            messages += once.messages
            seconds += once.seconds
            cpu_seconds += once.cpu_seconds
            if not order.again or time.perf_counter() >= deadline:
                return Moved(messages, seconds, cpu_seconds)
    finally:
        consumer.close()


def _read_once(
    consumer: Consumer, places: list[TopicPartition], wanted: int, deadline: float
) -> Moved:
    consumer.assign(places)
    got = first = 0
    began = began_cpu = 0.0
    last_arrival = time.perf_counter()
    while got < wanted:
        chunk = consumer.consume(min(_CHUNK_MESSAGES, wanted - got), _CHUNK_WITHIN_SECONDS)
        now = time.perf_counter()
        if chunk:
            _refuse_errors(chunk[-1])
            got += len(chunk)
            last_arrival = now
            if not first:
                first, began, began_cpu = got, now, time.process_time()
        elif now - last_arrival > ANSWER_WITHIN_SECONDS:
            raise ClientFailed(f"nothing for {ANSWER_WITHIN_SECONDS:.0f} s, {got} of {wanted} read")
        if now >= deadline:
            break
    if not first:
        return Moved(0, 0.0, 0.0)
    return Moved(got - first, time.perf_counter() - began, time.process_time() - began_cpu)


def ends(target: Target) -> int:
    """How many messages all partitions have ever been sent."""
    consumer = _consumer(target)
    try:
        places = [TopicPartition(target.topic, part) for part in range(target.partitions)]
        return sum(_bounds(consumer, place)[1] for place in places)
    finally:
        consumer.close()


def produce_to_all(bootstrap: str, topics: Mapping[str, int], value_bytes: int) -> Moved:
    """One message to every partition of these topics, until all were acknowledged; finding the
    partitions included."""
    producer, failures = _producer(bootstrap)
    value = os.urandom(value_bytes)
    began_cpu = time.process_time()
    began = time.perf_counter()
    for topic, partitions in topics.items():
        for partition in range(partitions):
            producer.produce(topic, value, partition=partition)
        producer.poll(0)
    flush(producer, failures)
    took = time.perf_counter() - began
    return Moved(sum(topics.values()), took, time.process_time() - began_cpu)


def send_one(target: Target) -> float:
    """Connect, send one message and wait until it is acknowledged; the seconds it took."""
    began = time.perf_counter()
    impatient: dict[str, Setting] = {"linger.ms": 0, "reconnect.backoff.ms": 5}
    connected_producer(target, {**impatient, "retry.backoff.ms": 5, "reconnect.backoff.max.ms": 20})
    return time.perf_counter() - began


def _consumer(target: Target) -> Consumer:
    return Consumer(
        {
            **CLIENT,
            "bootstrap.servers": target.bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            # Else it stops fetching for a whole second whenever 100,000 messages lie unread.
            "fetch.queue.backoff.ms": 5,
        }
    )


def _bounds(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    found = consumer.get_watermark_offsets(place, timeout=ANSWER_WITHIN_SECONDS)
    if found is None:
        raise ClientFailed(f"no bounds of {place} within {ANSWER_WITHIN_SECONDS:.0f} s")
    low, high = found
    return low, high


def _refuse_errors(message: Message) -> None:
    error = message.error()
    if error is not None:
        raise KafkaException(error)
