"""What an operator does to a queue, from Python: cancel, pause, reset, revive, discard, redrive."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from penstock import Client
from penstock.client.descriptions import from_milliseconds
from penstock.core.errors import InvalidReceipt, InvalidRequest, UnknownTopic, UnknownWork
from penstock.testing.clock import ManualClock
from tests.unit.client.memory_play import play

pytestmark = pytest.mark.slow

KEEP = {"queue.delete.acked": "false"}


def test_a_scheduled_message_is_cancelled() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders")
        first = await queue.send("a", delay=60)
        second = await queue.send("b", delay=60)
        await queue.send("c", delay=60)
        assert await queue.cancel(first) == 1
        assert await queue.cancel(first) == 0
        assert await queue.cancel([second, (0, 999)]) == 1
        clock.advance(seconds=61)
        (left,) = await queue.receive(10)
        assert left.body == "c"
        assert await queue.cancel([(0, left.offset)]) == 0, "it is leased"
        with pytest.raises(InvalidRequest, match="is in orders, not in others"):
            await client.queue("others").cancel(first)
        with pytest.raises(InvalidRequest, match="no message at 7:0"):
            await queue.cancel((7, 0))

    play(scene)


def test_a_queue_that_is_paused_delivers_nothing_and_takes_messages() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders")
        await queue.send("a")
        await queue.pause()
        await queue.send("b")
        assert await queue.receive(10) == []
        await queue.resume()
        assert [one.body for one in await queue.receive(10, wait=60)] == ["a", "b"]

    play(scene)


def test_a_work_group_goes_on_from_elsewhere() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders", codec=int)
        await queue.create(partitions=1, settings=KEEP)
        await queue.send_many(range(4))
        noon = from_milliseconds(clock.wall_ms())
        clock.advance(seconds=3600)
        await queue.send(4)
        assert await queue.ack(await queue.receive(5)) == 5
        (change,) = await queue.reset("earliest", dry_run=True)
        assert (change.before, change.after) == (5, 0)
        assert await queue.receive(5) == []
        await queue.reset("earliest")
        assert [one.body for one in await queue.receive(5, wait=60)] == [0, 1, 2, 3, 4]
        await queue.reset(noon + timedelta(minutes=1))
        assert [one.body for one in await queue.receive(5, wait=60)] == [4]
        await queue.reset({0: 3})
        assert [one.body for one in await queue.receive(5, wait=60)] == [3, 4]
        await queue.reset("latest")
        assert await queue.receive(5) == []
        with pytest.raises(UnknownWork):
            await client.queue("orders", group="nobody").reset()
        with pytest.raises(UnknownTopic):
            await client.queue("nothing").reset()

    play(scene)


def test_dead_messages_that_stayed_are_revived_or_discarded_by_what_they_are() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders", codec=str)
        await queue.create(dead_letter="")
        await queue.send_many(["a", "b", "c", "d"], key="customer-7")
        for message in await queue.receive(4):
            await message.reject("timeout" if message.body in "ab" else "broken")
        assert await queue.revive(reason="timeout", dry_run=True) == 2
        assert await queue.revive(places=[]) == 0
        assert await queue.revive(body="a") == 1
        (message,) = await queue.receive(4, wait=60)
        assert message.body == "a"
        assert await queue.discard(reason="broken", key="customer-7") == 2
        assert int(await queue.redrive(reason="time")) == 1
        assert (await queue.stats()).dead == 0
        with pytest.raises(InvalidRequest, match="header_value means nothing without header"):
            await queue.revive(header_value="x")

    play(scene)


def test_a_redrive_takes_what_the_conditions_hold_for() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders")
        letters = client.queue("orders-dlq", codec=str)
        for body, reason in (("a", "timeout"), ("b", "broken"), ("c", "timeout")):
            await client.send("orders", body)
            (message,) = await client.receive("orders")
            await message.reject(reason)
            clock.advance(seconds=60)
        while True:
            found = await letters.peek()
            if len(found) == 3:
                break
            await asyncio.sleep(0)
        died = {one.body: one.dead_letter for one in found}
        assert died["c"] is not None
        assert died["c"].died_at is not None
        late = died["c"].died_at
        assert int(await letters.redrive(reason="timeout", dry_run=True)) == 2
        assert int(await letters.redrive(since=late, dry_run=True)) == 1
        assert int(await letters.redrive(until=late, origin="orders", dry_run=True)) == 2
        assert int(await letters.redrive(ids=[], dry_run=True)) == 0
        assert int(await letters.redrive(group="others", dry_run=True)) == 0
        redriven = await letters.redrive(reason="timeout", until=late)
        (back,) = await client.receive("orders", 10, wait=60)
        assert back.body == "a"
        while True:
            if (await redriven.progress()).state != "running":
                break
            await asyncio.sleep(0)
        (move,) = await letters.moves()
        assert (move.id, move.moved, move.to) == (redriven.move_id, 1, "")
        assert move.started_at is not None

    play(scene)


def test_a_received_dead_letter_tells_its_origin_its_time_and_its_deliveries() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        sent = await client.send("orders", "x")
        (message,) = await client.receive("orders")
        assert message.dead_letter is None
        await message.reject("no address")
        (letter,) = await client.receive("orders-dlq", wait=60)
        died = letter.dead_letter
        assert died is not None
        assert (died.queue, died.partition, died.offset) == ("orders", 0, sent.offset)
        assert (died.group, died.reason, died.deliveries) == ("queue", "no address", 1)
        assert died.died_at == datetime.fromtimestamp(clock.wall_ms() / 1_000, UTC)
        assert letter.id == sent.id

    play(scene)


def test_a_receipt_settles_from_elsewhere() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders")
        await queue.send_many(["a", "b", "c", "d"])
        receipts = [one.receipt for one in await queue.receive(4)]
        elsewhere = client.queue("orders", group="any")
        assert await elsewhere.ack(receipts[0]) == 1
        assert await elsewhere.ack([receipts[0], receipts[1]]) == 1
        assert await elsewhere.extend(receipts[2], 90) == 1
        assert await elsewhere.release(receipts[3], delay=0) == 1
        clock.advance(seconds=31)
        assert await elsewhere.ack(receipts[2]) == 1
        (again,) = await queue.receive(1)
        assert (again.body, again.deliveries) == ("d", 2)
        assert await elsewhere.ack(receipts[3]) == 0, "another receiver has it"
        for bad in ("", "lease-", "lease-%%%", "AQEB", receipts[0] + "x" * 3000):
            with pytest.raises(InvalidReceipt, match="a receipt is the text of"):
                await elsewhere.ack(bad)

    play(scene)
