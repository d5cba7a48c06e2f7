"""Sends of many callers that share batches and room: none is harmed by another, nothing leaks."""

import asyncio

import pytest

from penstock import Batching, Client, ClientSettings
from penstock.core.errors import ClientClosed, LocalError, OutcomeUnknown, QueueFull
from penstock.testing.clock import ManualClock
from tests.unit.client.memory_play import play

pytestmark = pytest.mark.slow


def test_sends_side_by_side_keep_their_order_and_share_batches() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=1)
        sent = await asyncio.gather(*(client.send("orders", f"{n}") for n in range(500)))
        assert [one.offset for one in sent] == list(range(500))
        assert client.statistics().batches < 100

    play(scene)


def test_a_message_that_is_refused_does_not_take_others_with_it() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        topic = client.topic("accounts", codec=str)
        await topic.create(partitions=1, configs={"cleanup.policy": "compact"})
        await topic.send("first", key="k")
        outcomes = await asyncio.gather(
            *(topic.send(f"{n}", key=None if n == 25 else f"{n}") for n in range(50)),
            return_exceptions=True,
        )
        refused = [n for n, one in enumerate(outcomes) if isinstance(one, BaseException)]
        assert refused == [25]
        assert isinstance(outcomes[25], LocalError)
        bodies = [record.body async for record in topic.read()]
        assert bodies == ["first", *(f"{n}" for n in range(50) if n != 25)]

    play(scene)


def test_a_full_queue_refuses_what_is_too_much_and_says_so() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=1, length_max=10)
        await client.send_many("orders", ["x"] * 10)
        with pytest.raises(QueueFull):
            await client.send("orders", "y")
        await client.queue("orders").ack(await client.receive("orders", 5))
        await client.send("orders", "y")

    play(scene)


def test_more_than_there_is_room_for_goes_in_pieces() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=3)
        sent = await client.send_many("orders", [bytes(1_000)] * 3_000)
        assert len(sent) == 3_000
        assert client.statistics().waiting_bytes == 0

    settings = ClientSettings(buffer_bytes_max=100_000, batching=Batching(bytes_max=30_000))
    play(scene, settings=settings)


def test_a_send_that_is_cancelled_leaves_its_room() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=2)
        for steps in range(40):
            sends = [asyncio.create_task(client.send("orders", bytes(10_000))) for _ in range(20)]
            for _ in range(steps):
                await asyncio.sleep(0)
            for send in sends:
                send.cancel()
            await asyncio.gather(*sends, return_exceptions=True)
        await asyncio.gather(*(client.send("orders", bytes(10_000)) for _ in range(20)))
        assert client.statistics().waiting_bytes == 0

    play(scene, settings=ClientSettings(buffer_bytes_max=50_000))


def test_closing_sends_what_waits_to_be_sent() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=2)
        sends = [asyncio.create_task(client.send("orders", b"x")) for _ in range(100)]
        await asyncio.sleep(0)
        await client.close()
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        problems = [one for one in outcomes if isinstance(one, BaseException)]
        assert all(isinstance(one, ClientClosed | OutcomeUnknown) for one in problems), problems
        assert not problems

    play(scene)


def test_lingering_fills_batches() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=1)

        async def trickle(number: int) -> None:
            for _ in range(number):
                await asyncio.sleep(0)
            await client.send("orders", b"x")

        await asyncio.gather(*(trickle(number) for number in range(50)))
        assert client.statistics().batches < 10

    # Far longer than fifty turns of the loop take on a loaded machine.
    play(scene, settings=ClientSettings(batching=Batching(linger=0.5)))


def test_a_full_batch_does_not_linger() -> None:
    """Full by its messages, when they come at once and when they come one by one."""

    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=1)
        await asyncio.gather(*(client.send("orders", b"x") for _ in range(20)))
        assert client.statistics().batches == 2

        async def trickle(number: int) -> None:
            for _ in range(number):
                await asyncio.sleep(0)
            await client.send("orders", b"x")

        await asyncio.gather(*(trickle(number) for number in range(10)))
        assert client.statistics().batches == 3

    play(scene, settings=ClientSettings(batching=Batching(linger=3_600, messages_max=10)))


def test_a_batch_that_is_full_by_its_bytes_does_not_linger() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=1)
        body = b"x" * 960  # 1,000 bytes with what a record adds.
        await asyncio.gather(*(client.send("orders", body) for _ in range(10)))
        assert client.statistics().batches == 2

    play(scene, settings=ClientSettings(batching=Batching(linger=3_600, bytes_max=5_000)))


def test_closing_sends_what_lingers() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=1)
        sending = asyncio.create_task(client.send("orders", b"x"))
        await asyncio.sleep(0)
        await client.close()
        assert (await sending).offset == 0

    play(scene, settings=ClientSettings(batching=Batching(linger=3_600)))
