"""Fan-out: each group gets every message, and the message is stored once."""

import asyncio

import pytest

from penstock.client.client import Client
from penstock.client.descriptions import GroupSetting
from penstock.client.queue import Queue
from penstock.core.errors import InvalidRequest
from penstock.patterns.fan_out import FanOut, copy_to
from tests.unit.patterns.runs import on_memory


@on_memory
async def test_every_group_gets_every_message(client: Client) -> None:
    orders = FanOut[int](client, "orders", groups=["billing", "mailing", "search"], codec=int)
    await orders.open()
    for number in range(5):
        await orders.send(number)
    await orders.open()  # Another process does so, too; nothing is leased by it.
    for group in orders.groups:
        messages = await orders.queue(group).receive(10)
        assert [message.body for message in messages] == list(range(5))
        assert {message.deliveries for message in messages} == {1}
        if group != "search":
            await orders.queue(group).ack(messages)
    described = await client.describe_topic("orders")
    assert sum(part.end for part in described.partitions) == 5, "there is one copy of each"


@on_memory
async def test_a_slow_group_holds_up_nobody(client: Client) -> None:
    orders = FanOut[int](client, "orders", groups=["fast", "slow"], codec=int)
    await orders.open()
    await orders.send(1)
    [slow] = await orders.queue("slow").receive()
    for number in range(2, 5):
        await orders.send(number)
    fast = await orders.queue("fast").receive(10)
    assert [message.body for message in fast] == [1, 2, 3, 4]
    await orders.queue("fast").ack(fast)
    assert (await orders.queue("fast").stats()).depth == 0
    assert await slow.release()
    assert (await orders.queue("slow").stats()).depth == 4


@on_memory
async def test_copies_sent_again_are_dropped(client: Client) -> None:
    for name in ("a", "b"):
        await client.create_queue(name, deduplication="id")
    await copy_to(client, ["a"], 7, dedup_id="order 7")  # It died after the first.
    sent = await copy_to(client, ["a", "b"], 7, dedup_id="order 7")
    assert [one.duplicate for one in sent] == [True, False]
    for name in ("a", "b"):
        assert [message.body for message in await client.receive(name, 10)] == [7]


@on_memory
async def test_a_copy_that_fails_is_told_of(client: Client) -> None:
    with pytest.raises(InvalidRequest):
        await copy_to(client, ["fine", ""], 7, dedup_id="x")


@on_memory
async def test_groups_have_names(client: Client) -> None:
    with pytest.raises(InvalidRequest, match="groups"):
        FanOut[int](client, "orders", groups=["a", "a"])
    with pytest.raises(InvalidRequest, match="none of"):
        FanOut[int](client, "orders", groups=["a"]).queue("b")


@on_memory
async def test_a_group_begins_behind_what_was_sent_before_it_was_opened(client: Client) -> None:
    await client.create_queue("orders")
    await client.send("orders", 1)
    orders = FanOut[int](client, "orders", groups=["billing", "mailing"], codec=int)
    await orders.open()
    await orders.send(2)
    await orders.open()
    for group in orders.groups:
        (message,) = await orders.queue(group).receive(10)
        assert (message.body, message.deliveries) == (2, 1)


@on_memory
async def test_groups_go_by_the_queue_or_have_their_own_settings(client: Client) -> None:
    orders = FanOut[int](
        client, "orders", groups={"billing": {}, "mailing": {"deliveries_max": 9}}, codec=int
    )
    await orders.open(deliveries_max=3, dead_letter="orders-dead", lease=7)
    billing = await orders.queue("billing").group_settings()
    mailing = await orders.queue("mailing").group_settings()
    assert billing["queue.deliveries.max"] == GroupSetting("3", "queue")
    assert mailing["queue.deliveries.max"] == GroupSetting("9", "own")
    assert not mailing["queue.deliveries.max"].inherited
    assert mailing["queue.lease.ms"] == GroupSetting("7000", "queue")
    assert mailing["queue.dead.letter.topic"] == GroupSetting("orders-dead", "queue")
    await orders.send(7)
    for number in range(9):
        (message,) = await orders.queue("mailing").receive()
        assert message.deliveries == number + 1
        await message.release(0)
    await _moved(orders.queue("mailing"))
    (letter,) = await client.queue("orders-dead", codec=int).peek()
    assert letter.dead_letter is not None
    assert (letter.body, letter.dead_letter.group, letter.dead_letter.deliveries) == (
        7, "mailing", 9,
    )  # fmt: skip
    assert (await orders.queue("billing").stats()).depth == 1


async def _moved(queue: Queue[int]) -> None:
    """Return when a message of a group is in the dead-letter queue."""
    while True:
        if (await queue.stats()).moved:
            return
        await asyncio.sleep(0)
