"""Leasing for native clients: in stored batches, or in small ones where few are wanted."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import NoReturn

import pytest

from penstock.client.client import Client
from penstock.client.connection.channel import Buffer
from penstock.client.connection.urls import Memory
from penstock.client.queue import Queue
from penstock.client.settings import ClientSettings
from penstock.core.message_batches import iter_batches, read_messages
from penstock.core.records import read_header
from penstock.core.types import Offset, ProducerId
from penstock.embedded.channel import EmbeddedChannel
from penstock.engine.topics.topics import Acks
from penstock.wire.requests import ReceiveRequest, ReceiveResponse
from tests.batches import build_batch
from tests.unit.engine.linked import until

ROUNDS = 10
Scene = Callable[[Client, EmbeddedChannel], Awaitable[None]]


def play(scene: Scene) -> None:
    async def whole() -> None:
        channel = await EmbeddedChannel.open(Memory(""))

        async def opened() -> EmbeddedChannel:
            return channel

        async with Client(opened, url="memory:", settings=ClientSettings()) as client:
            await scene(client, channel)

    asyncio.run(whole())


async def take(
    client: Client,
    channel: EmbeddedChannel,
    count: int,
    *,
    bytes_max: int = 1 << 24,
    wait_ms: int = 0,
) -> tuple[ReceiveResponse, Buffer]:
    topic = await client.describe_topic("orders")
    request = ReceiveRequest(bytes.fromhex(topic.id), "queue", count, bytes_max, wait_ms=wait_ms)
    answer, payload = await channel.ask(None, request, timeout=60)
    assert isinstance(answer, ReceiveResponse)
    return answer, payload


def offsets_in(payload: Buffer) -> list[int]:
    return [one.offset for batch in iter_batches(payload) for one in read_messages(batch)]


def leased(taken: ReceiveResponse) -> list[int]:
    return [
        offset
        for part in taken.parts
        for first, end, _, _ in part.runs
        for offset in range(first, end)
    ]


def test_many_come_in_the_batch_they_are_stored_in() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        await client.send_many("orders", [b"x" * 10] * 1_000)
        taken, payload = await take(client, channel, 1_000)
        assert leased(taken) == offsets_in(payload) == list(range(1_000))
        assert len(list(iter_batches(payload))) == 1
        topic = client.topic("orders")
        assert [record.offset async for record in topic.read()] == list(range(1_000))

    play(scene)


def test_a_part_of_a_batch_is_cut_out_of_it() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        await client.send_many("orders", [b"x" * 10] * 1_000)
        for start in (0, 600):
            end = min(start + 600, 1_000)
            taken, payload = await take(client, channel, 600)
            assert leased(taken) == offsets_in(payload) == list(range(start, end))

    play(scene)


def test_a_compressed_batch_is_sent_whole_unless_little_is_wanted() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        await client.send_many("orders", [b"x" * 2_000] * 200)
        taken, payload = await take(client, channel, 100)
        assert leased(taken) == list(range(100))
        assert offsets_in(payload) == list(range(200))
        taken, payload = await take(client, channel, 20)
        assert leased(taken) == offsets_in(payload) == list(range(100, 120))

    play(scene)


def test_few_out_of_a_large_batch_come_in_a_small_one() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        await client.send_many("orders", [b"%0100d" % number for number in range(5_000)])
        for start in (0, 3, 6):
            taken, payload = await take(client, channel, 3)
            assert leased(taken) == offsets_in(payload) == list(range(start, start + 3))
            assert len(payload) < 500
        taken, payload = await take(client, channel, 100)
        assert leased(taken) == offsets_in(payload) == list(range(9, 109))

    play(scene)


def test_a_batch_larger_than_the_answer_may_be_comes_in_several() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        await client.send_many("orders", [Random(n).randbytes(10_000) for n in range(90)])
        seen: list[int] = []
        while len(seen) < 90:
            taken, payload = await take(client, channel, 90, bytes_max=100_000)
            assert len(leased(taken)) <= 10
            assert len(payload) <= 150_000
            seen += leased(taken)
        assert seen == list(range(90))

    play(scene)


def test_small_batches_say_what_the_stored_one_says() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        bodies = [f"order {number}" for number in range(200)]
        await client.send_many("orders", bodies, headers={"who": "me"}, key="k")
        _, payload = await take(client, channel, 2)
        (batch,) = iter_batches(payload)
        first, second = read_messages(batch)
        assert (first.value, first.key, first.header("who")) == (b"order 0", b"k", b"me")
        assert second.offset == read_header(batch).base_offset + 1
        assert first.timestamp_ms > 0

    play(scene)


def test_partitions_take_turns() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders", partitions=3)
        queue = client.queue("orders")
        for partition in range(3):
            await queue.send_many([b"x"] * 10, partition=partition)
        firsts = set()
        for _ in range(3):
            taken, _ = await take(client, channel, 5)
            firsts.add(taken.parts[0].index)
        assert firsts == {0, 1, 2}

    play(scene)


def test_who_asks_for_nothing_gets_nothing() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        await client.send("orders", "x")
        for count in (0, -5):
            taken, payload = await take(client, channel, count)
            assert (taken.parts, bytes(payload)) == ((), b"")
        assert (await client.queue("orders").stats()).ready == 1

    play(scene)


def test_hundreds_who_wait_get_one_message_each() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        waiting = [asyncio.create_task(client.receive("orders", wait=30)) for _ in range(100)]
        await client.send_many("orders", [b"%d" % number for number in range(100)])
        received = [message for messages in await asyncio.gather(*waiting) for message in messages]
        assert sorted(int(message.raw) for message in received) == list(range(100))

    play(scene)


def test_a_lease_is_written_with_the_message_it_waits_for() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        queue: Queue[bytes] = client.queue("orders", codec=bytes)
        await queue.receive(wait=0)  # Opens the work group.
        engine = channel.engine.node.engine
        topic = engine.topics.topic("orders")
        shard = engine.topics.led_shard(topic.partitions[0])
        commits = shard.replica.commit_times.spans.histogram
        together = 0
        for _ in range(ROUNDS):
            receiving = asyncio.create_task(queue.receive(10, wait=30))
            await until(lambda: engine.topics.waiting.watches(topic.partitions[0]))
            before = commits.statistics().count
            await queue.send(b"x")
            (message,) = await receiving
            assert message.raw == b"x"
            together += commits.statistics().count == before + 1
            await queue.ack([message])
        # In some rounds the node writes something of its own, or the receiver just looks around.
        assert together > ROUNDS // 2

    play(scene)


def test_who_comes_while_a_message_is_being_written_asks_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        await client.receive("orders", wait=0)  # Opens the work group.
        engine = channel.engine.node.engine
        topic = engine.topics.topic("orders")
        monkeypatch.setattr(engine.topics, "watch", nobody_waits)
        for offset in range(3):
            written = engine.topics.produce(topic, 0, build_batch(1), Acks.ALL)
            taken, payload = await take(client, channel, 10, wait_ms=30_000)
            assert leased(taken) == offsets_in(payload) == [offset]
            assert (await written).base_offset == offset

    def nobody_waits(*_: object) -> NoReturn:
        raise AssertionError("the message is on its way")

    play(scene)


def test_of_two_who_come_while_one_message_is_being_written_one_gets_it() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        await client.receive("orders", wait=0)
        engine = channel.engine.node.engine
        topic = engine.topics.topic("orders")
        engine.topics.produce(topic, 0, build_batch(1), Acks.ALL)
        first = asyncio.create_task(take(client, channel, 10, wait_ms=30_000))
        second = asyncio.create_task(take(client, channel, 10, wait_ms=30_000))
        assert leased((await first)[0]) == [0]
        assert not second.done()
        await engine.topics.produce(topic, 0, build_batch(1), Acks.ALL)
        assert leased((await second)[0]) == [1]

    play(scene)


def test_messages_for_later_are_asked_for_once_and_then_left_alone() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        await client.receive("orders", wait=0)
        engine = channel.engine.node.engine
        shard = engine.topics.led_shard(engine.topics.topic("orders").partitions[0])
        taking = asyncio.create_task(take(client, channel, 10, wait_ms=30_000))
        entries = []
        for _ in range(4):
            await until(
                lambda: engine.topics.waiting.watches(engine.topics.topic("orders").partitions[0])
            )
            before = shard.replica.raft.last_index
            await client.queue("orders").send(b"x", delay=3_600)
            await until(lambda: shard.replica.applied_index == shard.replica.raft.last_index)
            entries.append(shard.replica.raft.last_index - before)
        assert entries == [2, 1, 1, 1], "a message and a lease, and then messages alone"
        await client.queue("orders").send(b"now")
        taken, payload = await taking
        assert leased(taken) == offsets_in(payload) == [4]

    play(scene)


def test_who_leaves_while_a_message_is_being_written_leaves_it_to_others() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        queue: Queue[bytes] = client.queue("orders", codec=bytes)
        await queue.receive(wait=0)
        engine = channel.engine.node.engine
        topic = engine.topics.topic("orders")
        for turns in range(12):
            receiving = asyncio.create_task(queue.receive(10, wait=30))
            await until(lambda: engine.topics.waiting.watches(topic.partitions[0]))
            sending = asyncio.create_task(queue.send(b"x"))
            for _ in range(turns):
                await asyncio.sleep(0)
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
            await sending
            received = [] if receiving.cancelled() else receiving.result()
            left = received or await queue.receive(10, wait=30)
            assert [message.raw for message in left] == [b"x"]
            await queue.ack(left)

    play(scene)


def test_what_is_sent_with_a_lease_of_a_whole_batch_is_what_was_stored() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        await client.receive("orders", wait=0)  # Opens the work group.
        engine = channel.engine.node.engine
        topic = engine.topics.topic("orders")
        for base, count in ((0, 1), (1, 40), (41, 3)):
            taking = asyncio.create_task(take(client, channel, 100, wait_ms=30_000))
            await until(lambda: engine.topics.waiting.watches(topic.partitions[0]))
            await client.send_many("orders", [b"x" * 10] * count)
            taken, payload = await taking
            assert leased(taken) == list(range(base, base + count))
            assert bytes(payload) == engine.topics.read(topic, 0, Offset(base), 1)

    play(scene)


def test_who_waits_for_fewer_than_are_written_gets_no_more() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        await client.receive("orders", wait=0)
        engine = channel.engine.node.engine
        topic = engine.topics.topic("orders")
        taking = asyncio.create_task(take(client, channel, 2, wait_ms=30_000))
        await until(lambda: engine.topics.waiting.watches(topic.partitions[0]))
        await client.send_many("orders", [b"x"] * 5)
        taken, payload = await taking
        assert leased(taken) == offsets_in(payload) == [0, 1]
        assert (await client.queue("orders").stats()).ready == 3

    play(scene)


def test_a_batch_that_is_known_already_calls_nobody() -> None:
    async def scene(client: Client, channel: EmbeddedChannel) -> None:
        await client.create_queue("orders")
        await client.receive("orders", wait=0)
        engine = channel.engine.node.engine
        topic = engine.topics.topic("orders")
        first = build_batch(producer_id=ProducerId(7), epoch=0, sequence=0)
        again = bytearray(first)
        await engine.topics.produce(topic, 0, first, Acks.ALL)
        asked: list[int] = []
        watch = engine.topics.watch(topic.partitions, lambda: None)
        watch.pre_acquire = lambda _partition, messages, _batch: asked.append(messages)
        produced = await engine.topics.produce(topic, 0, again, Acks.ALL)
        assert produced.base_offset == 0
        assert asked == []
        await engine.topics.produce(topic, 0, build_batch(2), Acks.ALL)
        assert asked == [2]
        watch.cancel()

    play(scene)
