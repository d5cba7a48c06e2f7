"""aiokafka: produce, consume and groups, with the oldest versions that clients still send."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition

from tests.kafka_broker import ThreadedBroker

pytestmark = pytest.mark.slow

SECONDS_MAX = 30.0


async def produce(
    broker: ThreadedBroker, topic: str, count: int, **more: object
) -> list[tuple[int, int]]:
    """Where the messages went: (partition, offset)."""
    producer = AIOKafkaProducer(bootstrap_servers=broker.address, linger_ms=5, **more)
    await producer.start()
    try:
        sent = [
            await producer.send(topic, b"value %d" % number, key=b"%d" % (number % 7))
            for number in range(count)
        ]
        places = await asyncio.gather(*sent)
    finally:
        await producer.stop()
    return [(place.partition, place.offset) for place in places]


async def consume(client: AIOKafkaConsumer, count: int) -> list[tuple[int, int, bytes]]:
    found: list[tuple[int, int, bytes]] = []
    async with asyncio.timeout(SECONDS_MAX):
        while len(found) < count:
            for messages in (await client.getmany(timeout_ms=1_000)).values():
                found += [(one.partition, one.offset, one.value) for one in messages]
    return found


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_messages_come_back_in_their_order(
    broker: ThreadedBroker, codec: str | None, idempotent: bool
) -> None:
    async def scenario() -> None:
        topic = f"order-{codec}-{idempotent}"
        places = await produce(
            broker, topic, 300, compression_type=codec, enable_idempotence=idempotent
        )
        client = AIOKafkaConsumer(bootstrap_servers=broker.address, auto_offset_reset="earliest")
        await client.start()
        try:
            client.assign([TopicPartition(topic, index) for index in range(4)])
            found = await consume(client, 300)
        finally:
            await client.stop()
        assert sorted((partition, offset) for partition, offset, _ in found) == sorted(places)
        wanted = sorted(b"value %d" % number for number in range(300))
        assert sorted(value for _, _, value in found) == wanted

    asyncio.run(scenario())


def test_a_group_goes_on_where_it_was(broker: ThreadedBroker) -> None:
    async def scenario() -> None:
        await produce(broker, "resume", 20)
        assert len(await read_as_group(20)) == 20
        await produce(broker, "resume", 10)
        assert len(await read_as_group(10)) == 10

    async def read_as_group(count: int) -> list[tuple[int, int, bytes]]:
        client = AIOKafkaConsumer(
            "resume",
            bootstrap_servers=broker.address,
            group_id="resumers",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await client.start()
        try:
            found = await consume(client, count)
            await client.commit()
        finally:
            await client.stop()
        return found

    asyncio.run(scenario())


def test_many_producers_and_a_group_of_three(broker: ThreadedBroker) -> None:
    async def scenario() -> None:
        clients = [
            AIOKafkaConsumer(
                "many",
                bootstrap_servers=broker.address,
                group_id="three",
                auto_offset_reset="earliest",
                metadata_max_age_ms=500,
            )
            for _ in range(3)
        ]
        await produce(broker, "many", 1)
        await asyncio.gather(*(client.start() for client in clients))
        try:
            await asyncio.gather(*(produce(broker, "many", 100) for _ in range(5)))
            found: set[tuple[int, int]] = set()
            async with asyncio.timeout(SECONDS_MAX):
                while len(found) < 501:
                    for batch in await asyncio.gather(
                        *(client.getmany(timeout_ms=100) for client in clients)
                    ):
                        for messages in batch.values():
                            found |= {(one.partition, one.offset) for one in messages}
        finally:
            await asyncio.gather(*(client.stop() for client in clients))

    asyncio.run(scenario())
