"""A consumer: messages one by one, fetched ahead within bounds, and given back when it closes."""

import asyncio
from random import Random

import pytest

from penstock import Batching, Client, ClientSettings, Guarantee
from penstock.core.errors import ClientClosed
from penstock.testing.clock import ManualClock
from tests.unit.client.memory_play import play

pytestmark = pytest.mark.slow


def test_messages_come_one_by_one() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders", codec=str)
        await queue.create(partitions=3)
        await queue.send_many([f"{number}" for number in range(500)])
        seen: set[str] = set()
        async with queue.consume() as consumer:
            async for message in consumer:
                seen.add(message.body)
                assert await message.ack()
                if len(seen) == 500:
                    break
        assert (await queue.stats()).acked == 500

    play(scene)


def test_a_queue_can_be_iterated_itself() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders", codec=str)
        await queue.create(partitions=1)
        await queue.send_many(["a", "b", "c"])
        seen: list[str] = []
        async for message in queue:
            seen.append(message.body)
            await message.ack()
            if message.body == "c":
                break
        assert seen == ["a", "b", "c"]

    play(scene)


def test_what_was_fetched_and_not_handed_out_goes_back_uncounted() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders", codec=str)
        await queue.create(partitions=1)
        await queue.send_many([f"{number}" for number in range(50)])
        async with queue.consume(prefetch=50) as consumer:
            message = await anext(aiter(consumer))
            assert message.body == "0"
            await message.ack()
        stats = await queue.stats()
        assert (stats.ready, stats.leased) == (49, 0)
        messages = await queue.receive(100)
        assert [message.body for message in messages] == [f"{number}" for number in range(1, 50)]
        assert {message.deliveries for message in messages} == {1}

    play(scene)


def test_a_client_that_closes_gives_back_what_its_consumers_have() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders", codec=str)
        await queue.create(partitions=1)
        await queue.send_many(["x"] * 20)
        consumer = queue.consume(prefetch=20)
        await consumer.__aenter__()
        (message,) = await consumer.receive(1, wait=60)
        await client.close()
        with pytest.raises(ClientClosed):
            await client.receive("orders")
        with pytest.raises(ClientClosed):
            await message.ack()

    play(scene)


def test_no_more_is_fetched_ahead_than_was_said() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders", codec=str)
        await queue.create(partitions=2)
        await queue.send_many(["x"] * 1_000)
        async with queue.consume(prefetch=30) as consumer:
            for _ in range(20):
                assert len(await consumer.receive(1, wait=60)) == 1
                assert (await queue.stats()).leased <= 20 + 30

    play(scene)


def test_no_more_bytes_are_fetched_ahead_than_there_is_room_for() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders", codec=bytes)
        await queue.create(partitions=1)
        await queue.send_many([Random(number).randbytes(10_000) for number in range(100)])
        async with queue.consume(prefetch=100) as consumer:
            (message,) = await consumer.receive(1, wait=60)
            for _ in range(100):
                await asyncio.sleep(0)
            assert (await queue.stats()).leased < 50
            seen = 1
            await message.ack()
            while seen < 100:
                messages = await consumer.receive(10, wait=60)
                seen += len(messages)
                await queue.ack(messages)

    settings = ClientSettings(
        prefetch_bytes_max=100_000, receive_bytes_max=50_000, batching=Batching(bytes_max=20_000)
    )
    play(scene, settings=settings)


def test_at_most_once_is_acked_before_it_is_handed_out() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("metrics", codec=str)
        await queue.create(partitions=1)
        await queue.send_many(["a", "b", "c"])
        async with queue.consume(guarantee=Guarantee.AT_MOST_ONCE, prefetch=10) as consumer:
            (message,) = await consumer.receive(1, wait=60)
            assert message.settled
        clock.advance(seconds=3_600)
        bodies = [message.body for message in await queue.receive(10)]
        assert "a" not in bodies

    play(scene)


def test_a_consumer_that_waits_can_be_cancelled() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders", codec=str)
        await queue.create(partitions=1)
        async with queue.consume() as consumer:
            waiting = asyncio.create_task(consumer.receive(1, wait=60))
            for _ in range(10):
                await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await queue.send("x")
            (message,) = await consumer.receive(1, wait=60)
            assert (message.body, message.deliveries) == ("x", 1)

    play(scene)


def test_an_exception_in_the_loop_gives_back_the_rest() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders", codec=str)
        await queue.create(partitions=1)
        await queue.send_many(["a", "b", "c"])

        async def fail() -> None:
            async with queue.consume() as consumer:
                async for message in consumer:
                    await message.ack()
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        stats = await queue.stats()
        assert (stats.ready, stats.leased, stats.acked) == (2, 0, 1)

    play(scene)


def test_back_pressure_bounds_what_waits_to_be_sent() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=2)
        sends = [asyncio.create_task(client.send("orders", bytes(20_000))) for _ in range(200)]
        most = 0
        while not all(send.done() for send in sends):
            most = max(most, client.statistics().waiting_bytes)
            await asyncio.sleep(0)
        await asyncio.gather(*sends)
        assert 0 < most <= 150_000
        await client.send("orders", bytes(500_000))  # Larger than all the room: it goes alone.

    play(scene, settings=ClientSettings(buffer_bytes_max=100_000))


def test_a_paused_consumer_takes_nothing_until_it_goes_on() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders", codec=str)
        await queue.create(partitions=1)
        async with queue.consume(prefetch=10) as consumer:
            assert await consumer.receive(1, wait=0) == []  # It waits at the broker by now.
            await consumer.pause()
            await queue.send_many(["a", "b"])
            assert (await queue.stats()).ready == 2
            assert await consumer.receive(1, wait=0) == []
            consumer.resume()
            (message,) = await consumer.receive(1, wait=60)
            assert (message.body, message.deliveries) == ("a", 1)
            await consumer.pause()
            assert (await queue.stats()).leased == 1, "what was not handed out is back"

    play(scene)


def test_what_nobody_has_looked_at_goes_back_uncounted() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders", codec=str)
        await queue.create(partitions=1)
        await queue.send_many(["a", "b"])
        assert await queue.give_back(await queue.receive(2)) == 2
        assert [one.deliveries for one in await queue.receive(2)] == [1, 1]

    play(scene)
