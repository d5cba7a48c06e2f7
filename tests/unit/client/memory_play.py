"""A scene: a client of an engine in memory, and the clock of both, for tests of the whole way."""

import asyncio
from collections.abc import Awaitable, Callable

import penstock
from penstock import Client, ClientSettings
from penstock.testing.clock import ManualClock

Scene = Callable[[Client, ManualClock], Awaitable[None]]
PATIENCE_SECONDS = 60.0
"""A scene that takes longer hangs."""


def play(scene: Scene, *, settings: ClientSettings | None = None) -> None:
    """Play a scene on a loop of its own, with an engine of its own."""

    async def whole() -> None:
        clock = ManualClock()
        async with asyncio.timeout(PATIENCE_SECONDS):
            async with penstock.connect(
                "memory:", settings=settings or ClientSettings(), clock=clock
            ) as client:
                await scene(client, clock)

    asyncio.run(whole())
