"""The engines of this process, by place: clients that name the same one share it.

A directory can be open once, and `memory:name` is one engine for all who say that name. The first
client opens the engine, the last one that closes ends it. A nameless `memory:` is not
shared.

An engine lives on the event loop it was opened on. A client on another loop is refused, with the
thread that has it: answers would have to travel between threads, and the engine would end with a
loop that knows nothing of its other users. If that loop has ended without closing the engine, the
engine is let go of as after a crash, which loses nothing that a directory acknowledged. What a
parent process had open is not this process's, however it was forked.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from penstock.core.clock import Clock
from penstock.core.errors import DirectoryInUse, InvalidRequest
from penstock.embedded.engine import EmbeddedEngine

OpenEngine = Callable[[], Coroutine[Any, Any, EmbeddedEngine]]


class _Shared:
    """An engine that is opening, open or closing, and the number of its users."""

    def __init__(self, place: str, clock: Clock | None, opening: OpenEngine) -> None:
        self.place = place
        self.clock = clock
        self.users = 0
        self.loop = asyncio.get_running_loop()
        self.thread = threading.current_thread().name
        self.process = os.getpid()
        self.opening = self.loop.create_task(opening(), name=f"open {place}")
        self.closing: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """End the engine; one that could not be opened is nothing to end."""
        await asyncio.wait([self.opening])
        if not self.opening.cancelled() and self.opening.exception() is None:
            await self.opening.result().close()

    def abandon(self) -> None:
        """The loop has ended: nothing can be awaited on it."""
        if self.opening.done() and not self.opening.cancelled():
            if self.opening.exception() is None:
                self.opening.result().abandon()


class Hold:
    """A client's share of an engine; to be released once."""

    def __init__(self, engine: EmbeddedEngine, release: Callable[[], Awaitable[None]]) -> None:
        self.engine = engine
        self._release: Callable[[], Awaitable[None]] | None = release

    async def release(self) -> None:
        """Need the engine no more; the last one who says so waits until it is closed."""
        release, self._release = self._release, None
        if release is not None:
            await release()


class OpenEngines:
    """All engines of a process that may be shared."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shared: dict[str, _Shared] = {}

    async def hold(self, place: str, opening: OpenEngine, *, clock: Clock | None = None) -> Hold:
        """A share of the engine at a place; `opening` makes one if there is none."""
        while True:
            shared, ending = self._enter(place, opening, clock)
            if ending is None:
                break
            await asyncio.wait([ending])  # It is being closed; then it can be opened again.
        try:
            engine = await asyncio.shield(shared.opening)
        except BaseException:
            await self._leave(shared)
            raise
        return Hold(engine, lambda: self._leave(shared))

    def let_go_of_ended(self) -> None:
        """Abandon engines, with their threads, whose loop ended without closing them."""
        with self._lock:
            for place, shared in list(self._shared.items()):
                if shared.process == os.getpid() and shared.loop.is_closed():
                    shared.abandon()
                    del self._shared[place]

    def _enter(
        self, place: str, opening: OpenEngine, clock: Clock | None
    ) -> tuple[_Shared, asyncio.Task[None] | None]:
        """Count one user more, unless the engine is just ending."""
        with self._lock:
            shared = self._shared.get(place)
            if shared is not None and shared.process != os.getpid():
                shared = None  # It is our parent's.
            if shared is not None and shared.loop.is_closed():
                shared.abandon()
                shared = None
            if shared is None:
                shared = self._shared[place] = _Shared(place, clock, opening)
            elif shared.loop is not asyncio.get_running_loop():
                raise DirectoryInUse(
                    f"{place} is open in this process already, on another event loop (thread"
                    f" {shared.thread}); use that client, or close it first"
                )
            elif clock is not None and shared.clock is not clock:
                raise InvalidRequest(f"{place} is open in this process already, with another clock")
            if shared.closing is None:
                shared.users += 1
            return shared, shared.closing

    async def _leave(self, shared: _Shared) -> None:
        with self._lock:
            shared.users -= 1
            if shared.users > 0:
                return
            shared.closing = asyncio.create_task(self._close(shared), name=f"close {shared.place}")
        # The caller may be cancelled; the engine is closed all the same.
        await asyncio.shield(shared.closing)

    async def _close(self, shared: _Shared) -> None:
        try:
            await shared.close()
        finally:
            with self._lock:
                if self._shared.get(shared.place) is shared:
                    del self._shared[shared.place]


OPEN_ENGINES = OpenEngines()
"""The open engines of this process."""
