"""What becomes of received messages: verdicts, leases that end, and what queues tell of it."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import Client, Message, QueueStats
from penstock.core.errors import InvalidRequest, LocalError, UnknownTopic
from penstock.testing.clock import ManualClock
from tests.unit.client.memory_play import play

pytestmark = pytest.mark.slow


def test_an_acked_message_is_gone() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.send("orders", "x")
        (message,) = await client.receive("orders")
        assert [message.settled, await message.ack(), message.settled] == [False, True, True]
        clock.advance(seconds=3_600)
        assert await client.receive("orders") == []
        stats = await client.queue("orders").stats()
        assert (stats.acked, stats.ready, stats.leased, stats.depth) == (1, 0, 0, 0)

    play(scene)


def test_a_released_message_comes_back_and_says_how_often_it_came() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.send("orders", "x")
        (message,) = await client.receive("orders")
        first = message.first_received_at
        assert await message.release() is True
        clock.advance(seconds=4)
        (message,) = await client.receive("orders")
        assert message.deliveries == 2
        assert message.first_received_at == first
        assert await message.release(delay=30) is True
        assert await client.receive("orders") == []
        clock.advance(seconds=31)
        (message,) = await client.receive("orders")
        assert message.deliveries == 3

    play(scene)


def test_a_rejected_message_goes_to_the_dead_with_its_reason() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", dead_letter="")
        await client.send("orders", "x")
        (message,) = await client.receive("orders")
        assert await message.reject("it has no address") is True
        assert await client.receive("orders") == []
        assert (await client.queue("orders").stats()).dead == 1
        (dead,) = await client.queue("orders").peek(states=["dead"])
        assert dead.reason == "it has no address"
        assert int(await client.queue("orders").redrive()) == 1
        (message,) = await client.receive("orders", wait=60)
        assert message.body == "x"

    play(scene)


def test_after_so_many_failures_a_message_is_dead() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", deliveries_max=2, retry="none", dead_letter="")
        await client.send("orders", "x")
        for _ in range(2):
            (message,) = await client.receive("orders")
            await message.release()
        assert await client.receive("orders") == []
        assert (await client.queue("orders").stats()).dead == 1

    play(scene)


async def _moved(client: Client) -> QueueStats:
    """A letter is buried in its queue a moment after it is in the dead-letter queue."""
    async with asyncio.timeout(60):
        while True:
            stats = await client.queue("orders").stats()
            if stats.moved:
                return stats
            await asyncio.sleep(0)


def test_dead_letters_go_to_their_queue() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("failed")
        await client.create_queue("orders", dead_letter="failed", deliveries_max=1)
        sent = await client.send("orders", "x", key="k")
        (message,) = await client.receive("orders")
        await message.reject("broken")
        (dead,) = await client.receive("failed", wait=60)
        assert (dead.body, dead.key, dead.id) == ("x", b"k", sent.id)
        stats = await _moved(client)
        assert (stats.dead, stats.dead_lettered, stats.depth) == (1, 1, 0)
        assert await dead.ack()
        stats = await client.queue("orders").stats()
        assert (stats.dead, stats.dead_lettered, stats.moved) == (0, 0, 1)

    play(scene)


def test_a_dead_letter_tells_how_it_died_and_is_redriven_by_its_place() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("failed")
        await client.create_queue("orders", dead_letter="failed", deliveries_max=1)
        for body in ("a", "b", "c"):
            await client.send("orders", body)
            (message,) = await client.receive("orders")
            await message.reject(f"{body} is broken")
        failed = client.queue("failed")
        taken: list[Message[Any]] = []
        while len(taken) < 3:
            taken += await failed.receive(3, wait=60)
        await failed.give_back(taken)
        letters = await failed.peek()
        died = {letter.body: letter.dead_letter for letter in letters}
        assert died["b"] is not None
        assert (died["b"].queue, died["b"].group) == ("orders", "queue")
        assert (died["b"].reason, died["b"].deliveries) == ("b is broken", 1)
        assert died["b"].died_at is not None
        chosen = [(one.partition, one.offset) for one in letters if one.body != "b"]
        assert int(await failed.redrive(places=chosen, dry_run=True)) == 2
        assert int(await failed.redrive(places=[])) == 0
        redriven = await failed.redrive(places=chosen)
        back: list[Message[Any]] = []
        while len(back) < 2:
            back += await client.receive("orders", 2, wait=60)
        assert sorted(message.body for message in back) == ["a", "c"]
        while (progress := await redriven.progress()).state == "running":
            await client.receive("orders", wait=0.05)
        assert (progress.state, progress.moved) == ("completed", 2)
        assert [letter.body for letter in await failed.peek()] == ["b"]

    play(scene)


def test_dead_messages_that_stayed_are_redriven_by_place() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", dead_letter="")
        queue = client.queue("orders")
        await client.send_many("orders", ["a", "b", "c"])
        for message in await queue.receive(3, wait=60):
            await message.reject("no")
        dead = await queue.peek(states=["dead"])
        chosen = [(one.partition, one.offset) for one in dead if one.body == "b"]
        assert int(await queue.redrive(places=chosen, dry_run=True)) == 1
        assert int(await queue.redrive(places=chosen)) == 1
        (message,) = await queue.receive(3, wait=60)
        assert message.body == "b"
        assert (await queue.stats()).dead == 2
        assert int(await queue.redrive()) == 2

    play(scene)


def test_a_lease_that_ended_counts_no_more() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", lease=30, retry="none")
        await client.send("orders", "x")
        (late,) = await client.receive("orders")
        assert 29 < late.lease_left <= 30
        clock.advance(seconds=31)
        assert late.lease_left == 0
        (new,) = await client.receive("orders")
        for verdict in (late.ack, late.release, late.reject, late.extend):
            assert await verdict() is False
        assert await new.ack() is True

    play(scene)


def test_an_extended_lease_lasts() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=1, lease=30)
        await client.send("orders", "x")
        (message,) = await client.receive("orders")
        before = message.lease_until
        clock.advance(seconds=20)
        assert await message.extend() is True
        assert message.lease_until == before + timedelta(seconds=20)
        assert await message.extend(60) is True
        clock.advance(seconds=50)
        assert await client.receive("orders") == []
        assert await message.ack() is True

    play(scene)


def test_a_lease_of_ones_own_length() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=1, lease=30)
        await client.send("orders", "x")
        (message,) = await client.receive("orders", lease=timedelta(minutes=5))
        now = datetime.fromtimestamp(clock.wall_ms() / 1_000, UTC)
        assert message.lease_until == now + timedelta(minutes=5)
        clock.advance(seconds=299)
        assert await message.ack() is True

    play(scene)


def test_many_are_settled_at_once_and_those_that_counted_are_counted() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=3, lease=30, dead_letter="")
        queue = client.queue("orders")
        await queue.send_many([b"%d" % number for number in range(300)])
        messages: list[Message[Any]] = []
        while len(messages) < 300:
            messages += await queue.receive(300)
        assert await queue.ack(messages[:100]) == 100
        assert await queue.release(messages[100:110], delay=100) == 10
        assert await queue.reject(messages[110:120], "no") == 10
        assert await queue.extend(messages[120:], 90) == 180
        clock.advance(seconds=31)
        assert await queue.ack(messages[120:]) == 180
        assert await queue.ack(messages[:100]) == 0
        assert await queue.ack([]) == 0
        stats = await queue.stats()
        assert (stats.acked, stats.dead, stats.delayed) == (280, 10, 10)

    play(scene)


def test_messages_may_come_from_any_iterable() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        queue = client.queue("orders")
        await queue.create()
        await queue.send_many([b"a", b"b", b"c", b"d"])
        first, *others = await queue.receive(4)
        last: Any = others.pop()
        several: Any = (message for message in others)
        assert await queue.ack(several) == 2
        mixed: Any = iter([first.receipt, last])
        assert await queue.ack(mixed) == 2

    play(scene)


def test_settling_twice_counts_once() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.send("orders", "x")
        (message,) = await client.receive("orders")
        assert [await message.ack(), await message.ack()] == [True, False]
        queue = client.queue("orders")
        await queue.send("y")
        (message,) = await queue.receive()
        assert await queue.ack([message, message]) == 1

    play(scene)


def test_a_receive_waits_for_what_is_sent_meanwhile() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=4)
        waiting = asyncio.create_task(client.receive("orders", 10, wait=30))
        for _ in range(10):
            await asyncio.sleep(0)
        await client.send("orders", "x")
        assert [message.body for message in await waiting] == ["x"]

    play(scene)


def test_a_receive_that_is_cancelled_takes_nothing_with_it() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=2)
        waiting = asyncio.create_task(client.receive("orders", 10, wait=30))
        for _ in range(10):
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await client.send("orders", "x")
        (message,) = await client.receive("orders", wait=60)
        assert message.deliveries == 1

    play(scene)


def test_a_receive_may_be_cancelled_at_any_moment() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders", codec=str)
        await queue.create(partitions=2, lease=600)
        for steps in range(60):
            await queue.send(f"{steps}")
            taking = asyncio.create_task(queue.receive(10, wait=30))
            for _ in range(steps):
                await asyncio.sleep(0)
            taking.cancel()
            try:
                messages = await taking
            except asyncio.CancelledError:
                messages = await queue.receive(10, wait=30)
            assert [message.body for message in messages] == [f"{steps}"]
            assert [message.deliveries for message in messages] == [1]
            assert await queue.ack(messages) == 1

    play(scene)


def test_groups_work_independently() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=1, settings={"queue.delete.acked": "false"})
        await client.send("orders", "x")
        for group in ("queue", "audit"):
            (message,) = await client.receive("orders", group=group, wait=60)
            assert message.group == group
            assert await message.ack()

    play(scene)


def test_peeking_changes_nothing() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=2)
        queue = client.queue("orders")
        await queue.send_many(["a", "b", "c"])
        for _ in range(3):
            assert sorted(one.body for one in await queue.peek()) == ["a", "b", "c"]
        messages: list[Message[Any]] = []
        while len(messages) < 3:
            messages += await queue.receive(3)
        assert {message.deliveries for message in messages} == {1}

    play(scene)


def test_a_purged_queue_is_empty() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders")
        await queue.send_many(["x"] * 10)
        assert await queue.purge() == 10
        assert await queue.receive() == []

    play(scene)


def test_a_deleted_queue_is_unknown() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders")
        queue = client.queue("orders")
        await queue.send("x")
        (message,) = await queue.receive()
        await queue.delete()
        with pytest.raises(UnknownTopic):
            await client.describe_queue("orders")
        assert await message.ack() is False

    play(scene)


@pytest.mark.parametrize("most", [0, -1])
def test_a_number_that_cannot_be_is_refused(most: int) -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        with pytest.raises(InvalidRequest):
            await client.receive("orders", most)

    play(scene)


def test_wishes_that_cannot_be_are_refused() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.send("orders", "x")
        with pytest.raises(LocalError):
            await client.receive("orders", wait=-1)
        with pytest.raises(LocalError):
            await client.receive("orders", lease=-1)
        with pytest.raises(LocalError):
            await client.receive("orders", lease=1e9)
        (message,) = await client.receive("orders")
        with pytest.raises(LocalError):
            await message.release(delay=-1)
        with pytest.raises(LocalError):
            await message.extend(-1)
        assert await message.ack()

    play(scene)
