"""Waiting that was asked for is told apart from waiting that was not."""

import asyncio
from pathlib import Path

import pytest

from penstock.core.message import NewMessage
from penstock.engine.topics.poll_time import begin_parking, parked
from tests.kafka_broker import open_broker


@pytest.mark.asyncio
async def test_what_is_awaited_counts_for_the_request_it_is_for() -> None:
    async def wait() -> None:
        with parked():
            await asyncio.sleep(0)

    async def request() -> float:
        mine = begin_parking()
        await asyncio.gather(wait(), wait())
        return mine.seconds

    first, second = await asyncio.gather(request(), request())
    assert first > 0
    assert second > 0


@pytest.mark.asyncio
async def test_without_a_request_nobody_counts() -> None:
    with parked():
        await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_a_long_poll_is_waiting(tmp_path: Path) -> None:
    async with open_broker(tmp_path) as broker:
        engine = broker.node.engine
        topic = await engine.topics.create_topic("orders", 1, {})
        await engine.delivery.receive(topic)
        mine = begin_parking()
        waiting = asyncio.create_task(engine.delivery.receive(topic, wait_ms=20_000))
        for _ in range(3):
            await asyncio.sleep(0)
        await engine.delivery.send(topic, [NewMessage(b"here")])
        assert len(await waiting) == 1
        assert mine.seconds > 0
