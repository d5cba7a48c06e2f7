"""A shared/exclusive lock without waiting: ordinary messages are worked on side by side, a suspect
alone.

Every message that a process holds when it dies has been delivered in vain, whether a worker had it
or not. So a process that works on a suspect must hold nothing else: the crews of the process
release their queued messages (`clear`) and receive nothing until it is over (`resume`), and
messages that workers have are finished first, unless that takes longer than half a minute: a
suspect does not stop a queue.

A request for the slot never waits, because a waiter would hold a message: it is granted at once or
refused, and then the message is released, too, before the context is left.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

_log = logging.getLogger(__name__)

FINISH_SECONDS = 30.0


class ExclusiveSlot:
    """The exclusive slot that all crews of a process share."""

    def __init__(self) -> None:
        self._others = 0
        """The number of other workers that hold a message."""
        self._is_wanted = False
        self._empty = asyncio.Event()
        self._empty.set()
        self._crews: list[tuple[Callable[[], Awaitable[None]], Callable[[], None]]] = []

    def join(self, clear: Callable[[], Awaitable[None]], resume: Callable[[], None]) -> None:
        """Register a crew, which has to pause while a message runs exclusively."""
        self._crews.append((clear, resume))

    @asynccontextmanager
    async def together(self) -> AsyncIterator[bool]:
        """Enter the shared mode; False if a message runs exclusively, or is about to."""
        self._others += 1
        self._empty.clear()
        try:
            yield not self._is_wanted
        finally:
            self._others -= 1
            if not self._others:
                self._empty.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[bool]:
        """Enter the exclusive mode; False if another message has it, or is about to."""
        if self._is_wanted:
            async with self.together():
                yield False
            return
        self._is_wanted = True
        try:
            for clear, _ in self._crews:
                await clear()
            await self._wait_empty()
            yield True
        finally:
            self._is_wanted = False
            for _, resume in self._crews:
                resume()

    async def _wait_empty(self) -> None:
        try:
            async with asyncio.timeout(FINISH_SECONDS):
                await self._empty.wait()
        except TimeoutError:
            _log.warning("a suspect is worked on beside work that has lasted for long")
