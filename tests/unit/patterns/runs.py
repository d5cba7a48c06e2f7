"""Tests of patterns run as coroutines on an engine in memory, which is the real one."""

import asyncio
import functools
from collections.abc import Awaitable, Callable

import penstock
from penstock.client.client import Client

SECONDS_MAX = 60


def on_memory(test: Callable[[Client], Awaitable[None]]) -> Callable[[], None]:
    """A test that is given a client of a fresh engine."""

    def run() -> None:
        async def main() -> None:
            async with asyncio.timeout(SECONDS_MAX), penstock.connect("memory:") as client:
                await test(client)

        asyncio.run(main())

    functools.update_wrapper(run, test)
    del run.__wrapped__  # type: ignore[attr-defined]  # pytest would ask for a fixture.
    return run
