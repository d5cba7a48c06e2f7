"""Native members share a group with Kafka's consumers, whoever of them came first and leads."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from confluent_kafka import Consumer
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor

import penstock
from penstock import Client
from penstock.client.reader.assignors import ASSIGNORS, COOPERATIVE
from penstock.client.subscription import Subscription
from tests.interop.served import Served, serving

# kafka-python's background threads outlive some of its objects.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

PARTITIONS = 6
PATIENCE_SECONDS = 60
EVERY_SECONDS = 0.02
BEAT_MS = 200


class KafkaMember(Protocol):
    """One of Kafka's consumers, brought down to what is wanted of it here."""

    def poll(self) -> list[tuple[int, int]]:
        """(partition, offset) of the messages that have come."""
        ...

    def assignment(self) -> set[int]: ...

    def close(self) -> None: ...


class Confluent:
    assignor = "range"

    def __init__(self, address: str, topic: str, group: str) -> None:
        self._consumer = Consumer({
            "bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest",
            "partition.assignment.strategy": self.assignor, "heartbeat.interval.ms": BEAT_MS,
        })  # fmt: skip
        self._consumer.subscribe([topic])

    def poll(self) -> list[tuple[int, int]]:
        message = self._consumer.poll(0.1)
        if message is None:
            return []
        assert message.error() is None, message.error()
        return [(message.partition() or 0, message.offset() or 0)]

    def assignment(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class CooperativeConfluent(Confluent):
    assignor = "cooperative-sticky"


class KafkaPython:
    def __init__(self, address: str, topic: str, group: str) -> None:
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=BEAT_MS,
            partition_assignment_strategy=[RangePartitionAssignor],
        )

    def poll(self) -> list[tuple[int, int]]:
        found = self._consumer.poll(timeout_ms=100)
        return [(one.partition, one.offset) for rows in found.values() for one in rows]

    def assignment(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class AioKafka:
    """It gets a loop of its own, since the others block."""

    def __init__(self, address: str, topic: str, group: str) -> None:
        self._runner = asyncio.Runner()
        self._consumer = self._runner.run(self._start(address, topic, group))

    async def _start(self, address: str, topic: str, group: str) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=BEAT_MS,
            partition_assignment_strategy=[AioRange],
        )
        await consumer.start()
        return consumer

    def poll(self) -> list[tuple[int, int]]:
        found = self._runner.run(self._consumer.getmany(timeout_ms=100))
        return [(one.partition, one.offset) for rows in found.values() for one in rows]

    def assignment(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


class Polled:
    """A Kafka member that is polled by a thread until the end of the block."""

    def __init__(self, make: Callable[[], KafkaMember]) -> None:
        self.assignment: set[int] = set()
        self.seen: list[tuple[int, int]] = []
        self.failure: BaseException | None = None
        self._make = make
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    async def __aenter__(self) -> "Polled":
        self._thread.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._stop.set()
        await asyncio.to_thread(self._thread.join, PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            member = self._make()
            try:
                while not self._stop.is_set():
                    self.seen += member.poll()
                    self.assignment = member.assignment()
            finally:
                member.close()
        except BaseException as error:  # noqa: BLE001
            self.failure = error


class Native:
    """A native member, and what it has seen."""

    def __init__(
        self, client: Client, topic: str, group: str, assignors: tuple[str, ...] = ASSIGNORS
    ) -> None:
        self.subscription: Subscription[bytes] = client.subscribe(
            topic,
            group=group,
            codec=bytes,
            heartbeat_interval=BEAT_MS / 1_000,
            assignors=assignors,
        )
        self.seen: list[tuple[int, int]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def assignment(self) -> set[int]:
        return {one.partition for one in self.subscription.assignment}

    async def __aenter__(self) -> "Native":
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._task is not None
        await self.subscription.close()
        await self._task

    async def _read(self) -> None:
        async for record in self.subscription:
            self.seen.append((record.partition, record.offset))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as running:
        yield running


async def until(holds: Callable[[], bool], what: Callable[[], object]) -> None:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():  # noqa: ASYNC110 - other threads and processes bring it about.
                await asyncio.sleep(EVERY_SECONDS)
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE_SECONDS} s: {what()}") from None


async def fill(client: Client, topic: str, count: int) -> None:
    for index in range(PARTITIONS):
        await client.topic(topic).send_many([b"x"] * count, partition=index)


KINDS: list[Callable[[str, str, str], KafkaMember]] = [
    Confluent,
    CooperativeConfluent,
    KafkaPython,
    AioKafka,
]


@pytest.mark.parametrize("first", ["native", "kafka"])
@pytest.mark.parametrize("kind", KINDS)
def test_both_kinds_of_members_share_a_group(
    served: Served, kind: Callable[[str, str, str], KafkaMember], first: str
) -> None:
    topic = f"mixed-{kind.__name__}-{first}"

    async def play() -> None:
        async with penstock.connect(f"penstock://{served.kafka}") as client:
            await client.create_topic(topic, partitions=PARTITIONS)
            await fill(client, topic, 10)
            kafka = Polled(lambda: kind(served.kafka, topic, topic))
            cooperates = kind is CooperativeConfluent
            assignors = (CooperativeConfluent.assignor,) if cooperates else ASSIGNORS
            native = Native(client, topic, topic, assignors)
            members: list[Polled | Native] = (
                [native, kafka] if first == "native" else [kafka, native]
            )
            everything = set(range(PARTITIONS))

            def shares() -> list[set[int]]:
                return [kafka.assignment, native.assignment]

            async with members[0]:
                await until(lambda: members[0].assignment == everything, shares)
                await until(lambda: len(set(members[0].seen)) == 10 * PARTITIONS, shares)
                async with members[1]:
                    await until(lambda: sorted(map(len, shares())) == [3, 3], shares)
                    assert kafka.assignment | native.assignment == everything
                    await fill(client, topic, 10)
                    await until(
                        lambda: len({*kafka.seen, *native.seen}) == 20 * PARTITIONS,
                        lambda: (kafka.seen, native.seen),
                    )
                    # Each of the later messages came to the one member that has its partition.
                    for member in (kafka, native):
                        late = {one[0] for one in member.seen if one[1] >= 10}
                        assert late == member.assignment
                await until(lambda: members[0].assignment == everything, shares)
            (row,) = [one for one in await client.groups() if one.name == topic]
            assert row.state == "Empty"
            described = await client.describe_group(topic)
            assert {one.partition for one in described.partitions} == everything

    asyncio.run(play())


def test_a_group_shares_in_a_way_that_all_its_members_know(
    served: Served,
) -> None:
    async def play() -> None:
        async with penstock.connect(f"penstock://{served.kafka}") as client:
            await client.create_topic("sticky", partitions=2)
            subscription = client.subscribe("sticky", group="sticky", heartbeat_interval=0.1)
            async with subscription:
                assert (await client.describe_group("sticky")).assignor == COOPERATIVE
                async with Polled(lambda: Confluent(served.kafka, "sticky", "sticky")) as kafka:
                    await until(lambda: len(kafka.assignment) == 1, lambda: kafka.assignment)
                    assert (await client.describe_group("sticky")).assignor == "range"
                await until(lambda: len(subscription.assignment) == 2, lambda: None)

    asyncio.run(play())
