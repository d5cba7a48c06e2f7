"""Every option of `send` arrives, and means what it says."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import (
    Client,
    ClientSettings,
    Compression,
    HashPartitioner,
    Outgoing,
    RangePartitioner,
    RoundRobinPartitioner,
)
from penstock.core.errors import (
    BatchTooLarge,
    InvalidBody,
    InvalidPartitions,
    InvalidRequest,
    LocalError,
    UnknownPartition,
    UnknownTopic,
)
from penstock.core.murmur2 import partition_of
from penstock.testing.clock import ManualClock
from tests.unit.client.memory_play import play

pytestmark = pytest.mark.slow


def now(clock: ManualClock) -> datetime:
    return datetime.fromtimestamp(clock.wall_ms() / 1_000, UTC)


def test_what_is_sent_is_received() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        sent = await client.send(
            "orders",
            {"id": 1},
            key="customer-7",
            headers={"trace": "abc", "raw": b"\xff", "n": None},
        )
        (message,) = await client.receive("orders", wait=60)
        assert message.body == {"id": 1}
        assert message.raw == b'{"id":1}'
        assert message.key == b"customer-7"
        assert dict(message.headers) == {
            "content-type": b"application/json",
            "trace": b"abc",
            "raw": b"\xff",
            "n": None,
        }
        assert (message.id, message.partition, message.offset) == (
            sent.id,
            sent.partition,
            sent.offset,
        )
        assert message.deliveries == 1
        assert message.queue == "orders"
        assert message.sent_at == now(clock)
        assert message.priority == 4
        assert message.delay == 0
        assert (message.deadline, message.dedup_id, message.message_group) == (None, None, None)
        assert not sent.duplicate

    play(scene)


def test_a_delay_is_waited_for() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=1)
        await client.send("orders", "in a minute", delay=60)
        await client.send("orders", "at a time", deliver_at=now(clock) + timedelta(minutes=2))
        assert await client.receive("orders", 10) == []
        clock.advance(seconds=61)
        (message,) = await client.receive("orders", 10)
        assert message.body == "in a minute"
        assert message.delay == 60
        assert await message.ack()
        clock.advance(seconds=60)
        (message,) = await client.receive("orders", 10)
        assert message.body == "at a time"

    play(scene)


def test_states_have_one_name_and_an_old_one() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        queue = client.queue("orders")
        await queue.create(partitions=1)
        await queue.send_many(["a", "b", "c"])
        await queue.receive()
        assert [one.state for one in await queue.peek()] == ["leased", "ready", "ready"]
        for states in (["leased"], ["in flight"]):
            assert [one.body for one in await queue.peek(states=states)] == ["a"]
        with pytest.raises(InvalidRequest, match="the states are ready, leased, delayed, dead"):
            await queue.peek(states=["lost"])
        stats = await queue.stats()
        with pytest.warns(DeprecationWarning, match="is now .ready"):
            assert stats.visible == stats.ready == 2
        with pytest.warns(DeprecationWarning, match="is now .leased"):
            assert stats.in_flight == stats.leased == 1

    play(scene)


def test_what_is_too_old_is_not_delivered() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=1)
        await client.send("orders", "short", ttl=10)
        await client.send("orders", "until", expire_at=now(clock) + timedelta(seconds=20))
        await client.send("orders", "for ever")
        first = await client.queue("orders").peek()
        assert [one.body for one in first] == ["short", "until", "for ever"]
        clock.advance(seconds=15)
        (until,) = await client.receive("orders")
        assert until.body == "until"
        assert until.deadline == now(clock) + timedelta(seconds=5)
        await until.release()
        clock.advance(seconds=6)
        messages = await client.receive("orders", 10)
        assert [message.body for message in messages] == ["for ever"]
        assert (await client.queue("orders").stats()).expired == 2

    play(scene)


def test_priorities_decide_who_is_first() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=1, priorities="strict")
        for priority in (0, 9, 5, None):
            await client.send("orders", f"{priority}", priority=priority)
        messages = await client.receive("orders", 10)
        assert [message.body for message in messages] == ["9", "5", "None", "0"]
        assert [message.priority for message in messages] == [9, 5, 4, 0]

    play(scene)


def test_an_id_makes_a_second_sending_harmless() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=4, deduplication="id")
        first = await client.send("orders", "a", key="k", dedup_id="payment-1")
        again = await client.send("orders", "a", key="k", dedup_id="payment-1")
        assert (first.duplicate, again.duplicate) == (False, True)
        assert (again.partition, again.offset, again.id) == (
            first.partition,
            first.offset,
            first.id,
        )
        messages = await client.receive("orders", 10)
        assert [message.dedup_id for message in messages] == ["payment-1"]
        clock.advance(seconds=301)
        assert not (await client.send("orders", "a", key="k", dedup_id="payment-1")).duplicate

    play(scene)


def test_an_id_without_a_key_is_known_again_too() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=8, deduplication="id")
        sent = [await client.send("orders", "a", dedup_id="payment-1") for _ in range(8)]
        assert [one.duplicate for one in sent] == [False] + [True] * 7
        many = await client.send_many(
            "orders", [Outgoing("a", dedup_id=f"{number % 10}") for number in range(100)]
        )
        assert sum(not one.duplicate for one in many) == 10

    play(scene)


def test_groups_keep_order_in_a_fifo_queue() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=4, fifo=True)
        for number in range(3):
            for group in ("a", "b"):
                await client.send("orders", f"{group}{number}", message_group=group)
        messages = await client.receive("orders", 4)
        messages += await client.receive("orders", 4)
        groups = [message.message_group for message in messages]
        assert set(groups) == {"a", "b"}
        for group in ("a", "b"):
            bodies = [one.body for one in messages if one.message_group == group]
            assert bodies == [f"{group}{number}" for number in range(len(bodies))]
        await client.send("orders", "a3", message_group="a")
        if "a" in groups:  # The group is this worker's for as long as it has one of its messages.
            assert await client.receive("orders", 10) == []
        assert await client.queue("orders").ack(messages) == len(messages)
        rest = [message.body for message in await client.receive("orders", 10)]
        assert rest[-1:] == ["a3"]

    play(scene)


def test_a_partition_and_a_time_can_be_chosen() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=4)
        when = now(clock) - timedelta(days=1)
        sent = await client.send("orders", "a", partition=3, timestamp=when)
        assert sent.partition == 3
        (message,) = await client.receive("orders")
        assert message.sent_at == when

    play(scene)


def test_keys_go_where_kafkas_clients_send_them() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=7)
        keys = [f"customer-{number}" for number in range(50)]
        many = await client.send_many("orders", [Outgoing("x", key=key) for key in keys])
        assert [one.partition for one in many] == [partition_of(key.encode(), 7) for key in keys]
        for key in keys[:5]:
            sent = await client.queue("orders", partitioner=HashPartitioner()).send("x", key=key)
            assert sent.partition == partition_of(key.encode(), 7)

    play(scene)


def test_other_partitioners_are_asked() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=3)
        ranges = client.queue("orders", partitioner=RangePartitioner(["K", "T"]))
        assert [(await ranges.send("x", key=key)).partition for key in ("A", "M", "Z")] == [0, 1, 2]
        with pytest.raises(InvalidRequest, match="give it a key"):
            await ranges.send("x")
        turns = client.queue("orders", partitioner=RoundRobinPartitioner())
        assert [(await turns.send("x", key="same")).partition for _ in range(4)] == [0, 1, 2, 0]
        assert [one.partition for one in await turns.send_many(["x"] * 3)] == [1, 2, 0]
        own = client.queue("orders", partitioner=lambda key, partitions: partitions - 1)
        assert [one.partition for one in await own.send_many(["x", "y"])] == [2, 2]
        wrong = client.queue("orders", partitioner=lambda key, partitions: partitions)
        with pytest.raises(InvalidPartitions):
            await wrong.send("x")

    play(scene)


def test_messages_without_a_key_reach_every_partition_in_the_long_run() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=4)
        partitions = {(await client.send("orders", b"x")).partition for _ in range(40)}
        assert partitions == {0, 1, 2, 3}

    play(scene)


def test_many_are_sent_at_once_in_order() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=1)
        bodies = [b"%d" % number for number in range(25_000)]
        sent = await client.send_many("orders", bodies)
        assert len(sent) == len(bodies)
        assert [one.offset for one in sent[:3]] == [0, 1, 2]
        assert sent[-1].offset == len(bodies) - 1
        received: list[bytes] = []
        while len(received) < len(bodies):
            messages = await client.receive("orders", 5_000)
            assert messages
            received += [message.body for message in messages]
        assert received == bodies

    play(scene)


def test_many_may_differ_each_from_the_other() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=1, priorities="strict")
        sent = await client.send_many(
            "orders",
            [
                "plain",
                Outgoing("late", delay=5),
                Outgoing("first", priority=9, headers={"a": "b"}),
                Outgoing({"an": "object"}, key="k"),
            ],
            headers={"all": "have it"},
        )
        assert len(sent) == 4
        messages = await client.receive("orders", 10)
        assert [message.body for message in messages] == ["first", "plain", {"an": "object"}]
        clock.advance(seconds=6)
        (late,) = await client.receive("orders", 10)
        assert late.body == "late"

    play(scene)


def test_nothing_is_sent_as_nothing() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        sent = await client.send_many("orders", [])
        assert list(sent) == []

    play(scene)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"priority": 10}, InvalidRequest),
        ({"priority": -1}, InvalidRequest),
        ({"delay": -1}, InvalidRequest),
        ({"delay": float("nan")}, InvalidRequest),
        ({"ttl": "soon"}, InvalidRequest),
        ({"deliver_at": datetime(2026, 1, 1)}, InvalidRequest),  # noqa: DTZ001 - that is wrong.
        ({"headers": {"penstock-priority": "9"}}, InvalidRequest),
        ({"partition": 99}, UnknownPartition),
        ({"partition": -1}, LocalError),
        ({"delay": 1, "deliver_at": datetime(2030, 1, 1, tzinfo=UTC)}, LocalError),
        ({"ttl": 1, "expire_at": datetime(2030, 1, 1, tzinfo=UTC)}, LocalError),
        ({"key": 7}, LocalError),
        ({"headers": {"a": 7}}, LocalError),
        ({"message_group": "\ud800"}, LocalError),
        ({"timeout": -1}, LocalError),
    ],
)
def test_options_that_cannot_be_are_refused(options: Any, kind: type[LocalError]) -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=2)
        with pytest.raises(kind):
            await client.send("orders", "x", **options)
        if "timeout" not in options:
            with pytest.raises(kind):
                await client.send_many("orders", ["a", Outgoing("x", **options)])
        await client.send("orders", "good")
        assert (await client.queue("orders").stats()).ready <= 2

    play(scene)


def test_what_a_queue_would_not_hear_is_refused() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders")
        with pytest.raises(LocalError, match="deduplication"):
            await client.send("orders", "x", dedup_id="a")
        await client.create_topic("log")
        with pytest.raises(LocalError):
            await client.send("log", "x", delay=5)

    play(scene)


def test_a_body_that_cannot_be_written_is_refused_and_nothing_of_its_company_is_sent() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders")
        with pytest.raises(InvalidBody):
            await client.send("orders", object())
        with pytest.raises(InvalidBody):
            await client.send_many("orders", [b"a", object(), b"b"])
        assert (await client.queue("orders").stats()).ready == 0

    play(scene)


def test_a_message_above_the_limit_is_refused_and_others_are_not() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", settings={"max.message.bytes": "10000"})
        with pytest.raises(BatchTooLarge):
            await client.send("orders", bytes(20_000))
        sent = await client.send_many("orders", [bytes(3_000)] * 100)
        assert len(sent) == 100

    play(scene, settings=ClientSettings(compression=Compression(threshold_bytes=None)))


def test_a_queue_is_made_when_it_is_used_unless_that_is_switched_off() -> None:
    async def makes(client: Client, clock: ManualClock) -> None:
        await client.send("orders", "x")
        assert [one.name for one in await client.topics() if one.is_queue] == [
            "orders",
            "orders-dlq",
        ]

    async def refuses(client: Client, clock: ManualClock) -> None:
        with pytest.raises(UnknownTopic):
            await client.send("orders", "x")
        with pytest.raises(UnknownTopic):
            await client.receive("orders")

    play(makes)
    play(refuses, settings=ClientSettings(auto_create=False))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_large_messages_are_compressed_and_come_back(codec: Any) -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        bodies = [b"all work and no play %d " % number * 200 for number in range(20)]
        await client.send_many("orders", [*bodies, Outgoing(b"late", delay=3)])
        messages = await client.receive("orders", 100)
        assert sorted(message.body for message in messages) == sorted(bodies)
        clock.advance(seconds=4)
        assert [message.body for message in await client.receive("orders", 100)] == [b"late"]

    play(scene, settings=ClientSettings(compression=Compression(codec=codec)))
