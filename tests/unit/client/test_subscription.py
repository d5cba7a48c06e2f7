"""Reading a log without a group: where it begins, what it brings, where it can be sent."""

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from penstock import Client, ClientSettings, Outgoing
from penstock.client.producer.compression import Compression
from penstock.client.reader.positions import TopicPartition
from penstock.client.record import Record
from penstock.client.subscription import Subscription
from penstock.core.errors import (
    ClientClosed,
    DeadlinePassed,
    InvalidBatch,
    InvalidRequest,
    OffsetOutOfRange,
    OutcomeUnknown,
)
from penstock.core.records import BATCH_HEADER_BYTES
from penstock.testing.clock import ManualClock
from penstock.wire.requests import Append, Appended
from tests.batches import build_batch, with_bytes
from tests.unit.client.memory_play import play
from tests.unit.engine.nodes import until

SOON = 0.02
"""How often topics are looked at, in seconds."""


async def fill(client: Client, name: str, numbers: range, partition: int = 0) -> None:
    """Numbered messages, in one partition."""
    await client.topic(name, codec=str).send_many(map(str, numbers), partition=partition)


async def take(subscription: Subscription[str], wanted: int) -> list[Record[str]]:
    """So many records, as they come."""
    records: list[Record[str]] = []
    while len(records) < wanted:
        records += await subscription.fetch(wanted - len(records), wait=60)
    return records


def bodies(records: list[Record[str]]) -> list[int]:
    return [int(record.body) for record in records]


def test_all_partitions_are_read_each_in_order() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=3)
        for index in range(3):
            await fill(client, "orders", range(100 * index, 100 * index + 50), index)
        async with client.subscribe("orders", codec=str) as subscription:
            records = await take(subscription, 150)
            for index in range(3):
                own = [record for record in records if record.partition == index]
                assert [record.offset for record in own] == list(range(50))
                assert bodies(own) == list(range(100 * index, 100 * index + 50))
            assert await subscription.fetch(1) == []
            await fill(client, "orders", range(7, 8), 1)
            (last,) = await subscription.fetch(10, wait=60)
            assert (last.topic, last.partition, last.offset, last.body) == ("orders", 1, 50, "7")

    play(scene)


def test_iterating_opens_it_and_closing_ends_the_loop() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await fill(client, "orders", range(3))
        subscription = client.subscribe("orders", codec=str)
        seen = []

        async def read() -> None:
            async for record in subscription:
                seen.append(record.body)

        reading = asyncio.create_task(read())
        await until(lambda: len(seen) == 3)
        await subscription.close()
        await reading
        await subscription.close()  # Twice is as good as once.
        assert [one async for one in subscription] == []
        with pytest.raises(ClientClosed):
            await subscription.fetch(1)

    play(scene)


def test_a_broker_that_cannot_be_reached_at_first_is_asked_again() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await fill(client, "orders", range(3))
        subscription = client.subscribe("orders", codec=str)
        settings = client._core.router.settings
        client._core.router.settings = replace(settings, timeout=1e-9)
        with pytest.raises((DeadlinePassed, OutcomeUnknown)):
            await subscription.fetch(3)
        client._core.router.settings = settings
        assert bodies(await take(subscription, 3)) == [0, 1, 2]

    play(scene)


def test_a_record_tells_everything_about_a_message() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        topic = client.topic("orders")
        await topic.create(partitions=1)
        when = datetime(2023, 1, 31, 12, tzinfo=UTC)
        headers = {"trace": b"7", "nothing": None}
        await topic.send({"id": 7}, key="k", headers=headers, timestamp=when)
        await topic.send(None, key="k")
        async with client.subscribe("orders") as subscription:
            first, second = await subscription.fetch(2, wait=60)
        assert first.body == {"id": 7}
        assert (first.key, first.raw, first.is_tombstone) == (b"k", b'{"id":7}', False)
        assert {**first.headers, "content-type": b""} == {**headers, "content-type": b""}
        assert first.sent_at == when
        assert first.timestamp_ms == int(when.timestamp() * 1_000)
        assert first.place == TopicPartition("orders", 0)
        assert len(first.id) == 36
        assert first.id != second.id
        assert (second.body, second.raw, second.is_tombstone) == (None, b"", True)
        assert second.timestamp_ms == clock.wall_ms()
        assert "orders:0:1" in repr(second)

    play(scene)


# Where it begins.


def test_latest_begins_with_what_is_sent_from_then_on() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        await fill(client, "orders", range(5))
        async with client.subscribe("orders", codec=str, start="latest") as subscription:
            await fill(client, "orders", range(5, 8))
            assert bodies(await take(subscription, 3)) == [5, 6, 7]

    play(scene)


def test_a_time_begins_with_the_first_message_as_late() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        begin = datetime.fromtimestamp(clock.wall_ms() / 1_000, UTC)
        times = [begin + timedelta(seconds=number) for number in range(10)]
        outgoing = [Outgoing(str(n), partition=1, timestamp=times[n]) for n in range(10)]
        await client.topic("orders", codec=str).send_many(outgoing)
        start = begin + timedelta(seconds=7)
        async with client.subscribe("orders", codec=str, start=start) as subscription:
            assert bodies(await take(subscription, 3)) == [7, 8, 9]
            await subscription.seek_to_time(begin + timedelta(seconds=4, milliseconds=1))
            assert bodies(await take(subscription, 5)) == [5, 6, 7, 8, 9]
            await subscription.replay(begin + timedelta(seconds=9))
            assert bodies(await take(subscription, 1)) == [9]
            await subscription.seek_to_time(begin + timedelta(days=1))
            assert await subscription.fetch(1) == []
            assert set((await subscription.lag()).values()) == {0}

    play(scene)


def test_offsets_begin_where_they_say() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        await fill(client, "orders", range(5), 0)
        await fill(client, "orders", range(10, 15), 1)
        by_index = client.subscribe("orders", codec=str, start={0: 3})
        async with by_index:
            assert sorted(bodies(await take(by_index, 7))) == [3, 4, 10, 11, 12, 13, 14]
        exact = {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 4}
        async with client.subscribe("orders", codec=str, start=exact) as subscription:
            assert bodies(await take(subscription, 1)) == [14]

    play(scene)


@pytest.mark.parametrize("start", ["newest", 7, {0: -1}, datetime(2026, 1, 1)])  # noqa: DTZ001
def test_a_start_that_means_nothing_is_refused(start: object) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        with pytest.raises(InvalidRequest):
            client.subscribe("orders", start=start)  # type: ignore[call-overload]

    play(scene)


def test_offsets_that_were_asked_for_and_are_gone_are_told_of() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await fill(client, "orders", range(3))
        async with client.subscribe("orders", start={0: 7}) as subscription:
            with pytest.raises(OffsetOutOfRange, match="no offset 7"):
                await subscription.fetch(1, wait=60)

    play(scene)


def test_what_is_beyond_the_log_goes_back_to_the_start() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await fill(client, "orders", range(3))
        async with client.subscribe("orders", codec=str) as subscription:
            assert bodies(await take(subscription, 3)) == [0, 1, 2]
            await subscription.seek(0, 100)
            assert bodies(await take(subscription, 3)) == [0, 1, 2]

    play(scene)


# Going elsewhere.


def test_seeking_in_one_partition_or_in_all() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        await fill(client, "orders", range(5), 0)
        await fill(client, "orders", range(10, 15), 1)
        async with client.subscribe("orders", codec=str) as subscription:
            await take(subscription, 10)
            await subscription.seek(1, 3)
            assert subscription.positions() == {("orders", 0): 5, ("orders", 1): 3}
            assert await subscription.lag() == {("orders", 0): 0, ("orders", 1): 2}
            assert bodies(await take(subscription, 2)) == [13, 14]
            await subscription.seek_to_start()
            assert len(await take(subscription, 10)) == 10
            await subscription.replay()
            assert len(await take(subscription, 3)) == 3
            await subscription.seek_to_end()
            await fill(client, "orders", range(99, 100), 0)
            assert bodies(await take(subscription, 1)) == [99]
            with pytest.raises(InvalidRequest, match="partition 2 of orders is not read"):
                await subscription.seek(2, 0)
            with pytest.raises(InvalidRequest, match="begin at 0"):
                await subscription.seek(0, -1)

    play(scene)


def test_seeking_in_the_middle_of_a_loop() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await fill(client, "orders", range(100))
        seen: list[int] = []
        async with client.subscribe("orders", codec=str) as subscription:
            async for record in subscription:
                seen.append(int(record.body))
                if seen == [0, 1, 2]:
                    await subscription.seek(0, 98)
                if record.offset == 99:
                    break
        assert seen == [0, 1, 2, 98, 99]

    play(scene)


def test_a_paused_partition_waits() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        async with client.subscribe("orders", codec=str) as subscription:
            subscription.pause(0)
            await fill(client, "orders", range(5), 0)
            await fill(client, "orders", range(10, 15), 1)
            assert bodies(await take(subscription, 2)) == [10, 11]
            subscription.pause()
            assert await subscription.fetch(10, wait=SOON) == []
            subscription.resume(0)
            assert bodies(await take(subscription, 5)) == [0, 1, 2, 3, 4]
            subscription.resume()
            assert bodies(await take(subscription, 3)) == [12, 13, 14]

    play(scene)


def test_what_comes_while_a_partition_is_paused_in_the_middle_leaves_no_gap() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await fill(client, "orders", range(10))
        async with client.subscribe("orders", codec=str) as subscription:
            seen = bodies(await take(subscription, 5))
            subscription.pause(0)
            assert await subscription.fetch(1) == []  # It stops in the middle of a batch,
            await fill(client, "orders", range(10, 12))  # and a fetch behind it is under way.
            subscription.resume(0)
            seen += bodies(await take(subscription, 7))
            assert seen == list(range(12))

    play(scene)


# Topics.


def test_a_topic_that_does_not_exist_yet_is_waited_for() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        subscription = client.subscribe(
            ["late", "later"], codec=str, start="latest", topics_interval=SOON
        )
        async with subscription:
            assert subscription.assignment == ()
            await client.create_topic("late", partitions=2)
            await fill(client, "late", range(3))
            assert bodies(await take(subscription, 3)) == [0, 1, 2]

    play(scene)


def test_new_partitions_are_noticed_and_read_from_their_beginning() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        subscription = client.subscribe("orders", codec=str, start="latest", topics_interval=SOON)
        async with subscription:
            await client.add_partitions("orders", 2)
            await fill(client, "orders", range(3), 1)
            assert bodies(await take(subscription, 3)) == [0, 1, 2]

    play(scene)


def test_a_pattern_matches_whole_names_of_topics_there_are_and_will_be() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        for name in ("eu.orders", "us.orders", "us.orders.old"):
            await client.create_topic(name, partitions=1)
            await fill(client, name, range(2))
        pattern = re.compile(r".*\.orders")
        async with client.subscribe(pattern, codec=str, topics_interval=SOON) as subscription:
            records = await take(subscription, 4)
            assert {record.topic for record in records} == {"eu.orders", "us.orders"}
            await client.create_topic("asia.orders", partitions=1)
            await fill(client, "asia.orders", range(2))
            assert {record.topic for record in await take(subscription, 2)} == {"asia.orders"}
            with pytest.raises(InvalidRequest, match="name one"):
                await subscription.seek(0, 0)
            await subscription.seek(0, 1, topic="eu.orders")
            assert [record.offset for record in await take(subscription, 1)] == [1]
            await client.delete_topic("us.orders")
            await until(
                lambda: (
                    {part.topic for part in subscription.assignment} == {"asia.orders", "eu.orders"}
                )
            )

    play(scene)


def test_a_topic_that_is_made_anew_is_another_one() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await fill(client, "orders", range(5))
        async with client.subscribe("orders", codec=str, topics_interval=SOON) as subscription:
            assert len(await take(subscription, 5)) == 5
            await client.delete_topic("orders")
            await client.create_topic("orders", partitions=1)
            await fill(client, "orders", range(70, 73))
            assert bodies(await take(subscription, 3)) == [70, 71, 72]

    play(scene)


@pytest.mark.parametrize("topics", ["", [], ["orders", ""]])
def test_no_topic_at_all_is_refused(topics: str | list[str]) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        with pytest.raises(InvalidRequest, match="names no topic"):
            client.subscribe(topics)

    play(scene)


# How it fetches.


def test_what_is_fetched_ahead_has_a_bound() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        large = "x" * 20_000
        for _ in count():
            await client.topic("orders", codec=str).send_many([large] * 20)
            described = await client.describe_topic("orders")
            if described.messages >= 400:
                break
        async with client.subscribe("orders", codec=str, prefetch_bytes=1_000_000) as subscription:
            await take(subscription, 1)
            most = 0
            for _ in range(399):
                await take(subscription, 1)
                most = max(most, subscription.statistics().buffered_bytes)
            assert 0 < most < 3_000_000
        assert subscription.statistics().records == 400

    play(scene, settings=ClientSettings(receive_bytes_max=1_000_000))


def test_compressed_batches_are_opened() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        texts = [f"{number} " + "x" * 3_000 for number in range(300)]
        await client.topic("orders", codec=str).send_many(texts)
        async with client.subscribe("orders", codec=str) as subscription:
            assert [record.body for record in await take(subscription, 300)] == texts
            assert subscription.statistics().buffered_bytes == 0

    play(scene, settings=ClientSettings(compression=Compression()))


def test_a_batch_nobody_can_read_is_told_of_and_can_be_passed() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        configs = {"penstock.validate.records": "false"}
        await client.create_topic("orders", partitions=1, configs=configs)
        await fill(client, "orders", range(3))
        bad = with_bytes(build_batch(2, timestamp=clock.wall_ms()), BATCH_HEADER_BYTES, b"\xff\xff")
        router = client._core.router
        await router.ask_leader(
            "orders",
            0,
            lambda info: (Append(info.topic_id, 0), bad),
            Appended,
            deadline=router.deadline(None),
        )
        await fill(client, "orders", range(5, 7))
        async with client.subscribe("orders", codec=str) as subscription:
            assert bodies(await subscription.fetch(10, wait=60)) == [0, 1, 2]
            for _ in range(2):
                with pytest.raises(InvalidBatch, match="orders cannot be read at offset 3"):
                    await subscription.fetch(1, wait=60)
            await subscription.seek(0, 5)
            assert bodies(await take(subscription, 2)) == [5, 6]
        with pytest.raises(InvalidBatch, match="at offset 3"):
            _ = [one async for one in client.read("orders")]

    play(scene)


def test_a_fetch_that_is_cancelled_hands_out_nothing() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        for number in range(20):
            texts = [f"{number}-{n} " + f"{n}" * 3_000 for n in range(10)]
            await client.topic("orders", codec=str).send_many(texts, partition=number % 2)
        seen: list[tuple[int, int]] = []
        async with client.subscribe("orders", codec=str) as subscription:
            for turn in count():
                fetching = asyncio.ensure_future(subscription.fetch(35, wait=60))
                for _ in range(turn % 6):
                    await asyncio.sleep(0)
                if turn % 7:
                    fetching.cancel()
                await asyncio.wait([fetching])
                if not fetching.cancelled():
                    seen += [(one.partition, one.offset) for one in fetching.result()]
                if len(seen) == 200:
                    break
        assert sorted(seen) == [(index, offset) for index in range(2) for offset in range(100)]
        for index in range(2):
            own = [offset for partition, offset in seen if partition == index]
            assert own == list(range(100))

    play(scene, settings=ClientSettings(compression=Compression()))


@pytest.mark.parametrize("is_compressed", [False, True])
def test_whoever_is_cancelled_while_he_waits_loses_nothing(is_compressed: bool) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        for number in range(30):
            texts = [f"{number}-{n} " + f"{n}" * 3_000 for n in range(10)]
            await client.topic("orders", codec=str).send_many(texts)
        offsets: list[int] = []
        async with client.subscribe("orders", codec=str) as subscription:
            for turn in count():
                router = asyncio.ensure_future(anext(subscription))
                for _ in range(turn % 5):
                    await asyncio.sleep(0)
                if turn % 7:
                    router.cancel()
                await asyncio.wait([router])
                if not router.cancelled():
                    offsets.append(router.result().offset)
                if len(offsets) == 300:
                    break
        assert offsets == list(range(300))

    compression = Compression() if is_compressed else Compression(threshold_bytes=None)
    play(scene, settings=ClientSettings(compression=compression))
