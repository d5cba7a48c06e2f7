"""Fan-out: each group gets every message, and the message is stored once."""

import pytest

from penstock.client.client import Client
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
