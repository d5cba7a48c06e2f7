"""Staged messages: they wait where nobody sees them, and go when they may."""

import asyncio

import pytest

from penstock.core.errors import StagingExpired
from penstock.core.internal_topics import STAGING_TOPIC
from penstock.core.types import PartitionId
from penstock.engine.cluster.node import Node
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.promotion import PartPromotion
from penstock.storage.memory_disk import MemoryDisk
from penstock.testing.clock import ManualClock
from tests.unit.engine.nodes import until
from tests.unit.engine.publishing import (
    orders,
    part,
    parts,
    play,
    publish,
    refused,
    stage,
    staging_index,
    trimmed,
    values,
)

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000


def test_what_is_published_is_trimmed_and_nothing_else() -> None:
    async def story(node: Node) -> None:
        topic = await orders(node, 1)
        one, two, three = [await stage(node, topic, 0, b"%d" % n, 2) for n in range(3)]
        assert await trimmed(node, one.staging) == (0, 6)
        await publish(node, 1, part(topic, two))
        assert await trimmed(node, one.staging) == (0, 6), "the first still waits"
        await publish(node, 2, part(topic, one))
        assert await trimmed(node, one.staging) == (4, 6)
        await publish(node, 3, part(topic, three))
        assert await trimmed(node, one.staging) == (6, 6)
        assert values(node, topic, 0) == [b"1", b"1", b"0", b"0", b"2", b"2"]

    play(story)


def test_what_is_being_staged_is_not_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: Node) -> None:
        topic = await orders(node, 1)
        one = await stage(node, topic, 0, b"one")
        original, gate = Shard.append, asyncio.Event()

        async def slow_append(self: Shard, *arguments: object) -> object:
            appended = await original(self, *arguments)  # type: ignore[arg-type]
            await gate.wait()
            return appended

        monkeypatch.setattr(Shard, "append", slow_append)
        waiting = asyncio.create_task(stage(node, topic, 0, b"two"))
        index = staging_index(node, one.staging)
        await until(
            lambda: (
                node.engine.topics.bounds(node.engine.topics.topic(STAGING_TOPIC), index)[1] == 2
            )
        )
        await publish(node, 1, part(topic, one))
        assert await trimmed(node, one.staging) == (1, 2)
        gate.set()
        two = await waiting
        assert await trimmed(node, one.staging) == (1, 2)
        await publish(node, 2, part(topic, two))
        assert await trimmed(node, one.staging) == (2, 2)
        assert values(node, topic, 0) == [b"one", b"two"]

    play(story)


def test_messages_that_are_old_themselves_may_wait_as_long_as_others() -> None:
    """Retention of other topics goes by the times of messages; these are from 2001."""
    clock = ManualClock()

    async def story(node: Node) -> None:
        topic = await orders(node, 1, retention_ms="-1")
        staged = await stage(node, topic, 0, b"old", timestamp=1_000_000_000_000)
        for _ in range(250):  # More than two looks of retention.
            node.look_after_now()
        assert await trimmed(node, staged.staging) == (0, 1)
        await publish(node, 1, part(topic, staged))
        assert values(node, topic, 0) == [b"old"]

    play(story, clock=clock)


def test_what_is_never_published_expires() -> None:
    clock = ManualClock()

    async def story(node: Node) -> None:
        topic = await orders(node, 1)
        old = await stage(node, topic, 0, b"old")
        clock.advance(HOUR_MS // 10)  # In such steps it expires.
        await trimmed(node, old.staging)
        for hours in range(5):
            clock.advance(HOUR_MS)
            assert await trimmed(node, old.staging) == (0, 1 + hours)
            await stage(node, topic, 0, b"new")
        clock.advance(HOUR_MS)
        assert await trimmed(node, old.staging) == (1, 6)
        await refused(node, 1, StagingExpired, part(topic, old))

    play(story, clock=clock)


def test_what_a_former_leader_left_expires_too() -> None:
    clock, disk = ManualClock(), MemoryDisk()
    left: list[PartitionId] = []

    async def begin(node: Node) -> None:
        topic = await orders(node, 1)
        left.append((await stage(node, topic, 0, b"left")).staging)

    async def go_on(node: Node) -> None:
        assert await trimmed(node, left[0]) == (0, 1)
        clock.advance(5 * HOUR_MS)
        assert await trimmed(node, left[0]) == (0, 1)
        clock.advance(HOUR_MS)
        assert await trimmed(node, left[0]) == (1, 1)

    play(begin, clock=clock, disk=disk)
    play(go_on, clock=clock, disk=disk)


def test_what_was_staged_with_a_former_leader_is_published() -> None:
    disk = MemoryDisk()
    given: list[object] = []

    async def begin(node: Node) -> None:
        topic = await orders(node, 2)
        staged = [await stage(node, topic, n % 2, b"%d" % n, 3) for n in range(8)]
        given.extend(parts(topic, staged))

    async def go_on(node: Node) -> None:
        topic = node.engine.topics.topic("orders")
        fresh = await stage(node, topic, 0, b"fresh")
        await publish(node, 1, part(topic, fresh), application="other")
        assert (await trimmed(node, fresh.staging))[0] == 0, "others' messages are not trimmed"
        await publish(node, 1, *given)  # type: ignore[arg-type]
        assert values(node, topic, 1) == [b"%d" % n for n in (1, 3, 5, 7) for _ in range(3)]

    play(begin, disk=disk, shards=1)
    play(go_on, disk=disk, shards=1)


def test_what_is_checked_is_kept_for_whoever_publishes_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two publish the same messages under two names: both get them, or are refused at once."""

    async def story(node: Node) -> None:
        topic = await orders(node, 1)
        given = part(topic, await stage(node, topic, 0, b"x"))
        checked, gate = asyncio.Event(), asyncio.Event()
        original = PartPromotion.check

        async def check(self: PartPromotion, part_: object, publication: tuple[str, int]) -> None:
            await original(self, part_, publication)  # type: ignore[arg-type]
            if publication[0] == "slow":
                checked.set()
                await gate.wait()

        monkeypatch.setattr(PartPromotion, "check", check)
        slow = asyncio.create_task(publish(node, 1, given, application="slow"))
        await checked.wait()
        await publish(node, 1, given, application="fast")
        assert await trimmed(node, given.staging) == (0, 1)
        with pytest.raises(StagingExpired):
            await publish(node, 1, given, application="late")
        gate.set()
        assert (await slow).is_new
        assert values(node, topic, 0) == [b"x", b"x"]
        assert await trimmed(node, given.staging) == (1, 1)

    play(story)


def test_staging_topic_that_is_too_small_is_made_larger() -> None:
    async def story(node: Node) -> None:
        await node.engine.topics.create_topic(STAGING_TOPIC, 1, {}, internal=True)
        topic = await orders(node, 4)
        staged = [await stage(node, topic, index, b"x") for index in range(4)]
        await publish(node, 1, *parts(topic, staged))
        assert [values(node, topic, index) for index in range(4)] == [[b"x"]] * 4

    play(story, shards=4)
