"""A queue that is made without a word about failures is safe; receiving makes none; and a queue
that is there with other settings says so."""

import pytest

from penstock import Client, ClientSettings
from penstock.core.errors import SettingsDiffer, TopicExists, UnknownTopic
from penstock.testing.clock import ManualClock
from tests.unit.client.memory_play import play

pytestmark = pytest.mark.slow

SAFE = {
    "queue.dead.letter.topic": "orders-dlq",
    "queue.deliveries.max": "5",
    "queue.retry.delay.ms": "2000",
    "queue.retry.policy": "jittered",
}


async def names(client: Client) -> list[str]:
    return [topic.name for topic in await client.topics() if topic.is_queue]


def test_a_queue_made_by_sending_is_safe_and_has_a_dead_letter_queue() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.send("orders", "x")
        assert SAFE.items() <= (await client.describe_queue("orders")).configs.items()
        assert await names(client) == ["orders", "orders-dlq"]
        letters = await client.describe_queue("orders-dlq")
        assert "queue.dead.letter.topic" not in letters.configs
        await client.send("images-dlq", "a dead-letter queue has none itself")
        assert await names(client) == ["images-dlq", "orders", "orders-dlq"]

    play(scene)


def test_a_message_that_always_fails_ends_in_the_dead_letter_queue() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.send("orders", "poison")
        waits = []
        for delivery in range(1, 6):
            found = await client.receive("orders")
            began = clock.wall_ms()
            while not found:
                clock.advance(seconds=0.5)
                found = await client.receive("orders")
            waits.append((clock.wall_ms() - began) / 1_000)
            (message,) = found
            assert message.deliveries == delivery
            await message.release()
        (letter,) = await client.receive("orders-dlq", wait=60)
        assert letter.body == "poison"
        assert waits[0] == 0
        for wait, (least, most) in zip(
            waits[1:], ((2, 4.5), (3, 8.5), (6, 16.5), (12, 32.5)), strict=True
        ):
            assert least <= wait <= most

    play(scene)


def test_create_makes_the_dead_letter_queue_that_it_names() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", dead_letter="failed", fifo=True)
        assert await names(client) == ["failed", "orders"]
        assert (await client.describe_queue("failed")).configs["queue.order"] == "fifo"
        await client.create_queue("free", deliveries_max=0, retry="none", dead_letter="")
        assert await names(client) == ["failed", "free", "orders"]

    play(scene)


def test_receiving_from_a_queue_that_is_not_there_says_so_and_makes_none() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.send("orders", "x")
        with pytest.raises(UnknownTopic, match="no queue odrers; did you mean orders.*create=True"):
            await client.receive("odrers", wait=60)
        with pytest.raises(UnknownTopic, match="there is no queue zzz; send something to it"):
            async with client.queue("zzz").consume() as messages:
                await messages.receive(wait=60)
        assert await names(client) == ["orders", "orders-dlq"]
        assert await client.receive("wanted", create=True) == []
        assert SAFE.keys() <= (await client.describe_queue("wanted")).configs.keys()

    play(scene)


def test_a_client_that_makes_nothing_receives_from_what_there_is() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        with pytest.raises(UnknownTopic):
            await client.receive("orders", create=True)
        await client.create_queue("orders")
        assert await client.receive("orders") == []

    play(scene, settings=ClientSettings(auto_create=False))


def test_a_queue_that_is_there_with_other_settings_is_not_silently_taken() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", lease=60, partitions=2)
        same = await client.create_queue("orders", lease=60, partitions=2, exist_ok=True)
        assert same.configs["queue.lease.ms"] == "60000"
        await client.create_queue("orders", partitions=1, exist_ok=True)
        with pytest.raises(SettingsDiffer) as refused:
            await client.create_queue("orders", lease=30, deduplication="id", exist_ok=True)
        assert "queue.deduplication is off, not id; queue.lease.ms is 60000, not 30000" in str(
            refused.value
        )
        assert "configure({'queue.deduplication': 'id', 'queue.lease.ms': '30000'})" in str(
            refused.value
        )
        with pytest.raises(SettingsDiffer, match=r"2 partitions, not 3: add_partitions\('orders"):
            await client.create_queue("orders", partitions=3, exist_ok=True)
        with pytest.raises(TopicExists):
            await client.create_queue("orders", lease=60)
        assert (await client.describe_queue("orders")).configs["queue.lease.ms"] == "60000"

    play(scene)


def test_a_queue_from_before_stays_as_it_is() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_topic("orders", configs={"queue.lease.ms": "5000"})
        await client.send("orders", "x")
        described = await client.create_queue("orders", exist_ok=True)
        assert described.configs == {"queue.lease.ms": "5000"}
        assert await names(client) == ["orders"]

    play(scene)
