"""What a data directory can hold, written through one broker and looked for through another.

Each class is one thing that a user can leave behind: `write` leaves it, `check` looks for it, with
whatever `write` has kept in the object. A check runs several times, each time on another copy of
the directory, so it may change what is in the broker, but not the object.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

import confluent_kafka.admin
from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition

import penstock
from penstock import Client, QueueStats
from tests.cluster.clients import READER

HOUR = 3_600
SECONDS_MAX = 60.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Found = TypeVar("Found")

rdkafka: Any = confluent_kafka.admin
"""Its names are public, but not to the type checker."""


class Site:
    """A broker, and a client of each kind."""

    def __init__(self, client: Client, kafka: str, sqs: Any) -> None:
        self.client = client
        self.kafka = kafka
        self.sqs = sqs

    def consumer(self, group: str) -> Consumer:
        """A Kafka consumer, to be closed by the caller."""
        return Consumer({**READER, "bootstrap.servers": self.kafka, "group.id": group})

    def sqs_url(self, name: str) -> str:
        """The URL of a queue, of this broker."""
        return str(self.sqs.get_queue_url(QueueName=name)["QueueUrl"])

    def sqs_receive(self, name: str, **options: Any) -> list[dict[str, Any]]:
        """Lease messages through SQS, for an hour unless told otherwise."""
        wanted = {"VisibilityTimeout": HOUR, "MaxNumberOfMessages": 10, **options}
        answer = self.sqs.receive_message(QueueUrl=self.sqs_url(name), **wanted)
        return list(answer.get("Messages", ()))


class Content(Protocol):
    """One thing that a directory holds."""

    async def write(self, site: Site) -> None:
        """Leave it behind."""

    async def check(self, site: Site) -> None:
        """It is there, and works."""


def states(stats: QueueStats) -> dict[str, int]:
    """How many messages of a work group are in which state, of those that are not done."""
    return {
        "ready": stats.ready,
        "leased": stats.leased,
        "delayed": stats.delayed,
        "dead": stats.dead,
    }


async def states_of(site: Site, queue: str, group: str = "queue") -> dict[str, int]:
    return states(await site.client.queue(queue, group=group).stats())


async def eventually(
    look: Callable[[], Awaitable[Found]], good: Callable[[Found], bool], what: str
) -> Found:
    """Look until it is as it should be; what was seen then."""
    deadline = time.monotonic() + SECONDS_MAX
    while not good(found := await look()):
        assert time.monotonic() < deadline, f"{what}: {found}"
        await asyncio.sleep(0.05)
    return found


async def receive_bodies(site: Site, queue: str, count: int, group: str = "queue") -> list[str]:
    """Lease so many messages, ack them, and see that there are no more."""
    handle = site.client.queue(queue, codec=str, group=group)
    bodies: list[str] = []
    while len(bodies) < count:
        found = await handle.receive(count - len(bodies), wait=SECONDS_MAX)
        assert found, f"{queue} has {bodies} and should have {count} messages"
        bodies += [one.body for one in found]
        assert await handle.ack(found) == len(found)
    assert await handle.receive(1) == []
    return bodies


class KafkaTopic:
    """Messages of every compression, with keys, headers and times; a group's committed offsets."""

    name = "kafka-log"

    async def write(self, site: Site) -> None:
        configs = {"retention.ms": "86400000", "max.message.bytes": "2000000"}
        await site.client.create_topic(self.name, partitions=2, configs=configs)
        await asyncio.to_thread(self._produce, site)

    def _produce(self, site: Site) -> None:
        for number, codec in enumerate(CODECS):
            producer = Producer({"bootstrap.servers": site.kafka, "compression.type": codec})
            for row in range(20):
                producer.produce(
                    self.name,
                    f"{codec} {row} " + 100 * "x",
                    key=codec,
                    headers={"row": str(row)},
                    partition=number % 2,
                    timestamp=1_700_000_000_000 + row,
                )
            assert producer.flush(SECONDS_MAX) == 0
        consumer = site.consumer("readers")
        offsets = [
            TopicPartition(self.name, 0, 7, metadata="half"),
            TopicPartition(self.name, 1, 9),
        ]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()

    async def check(self, site: Site) -> None:
        described = await site.client.describe_topic(self.name)
        assert described.configs["retention.ms"] == "86400000"
        assert described.configs["max.message.bytes"] == "2000000"
        found: dict[bytes, list[str]] = {}
        async for one in site.client.read(self.name, codec=str):
            assert one.key is not None
            row = len(found.setdefault(one.key, []))
            assert one.headers == {"row": str(row).encode()}
            assert one.timestamp_ms == 1_700_000_000_000 + row
            found[one.key].append(one.body.rstrip("x"))
        assert found == {
            codec.encode(): [f"{codec} {row} " for row in range(20)] for codec in CODECS
        }
        await asyncio.to_thread(self._consume, site)

    def _consume(self, site: Site) -> None:
        consumer = site.consumer("readers")
        try:
            parts = [TopicPartition(self.name, index) for index in range(2)]
            first, second = consumer.committed(parts, timeout=SECONDS_MAX)
            assert (first.offset, first.metadata, second.offset) == (7, "half", 9)
            consumer.assign([first])
            (message,) = consumer.consume(1, SECONDS_MAX)
            assert message.error() is None, message.error()
            assert (message.offset(), message.key()) == (7, b"none")
        finally:
            consumer.close()


class NativeGroup:
    """A consumer group of the native client, in the middle of a topic."""

    name = "native-log"

    async def write(self, site: Site) -> None:
        await site.client.create_topic(self.name, partitions=1)
        await site.client.send_many(self.name, [f"row {number}" for number in range(10)])
        async with site.client.subscribe(self.name, codec=str, group="natives") as subscription:
            records = await subscription.fetch(4, wait=SECONDS_MAX)
            assert [one.body for one in records] == [f"row {number}" for number in range(4)]
            assert await subscription.commit()

    async def check(self, site: Site) -> None:
        async with site.client.subscribe(self.name, codec=str, group="natives") as subscription:
            record = await anext(subscription)
            assert (record.offset, record.body) == (4, "row 4")
        traced = await site.client.trace(f"{self.name}:0:2")
        assert [one.body for one in traced.sightings] == ["row 2"]


class LeasedMessages:
    """Messages that workers have while the broker stops: their receipts stay good."""

    name = "leased"

    def __init__(self) -> None:
        self.receipts: list[str] = []

    async def write(self, site: Site) -> None:
        await site.client.create_queue(self.name)
        await site.client.send_many(self.name, [f"job {number}" for number in range(6)])
        (once,) = await site.client.receive(self.name, 1, lease=HOUR)
        assert await once.release(delay=0)
        self.receipts = [one["ReceiptHandle"] for one in site.sqs_receive(self.name)][:4]
        assert len(self.receipts) == 4

    async def check(self, site: Site) -> None:
        before = await states_of(site, self.name)
        assert before == {"ready": 0, "leased": 6, "delayed": 0, "dead": 0}
        assert await site.client.receive(self.name, 10) == []
        url = site.sqs_url(self.name)
        for receipt in self.receipts[:3]:
            site.sqs.delete_message(QueueUrl=url, ReceiptHandle=receipt)
        site.sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=self.receipts[3], VisibilityTimeout=0
        )
        (again,) = await site.client.receive(self.name, 10, wait=SECONDS_MAX)
        assert again.deliveries >= 2
        stats = await site.client.queue(self.name).stats()
        assert (stats.sent, stats.acked, stats.depth) == (6, 3, 3)


class DelayedMessages:
    """Messages whose time has not come, and one whose time comes while nobody runs."""

    name = "delayed"

    async def write(self, site: Site) -> None:
        await site.client.create_queue(self.name)
        await site.client.send(self.name, "later", delay=HOUR)
        await site.client.send(self.name, "soon", delay=1)
        assert (await states_of(site, self.name))["delayed"] == 2

    async def check(self, site: Site) -> None:
        (soon,) = await site.client.queue(self.name, codec=str).receive(2, wait=SECONDS_MAX)
        assert (soon.body, soon.delay) == ("soon", 1.0)
        assert (await states_of(site, self.name))["delayed"] == 1


class DeadLetters:
    """Dead letters of both policies, with origin and reason; and what a queue was set to."""

    name, dead, kept = "failing", "failing-dead", "failing-kept"

    def __init__(self) -> None:
        self.identity = ""

    async def write(self, site: Site) -> None:
        await site.client.create_queue(self.dead)
        await site.client.create_queue(
            self.name, dead_letter=self.dead, deliveries_max=2, retry="exponential", retry_delay=7
        )
        self.identity = (await site.client.send(self.name, "poison")).id
        (message,) = await site.client.receive(self.name, 1, wait=SECONDS_MAX)
        assert await message.reject("unknown customer")
        await eventually(
            lambda: states_of(site, self.dead), lambda found: found["ready"] == 1, "a dead letter"
        )
        await site.client.create_queue(self.kept, deliveries_max=1, dead_letter="")
        await site.client.send(self.kept, "tried once")
        (message,) = await site.client.receive(self.kept, 1, wait=SECONDS_MAX)
        assert await message.release(delay=0)
        await eventually(
            lambda: states_of(site, self.kept), lambda found: found["dead"] == 1, "one that is dead"
        )

    async def check(self, site: Site) -> None:
        configs = (await site.client.describe_queue(self.name)).configs
        assert configs["queue.dead.letter.topic"] == self.dead
        assert configs["queue.deliveries.max"] == "2"
        assert configs["queue.retry.policy"] == "exponential"
        assert configs["queue.retry.delay.ms"] == "7000"
        (letter,) = await site.client.queue(self.dead, codec=str).receive(2, wait=SECONDS_MAX)
        assert (letter.body, letter.id) == ("poison", self.identity)
        assert letter.dead_reason is not None
        assert "unknown customer" in letter.dead_reason
        (kept,) = await site.client.queue(self.kept, codec=str).peek(10)
        assert (kept.state, kept.body, kept.deliveries) == ("dead", "tried once", 1)
        assert int(await site.client.queue(self.kept).redrive()) == 1
        assert await receive_bodies(site, self.kept, 1) == ["tried once"]


class FifoQueue:
    """Message groups, one of them held up by a lease; ids that are remembered."""

    name = "ordered"

    def __init__(self) -> None:
        self.identity = ""

    async def write(self, site: Site) -> None:
        queue = site.client.queue(self.name, codec=str)
        await queue.create(fifo=True, deduplication="id")
        for number in range(3):
            for group in ("a", "b"):
                body = f"{group}{number}"
                sent = await queue.send(body, message_group=group, dedup_id=f"id-{body}")
                self.identity = self.identity or sent.id
        (first,) = await queue.receive(1, lease=HOUR, wait=SECONDS_MAX)
        assert first.body == "a0"

    async def check(self, site: Site) -> None:
        queue = site.client.queue(self.name, codec=str)
        again = await queue.send("again", message_group="a", dedup_id="id-a0")
        assert (again.duplicate, again.id) == (True, self.identity)
        bodies = []
        for _ in range(3):
            (one,) = await queue.receive(1, wait=SECONDS_MAX)
            bodies.append(one.body)
            assert await one.ack()
        assert bodies == ["b0", "b1", "b2"]
        assert await queue.receive(10) == [], "a0 is leased and holds up its group"


class SqsQueue:
    """A queue as SQS's users make it: attributes, tags, message attributes."""

    name = "sqs-made"

    def __init__(self) -> None:
        self.identity = ""

    async def write(self, site: Site) -> None:
        site.sqs.create_queue(QueueName=f"{self.name}-dead")
        url = site.sqs.create_queue(
            QueueName=self.name,
            Attributes={
                "VisibilityTimeout": "77",
                "RedrivePolicy": '{"deadLetterTargetArn":'
                f'"arn:aws:sqs:us-east-1:000000000000:{self.name}-dead","maxReceiveCount":"5"}}',
            },
            tags={"team": "blue"},
        )["QueueUrl"]
        attributes = {"colour": {"DataType": "String", "StringValue": "green"}}
        self.identity = site.sqs.send_message(
            QueueUrl=url, MessageBody="hello", MessageAttributes=attributes
        )["MessageId"]

    async def check(self, site: Site) -> None:
        url = site.sqs_url(self.name)
        found = site.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert found["VisibilityTimeout"] == "77"
        assert f"{self.name}-dead" in found["RedrivePolicy"]
        assert site.sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "blue"}
        (message,) = site.sqs_receive(
            self.name, WaitTimeSeconds=10, MessageAttributeNames=["All"], AttributeNames=["All"]
        )
        assert (message["Body"], message["MessageId"]) == ("hello", self.identity)
        assert message["MessageAttributes"]["colour"]["StringValue"] == "green"
        assert message["Attributes"]["ApproximateReceiveCount"] == "1"


class Priorities:
    """A queue that delivers the most important message first."""

    name = "priorities"

    async def write(self, site: Site) -> None:
        queue = site.client.queue(self.name, codec=str)
        await queue.create(priorities="strict")
        for priority in (2, 7, 4):
            await queue.send(f"priority {priority}", priority=priority)

    async def check(self, site: Site) -> None:
        await site.client.queue(self.name, codec=str).send("priority 5", priority=5)
        bodies = await receive_bodies(site, self.name, 4)
        assert bodies == [f"priority {number}" for number in (7, 5, 4, 2)]


class WorkGroups:
    """Two work groups of one queue, of which each has done something else."""

    name = "shared"

    async def write(self, site: Site) -> None:
        await site.client.create_queue(self.name)
        await site.client.send_many(self.name, ["one", "two", "three"])
        counts = {"queue": 1, "audit": 2}
        handles = {group: site.client.queue(self.name, group=group) for group in counts}
        # What one group has acked is deleted unless the other is open.
        found = {
            group: await handle.receive(counts[group], wait=SECONDS_MAX)
            for group, handle in handles.items()
        }
        for group, count in counts.items():
            assert await handles[group].ack(found[group]) == count

    async def check(self, site: Site) -> None:
        assert await receive_bodies(site, self.name, 2) == ["two", "three"]
        assert await receive_bodies(site, self.name, 1, group="audit") == ["three"]


class ShareGroup:
    """A share group of Kafka's, with a config, that has accepted some messages."""

    name = "share-log"

    async def write(self, site: Site) -> None:
        await site.client.create_topic(self.name, partitions=1)
        await site.client.send_many(self.name, [f"share {number}" for number in range(5)])
        await asyncio.to_thread(self._configure, site)
        assert await asyncio.to_thread(self._accept, site, 3) == [f"share {n}" for n in range(3)]

    def _configure(self, site: Site) -> None:
        entries = [
            rdkafka.ConfigEntry(name, value, incremental_operation=rdkafka.AlterConfigOpType.SET)
            for name, value in (
                ("share.auto.offset.reset", "earliest"),
                ("share.record.lock.duration.ms", "45000"),
            )
        ]
        resource = rdkafka.ConfigResource(
            rdkafka.ResourceType.GROUP, "sharers", incremental_configs=entries
        )
        admin = rdkafka.AdminClient({"bootstrap.servers": site.kafka})
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(SECONDS_MAX)

    def _accept(self, site: Site, count: int) -> list[str]:
        settings = {"bootstrap.servers": site.kafka, "group.id": "sharers", "max.poll.records": 1}
        consumer = ShareConsumer(settings)
        consumer.subscribe([self.name])
        found: list[str] = []
        deadline = time.monotonic() + SECONDS_MAX
        try:
            while len(found) < count:
                assert time.monotonic() < deadline, f"a share group gets {found}"
                for message in consumer.poll(0.2):
                    assert message.error() is None, message.error()
                    found.append((message.value() or b"").decode())
            consumer.commit_sync(SECONDS_MAX)
        finally:
            consumer.close()
        return found

    async def check(self, site: Site) -> None:
        found = await asyncio.to_thread(self._accept, site, 2)
        assert found == ["share 3", "share 4"]


class Publications:
    """Batches that were published once, and one that is staged and not published yet."""

    name, application = "published", "nightly"

    def __init__(self) -> None:
        self.staged = ""

    async def write(self, site: Site) -> None:
        client = site.client
        await client.create_topic(self.name, partitions=1)
        for batch in range(2):
            staged = await self._stage(client, batch)
            assert (await client.publish(self.application, batch, [staged])).is_new
        self.staged = (await self._stage(client, 2)).to_json()

    async def _stage(self, client: Client, batch: int) -> penstock.Staged:
        stage = client.open_stage()
        await stage.send_many(self.name, [f"batch {batch} row {row}" for row in range(3)])
        return await stage.close()

    async def check(self, site: Site) -> None:
        client = site.client
        assert await client.last_published(self.application) == 1
        staged = penstock.Staged.from_json(self.staged)
        assert not (await client.publish(self.application, 1, [staged])).is_new
        assert (await client.publish(self.application, 2, [staged])).is_new
        bodies = [one.body async for one in client.read(self.name, codec=str)]
        assert bodies == [f"batch {batch} row {row}" for batch in range(3) for row in range(3)]


class CumulativeAcks:
    """A work group that is read by offset, by a stream that counts its batches."""

    name, group, stream = "covered", "streams", "copy"

    async def write(self, site: Site) -> None:
        await site.client.create_queue(self.name)
        queue = site.client.queue(self.name, group=self.group)
        await queue.begin()
        await site.client.send_many(self.name, [f"row {number}" for number in range(10)])
        assert await queue.ack_range(0, 0, 6, dead={2: "bad row"}, stream=self.stream, batch=3) == 6

    async def check(self, site: Site) -> None:
        queue = site.client.queue(self.name, group=self.group)
        assert (await queue.standing())[0].first == 6
        assert await queue.ack_range(0, 0, 10, stream=self.stream, batch=3) == 0, (
            "it was heard before"
        )
        assert await queue.ack_range(0, 6, 10, stream=self.stream, batch=4) == 4
        assert (await states_of(site, self.name, self.group))["dead"] == 1


class RunningMove:
    """A redrive of dead letters, one a second, that is under way."""

    name, dead = "moved", "moved-dead"

    def __init__(self) -> None:
        self.move = ""

    async def write(self, site: Site) -> None:
        await site.client.create_queue(self.dead)
        await site.client.create_queue(self.name, dead_letter=self.dead)
        await site.client.send_many(self.name, [f"letter {number}" for number in range(100)])
        queue = site.client.queue(self.name)
        found = await queue.receive(100, wait=SECONDS_MAX)
        assert await queue.reject(found, "broken") == 100
        await eventually(
            lambda: states_of(site, self.dead), lambda found: found["ready"] == 100, "all died"
        )
        self.move = (await site.client.queue(self.dead).redrive(rate=1)).move_id

    async def check(self, site: Site) -> None:
        queue = site.client.queue(self.dead)
        begun = await queue.move(self.move)
        assert (begun.state, begun.total, begun.failure) == ("running", 100, "")
        await eventually(
            lambda: queue.move(self.move), lambda now: now.moved > begun.moved, "it goes on"
        )
        bodies = await site.client.queue(self.name, codec=str).receive(1, wait=SECONDS_MAX)
        assert bodies[0].body.startswith("letter ")


def contents() -> Sequence[Content]:
    """One of each."""
    return (
        KafkaTopic(),
        NativeGroup(),
        LeasedMessages(),
        DelayedMessages(),
        DeadLetters(),
        FifoQueue(),
        SqsQueue(),
        Priorities(),
        WorkGroups(),
        ShareGroup(),
        Publications(),
        CumulativeAcks(),
        RunningMove(),
    )
