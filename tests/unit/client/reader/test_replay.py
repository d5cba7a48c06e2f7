"""Replaying a topic: from where, up to where, and that it ends."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from penstock import Client, ClientSettings, Outgoing
from penstock.client.reader.positions import TopicPartition
from penstock.core.errors import OffsetOutOfRange, UnknownPartition, UnknownTopic
from penstock.core.types import Offset
from penstock.embedded.channel import EmbeddedChannel
from penstock.testing.clock import ManualClock
from tests.unit.client.memory_play import play


async def fill(client: Client, numbers: range, partition: int = 0) -> None:
    await client.topic("orders", codec=str).send_many(map(str, numbers), partition=partition)


async def trim(client: Client, before: int) -> None:
    """Delete what is before an offset, as retention does."""
    channel = client._core.channel
    assert isinstance(channel, EmbeddedChannel)
    engine = channel.engine.node.engine
    await engine.topics.trim(engine.topics.topic("orders"), 0, Offset(before))


def test_partitions_come_one_after_the_other_in_order() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=3)
        for index in (2, 0, 1):
            await fill(client, range(10 * index, 10 * index + 5), index)
        found = [(one.partition, one.offset, int(one.body)) async for one in client.read("orders")]
        assert found == [
            (index, offset, 10 * index + offset) for index in range(3) for offset in range(5)
        ]
        some = client.read("orders", partitions=[2, 0], start={0: 3, 2: 4}, codec=str)
        assert [one.body async for one in some] == ["3", "4", "24"]

    play(scene)


def test_it_ends_where_the_log_ended_when_it_began() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await fill(client, range(3))
        seen = []
        async for record in client.read("orders"):
            seen.append(record.offset)
            await fill(client, range(1))
        assert seen == [0, 1, 2]
        assert [one async for one in client.read("orders", start="latest")] == []

    play(scene)


def test_it_reads_between_two_times_or_two_offsets() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        begin = datetime.fromtimestamp(clock.wall_ms() / 1_000, UTC)
        times = [begin + timedelta(seconds=number) for number in range(10)]
        outgoing = [Outgoing(str(n), partition=1, timestamp=times[n]) for n in range(10)]
        await client.topic("orders", codec=str).send_many(outgoing)
        hours = [begin + timedelta(seconds=seconds) for seconds in (2, 6)]
        records = client.read("orders", start=hours[0], end=hours[1], codec=str)
        assert [one.body async for one in records] == ["2", "3", "4", "5"]
        records = client.read("orders", end={TopicPartition("orders", 1): 2}, codec=str)
        assert [one.body async for one in records] == ["0", "1"]
        records = client.read("orders", start={1: 8}, end={1: 100}, codec=str)
        assert [one.body async for one in records] == ["8", "9"]
        records = client.read("orders", start={1: 8}, end={1: 3}, codec=str)
        assert [one async for one in records] == []

    play(scene)


def test_a_large_topic_is_read_in_small_answers() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        for number in range(40):
            await fill(client, range(100 * number, 100 * (number + 1)))
        found = [int(one.body) async for one in client.read("orders", codec=str)]
        assert found == list(range(4_000))

    play(scene, settings=ClientSettings(receive_bytes_max=1_000))


def test_somebody_who_has_read_enough_stops() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        for number in range(40):
            await fill(client, range(100 * number, 100 * (number + 1)))
        records = client.read("orders")
        async for record in records:
            if record.offset == 150:
                break
        await records.aclose()  # type: ignore[attr-defined]
        assert "_PartitionReader" not in str(asyncio.all_tasks())

    play(scene, settings=ClientSettings(receive_bytes_max=1_000))


def test_what_is_deleted_meanwhile_is_left_out() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        for number in range(40):
            await fill(client, range(100 * number, 100 * (number + 1)))
        seen = []
        async for record in client.read("orders"):
            seen.append(record.offset)
            if record.offset == 50:
                await trim(client, 3_900)
        assert seen[:51] == list(range(51))
        assert seen[-100:] == list(range(3_900, 4_000))
        with pytest.raises(OffsetOutOfRange):
            _ = [one async for one in client.read("orders", start={0: 7})]

    play(scene, settings=ClientSettings(receive_bytes_max=1_000))


def test_what_is_not_there_is_told_of() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        with pytest.raises(UnknownTopic):
            _ = [one async for one in client.read("nowhere")]
        await client.create_topic("orders", partitions=1)
        with pytest.raises(UnknownPartition, match="partitions 0 to 0, not 1"):
            _ = [one async for one in client.read("orders", partitions=[0, 1])]
        assert [one async for one in client.read("orders")] == []

    play(scene)
