"""The client's way into an engine of its own process: a `Channel` without a wire.

It behaves as the one over TCP does, so that what works on `memory:` in a test works on a cluster:
requests begin in the order in which they were asked, only so many are under way at a time, one that
is not answered in time ends with `OutcomeUnknown`, and so does one that is under way when the
client is closed.
"""

import asyncio
import os
from collections.abc import Sequence

from penstock.client.connection.channel import Buffer, Late, Make, OnAnswer
from penstock.client.connection.urls import File, Memory
from penstock.core import limits
from penstock.core.clock import Clock
from penstock.core.errors import ClientClosed, OutcomeUnknown, Overloaded
from penstock.embedded.engine import EmbeddedEngine
from penstock.embedded.open_engines import OPEN_ENGINES, Hold, OpenEngines
from penstock.embedded.settings import EmbeddedSettings
from penstock.wire.requests import Answer, NodeInfo, Request


class EmbeddedChannel:
    """A client's share of an engine; make one with `await EmbeddedChannel.open(...)`."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._engine = hold.engine
        self.on_late: Late = lambda _node, _request, _answer: None
        """Never called: a cancelled call stops the work on its request."""
        self._under_way: set[asyncio.Timeout] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    @classmethod
    async def open(
        cls,
        place: File | Memory,
        *,
        clock: Clock | None = None,
        settings: EmbeddedSettings | None = None,
        engines: OpenEngines = OPEN_ENGINES,
    ) -> "EmbeddedChannel":
        """Open the engine, or share the one that this process has already opened there.

        Raises `DirectoryInUse`, naming who has the directory, and what opening a log raises.
        The clock and settings of the first caller count."""
        path = _real(place.path) if isinstance(place, File) else None

        async def opening() -> EmbeddedEngine:
            return await EmbeddedEngine.open(path, clock=clock, settings=settings)

        if isinstance(place, Memory) and not place.name:
            engine = await opening()
            return cls(Hold(engine, engine.close))
        name = f"file:{path}" if isinstance(place, File) else f"memory:{place.name}"
        return cls(await engines.hold(name, opening, clock=clock))

    @property
    def engine(self) -> EmbeddedEngine:
        """The engine that serves the requests."""
        return self._engine

    def learn(self, nodes: Sequence[NodeInfo]) -> None:
        """Do nothing: there is only one node."""

    async def ask(
        self,
        node: int | None,  # noqa: ARG002 - there is only one
        request: Request,
        payload: Buffer = b"",
        *,
        timeout: float,
    ) -> tuple[Answer, Buffer]:
        """Let the engine carry a request out."""
        if self._closed:
            raise ClientClosed("the client is closed")
        if len(self._under_way) >= limits.NATIVE_REQUESTS_MAX:
            raise Overloaded(f"{len(self._under_way)} requests are under way")
        if isinstance(payload, bytes) and payload:
            payload = bytearray(payload)  # The engine stamps a batch in place.
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                self._under_way.add(limit)
                self._idle.clear()
                return await self._engine.answer(request, payload)
        except TimeoutError:
            raise self._unanswered(request, timeout) from None
        finally:
            self._under_way.discard(limit)
            if not self._under_way:
                self._idle.set()

    def begin(
        self,
        node: int,  # noqa: ARG002
        make: Make,  # noqa: ARG002
        ended: OnAnswer,  # noqa: ARG002
        *,
        at_once: bool,  # noqa: ARG002
    ) -> bool:
        """Never: the engine's work is a task's anyway."""
        return False

    def _unanswered(self, request: Request, seconds: float) -> OutcomeUnknown:
        name = type(request).__name__
        if self._closed:
            return OutcomeUnknown(f"the client was closed while {name} was under way")
        return OutcomeUnknown(f"{name} was not answered within {seconds:.1f} s")

    async def close(self) -> None:
        """End requests in flight and release the share; the last one closes the engine."""
        if not self._closed:
            self._closed = True
            now = asyncio.get_running_loop().time()
            for limit in self._under_way:
                if not limit.expired():
                    limit.reschedule(now)
            await self._idle.wait()
        await self._hold.release()


def _real(path: str) -> str:
    """The canonical path of a directory."""
    return os.path.realpath(path)
