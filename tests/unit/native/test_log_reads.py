"""Fetches and offsets, answered by a real node: what is read, what is waited for, what is said."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.core.errors import InvalidRequest
from penstock.core.message_batches import iter_batches, read_messages
from penstock.core.topic import Topic
from penstock.core.types import EARLIEST, LATEST
from penstock.engine.topics.topics import Acks
from penstock.native.context import Buffer, Context
from penstock.native.log_reads import answer_fetch, answer_offsets
from penstock.wire.read_requests import (
    AskOffset,
    AskOffsets,
    Fetch,
    Fetched,
    FetchPart,
    OffsetFound,
    OffsetsFound,
)
from tests.batches import TODAY_MS, build_batch
from tests.unit.engine.nodes import Nodes

NOTHING = memoryview(b"")
Story = Callable[[Context, Topic], Awaitable[None]]


def on_one_node(path: Path, story: Story, partitions: int = 2) -> None:
    async def play() -> None:
        nodes = Nodes(path, [1])
        await nodes.start()
        try:
            topic = await nodes[1].engine.topics.create_topic("orders", partitions, {})
            await story(Context(nodes[1]), topic)
        finally:
            await nodes.stop()

    asyncio.run(play())


async def append(context: Context, topic: Topic, index: int, batch: bytearray) -> None:
    await context.engine.topics.produce(topic, index, batch, Acks.ALL)


async def fetch(
    context: Context,
    topic: Topic,
    *offsets: tuple[int, int],
    bytes_max: int = 1 << 20,
    wait_ms: int = 0,
) -> tuple[Fetched, Buffer]:
    parts = tuple(FetchPart(topic.topic_id, index, offset) for index, offset in offsets)
    answer, payload = await answer_fetch(context, Fetch(parts, bytes_max, wait_ms), None)
    assert isinstance(answer, Fetched)
    assert sum(part.size for part in answer.parts) == len(payload)
    return answer, payload


def offsets_in(payload: Buffer) -> list[int]:
    return [one.offset for batch in iter_batches(payload) for one in read_messages(batch)]


def test_several_partitions_are_read_at_once(tmp_path: Path) -> None:
    async def story(context: Context, topic: Topic) -> None:
        await append(context, topic, 0, build_batch(3))
        await append(context, topic, 1, build_batch(2, compression=3))
        answer, payload = await fetch(context, topic, (0, 0), (1, 1))
        first, second = answer.parts
        assert (first.index, first.log_start, first.high_watermark) == (0, 0, 3)
        assert (second.index, second.high_watermark, second.failure) == (1, 2, None)
        assert offsets_in(payload[: first.size]) == [0, 1, 2]
        assert offsets_in(payload[first.size :]) == [0, 1]  # The batch that holds offset 1.

    on_one_node(tmp_path, story)


def test_an_answer_has_at_least_one_batch_and_otherwise_what_fits(tmp_path: Path) -> None:
    async def story(context: Context, topic: Topic) -> None:
        for _ in range(4):
            await append(context, topic, 0, build_batch(2))
            await append(context, topic, 1, build_batch(2))
        answer, payload = await fetch(context, topic, (0, 0), (1, 0), bytes_max=1)
        assert offsets_in(payload) == [0, 1]
        assert answer.parts[1].size == 0
        size = answer.parts[0].size
        answer, payload = await fetch(context, topic, (1, 2), (0, 0), bytes_max=4 * size)
        assert [part.size for part in answer.parts] == [3 * size, size]

    on_one_node(tmp_path, story)


def test_a_fetch_waits_until_there_is_something(tmp_path: Path) -> None:
    async def story(context: Context, topic: Topic) -> None:
        waiting = asyncio.create_task(fetch(context, topic, (0, 0), (1, 0), wait_ms=60_000))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        await append(context, topic, 1, build_batch(1))
        answer, payload = await waiting
        assert [part.size > 0 for part in answer.parts] == [False, True]
        assert offsets_in(payload) == [0]
        assert len(context.engine.topics.waiting) == 0

    on_one_node(tmp_path, story)


def test_a_fetch_does_not_wait_for_ever(tmp_path: Path) -> None:
    async def story(context: Context, topic: Topic) -> None:
        answer, payload = await fetch(context, topic, (0, 0), wait_ms=1)
        assert (answer.parts[0].high_watermark, payload) == (0, b"")
        assert len(context.engine.topics.waiting) == 0

    on_one_node(tmp_path, story)


def test_one_partitions_trouble_is_its_own(tmp_path: Path) -> None:
    async def story(context: Context, topic: Topic) -> None:
        await append(context, topic, 0, build_batch(1))
        parts = (
            FetchPart(topic.topic_id, 0, 0),
            FetchPart(topic.topic_id, 1, 7),
            FetchPart(topic.topic_id, 9, 0),
            FetchPart(bytes(16), 0, 0),
        )
        answer, payload = await answer_fetch(context, Fetch(parts, 1_000, 60_000), None)
        assert isinstance(answer, Fetched)
        assert offsets_in(payload) == [0]
        kinds = [part.failure.kinds[0] if part.failure else None for part in answer.parts]
        assert kinds == [None, "OffsetOutOfRange", "UnknownPartition", "UnknownTopicId"]

    on_one_node(tmp_path, story)


def test_too_many_partitions_are_refused(tmp_path: Path) -> None:
    async def story(context: Context, topic: Topic) -> None:
        parts = (FetchPart(topic.topic_id, 0, 0),) * 1_001
        with pytest.raises(InvalidRequest, match="1001 partitions"):
            await answer_fetch(context, Fetch(parts, 1_000), None)

    on_one_node(tmp_path, story)


async def find(context: Context, topic: Topic, *times: int) -> list[OffsetFound]:
    parts = tuple(AskOffset(topic.topic_id, 0, time_ms) for time_ms in times)
    answer, _ = await answer_offsets(context, AskOffsets(parts), NOTHING)
    assert isinstance(answer, OffsetsFound)
    return list(answer.parts)


@pytest.mark.parametrize("compression", [0, 1, 4])
def test_a_time_is_found_to_the_message(tmp_path: Path, compression: int) -> None:
    async def story(context: Context, topic: Topic) -> None:
        for number in range(3):
            early = TODAY_MS + 1_000 * number
            await append(
                context, topic, 0, build_batch(10, timestamp=early, compression=compression)
            )
        asked = [0, 3, 9, 10, 1_004, 2_009, 2_010]
        found = await find(context, topic, *(TODAY_MS + one for one in asked))
        assert [one.offset for one in found] == [0, 3, 9, 10, 14, 29, 30]
        assert found[-1].time_ms == -1
        assert [one.time_ms - TODAY_MS for one in found[:-1]] == [0, 3, 9, 1_000, 1_004, 2_009]

    on_one_node(tmp_path, story, partitions=1)


def test_the_ends_of_a_log(tmp_path: Path) -> None:
    async def story(context: Context, topic: Topic) -> None:
        await append(context, topic, 0, build_batch(5))
        await context.engine.topics.trim(topic, 0, 2)  # type: ignore[arg-type]
        found = await find(context, topic, EARLIEST, LATEST, 0)
        assert [one.offset for one in found] == [2, 5, 2]
        parts = (AskOffset(topic.topic_id, 4, LATEST), AskOffset(bytes(16), 0, EARLIEST))
        answer, _ = await answer_offsets(context, AskOffsets(parts), NOTHING)
        assert isinstance(answer, OffsetsFound)
        kinds = [one.failure.kinds[0] for one in answer.parts if one.failure is not None]
        assert kinds == ["UnknownPartition", "UnknownTopicId"]

    on_one_node(tmp_path, story, partitions=1)
