"""Where logs start and end, asked of leaders that move."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from penstock.client.reader.offsets import ends_of, find_offsets, milliseconds_of, starts_of
from penstock.client.reader.positions import TopicPartition
from penstock.core.errors import (
    DeadlinePassed,
    InvalidRequest,
    NotLeader,
    OutcomeUnknown,
    PenstockError,
    UnknownPartition,
)
from penstock.core.types import EARLIEST, LATEST
from penstock.wire.failures import describe_error
from penstock.wire.read_requests import AskOffsets, OffsetFound, OffsetsFound
from penstock.wire.requests import Answer, Request
from tests.unit.client.played_channel import PlayedChannel, asking_through, topic_info

PARTS = [TopicPartition("orders", index) for index in range(3)]
Trouble = Callable[[int | None, int], PenstockError | None]


def answering(trouble: Trouble) -> Callable[[int | None, Request], Answer]:
    """Nodes that answer with a hundred for each node's number and ten for each partition's."""

    def answer(node: int | None, request: Request) -> Answer:
        assert isinstance(request, AskOffsets)
        rows = []
        for part in request.parts:
            error = trouble(node, part.index)
            failure = None if error is None else describe_error(error)
            offset = 100 * (node or 0) + 10 * part.index + (part.time_ms == LATEST)
            rows.append(OffsetFound(part.topic_id, part.index, offset, failure=failure))
        return OffsetsFound(tuple(rows))

    return answer


def test_each_leader_is_asked_once_for_all_it_leads() -> None:
    async def play() -> None:
        channel = PlayedChannel(topic_info(1, 2, 1))
        channel.replies[AskOffsets] = answering(lambda _node, _index: None)
        router = asking_through(channel)
        deadline = router.deadline(10)
        assert await ends_of(router, PARTS, deadline=deadline) == dict(
            zip(PARTS, (101, 211, 121), strict=True)
        )
        asked = [node for node, request in channel.asked if isinstance(request, AskOffsets)]
        assert sorted(filter(None, asked)) == [1, 2]
        assert await starts_of(router, PARTS[:1], deadline=deadline) == {PARTS[0]: 100}
        assert await find_offsets(router, {}, deadline=deadline) == {}

    asyncio.run(play())


def test_whoever_does_not_lead_any_more_is_not_asked_again() -> None:
    async def play() -> None:
        channel = PlayedChannel(topic_info(1, 2, 0))

        def trouble(node: int | None, index: int) -> PenstockError | None:
            channel.topic = topic_info(1, 3, 3)
            return NotLeader("node 3 leads") if (node, index) == (2, 1) else None

        channel.replies[AskOffsets] = answering(trouble)
        router = asking_through(channel)
        found = await find_offsets(
            router, dict.fromkeys(PARTS, EARLIEST), deadline=router.deadline(10)
        )
        assert found == dict(zip(PARTS, (100, 310, 320), strict=True))

    asyncio.run(play())


def test_in_the_end_the_deadline_passes() -> None:
    async def play() -> None:
        channel = PlayedChannel(topic_info(1, 1, 1))

        def unheard(_node: int | None, _request: Request) -> Answer:
            raise OutcomeUnknown("no answer came")

        channel.replies[AskOffsets] = unheard
        router = asking_through(channel)
        with pytest.raises(DeadlinePassed, match="partition 0 of orders and 2 more partitions"):
            await ends_of(router, PARTS, deadline=router.deadline(0.1))

    asyncio.run(play())


def test_what_does_not_exist_is_told_at_once() -> None:
    async def play() -> None:
        router = asking_through(PlayedChannel(topic_info(1)))
        with pytest.raises(UnknownPartition, match="partitions 0 to 0, not 1"):
            await ends_of(router, PARTS, deadline=router.deadline(10))

    asyncio.run(play())


def test_a_time_needs_a_zone() -> None:
    assert milliseconds_of(datetime(1970, 1, 2, tzinfo=UTC)) == 24 * 60 * 60 * 1_000
    assert milliseconds_of(datetime(1960, 1, 1, tzinfo=UTC)) == 0
    with pytest.raises(InvalidRequest, match="tzinfo=UTC"):
        milliseconds_of(datetime(2026, 1, 1))  # noqa: DTZ001
