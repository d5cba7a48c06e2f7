"""Events for pages that are open."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse

from penstock.watch.alert import Alert
from penstock.web.app import make_app
from penstock.web.broker import Phase
from penstock.web.dashboard.live.stream import Live
from tests.unit.watch.made import readings
from tests.unit.web.asgi import FakeBroker, call

REQUEST = Request({"type": "http", "method": "GET", "path": "/live", "headers": []})


async def listen(live: Live) -> AsyncIterator[Any]:
    answer = await live.answer(REQUEST)
    assert isinstance(answer, StreamingResponse)
    assert answer.media_type == "text/event-stream"
    return aiter(answer.body_iterator)


def told(part: bytes) -> Any:
    head, _, data = part.rpartition(b"data: ")
    assert head.endswith(b"event: tick\n")
    return msgspec.json.decode(data)


def test_a_page_is_told_at_once_and_at_every_tick() -> None:
    async def scenario() -> None:
        live = Live(FakeBroker(reasons=["<the disk> is full"]), tick_seconds=0.001)
        stream = await listen(live)
        for _ in range(3):
            assert told(await anext(stream))["problems"] == ["<the disk> is full"]
        assert live.listeners == 1
        await stream.aclose()  # type: ignore[attr-defined]
        assert live.listeners == 0

    asyncio.run(scenario())


def test_the_number_of_listeners_has_a_bound() -> None:
    async def scenario() -> None:
        live = Live(FakeBroker(), listeners_max=2, tick_seconds=0.001)
        streams = [await listen(live) for _ in range(2)]
        for stream in streams:
            await anext(stream)
        refused = await live.answer(REQUEST)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]
        again = await listen(live)
        await anext(again)
        await again.aclose()  # type: ignore[attr-defined]

    asyncio.run(scenario())


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_sites_are_not_let_in(site: str) -> None:
    app = make_app(FakeBroker())
    assert call(app, "GET", "/live", headers={"sec-fetch-site": site}).status == 403


def test_one_that_does_not_keep_up_misses_beats_and_nobody_waits() -> None:
    async def scenario() -> None:
        live = Live(FakeBroker(), tick_seconds=0.001)
        slow, quick = await listen(live), await listen(live)
        await anext(slow)
        for _ in range(50):
            await anext(quick)
        for _ in range(5):
            told(await anext(slow))
        await slow.aclose()  # type: ignore[attr-defined]
        await quick.aclose()  # type: ignore[attr-defined]

    asyncio.run(scenario())


def test_a_stop_ends_the_stream() -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        live = Live(broker, tick_seconds=0.001)
        stream = await listen(live)
        await anext(stream)
        broker.phase = Phase.STOPPING
        parts = [part async for part in stream]
        assert parts[-1] == b"event: end\ndata: {}\n\n"
        assert live.listeners == 0
        assert (await live.answer(REQUEST)).status_code == 503, "nobody comes in any more"

    asyncio.run(scenario())


def test_a_page_is_told_at_once_when_the_cluster_is_not_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.web.dashboard.live.stream.LOOK_SECONDS", 0.001)

    async def scenario() -> None:
        broker, watch = FakeBroker(), SeenWatch()
        broker.watch = watch  # type: ignore[assignment]
        stream = await listen(Live(broker, tick_seconds=3_600))
        told(await anext(stream))
        watch.readings = msgspec.structs.replace(watch.readings, health="2 of 3 nodes")
        async with asyncio.timeout(60):
            told(await anext(stream))
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(scenario())


class SeenWatch:
    """A watch that has looked once."""

    def __init__(self) -> None:
        self.readings = readings()

    def firing(self) -> list[Alert]:
        return []
