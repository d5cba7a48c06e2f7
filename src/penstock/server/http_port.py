"""The HTTP port: bound first, and served from the first connection on.

What answers there, pages, metrics, SQS and the servers that carry them, takes longer to load than
all the rest of a broker. So the port is bound at once, and connections wait in the system's queue
while it is loaded, which is then done without a break. If none comes, it is loaded when the
broker serves its other clients, or has to wait for something itself: a piece at a time, with pauses
in which the loop is theirs. So it is there before it is missed.
"""

import asyncio
import contextlib
import socket
from importlib import import_module
from typing import TYPE_CHECKING

from penstock.core.clock import precise_seconds
from penstock.server.notation import Address
from penstock.web.port import bind

if TYPE_CHECKING:
    from penstock.server.http_front import HttpFront
    from penstock.server.server import Server

PIECES = (
    "http.client",
    "penstock.watch.watch",
    "penstock.sqs.service",
    "penstock.sqs.endpoint",
    "starlette.datastructures",
    "starlette.responses",
    "starlette.applications",
    "urllib.request",
    "wsgiref.simple_server",
    "prometheus_client",
    "penstock.web.metrics",
    "penstock.web.dashboard.pages.queue_page",
    "penstock.web.dashboard.routes",
    "penstock.web.app",
    "logging.config",
    "click",
    "multiprocessing.context",
    "uvicorn",
    "penstock.web.listener",
    "penstock.sqs.http.connection",
    "penstock.sqs.http.middleware",
)
"""In an order in which none takes the loop for much longer than five milliseconds."""
PACKAGES = ("httptools", "jinja2", "prometheus_client", "starlette", "uvicorn")
"""The packages that those modules import, of the extra `server`. The server checks for them before
it starts."""
WHOLE = "penstock.server.http_front"
"""The module that needs all of them, and little besides."""
PAUSE = 4
"""The ratio of a pause to the piece of work before it."""
PATIENCE_SECONDS = 0.5
"""The longest wait for a starting node to serve before HTTP is loaded."""


class HttpPort:
    def __init__(self, bound: socket.socket) -> None:
        """Use `HttpPort.take` instead."""
        self._socket = bound
        self._wanted = asyncio.Event()
        self._knocked = asyncio.Event()
        asyncio.get_running_loop().add_reader(bound, self._knock)

    @classmethod
    async def take(cls, host: str, port: int) -> "HttpPort":
        """Raises OSError if that place is not to be had."""
        return cls(await bind(host, port))

    @property
    def address(self) -> Address:
        host, port, *_ = self._socket.getsockname()
        return Address(host, port)

    def want(self) -> None:
        """The broker has nothing better to do."""
        self._wanted.set()

    async def serve(self, server: "Server") -> "HttpFront":
        """Wait until it is wanted, load it, and serve."""
        await self._wanted.wait()
        for name in PIECES:
            began = precise_seconds()
            import_module(name)
            await self._pause(PAUSE * (precise_seconds() - began))
        asyncio.get_running_loop().remove_reader(self._socket)
        front: HttpFront = import_module(WHOLE).HttpFront(server, self._socket)
        return front

    async def _pause(self, seconds: float) -> None:
        """Yield the event loop, for a moment at least, but no longer once a connection waits."""
        await asyncio.sleep(0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._knocked.wait()

    def _knock(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._knocked.set()
        self._wanted.set()

    def close(self) -> None:
        """Close the port without serving it."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
