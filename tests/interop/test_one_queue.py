"""One queue by Kafka, by SQS and by share groups: what goes in by one comes out of the others.

Messages are made by chance, with everything that a protocol can put into one, and compared byte by
byte. What is read back is what was written, except where one protocol has no word for it: then
there is a rule, and the rule is what is tested.
"""

import base64
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import confluent_kafka.admin
import pytest
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition

from tests.cluster.waiting import wait_until
from tests.interop.query import get
from tests.interop.served import Served, counts, path_of, serving

pytestmark = pytest.mark.slow

SECONDS_MAX = 30.0
MESSAGES = 60
ALPHABET = "aZ09 äß€漢😀<&>'\"\\\t\r\n\x7f\x85\u2028\ufffd"
rdkafka: Any = confluent_kafka.admin


class Record(NamedTuple):
    """A message as Kafka has it."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("one-queue")) as broker:
        yield broker


# Kafka's side.


def create_topic(served: Served, name: str, partitions: int = 1, **configs: str) -> str:
    """Returns the queue's URL."""
    admin = rdkafka.AdminClient({"bootstrap.servers": served.kafka})
    named = {key.replace("_", "."): value for key, value in configs.items()}
    made = admin.create_topics([rdkafka.NewTopic(name, partitions, config=named)])
    made[name].result(SECONDS_MAX)
    return f"{served.url}/000000000000/{name}"


def produce(served: Served, topic: str, records: list[Record], **more: object) -> None:
    producer = Producer({"bootstrap.servers": served.kafka, "linger.ms": 5, **more})
    for record in records:
        producer.produce(topic, record.value, record.key, headers=record.headers)
    assert producer.flush(SECONDS_MAX) == 0


def read_log(served: Served, topic: str, count: int) -> list[Record]:
    consumer = Consumer({"bootstrap.servers": served.kafka, "group.id": "readers"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Any] = []
        while len(found) < count:
            more = consumer.consume(count - len(found), SECONDS_MAX)
            assert more, f"{len(found)} messages of {count}"
            found += more
        return [record_of(message) for message in found]
    finally:
        consumer.close()


def record_of(message: Any) -> Record:
    assert message.error() is None, message.error()
    return Record(message.key(), message.value(), message.headers() or [])


def begin_at_earliest(served: Served, group: str) -> None:
    entry = rdkafka.ConfigEntry(
        "share.auto.offset.reset",
        "earliest",
        incremental_operation=rdkafka.AlterConfigOpType.SET,
    )
    resource = rdkafka.ConfigResource(
        rdkafka.ResourceType.GROUP, group, incremental_configs=[entry]
    )
    admin = rdkafka.AdminClient({"bootstrap.servers": served.kafka})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(SECONDS_MAX)


class Sharer:
    """A member of a share group that says what becomes of each message."""

    def __init__(self, served: Served, group: str, topic: str) -> None:
        self._client = ShareConsumer(
            {
                "bootstrap.servers": served.kafka,
                "group.id": group,
                "share.acknowledgement.mode": "explicit",
                "log_level": 2,
            }
        )
        self._client.subscribe([topic])

    def __enter__(self) -> "Sharer":
        return self

    def __exit__(self, *_error: object) -> None:
        self._client.close()

    def poll(self, seconds: float = 1.0) -> list[Any]:
        return list(self._client.poll(seconds))

    def some(self) -> list[Any]:
        """What is there; waits for it."""
        return wait_until(self.poll, "messages for the share group", seconds=SECONDS_MAX)

    def settle(self, message: Any, verdict: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        self._client.acknowledge(message, verdict)

    def commit(self) -> None:
        assert set(self._client.commit_sync(SECONDS_MAX).values()) <= {None}

    def take(self, count: int) -> list[Any]:
        """So many messages, all accepted."""
        found: list[Any] = []
        while len(found) < count:
            for message in self.some():
                found.append(message)
                self.settle(message)
            self.commit()
        return found


# SQS's side.


def receive_all(client: Any, url: str, count: int) -> list[dict[str, Any]]:
    """So many messages, all deleted."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        answer = client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=5,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        )
        assert "Messages" in answer, f"{len(found)} messages of {count}"
        for message in answer["Messages"]:
            client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        found += answer["Messages"]
    return found


# Messages made by chance.


def any_text(chance: Random, longest: int) -> str:
    return "".join(chance.choices(ALPHABET, k=chance.randint(1, longest)))


def any_attributes(chance: Random) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    for number in range(chance.randint(0, 10)):
        name = f"{chance.choice(('a', 'A.b', 'x-y', '_'))}{number}"
        label = chance.choice(("", ".label", ".a.b"))
        match chance.choice(("String", "Number", "Binary")):
            case "Binary":
                made[name] = {
                    "DataType": f"Binary{label}",
                    "BinaryValue": chance.randbytes(chance.randint(1, 40)),
                }
            case "Number":
                made[name] = {
                    "DataType": f"Number{label}",
                    "StringValue": f"{chance.uniform(-1e9, 1e9):.4f}",
                }
            case kind:
                made[name] = {"DataType": f"{kind}{label}", "StringValue": any_text(chance, 30)}
    return made


def attribute_bytes(attribute: dict[str, Any]) -> bytes:
    value = attribute.get("BinaryValue")
    return value if isinstance(value, bytes) else attribute["StringValue"].encode()


def any_record(chance: Random) -> Record:
    names = ("trace", "ä", "with space", "", "UPPER", "x" * 300)
    headers: list[tuple[str, str | bytes | None]] = [
        (chance.choice(names), chance.choice((None, b"", b"text", chance.randbytes(20))))
        for _ in range(chance.choice((0, 1, 3, 20)))
    ]
    return Record(
        chance.choice((None, b"", b"key", chance.randbytes(12))),
        chance.choice((None, b"", any_text(chance, 50).encode(), chance.randbytes(50))),
        headers,
    )


# There and back.


def test_what_sqs_sends_is_in_the_log_and_with_share_groups_byte_by_byte(served: Served) -> None:
    chance = Random(4)
    client = served.client()
    url = client.create_queue(QueueName="outwards")["QueueUrl"]
    begin_at_earliest(served, "auditors")
    sent: list[tuple[str, dict[str, dict[str, Any]]]] = []
    for _ in range(MESSAGES):
        body, attributes = any_text(chance, 200), any_attributes(chance)
        client.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)
        sent.append((body, attributes))
    with Sharer(served, "auditors", "outwards") as auditors:
        shared = [record_of(message) for message in auditors.take(MESSAGES)]
    logged = read_log(served, "outwards", MESSAGES)
    found = receive_all(client, url, MESSAGES)
    assert shared == logged
    for (body, attributes), record, message in zip(sent, logged, found, strict=True):
        assert record.value == body.encode()
        assert record.key is None
        headers = dict(record.headers)
        assert len(headers) == len(record.headers)
        headers.pop("sqs-types", None)
        assert headers == {name: attribute_bytes(one) for name, one in attributes.items()}
        assert message["Body"] == body
        assert message.get("MessageAttributes", {}) == attributes


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_what_kafka_produces_comes_by_sqs_with_nothing_lost(served: Served, codec: str) -> None:
    chance = Random(5)
    topic = f"inwards-{codec}"
    url = create_topic(served, topic)
    records = [any_record(chance) for _ in range(MESSAGES)]
    produce(served, topic, records, **{"compression.type": codec})
    found = receive_all(served.client(), url, MESSAGES)
    for record, message in zip(records, found, strict=True):
        attributes = dict(message.get("MessageAttributes", {}))
        encoding = attributes.pop("penstock.encoding", None)
        tombstone = attributes.pop("penstock.tombstone", None)
        key = attributes.pop("penstock.key", None)
        body = message["Body"].encode()
        value = base64.b64decode(body) if encoding else body
        assert (None if tombstone else value) == record.value
        assert (None if key is None else attribute_bytes(key)) == record.key
        # Of several headers of one name the last one counts.
        wanted = {name: value or b"" for name, value in record.headers}
        assert {name: attribute_bytes(one) for name, one in attributes.items()} == wanted
    assert read_log(served, topic, MESSAGES) == records


def test_the_older_protocol_says_the_same_of_kafkas_messages(served: Served) -> None:
    url = create_topic(served, "older")
    record = Record(b"k\xff", b"\0\xff", [("text", "ä<&>".encode()), ("\x01", b"\x01")])
    produce(served, "older", [record])
    found = get(
        served,
        "ReceiveMessage",
        path_of(url),
        AttributeName__1="All",
        MessageAttributeName__1="All",
    )
    assert base64.b64decode(found.text("Body")) == record.value
    attributes = {one.text("Name"): one for one in found.parts("MessageAttribute")}
    assert attributes["text"].text("StringValue") == "ä<&>"
    assert base64.b64decode(attributes["penstock.key"].text("BinaryValue")) == record.key
    assert attributes["penstock.encoding"].text("StringValue") == "base64"
    assert len(attributes) == 4  # XML has no word for the other header's name.


def test_what_a_producer_says_by_headers_counts_for_everybody(served: Served) -> None:
    client = served.client()
    url = client.create_queue(QueueName="told-by-headers")["QueueUrl"]
    produce(
        served,
        "told-by-headers",
        [
            Record(None, b"later", [("penstock-delay-ms", b"900000")]),
            Record(None, b"now", [("penstock-group", b"tenant")]),
        ],
    )
    assert counts(client, url) == (1, 0, 1)
    (message,) = receive_all(client, url, 1)
    assert message["Body"] == "now"
    assert message["Attributes"]["MessageGroupId"] == "tenant"
    assert "MessageAttributes" not in message


def test_a_fifo_queue_has_its_order_and_its_ids_by_every_way(served: Served) -> None:
    client = served.client()
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = client.create_queue(QueueName="every-way.fifo", Attributes=attributes)["QueueUrl"]

    def record(value: bytes, group: bytes, *headers: tuple[str, str | bytes]) -> Record:
        return Record(group, value, list(headers))

    client.send_message(QueueUrl=url, MessageBody="a1", MessageGroupId="a")
    produce(served, "every-way.fifo", [record(b"a2", b"a"), record(b"b1", b"b")])
    client.send_message(QueueUrl=url, MessageBody="a3", MessageGroupId="a")
    produce(served, "every-way.fifo", [record(b"a3", b"a")])  # The same contents: a duplicate.
    produce(served, "every-way.fifo", [record(b"other", b"a", ("penstock-dedup-id", b"id"))])
    sent = client.send_message(
        QueueUrl=url, MessageBody="another", MessageGroupId="a", MessageDeduplicationId="id"
    )
    found = receive_all(client, url, 5)
    by_group = {
        group: [one["Body"] for one in found if one["Attributes"]["MessageGroupId"] == group]
        for group in ("a", "b")
    }
    assert by_group == {"a": ["a1", "a2", "a3", "other"], "b": ["b1"]}
    assert sent["MessageId"] == found[-1]["MessageId"] or found[-1]["Body"] == "b1"
    assert counts(client, url) == (0, 0, 0)


# One work group, two protocols.


def test_a_share_group_called_queue_is_the_sqs_queue(served: Served) -> None:
    client = served.client()
    url = client.create_queue(QueueName="both")["QueueUrl"]
    for number in range(6):
        client.send_message(QueueUrl=url, MessageBody=str(number))
    leased = client.receive_message(QueueUrl=url, MaxNumberOfMessages=2)["Messages"]
    assert [message["Body"] for message in leased] == ["0", "1"]
    with Sharer(served, "queue", "both") as sharer:
        mine = sharer.some()
        assert [message.value() for message in mine] == [b"2", b"3", b"4", b"5"]
        assert counts(client, url) == (0, 6, 0)
        assert "Messages" not in client.receive_message(QueueUrl=url)
        sharer.settle(mine[0])
        sharer.settle(mine[1], AcknowledgeType.RELEASE)
        sharer.settle(mine[2])
        sharer.settle(mine[3], AcknowledgeType.REJECT)
        sharer.commit()
        (again,) = client.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        )["Messages"]
        assert (again["Body"], again["Attributes"]["ApproximateReceiveCount"]) == ("3", "2")
        client.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])
        client.change_message_visibility(
            QueueUrl=url, ReceiptHandle=leased[0]["ReceiptHandle"], VisibilityTimeout=0
        )
        (back,) = sharer.some()
        assert (back.value(), back.delivery_count()) == (b"0", 2)
        sharer.settle(back)
        sharer.commit()
    client.delete_message(QueueUrl=url, ReceiptHandle=leased[1]["ReceiptHandle"])
    assert counts(client, url) == (0, 0, 0)


def test_other_groups_have_leases_of_their_own_and_lose_nothing_to_a_delete(
    served: Served,
) -> None:
    client = served.client()
    url = client.create_queue(QueueName="apart")["QueueUrl"]
    begin_at_earliest(served, "archive")
    with Sharer(served, "archive", "apart") as archive:
        client.send_message(QueueUrl=url, MessageBody="first")
        (first,) = archive.some()  # So the group is there, and must be waited for.
        for number in range(20):
            client.send_message(QueueUrl=url, MessageBody=str(number))
        assert len(receive_all(client, url, 21)) == 21
        assert counts(client, url) == (0, 0, 0)
        archive.settle(first, AcknowledgeType.RELEASE)
        archive.commit()
        again = archive.take(21)
    values = [message.value().decode() for message in again]
    assert sorted(values) == sorted(["first", *(str(number) for number in range(20))])


def test_everybody_at_once(served: Served) -> None:
    """Two ways in, two ways out, one work group: each message is done once."""
    client = served.client()
    url = client.create_queue(QueueName="at-once")["QueueUrl"]
    each = 150
    done: Counter[str] = Counter()
    lock = threading.Lock()
    failures: list[BaseException] = []

    def finished() -> bool:
        with lock:
            return done.total() >= 2 * each

    def by_sqs() -> None:
        for first in range(0, each, 10):
            entries = [
                {"Id": str(number), "MessageBody": f"s{first + number}"} for number in range(10)
            ]
            client.send_message_batch(QueueUrl=url, Entries=entries)

    def by_kafka() -> None:
        produce(served, "at-once", [Record(None, b"k%d" % number, []) for number in range(each)])

    def work_by_sqs() -> None:
        own = served.client()
        while not finished():
            answer = own.receive_message(QueueUrl=url, MaxNumberOfMessages=3, WaitTimeSeconds=1)
            for message in answer.get("Messages", []):
                own.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                with lock:
                    done[message["Body"]] += 1

    def work_by_sharing() -> None:
        with Sharer(served, "queue", "at-once") as sharer:
            while not finished():
                messages = sharer.poll(0.5)
                for message in messages:
                    sharer.settle(message)
                sharer.commit()
                with lock:
                    done.update(message.value().decode() for message in messages)

    def guarded(story: Callable[[], None]) -> threading.Thread:
        def tell() -> None:
            try:
                story()
            except BaseException as error:
                failures.append(error)
                raise

        return threading.Thread(target=tell)

    stories = (by_sqs, by_kafka, work_by_sqs, work_by_sqs, work_by_sharing)
    threads = [guarded(story) for story in stories]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS_MAX * 2)
    assert not failures
    wanted = [f"{way}{number}" for way in "sk" for number in range(each)]
    assert done == Counter(wanted)
    assert counts(client, url) == (0, 0, 0)
