"""Stages and publications from a client's side: in memory, over TCP, and without `await`."""

import asyncio
from collections.abc import Callable

import pytest

import penstock
from penstock import Client, Publication, Staged, blocking
from penstock.client.stage import UNDER_WAY_BYTES_MAX
from penstock.core.errors import (
    ClientClosed,
    InvalidBatch,
    InvalidBody,
    InvalidRequest,
    PublicationConflict,
    StagingExpired,
    UnknownPartition,
    UnknownTopic,
    UnknownTopicId,
)
from penstock.core.limits import PUBLICATION_RANGES_MAX
from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages
from penstock.testing.clock import ManualClock
from penstock.testing.server import PenstockServer
from penstock.wire.publish_requests import StagedPart
from tests.unit.client.memory_play import PATIENCE_SECONDS, Scene
from tests.unit.client.memory_play import play as play_in_memory

Play = Callable[[Scene], None]

pytestmark = pytest.mark.slow


def play_behind_tcp(scene: Scene) -> None:
    clock = ManualClock()

    async def whole(url: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async with penstock.connect(url, clock=clock) as client:
                await scene(client, clock)

    with PenstockServer(clock=clock) as broker:
        asyncio.run(whole(broker.url))


@pytest.fixture(params=[play_in_memory, play_behind_tcp], ids=["memory", "tcp"])
def play(request: pytest.FixtureRequest) -> Play:
    """Every scene is played in both places."""
    chosen: Play = request.param
    return chosen


async def bodies(client: Client, topic: str = "orders") -> list[object]:
    return sorted([record.body async for record in client.read(topic)], key=repr)


async def staged(client: Client, *given: object, topic: str = "orders") -> Staged:
    stage = client.open_stage()
    await stage.send_many(topic, given)
    return await stage.close()


def batch(value: bytes, count: int = 1) -> bytearray:
    return bytearray(build_messages([NewMessage(value)] * count, 1_700_000_000_000))


def test_published_is_seen_and_staged_is_not(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=3)
        stage = client.open_stage()
        await stage.send_many("orders", range(100))
        await stage.send_many("orders", [{"id": 7}], key="k", headers={"trace": "abc"})
        found = await stage.close()
        assert found.records == 101
        assert await bodies(client) == []
        assert await client.last_published("import") is None
        assert await client.publish("import", 3, [found]) == Publication("import", 3, True)
        assert await client.publish("import", 3, [found]) == Publication("import", 3, False)
        assert await client.last_published("import") == 3
        assert await bodies(client) == sorted([*range(100), {"id": 7}], key=repr)

    play(scene)


def test_stages_of_several_are_published_together_in_the_order_given(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await client.create_topic("bills", partitions=2)
        one, two = client.open_stage(), client.open_stage()
        for number in range(20):
            await one.append("orders", 0, batch(b"one %d" % number))
            await two.append("orders", 0, bytes(batch(b"two %d" % number)))
        await two.append("bills", 1, memoryview(batch(b"bill", 5)))
        second, first = await two.close(), await one.close()
        travelled = Staged.from_json(second.to_json())
        assert travelled == second
        assert travelled.records == 25
        await client.publish("import", 0, [first, travelled])
        found = [record.body async for record in client.read("orders", codec=bytes)]
        expected = [b"%s %d" % (who, n) for who in (b"one", b"two") for n in range(20)]
        assert found == expected
        assert len(await bodies(client, "bills")) == 5

    play(scene)


def test_queue_that_is_published_to_is_worked_off(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=2)
        found = await staged(client, *range(6))
        assert await client.receive("orders", 10, wait=0) == []
        await client.publish("import", 1, [found])
        messages = await client.receive("orders", 10, wait=60)
        assert sorted(one.body for one in messages) == list(range(6))

    play(scene)


def test_more_than_is_under_way_at_once(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        stage = client.open_stage()
        size = 1 << 19
        count = 2 * UNDER_WAY_BYTES_MAX // size
        for number in range(count):
            await stage.append("orders", number % 2, batch(b"%04d" % number * (size // 4)))
            assert stage._room.taken <= UNDER_WAY_BYTES_MAX
        await client.publish("import", 1, [await stage.close()])
        seen = [record.body[:4] async for record in client.read("orders", codec=bytes)]
        assert sorted(seen) == [b"%04d" % number for number in range(count)]

    play(scene)


def test_nothing_staged_is_a_batch_too(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        empty = await client.open_stage().close()
        assert empty == Staged()
        assert (await client.publish("import", 0, [empty])).is_new
        assert (await client.publish("import", 1, [])).is_new
        assert await client.last_published("import") == 1

    play(scene)


def test_owner(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.publish("import", 4, [], owner="ann")
        with pytest.raises(PublicationConflict, match="ann"):
            await client.publish("import", 0, [], owner="bob")

    play(scene)


def test_bad_names_and_numbers(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        for number in (-1, 1 << 63, 1.5, "3", None, True):
            with pytest.raises(InvalidRequest, match="numbered"):
                await client.publish("import", number, [])  # type: ignore[arg-type]
        for name in ("", "x" * 256):
            with pytest.raises(InvalidRequest, match="1 to 255 bytes"):
                await client.publish(name, 1, [])
            with pytest.raises(InvalidRequest, match="1 to 255 bytes"):
                await client.last_published(name)
        with pytest.raises(InvalidRequest, match="255"):
            await client.publish("import", 1, [], owner="x" * 256)
        assert await client.last_published("import") is None

    play(scene)


def test_bad_ranges(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=16)  # Some of them share a shard.
        stage = client.open_stage()
        for index in range(16):
            await stage.append("orders", index, batch(b"x", 4))
        good = await stage.close()
        here = [part for part in good.parts if part.staging == good.parts[0].staging]
        one, other = sorted(here, key=lambda part: part.ranges)[:2]
        ((first, end),), last = one.ranges, max(part.ranges[0][1] for part in here)

        async def refused(part: StagedPart, error: type[Exception], words: str) -> None:
            with pytest.raises(error, match=words):
                await client.publish("import", 1, [Staged((part, other))])
            assert await client.last_published("import") is None

        def changed(**changes: object) -> StagedPart:
            return StagedPart(**{**_fields(one), **changes})  # type: ignore[arg-type]

        await refused(changed(ranges=((first, end), (first, end))), InvalidRequest, "twice")
        await refused(changed(ranges=((first, end - 1),)), InvalidRequest, "begin and end")
        await refused(changed(ranges=((first + 2, end),)), InvalidRequest, "begin and end")
        await refused(changed(ranges=()), InvalidRequest, "nothing")
        await refused(changed(ranges=((end, end),)), InvalidRequest, "nothing")
        await refused(changed(ranges=((-4, end),)), InvalidRequest, "nothing")
        await refused(changed(ranges=other.ranges), InvalidRequest, "staged for another")
        await refused(changed(ranges=((first, last),)), InvalidRequest, "staged for another")
        await refused(changed(ranges=((last, last + 4),)), StagingExpired, "stage them again")
        await refused(changed(ranges=((0, 1 << 40),)), InvalidRequest, "publish fewer")
        many = tuple((2 * n, 2 * n + 1) for n in range(PUBLICATION_RANGES_MAX))
        await refused(changed(ranges=many), InvalidRequest, "50001 staged ranges")
        await refused(changed(partition=-1), InvalidRequest, "not a partition|cannot be in")
        await refused(changed(topic_id=bytes(16)), UnknownTopicId, "deleted")
        assert await bodies(client) == []
        assert (await client.publish("import", 1, [good])).is_new
        assert len(await bodies(client)) == 64

    play(scene)


def _fields(part: StagedPart) -> dict[str, object]:
    names = ("topic_id", "partition", "staging", "ranges")
    return {name: getattr(part, name) for name in names}


def test_what_cannot_be_staged(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)

        async def refused(
            error: type[Exception], topic: str, index: int, given: bytes | bytearray
        ) -> None:
            stage = client.open_stage()
            await stage.append(topic, index, given)
            with pytest.raises(error):
                await stage.close()
            with pytest.raises(ClientClosed):
                await stage.append("orders", 0, batch(b"x"))

        await refused(UnknownPartition, "orders", 2, batch(b"x"))
        await refused(UnknownTopic, "nowhere", 0, batch(b"x"))
        await refused(InvalidBatch, "orders", 0, b"no batch at all")
        stage = client.open_stage()
        with pytest.raises(InvalidRequest, match="numbered from 0"):
            await stage.append("orders", -1, batch(b"x"))
        with pytest.raises(InvalidBody):
            await stage.send_many("orders", [object()])
        assert await stage.close() == Staged()
        with pytest.raises(ClientClosed):
            await stage.append("orders", 0, batch(b"x"))

    play(scene)


def test_text_that_says_nothing_about_stages() -> None:
    for text in ("", "{}", '[["a"]]', "[1]"):
        with pytest.raises(InvalidRequest):
            Staged.from_json(text)


def test_stage_of_a_client_that_is_closed() -> None:
    async def scene() -> None:
        async with penstock.connect("memory:") as client:
            await client.create_topic("orders")
            stage = client.open_stage()
        await stage.append("orders", 0, batch(b"x"))
        with pytest.raises(ClientClosed):
            await stage.close()

    asyncio.run(scene())


def test_without_await() -> None:
    with blocking.connect("memory:") as client:
        client.create_topic("orders", partitions=2)
        stage = client.open_stage()
        stage.send_many("orders", ["a", "b"])
        stage.append("orders", 1, batch(b'"c"'))
        found = stage.close()
        assert found.records == 3
        assert client.last_published("import") is None
        assert client.publish("import", 2, [found], timeout=30) == Publication("import", 2, True)
        assert client.last_published("import") == 2
        with pytest.raises(PublicationConflict):
            client.publish("import", 2, [], owner="bob")
        assert len(list(client.read("orders"))) == 3
