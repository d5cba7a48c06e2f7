"""Applications that run in a test: on an engine in memory, with a clock that the test moves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, TypeVar

import penstock
from penstock.client.client import Client
from penstock.client.dead_letter import DeadLetter
from penstock.testing.clock import ManualClock
from penstock.workers.app import App

T = TypeVar("T")

WITHIN_SECONDS = 60.0
_names = count(1)


def play(story: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a test's story on a loop of its own."""
    return asyncio.run(story())


async def until(condition: Callable[[], bool]) -> None:
    """Let others go on until this holds."""
    async with asyncio.timeout(WITHIN_SECONDS):
        while not condition():  # noqa: ASYNC110 - there is nothing to wait for but turns
            await asyncio.sleep(0)


class Rig:
    """An application, a second client of its broker, and the clock of both."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.app = App(f"memory:workers-{next(_names)}", clock=self.clock, grace=5, seed=1)
        self.client: Client = penstock.connect(self.app.url, clock=self.clock)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """While its workers work."""
        async with self.client, self.app:
            yield

    async def dead(self, queue: str) -> list[DeadLetter]:
        """How the messages died that were moved to the dead-letter queue of a queue."""
        letters = await self.client.queue(f"{queue}-dlq").peek(100)
        return [one.dead_letter for one in letters if one.dead_letter is not None]

    async def until_stats(self, queue: str, group: str = "queue", **expected: int) -> None:
        """Let others go on until the queue's counts are these."""
        found: dict[str, int] = {}
        try:
            async with asyncio.timeout(WITHIN_SECONDS):
                while found != expected:
                    stats = await self.client.queue(queue, group=group).stats()
                    found = {name: getattr(stats, name) for name in expected}
                    await asyncio.sleep(0)
        except TimeoutError:
            raise AssertionError(f"{found} never became {expected}") from None
