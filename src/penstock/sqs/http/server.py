"""The HTTP server of SQS: connections that carry SQS requests, and their shared state.

An SDK sends thousands of small requests over a few connections, and an ASGI server spends more on
each than the broker does. So every connection of the HTTP port begins here, with a protocol that
knows just enough HTTP (`connection.py`). If its first request is SQS's, it stays; if not, it is
handed over to the ASGI server with all it has received, which cannot tell the difference. A
connection may carry requests of both kinds, as a proxy's does: here, the next request that is not
SQS's hands it over; there, a middleware serves SQS (`middleware.py`).

The connections share these bounds:

- their number. Beyond it a connection is kept until it has said what it wants: a probe (`/livez`
  and the like) is answered here, all else is handed over to the ASGI server, which has a bound of
  its own. There are a thousand places for that, and the one that has been silent for longest gives
  way. So a probe is answered however many connections there are: an orchestrator that gets no
  answer kills a broker that is only busy.
- the memory budget of the node, which the ports of the other protocols share; a request that finds
  no room is refused, because a client that is refused comes again later, and one that is made to
  wait holds on to what it has
- the time each may take for each step; one timer checks all connections, twice a second
"""

import asyncio
import enum
import http
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import TYPE_CHECKING, Protocol

from penstock.core.http_hosts import Hosts
from penstock.core.limits import HTTP_DOOR_CONNECTIONS_MAX, SQS_CONNECTIONS_MAX
from penstock.core.memory_budget import MemoryAccount, MemoryBudget
from penstock.sqs.endpoint import Headers
from penstock.sqs.reply import Reply

if TYPE_CHECKING:
    from penstock.sqs.http.connection import SqsConnection

SWEEP_SECONDS = 0.5
HURRY_SECONDS = 0.5
"""When the server closes, a request that is still running after this time can only be a long
poll."""

Fallback = Callable[[], asyncio.Protocol]
"""Makes the ASGI server's protocol for a connection."""


Probe = Callable[[bytes], Reply | None]
"""The answer to a probe, by its path; None if the path is no probe's."""


def no_probe(_path: bytes) -> Reply | None:
    """Return None: there are no probes."""
    return None


class Entry(enum.Enum):
    """The admission of a new connection."""

    LET_IN = "let in"
    CROWDED = "crowded"
    """Too many connections: it is passed to the ASGI server, except for probes."""
    PROBES = "probes"
    """Too many connections from its address: it may request a probe and nothing else."""
    HANDED_OVER = "handed over"
    """The server is closing: the connection is handed to the ASGI server."""


class SqsApi(Protocol):
    """Answers SQS requests; `Endpoint` is one."""

    def takes(self, method: bytes, path: bytes, query: bytes, headers: Headers) -> bool:
        """True if a request is for SQS, by its head alone."""

    def begin(
        self,
        headers: Headers,
        body: bytes,
        done: Callable[[Reply | None], bool],
        account: MemoryAccount | None = None,
    ) -> bool:
        """Carry out a request that takes no task: `done` is called with the reply, once, and not
        before this returns. False: it takes one, nothing has happened, `answer` does it; `done`
        called with None says the same, later. `done` says whether the client is still there.
        Messages are read on the `account` of the connection."""

    def answer(
        self,
        method: bytes,
        path: bytes,
        query: bytes,
        headers: Headers,
        body: bytes,
        account: MemoryAccount | None = None,
    ) -> Awaitable[Reply]:
        """Carry out a request."""

    def refuse(self, status: int, message: str, headers: Headers) -> Reply:
        """The answer to a request that is not carried out: 403, 408, 413, 421, 503."""

    def cancel_long_polls(self) -> None:
        """Answer long polls now: the broker is about to stop."""


class NoSqs:
    """SQS is not served: all requests but probes are the ASGI server's."""

    def takes(self, _method: bytes, _path: bytes, _query: bytes, _headers: Headers) -> bool:
        return False

    def begin(
        self,
        headers: Headers,  # noqa: ARG002
        body: bytes,  # noqa: ARG002
        done: Callable[[Reply | None], bool],  # noqa: ARG002
        account: MemoryAccount | None = None,  # noqa: ARG002
    ) -> bool:
        return False

    async def answer(
        self,
        method: bytes,  # noqa: ARG002
        path: bytes,  # noqa: ARG002
        query: bytes,  # noqa: ARG002
        headers: Headers,  # noqa: ARG002
        body: bytes,  # noqa: ARG002
        account: MemoryAccount | None = None,  # noqa: ARG002
    ) -> Reply:
        return Reply(404, b"", b"")

    def refuse(self, status: int, _message: str, _headers: Headers) -> Reply:
        return Reply(status, b"", b"")

    def cancel_long_polls(self) -> None:
        """Do nothing: there are no long polls."""


class SqsHttpServer:
    """The connections that carry SQS requests, with their bounds."""

    def __init__(
        self,
        api: SqsApi,
        *,
        hosts: Hosts,
        connections_max: int = SQS_CONNECTIONS_MAX,
        door_max: int = HTTP_DOOR_CONNECTIONS_MAX,
        memory: MemoryBudget | None = None,
        probe: Probe = no_probe,
    ) -> None:
        """`hosts` are the names this node is known by, for browsers. `probe` answers a path that
        is asked for beside every bound."""
        self.api = api
        self.hosts = hosts
        self.probe = probe
        self.memory = memory or MemoryBudget()
        self.connections: set[SqsConnection] = set()
        self.surplus: dict[SqsConnection, None] = {}
        """Connections above the bound, the oldest first."""
        self.accepted = 0
        self.refused = 0
        self.throttled = 0
        """The number of requests refused for lack of memory."""
        self.retiring = False
        self._connections_max = connections_max
        self._door_max = door_max
        self._sweeping: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._second_ends = 0.0
        self._heads: dict[int, bytes] = {}

    # For connections.

    def accept(self, connection: "SqsConnection", address: str) -> Entry:
        """Decide what a new connection may do."""
        if self.retiring:
            return Entry.HANDED_OVER
        if self._sweeping is None:
            self._sweep_soon()
        takes = self.memory.takes_connection(address)
        if not takes or len(self.connections) >= self._connections_max:
            self.surplus[connection] = None
            if len(self.surplus) > self._door_max:
                self.refused += 1
                next(iter(self.surplus)).abort()
            return Entry.CROWDED if takes else Entry.PROBES
        self.connections.add(connection)
        self.accepted += 1
        return Entry.LET_IN

    def remove(self, connection: "SqsConnection") -> None:
        """A connection is lost, or handed over."""
        self.surplus.pop(connection, None)
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
        self.memory.sweep(int(now * 1_000))
        for connection in (*self.connections, *self.surplus):
            connection.sweep(now)

    def _sweep_soon(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeping = loop.call_later(SWEEP_SECONDS, self._sweep_again)

    def _sweep_again(self) -> None:
        self._sweeping = None
        if self.connections or self.surplus:
            self.sweep(asyncio.get_running_loop().time())
            self._sweep_soon()

    async def close(self, grace_seconds: float) -> None:
        """Accept no more requests, let those under way finish within the grace, then close."""
        self.retiring = True
        for connection in (*self.connections, *self.surplus):
            connection.retire()
        if not await self._wait_empty(min(HURRY_SECONDS, grace_seconds)):
            self.api.cancel_long_polls()
        if not await self._wait_empty(max(0.0, grace_seconds - HURRY_SECONDS)):
            for connection in (*self.connections, *self.surplus):
                connection.abort()
            await self._wait_empty(None)
        for connection in list(self.surplus):
            connection.abort()
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
