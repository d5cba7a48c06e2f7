"""The HTTP port: uvicorn, embedded in the loop of the broker.

uvicorn's own `Server` is used for what it does well, and three things are changed. It installs no
signal handlers, because a signal stops a broker in an order uvicorn knows nothing of. A request's
head has a bound and a deadline, which the parser does not have: otherwise a few silent connections
use up all of them. And the port is bound here, before anything is started, so that a port in use is
our error with our sentence.

Another protocol may come first: with `first`, every connection begins with what that makes, which
may hand it over to uvicorn later.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock.core.limits import KIB
from penstock.web.port import BACKLOG, bind

HEAD_BYTES_MAX = 64 * KIB
HEAD_SECONDS_MAX = 10.0
IDLE_SECONDS_MAX = 30

MakeProtocol = Callable[[], asyncio.Protocol]
"""Makes the protocol of one connection."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose requests must begin, and end their heads, in time and within bounds."""

    _deadline: asyncio.TimerHandle | None = None
    _in_head = True
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

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
        super().on_headers_complete()

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
    ) -> None:
        """`connections_max` are those of the application. `first` makes the protocol that a
        connection begins with; it is given how to make the application's."""
        self.accepted = 0
        """Connections that the application has had so far."""

        def make_own(**settings: Any) -> asyncio.Protocol:
            self.accepted += 1
            return BoundedProtocol(**settings)

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
        """How many the application has."""
        return len(self._server.server_state.connections)

    async def close(self) -> None:
        """Stop accepting, let requests under way end, and return."""
        if self._serving is not None:
            self._server.should_exit = True
            await self._serving
