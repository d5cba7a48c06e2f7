"""The log as it is stored: batches of a stretch, whatever becomes of the topic meanwhile."""

import asyncio

import pytest
from msgspec import structs

from penstock import Client
from penstock.client.reader.positions import TopicPartition
from penstock.client.reader.raw_log import RangeReader
from penstock.core.errors import OffsetOutOfRange, UnknownTopic, UnknownTopicId
from penstock.core.message_batches import iter_batches, read_messages
from penstock.core.types import EARLIEST, LATEST, Offset
from penstock.embedded.channel import EmbeddedChannel
from penstock.testing.clock import ManualClock
from penstock.wire.requests import TopicInfo
from tests.unit.client.memory_play import play

PART = TopicPartition("orders", 0)


async def offsets(reader: RangeReader) -> list[int]:
    found: list[int] = []
    while (data := await reader.next()) is not None:
        found += [one.offset for batch in iter_batches(data) for one in read_messages(batch)]
    return found


async def fill(client: Client, batches: int, size: int = 10) -> None:
    await client.create_topic("orders", partitions=1, exist_ok=True)
    for _ in range(batches):
        await client.topic("orders", codec=bytes).send_many([b"x"] * size)


def test_whole_batches_of_a_stretch_come_in_order() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await fill(client, 5)
        log = client.raw_log()
        assert await log.find_offsets({PART: LATEST}) == {PART: 50}
        assert await offsets(log.read(PART, 0, 50, bytes_max=1)) == list(range(50))
        assert await offsets(log.read(PART, 15, 25, bytes_max=1)) == list(range(10, 30))
        assert await offsets(log.read(PART, 50, 50)) == []
        (sight,) = (await log.watch("orders").look(log.deadline())).values()
        assert sight.partitions == 1

    play(scene)


def test_what_is_deleted_is_told_and_one_may_go_on() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await fill(client, 3)
        channel = client._core.channel
        assert isinstance(channel, EmbeddedChannel)
        engine = channel.engine.node.engine
        await engine.topics.trim(engine.topics.topic("orders"), 0, Offset(20))
        log = client.raw_log()
        reader = log.read(PART, 5, 30)
        with pytest.raises(OffsetOutOfRange):
            await reader.next()
        assert reader.position == 5
        await reader.move((await log.find_offsets({PART: EARLIEST}))[PART])
        assert await offsets(reader) == list(range(20, 30))

    play(scene)


def test_another_topic_of_the_same_name_is_another_one() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await fill(client, 1)
        log = client.raw_log()
        (old,) = (await log.watch("orders").look(log.deadline())).values()
        await client.delete_topic("orders")
        with pytest.raises(UnknownTopic):
            await log.read(PART, 0, 10, topic_id=old.topic_id).next()
        await fill(client, 2)
        (new,) = (await log.watch("orders").look(log.deadline())).values()
        with pytest.raises(UnknownTopicId):
            await log.read(PART, 0, 10, topic_id=old.topic_id, timeout=60).next()
        # What this client has known since before is looked up anew.
        client._core.metadata.note(await stale(client, old.topic_id))
        assert await offsets(log.read(PART, 0, 20, topic_id=new.topic_id)) == list(range(20))

    async def stale(client: Client, topic_id: bytes) -> TopicInfo:
        info = await client._core.router.find("orders", "", client.raw_log().deadline())
        return structs.replace(info, topic_id=topic_id)

    play(scene)


def test_waiting_ends_with_a_message_or_with_the_time() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await fill(client, 1)
        log = client.raw_log()
        await log.wait_for_growth({PART: 10}, seconds=0.01)
        waiting = asyncio.create_task(log.wait_for_growth({PART: 10}, seconds=600))
        await fill(client, 1)
        await asyncio.wait_for(waiting, 30)
        await asyncio.wait_for(log.wait_for_growth({PART: 15}, seconds=600), 30)

    play(scene)
