"""SQS's HTTP server: the connections that carry SQS requests, and what they share.

An SDK sends thousands of small requests over a few connections, and an ASGI server spends more on
each than the broker does. So every connection of the HTTP port begins here, with a protocol that
knows just enough HTTP (`connection.py`). If its first request is SQS's, it stays; if not, it is
handed over to the ASGI server with all it has received, which cannot tell the difference. A
connection may carry requests of both kinds, as a proxy's does: here, the next request that is not
SQS's hands it over; there, a middleware serves SQS (`middleware.py`).

The connections share these bounds:

- their number; the rest are handed over at once, and the ASGI server has a bound of its own
- the bytes that their requests, and answers that clients do not read, hold; above it a request is
  refused, because a client that is refused comes again later, and one that is made to wait holds on
  to what it has
- the time each may take for each step; one timer checks all connections, twice a second
"""

import asyncio
import http
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import TYPE_CHECKING, Protocol

from penstock.core.http_hosts import Hosts
from penstock.core.limits import SQS_CONNECTIONS_MAX, SQS_REQUESTS_HELD_BYTES_MAX
from penstock.sqs.endpoint import Headers
from penstock.sqs.reply import Reply

if TYPE_CHECKING:
    from penstock.sqs.http.connection import SqsConnection

SWEEP_SECONDS = 0.5
HURRY_SECONDS = 0.5
"""When the server closes, a request still under way after this time can only be a long poll."""

Fallback = Callable[[], asyncio.Protocol]
"""Makes the ASGI server's protocol for a connection."""


class SqsApi(Protocol):
    """Answers SQS requests; `Endpoint` is one."""

    def takes(self, method: bytes, path: bytes, query: bytes, headers: Headers) -> bool:
        """Whether a request is for it, by its head alone."""

    def begin(self, headers: Headers, body: bytes, done: Callable[[Reply | None], bool]) -> bool:
        """Carry out a request that takes no task: `done` is called with the reply, once, and not
        before this returns. False: it takes one, nothing has happened, `answer` does it; `done`
        called with None says the same, later. `done` says whether the client is still there."""

    def answer(
        self, method: bytes, path: bytes, query: bytes, headers: Headers, body: bytes
    ) -> Awaitable[Reply]:
        """Carry out a request."""

    def refuse(self, status: int, message: str, headers: Headers) -> Reply:
        """The answer to a request that is not carried out: 403, 408, 413, 421, 503."""

    def cancel_long_polls(self) -> None:
        """Answer long polls now: the broker is about to stop."""


class SqsHttpServer:
    """The connections that carry SQS requests, with their bounds."""

    def __init__(
        self,
        api: SqsApi,
        *,
        hosts: Hosts,
        connections_max: int = SQS_CONNECTIONS_MAX,
        held_bytes_max: int = SQS_REQUESTS_HELD_BYTES_MAX,
    ) -> None:
        """`hosts` are the names this node is known by, for browsers."""
        self.api = api
        self.hosts = hosts
        self.connections: set[SqsConnection] = set()
        self.held_bytes = 0
        self.accepted = 0
        self.throttled = 0
        """How often a request was refused because too much was held."""
        self.retiring = False
        self._connections_max = connections_max
        self.held_bytes_max = held_bytes_max
        """What requests and answers may hold together."""
        self._sweeping: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._second_ends = 0.0
        self._heads: dict[int, bytes] = {}

    # For connections.

    def accept(self, connection: "SqsConnection") -> bool:
        """Let a connection stay; False if there are too many, and it must be handed over."""
        if self.retiring or len(self.connections) >= self._connections_max:
            return False
        self.connections.add(connection)
        self.accepted += 1
        if self._sweeping is None:
            self._sweep_soon()
        return True

    def remove(self, connection: "SqsConnection") -> None:
        """A connection is lost, or handed over."""
        self.connections.discard(connection)
        if not self.connections:
            self._empty.set()

    def head(self, status: int) -> bytes:
        """The first lines of an answer."""
        now = time.time()
        if not self._second_ends - 1 <= now < self._second_ends:
            self._second_ends = int(now) + 1.0
            self._heads.clear()
        return self._heads.get(status) or self._make_head(status)

    def _make_head(self, status: int) -> bytes:
        date = formatdate(self._second_ends - 1, usegmt=True).encode()
        self._heads[status] = head = b"%bDate: %b\r\n" % (_STATUS_LINES[status], date)
        return head

    # Life.

    def sweep(self, now: float) -> None:
        """Close connections that take too long."""
        for connection in list(self.connections):
            connection.sweep(now)

    def _sweep_soon(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeping = loop.call_later(SWEEP_SECONDS, self._sweep_again)

    def _sweep_again(self) -> None:
        self._sweeping = None
        if self.connections:
            self.sweep(asyncio.get_running_loop().time())
            self._sweep_soon()

    async def close(self, grace_seconds: float) -> None:
        """Accept no more requests, let those under way finish within the grace, then close."""
        self.retiring = True
        for connection in list(self.connections):
            connection.retire()
        if not await self._wait_empty(min(HURRY_SECONDS, grace_seconds)):
            self.api.cancel_long_polls()
        if not await self._wait_empty(max(0.0, grace_seconds - HURRY_SECONDS)):
            for connection in list(self.connections):
                connection.abort()
            await self._wait_empty(None)
        if self._sweeping is not None:
            self._sweeping.cancel()

    async def _wait_empty(self, seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while self.connections:
                    self._empty.clear()
                    await self._empty.wait()
        except TimeoutError:
            return False
        return True


_STATUS_LINES = {
    one.value: b"HTTP/1.1 %d %b\r\n" % (one.value, one.phrase.encode()) for one in http.HTTPStatus
}
