"""Publications on one node: what is staged is seen by nobody, then by everybody, once."""

import asyncio

import msgspec
import pytest

from penstock.core.errors import (
    BatchTooLarge,
    InvalidBatch,
    InvalidRequest,
    OutcomeUnknown,
    Overloaded,
    PublicationConflict,
    QueueFull,
    StagingExpired,
    TopicProtected,
    Unavailable,
    UnknownPartition,
    UnknownTopicId,
    UnsupportedBatch,
)
from penstock.core.internal_topics import STAGING_TOPIC
from penstock.core.limits import PUBLISH_SECONDS
from penstock.core.message_batches import iter_batches
from penstock.core.records import read_header
from penstock.core.types import Offset, PartitionId, ProducerId
from penstock.engine.cluster.node import Node
from penstock.engine.replica.shard import Shard
from penstock.engine.topics import part_copy, promotion
from penstock.engine.topics.promotion import PartPromotion
from penstock.machines.catalog import Catalog
from penstock.machines.publication_commands import PublishedPart
from penstock.machines.publications import NOTHING_PUBLISHED
from penstock.storage.memory_disk import MemoryDisk
from penstock.testing.clock import ManualClock
from tests.batches import build_batch, with_bytes
from tests.unit.engine.nodes import until
from tests.unit.engine.publishing import (
    orders,
    part,
    parts,
    play,
    publish,
    refused,
    shard_for,
    stage,
    staging_index,
    trimmed,
    values,
)

HOUR_MS = 3_600_000

pytestmark = pytest.mark.slow


# Once, and in all partitions.


def test_nothing_is_seen_before_it_is_published_and_everything_after() -> None:
    async def story(node: Node) -> None:
        topic = await orders(node)
        staged = [await stage(node, topic, index, b"%d" % index, 5) for index in (0, 1, 2, 0)]
        assert [values(node, topic, index) for index in range(3)] == [[], [], []]
        assert await node.engine.publications.last("app") == NOTHING_PUBLISHED
        outcome = await publish(node, 7, *parts(topic, staged))
        assert outcome.is_new
        assert [values(node, topic, index) for index in range(3)] == [
            [b"0"] * 10,
            [b"1"] * 5,
            [b"2"] * 5,
        ]
        assert await node.engine.publications.last("app") == 7

    play(story)


def test_batch_is_published_once_whatever_is_staged_for_it_anew() -> None:
    async def story(node: Node) -> None:
        topic = await orders(node)
        first, again = [await stage(node, topic, 1, value) for value in (b"first", b"again")]
        assert (await publish(node, 0, part(topic, first))).is_new
        for given in (first, again):
            assert not (await publish(node, 0, part(topic, given))).is_new
        assert values(node, topic, 1) == [b"first"]
        assert await trimmed(node, again.staging) == (2, 2), "what is not needed does not wait"

    play(story)


def test_batches_are_in_order_and_so_are_the_ranges() -> None:
    async def story(node: Node) -> None:
        topic = await orders(node, 1)
        one, two, three, four = [await stage(node, topic, 0, b"%d" % n) for n in range(4)]
        await publish(node, 1, part(topic, four, two))
        await publish(node, 2, part(topic, three))
        await publish(node, 9, part(topic, one))
        assert values(node, topic, 0) == [b"3", b"1", b"2", b"0"]

    play(story)


def test_publication_of_nothing_counts() -> None:
    async def story(node: Node) -> None:
        assert (await publish(node, 3)).is_new
        assert not (await publish(node, 3)).is_new
        assert await node.engine.publications.last("app") == 3

    play(story)


def test_two_who_publish_the_same_at_once() -> None:
    async def story(node: Node) -> None:
        topic = await orders(node)
        staged = [[await stage(node, topic, index, b"x") for index in range(3)] for _ in range(4)]
        asked = [publish(node, 1, *parts(topic, given)) for given in staged]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        told = [one for one in outcomes if not isinstance(one, BaseException)]
        assert sum(one.is_new for one in told) == 1
        assert [values(node, topic, index) for index in range(3)] == [[b"x"]] * 3

    play(story)


def test_owners() -> None:
    async def story(node: Node) -> None:
        await publish(node, 3, owner="ann")
        with pytest.raises(PublicationConflict):
            await publish(node, 3, owner="bob")
        assert (await publish(node, 4, owner="bob")).is_new

    play(story)


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_batches_are_copied_as_they_are(compression: int) -> None:
    async def story(node: Node) -> None:
        topic = await orders(node, 1)
        staged = await stage(node, topic, 0, b"v" * 100, 50, compression=compression)
        await publish(node, 1, part(topic, staged))
        assert values(node, topic, 0) == [b"v" * 100] * 50
        (batch,) = iter_batches(node.engine.topics.read(topic, 0, Offset(0), 1 << 20))
        header = read_header(batch)
        assert header.attributes & 7 == compression
        assert (header.base_sequence, header.producer_epoch) == (0, 0)

    play(story)


def test_log_append_time_is_that_of_publishing() -> None:
    clock = ManualClock()

    async def story(node: Node) -> None:
        topic = await orders(node, 1, message_timestamp_type="LogAppendTime")
        staged = await stage(node, topic, 0, b"v", 3)
        clock.advance(10_000)
        await publish(node, 1, part(topic, staged))
        (batch,) = iter_batches(node.engine.topics.read(topic, 0, Offset(0), 1 << 20))
        assert read_header(batch).max_timestamp == clock.wall_ms()
        assert values(node, topic, 0) == [b"v"] * 3

    play(story, clock=clock)


def test_large_parts_are_appended_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion, "UNDER_WAY_BYTES_MAX", 4_000)
    monkeypatch.setattr(part_copy, "READ_BYTES", 3_000)

    async def story(node: Node) -> None:
        topic = await orders(node, 1)
        staged = [await stage(node, topic, 0, b"%d" % n * 500, 4) for n in range(30)]
        await publish(node, 1, part(topic, *staged))
        assert values(node, topic, 0) == [b"%d" % n * 500 for n in range(30) for _ in range(4)]

    play(story)


def test_after_the_last_epoch_another_producer_goes_on() -> None:
    disk = MemoryDisk()

    async def story(node: Node) -> None:
        topic = await orders(node, 1)
        await publish(node, 1, part(topic, await stage(node, topic, 0, b"a")))
        machine = shard_for(node).machine.publications
        state = msgspec.msgpack.decode(machine.snapshot())
        state[2][0][4] = (1 << 15) - 1
        machine.restore(msgspec.msgpack.encode(state))
        before = machine.get("app")
        await publish(node, 2, part(topic, await stage(node, topic, 0, b"b")))
        after = machine.get("app")
        assert before is not None
        assert after is not None
        assert after.epoch == 0
        assert after.producer_id != before.producer_id
        assert values(node, topic, 0) == [b"a", b"b"]

    play(story, disk=disk)


# What is refused, before anything is decided.


def test_bad_names_and_numbers() -> None:
    async def story(node: Node) -> None:
        await refused(node, -1, InvalidRequest)
        with pytest.raises(InvalidRequest):
            await publish(node, 1, application="")
        with pytest.raises(InvalidRequest):
            await node.engine.publications.last("")

    play(story)


@pytest.mark.parametrize(
    ("ranges", "error"),
    [
        ([(0, 5)], None),
        ([(5, 10)], InvalidRequest),  # Staged for another partition.
        ([(0, 10)], InvalidRequest),
        ([(0, 4)], InvalidRequest),
        ([(1, 5)], InvalidRequest),
        ([(0, 5), (10, 13)], InvalidRequest),
        ([(0, 5), (0, 5)], InvalidRequest),
        ([(10, 15), (0, 11)], InvalidRequest),
        ([(0, 5), (10, 16)], StagingExpired),
        ([(15, 20)], StagingExpired),
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_ranges_that_were_not_staged_so(
    ranges: list[tuple[int, int]], error: type[Exception] | None, restarted: bool
) -> None:
    disk = MemoryDisk()

    async def begin(node: Node) -> None:
        topic = await orders(node, 2)
        for index in (0, 1, 0):
            await stage(node, topic, index, b"x", 5)
        if not restarted:
            await go_on(node)

    async def go_on(node: Node) -> None:
        topic = node.engine.topics.topic("orders")
        (staging,) = node.engine.topics.topic(STAGING_TOPIC).partitions
        chosen = tuple((Offset(first), Offset(end)) for first, end in ranges)
        given = PublishedPart(topic.topic_id, topic.partitions[0], staging, chosen)
        if error is None:
            assert (await publish(node, 1, given)).is_new
            assert values(node, topic, 0) == [b"x"] * 5
        else:
            await refused(node, 1, error, given)
            assert values(node, topic, 0) == []

    play(begin, disk=disk, shards=1)
    if restarted:
        play(go_on, disk=disk, shards=1)


def test_partition_that_is_not_where_messages_are_staged() -> None:
    async def story(node: Node) -> None:
        topic = await orders(node, 4)
        good = part(topic, await stage(node, topic, 0, b"x"))
        own = msgspec.structs.replace(good, staging=good.partition)
        await refused(node, 1, StagingExpired, own)
        later = msgspec.structs.replace(good, staging=PartitionId(good.staging + 1_000))
        await refused(node, 1, Unavailable, later)

    play(story)


def test_deleted_topic() -> None:
    async def story(node: Node) -> None:
        topic = await orders(node)
        staged = [await stage(node, topic, index, b"x") for index in range(3)]
        await node.engine.topics.delete_topic("orders")
        await refused(node, 1, UnknownTopicId, *parts(topic, staged))

    play(story)


def test_repeated_batch_of_a_deleted_topic_is_still_published() -> None:
    async def story(node: Node) -> None:
        topic = await orders(node)
        given = parts(topic, [await stage(node, topic, index, b"x") for index in range(3)])
        await publish(node, 1, *given)
        await node.engine.topics.delete_topic("orders")
        assert not (await publish(node, 1, *given)).is_new

    play(story)


def test_topic_that_is_deleted_after_the_decision_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(node: Node) -> None:
        topic = await orders(node)
        other = await node.engine.topics.create_topic("other", 1, {})
        gone, stays = await stage(node, topic, 0, b"x"), await stage(node, other, 0, b"y")
        original, deleting = PartPromotion._promote, asyncio.Lock()

        async def promote(self: PartPromotion, *arguments: object) -> None:
            async with deleting:
                if node.engine.topics.catalog.topic("orders") is not None:
                    await node.engine.topics.delete_topic("orders")
            await original(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(PartPromotion, "_promote", promote)
        assert (await publish(node, 1, part(topic, gone), part(other, stays))).is_new
        assert values(node, other, 0) == [b"y"]

    play(story)


def test_node_that_has_not_heard_of_a_topic_does_not_take_it_for_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its copy of the catalog may be behind: a part that it left out would be lost."""

    async def story(node: Node) -> None:
        topic = await orders(node, 1)
        staged = await stage(node, topic, 0, b"x")
        asked = part_copy.Promotion(part(topic, staged), ProducerId(1), 0)
        behind = pytest.MonkeyPatch()
        behind.setattr(Catalog, "topic_by_id", lambda *_: None)
        behind.setattr(Catalog, "next_partition", property(lambda _: topic.partitions[0]))
        promoting = PartPromotion(node.topics, node.engine.publications.staging)
        with behind.context(), pytest.raises(Unavailable):
            await promoting.promote(asked, ("app", 1))
        behind.undo()
        assert values(node, topic, 0) == []
        await promoting.promote(asked, ("app", 1))
        assert values(node, topic, 0) == [b"x"]

    play(story)


def test_full_queue_is_refused_whole() -> None:
    async def story(node: Node) -> None:
        configs = {"queue.length.max": "5", "queue.overflow": "reject"}
        queue = await node.engine.topics.create_topic("orders", 1, configs)
        other = await node.engine.topics.create_topic("other", 1, {})
        few = await stage(node, queue, 0, b"a", 3)
        await publish(node, 1, part(queue, few), application="early")
        many, free = await stage(node, queue, 0, b"b", 3), await stage(node, other, 0, b"c")
        await refused(node, 1, QueueFull, part(queue, many), part(other, free))
        assert values(node, other, 0) == []
        await node.engine.topics.trim(queue, 0, Offset(-1))
        assert (await publish(node, 1, part(queue, many), part(other, free))).is_new
        assert values(node, other, 0) == [b"c"]
        assert values(node, queue, 0) == [b"b"] * 3

    play(story)


def test_what_may_not_be_staged() -> None:
    async def story(node: Node) -> None:
        topic = await orders(node, 1, max_message_bytes="1000", cleanup_policy="compact")
        staging = node.engine.publications.staging

        async def refuse(error: type[Exception], batch: bytearray, index: int = 0) -> None:
            with pytest.raises(error):
                await staging.stage(topic, index, memoryview(batch))

        good = build_batch(key=b"k")
        await refuse(BatchTooLarge, build_batch(key=b"k", value=b"x" * 2_000))
        await refuse(UnsupportedBatch, build_batch())
        await refuse(UnsupportedBatch, build_batch(key=b"k", transactional=True))
        numbered = build_batch(key=b"k", producer_id=ProducerId(4), epoch=0, sequence=0)
        await refuse(UnsupportedBatch, numbered)
        await refuse(InvalidBatch, good[:-1])
        await refuse(InvalidBatch, bytearray(b"nothing"))
        await refuse(InvalidBatch, bytearray([*good[:-1], good[-1] ^ 1]))
        await refuse(InvalidBatch, with_bytes(good, 16, b"\x01"))
        await refuse(UnknownPartition, bytearray(good), 1)
        await stage(node, node.topics.topic("orders"), 0, b"v", key=b"k")  # type: ignore[arg-type]
        with pytest.raises(TopicProtected):
            await staging.stage(node.engine.topics.topic(STAGING_TOPIC), 0, memoryview(good))

    play(story)


# A publication that is broken off.


def test_decided_publication_goes_on_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()

    async def begin(node: Node) -> None:
        topic = await orders(node, 3)
        staged = [await stage(node, topic, n % 3, b"%d" % n, 2) for n in range(9)]
        original = PartPromotion._promote

        async def promote(self: PartPromotion, asked: part_copy.Promotion, *rest: object) -> None:
            if asked.part.partition != topic.partitions[0]:
                raise Unavailable("not now")
            await original(self, asked, *rest)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(PartPromotion, "_promote", promote)
            waiting = asyncio.create_task(publish(node, 1, *parts(topic, staged)))
            await until(lambda: len(values(node, topic, 0)) == 6)
            waiting.cancel()
            assert await node.engine.publications.last("app") == 1
            assert values(node, topic, 1) == []

    async def go_on(node: Node) -> None:
        topic = node.engine.topics.topic("orders")
        await until(lambda: not list(shard_for(node).machine.publications.under_way()))
        for index in range(3):
            expected = [b"%d" % n for n in range(index, 9, 3) for _ in range(2)]
            assert values(node, topic, index) == expected

    play(begin, disk=disk)
    play(go_on, disk=disk)


def test_part_that_was_broken_off_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_copy, "READ_BYTES", 100)

    async def story(node: Node) -> None:
        topic = await orders(node, 1)
        staged = [await stage(node, topic, 0, b"%d" % n, 3) for n in range(12)]
        original = Shard.begin_append
        left = [5]

        def begin_append(self: Shard, *arguments: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                left[0] = 4
                raise Overloaded("too much")
            return original(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Shard, "begin_append", begin_append)
        await publish(node, 1, part(topic, *staged))
        assert values(node, topic, 0) == [b"%d" % n for n in range(12) for _ in range(3)]

    play(story)


def test_a_publication_that_takes_too_long_has_an_unknown_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(node: Node) -> None:
        topic = await orders(node)
        staged = [await stage(node, topic, 0, b"late", 1)]
        waiting = asyncio.Event()
        timeout, limits = asyncio.timeout, []

        def limited(seconds: float | None) -> asyncio.Timeout:
            if seconds != PUBLISH_SECONDS:
                return timeout(seconds)
            limits.append(timeout(None))
            return limits[-1]

        async def hang(*_: object) -> None:
            limits[0].reschedule(0)  # It has passed.
            await waiting.wait()

        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "timeout", limited)
            patched.setattr(PartPromotion, "promote", hang)
            with pytest.raises(OutcomeUnknown, match="may be on its way"):
                await publish(node, 1, *parts(topic, staged))
        waiting.set()
        assert not (await publish(node, 1, *parts(topic, staged))).is_new

    play(story)


def test_first_batch_that_is_refused_is_not_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition takes a producer it does not know with any number: the second must wait."""

    async def story(node: Node) -> None:
        topic = await orders(node, 1)
        staged = [await stage(node, topic, 0, b"%d" % n) for n in range(4)]
        original = Shard.begin_append
        refusals = [Overloaded("too much")]

        async def refused_later(refusal: Overloaded) -> None:
            for _ in range(100):
                await asyncio.sleep(0)  # The second batch has its chance to overtake.
            raise refusal

        def begin_append(self: Shard, *arguments: object) -> object:
            if refusals:
                return asyncio.ensure_future(refused_later(refusals.pop()))
            return original(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Shard, "begin_append", begin_append)
        await publish(node, 1, part(topic, *staged))
        assert values(node, topic, 0) == [b"0", b"1", b"2", b"3"]

    play(story)


def test_late_order_of_a_coordinator_that_was_replaced_appends_nothing() -> None:
    async def story(node: Node) -> None:
        topic = await orders(node, 1)
        one, two = await stage(node, topic, 0, b"one"), await stage(node, topic, 0, b"two")
        promoting = PartPromotion(node.topics, node.engine.publications.staging)
        for batch, staged in enumerate((one, two)):
            await publish(node, batch, part(topic, staged))
            known = shard_for(node).machine.publications.get("app")
            assert known is not None
            for epoch in range(known.epoch + 1):
                late = part_copy.Promotion(part(topic, one), known.producer_id, epoch)
                await promoting.promote(late, ("app", epoch))
        assert values(node, topic, 0) == [b"one", b"two"]

    play(story)


def test_part_that_is_lost_is_told_and_does_not_stop_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(node: Node) -> None:
        topic = await orders(node, 1)
        one, two = await stage(node, topic, 0, b"one"), await stage(node, topic, 0, b"two")
        original = PartPromotion.check

        async def check(self: PartPromotion, *arguments: object) -> None:
            await original(self, *arguments)  # type: ignore[arg-type]
            await node.engine.topics.trim(
                node.engine.topics.topic(STAGING_TOPIC), staging_index(node, one.staging), one.end
            )

        with monkeypatch.context() as patch:
            patch.setattr(PartPromotion, "check", check)
            with pytest.raises(StagingExpired):
                await publish(node, 1, part(topic, one))
        assert (await publish(node, 2, part(topic, two))).is_new
        assert values(node, topic, 0) == [b"two"]

    play(story)


def test_applications_that_are_silent_for_a_month_are_forgotten() -> None:
    clock = ManualClock()

    async def story(node: Node) -> None:
        await publish(node, 5)
        clock.advance(31 * 24 * HOUR_MS)
        await publish(node, 5, application=_neighbour(node))
        for _ in range(6_001):
            node.engine.publications.tick()
        await until(lambda: shard_for(node).machine.publications.get("app") is None)
        assert await node.engine.publications.last("app") == NOTHING_PUBLISHED
        assert (await publish(node, 0)).is_new

    play(story, clock=clock)


def _neighbour(node: Node) -> str:
    """Another application of the same shard, so that time passes there."""
    shard = node.engine.topics.group_shard
    return next(name for name in map(str, range(99)) if shard(name) == shard("app"))
