"""The pauses of a crew: while it receives nothing, the messages it holds are released.

There are two reasons: a dependency must not be called until some time (`pause`), and another worker
of this process needs the exclusive slot (`clear`). In both cases messages in the steal queues are
released uncounted: they would only wait here, on leases, while other processes could take them.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from penstock.client.message import Message
from penstock.core.errors import PenstockError
from penstock.workers.source import Source
from penstock.workers.steal_queues import StealQueues

_log = logging.getLogger(__name__)


class Item(NamedTuple):
    """A message, and where it came from."""

    message: Message[Any]
    source: Source


class Pauses:
    """The pauses of one crew; `on_resume` is called whenever it may receive again."""

    def __init__(
        self, sources: Sequence[Source], shares: StealQueues[Item], on_resume: Callable[[], None]
    ) -> None:
        self._sources = sources
        self._shares = shares
        self._on_resume = on_resume
        self._until = 0.0
        self._is_cleared = False
        self._is_over = False
        self._returning = 0
        """The number of releases in flight."""
        self._returned = asyncio.Event()

    @property
    def holds(self) -> bool:
        """True while nothing may be received."""
        return self._is_cleared or self._is_over or asyncio.get_running_loop().time() < self._until

    async def pause(self, seconds: float) -> None:
        """Receive nothing for this time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if until > self._until:
            self._until = until
            loop.call_at(until, self._on_resume)
        await self.give_back(self._shares.take_all())

    async def clear(self) -> None:
        """Receive nothing until `end_clearing`; return when only the messages in hand are left."""
        self._is_cleared = True
        await self._let_go()

    def end_clearing(self) -> None:
        """The exclusive attempt has ended."""
        self._is_cleared = False
        if not self._is_over:
            for source in self._sources:
                source.resume()
            self._on_resume()

    async def end(self) -> None:
        """Receive no more; return when only the messages in hand are left."""
        self._is_over = True
        await self._let_go()

    async def _let_go(self) -> None:
        for source in self._sources:
            await source.hold()
        await self.give_back(self._shares.take_all())
        while self._returning:
            self._returned.clear()
            await self._returned.wait()

    async def give_back(self, items: Sequence[Item]) -> int:
        """Uncounted, as if they had never been here; what cannot be said now, the lease says."""
        by_source: dict[Source, list[Message[Any]]] = {}
        for item in items:
            by_source.setdefault(item.source, []).append(item.message)
        for source, messages in by_source.items():
            self._returning += 1
            try:
                await source.give_back(messages)
            except PenstockError as problem:
                _log.warning("messages of %s could not be given back: %s", source.name, problem)
            finally:
                self._returning -= 1
                self._returned.set()
        return len(items)
