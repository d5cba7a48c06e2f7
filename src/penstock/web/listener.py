"""The HTTP port: uvicorn, embedded in the loop of the broker.

uvicorn's own `Server` is used for what it does well, and a few things are changed. It installs no
signal handlers, because a signal stops a broker in an order uvicorn knows nothing of. A request's
head has a bound and a deadline, which the parser does not have: otherwise a few silent connections
use up all of them. Probes are answered however many connections there are. What clients do not read
is drawn on the memory budget. A client that leaves in the middle of pipelined requests is no error.
And the port is bound here, before anything is started, so that a port in use is our error with our
sentence.

Another protocol may come first: with `first`, every connection begins with what that makes, which
may hand it over to uvicorn later.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Collection, Iterator
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from penstock.core.limits import KIB
from penstock.core.memory_budget import ANSWERS, SCOPE_ACCOUNT, MemoryAccount, MemoryBudget
from penstock.web.port import BACKLOG, bind

HEAD_BYTES_MAX = 64 * KIB
HEAD_SECONDS_MAX = 10.0
IDLE_SECONDS_MAX = 30
WRITE_HIGH_BYTES = 16 * KIB
"""The limit of answers in the transport's buffer, which the memory budget does not count."""

logger = logging.getLogger(__name__)

MakeProtocol = Callable[[], asyncio.Protocol]
"""Makes the protocol of one connection."""


class _Flow(FlowControl):
    """uvloop raises when a closed transport is paused or resumed."""

    def pause_reading(self) -> None:
        if not self._transport.is_closing():
            super().pause_reading()

    def resume_reading(self) -> None:
        if not self._transport.is_closing():
            super().resume_reading()


class BoundedProtocol(HttpToolsProtocol):
    """A connection with limits on the time and the size of each request head."""

    memory: MemoryBudget
    always: Collection[bytes] = ()
    """Paths that are served however many connections there are."""
    _account: MemoryAccount | None = None
    _deadline: asyncio.TimerHandle | None = None
    _in_head = True
    _head_bytes = 0
    _running: RequestResponseCycle | None = None
    _unsent_bytes = 0
    _moved_bytes = 0
    _writing_paused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport)
        self._account = self.memory.open("http", self.client[0] if self.client else "", self)
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        # uvicorn tells only the request that came last.
        waiting = [cycle for cycle, _ in self.pipeline]
        self.pipeline.clear()
        for cycle in (*waiting, self._running):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        super().connection_lost(exc)
        if self._account is not None:
            self._account.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing_paused = True
        self._count_unsent()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._writing_paused = False
        self._count_unsent()

    def _count_unsent(self) -> None:
        now = self.transport.get_write_buffer_size() if self._writing_paused else 0
        before, self._unsent_bytes = self._unsent_bytes, now
        if self._account is not None:
            self._account.take(ANSWERS, now)
            self._account.give_back(ANSWERS, before)
        self._moved_bytes += max(0, before - now)

    def moved_bytes(self) -> int | None:
        """For the memory budget: how far unread answers have come."""
        if not self._writing_paused:
            return None
        self._count_unsent()
        return self._moved_bytes

    def evict(self, reason: str) -> None:
        """For the memory budget: give way to others."""
        logger.warning("HTTP client %s was disconnected: %s", self.client, reason)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES_MAX:
            self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._end_head()
        self._expect_head()

    def on_headers_complete(self) -> None:
        self._end_head()
        cast(dict[str, object], self.scope)[SCOPE_ACCOUNT] = self._account
        if self.url.partition(b"?")[0] not in self.always:
            super().on_headers_complete()
            return
        bound, self.limit_concurrency = self.limit_concurrency, None
        try:
            super().on_headers_complete()
        finally:
            self.limit_concurrency = bound

    def _expect_head(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        self._deadline = self.loop.call_later(HEAD_SECONDS_MAX, self._give_up)

    def _end_head(self) -> None:
        self._in_head = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpListener:
    """An ASGI application at a port; `start` it, later `close` it."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        connections_max: int,
        first: Callable[[MakeProtocol], asyncio.Protocol] | None = None,
        memory: MemoryBudget | None = None,
        always: Collection[str] = (),
    ) -> None:
        """`connections_max` are those of the application, but for requests of the paths `always`.
        `first` makes the protocol that a connection begins with; it is given how to make the
        application's. What clients do not read is drawn on `memory`."""
        budget = memory or MemoryBudget()
        paths = frozenset(path.encode() for path in always)
        self.accepted = 0
        """Connections that the application has had so far."""

        def make_own(**settings: Any) -> asyncio.Protocol:
            self.accepted += 1
            made = BoundedProtocol(**settings)
            made.memory, made.always = budget, paths
            return made

        def make(**settings: Any) -> asyncio.Protocol:
            """uvicorn calls it for each connection."""
            if first is None:
                return make_own(**settings)
            return first(lambda: make_own(**settings))

        self._server = _Server(
            uvicorn.Config(
                app,
                http=make,  # type: ignore[arg-type]
                ws="none",
                loop="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=connections_max,
                timeout_keep_alive=IDLE_SECONDS_MAX,
                timeout_graceful_shutdown=1,
                backlog=BACKLOG,
            )
        )
        self._serving: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Bind and serve; returns where. Raises OSError if that place is not to be had."""
        bound = await bind(host, port)
        self.serve(bound)
        name = bound.getsockname()
        return name[0], name[1]

    def serve(self, bound: socket.socket) -> None:
        """Serve at a port that was taken before."""
        assert self._serving is None, "started twice"
        self._serving = asyncio.create_task(self._server.serve(sockets=[bound]), name="http")

    @property
    def connections(self) -> int:
        """The number of the application's connections."""
        return len(self._server.server_state.connections)

    async def close(self) -> None:
        """Stop accepting, let requests under way end, and return."""
        if self._serving is not None:
            self._server.should_exit = True
            await self._serving
