"""The door of the HTTP port: programs that speak SQS are served at the door, all others go inside.

An SDK sends thousands of small requests over a few connections, and an ASGI server spends more on
each than the broker does. So every connection begins here, with a protocol that knows just enough
HTTP (`connection.py`). If its first request is SQS's, it stays; if not, the connection is handed to
uvicorn with all it has received, and nobody inside can tell the difference. A connection can still
change its mind, as a proxy's does that carries requests of many people: at the door, the next
request that is not SQS's moves it inside; inside, SQS is one more part of the application
(`side_door.py`).

What is shared by the connections at the door is here, with its bounds:

- how many there are; the rest go inside at once, where there is a bound as well, and are served as
  long as there is room
- how much their requests, and answers that nobody fetches, hold; above it a request is refused,
  since a client that has been told so comes again later, and one that is made to wait holds on to
  what it has
- how long each may take over what; one timer looks after all, about every second

`Endpoint` and `Reply` are what the door needs of SQS, which it knows nothing else about.
"""

import asyncio
import http
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from typing import TYPE_CHECKING, Protocol

from penstock.core.limits import SQS_CONNECTIONS_MAX, SQS_REQUESTS_HELD_BYTES_MAX
from penstock.web.guard import Hosts

if TYPE_CHECKING:
    from penstock.web.connection import Connection

SWEEP_SECONDS = 0.5
HURRY_SECONDS = 0.5
"""After which a request under way, when the door closes, can only be one that waits."""

Inside = Callable[[], asyncio.Protocol]
"""Makes uvicorn's protocol for a connection."""
Headers = Mapping[bytes, bytes]
"""By name, in small letters."""
CLIENT = b":client"
"""Under this name, which nobody can send, headers say the address of whoever asks."""


class Reply(Protocol):
    """What is answered; `headers` are whole lines."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> bytes: ...
    @property
    def body(self) -> bytes: ...


class Endpoint(Protocol):
    """Who answers what is taken at the door."""

    def takes(self, method: bytes, path: bytes, query: bytes, headers: Headers) -> bool:
        """Whether a request is for it, by its head alone."""

    def begin(self, headers: Headers, body: bytes, done: Callable[[Reply | None], bool]) -> bool:
        """Carry out a request that takes no task: `done` is called with the reply, once, and not
        before this returns. False: it takes one, nothing has happened, `answer` does it; `done`
        called with None says the same, later. `done` says whether anybody is there to hear."""

    def answer(
        self, method: bytes, path: bytes, query: bytes, headers: Headers, body: bytes
    ) -> Awaitable[Reply]:
        """Carry out a request."""

    def refuse(self, status: int, message: str, headers: Headers) -> Reply:
        """What is answered to a request that is not carried out: 403, 408, 413, 421, 503."""

    def hurry(self) -> None:
        """Answer those who wait for something to happen: it will not happen here."""


class Door:
    """What the connections at the door share."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        hosts: Hosts,
        connections_max: int = SQS_CONNECTIONS_MAX,
        held_bytes_max: int = SQS_REQUESTS_HELD_BYTES_MAX,
    ) -> None:
        """`hosts` are the names this node is known by, for browsers."""
        self.endpoint = endpoint
        self.hosts = hosts
        self.connections: set[Connection] = set()
        self.held_bytes = 0
        self.entered = 0
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

    # What connections ask.

    def enter(self, connection: "Connection") -> bool:
        """Let a connection stay, if there is room."""
        if self.retiring or len(self.connections) >= self._connections_max:
            return False
        self.connections.add(connection)
        self.entered += 1
        if self._sweeping is None:
            self._sweep_soon()
        return True

    def leave(self, connection: "Connection") -> None:
        """A connection is gone, or inside."""
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
        """Give up on connections that take too long over something."""
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
        """Take no more requests, let those under way finish for a while, then close."""
        self.retiring = True
        for connection in list(self.connections):
            connection.retire()
        if not await self._wait_empty(min(HURRY_SECONDS, grace_seconds)):
            self.endpoint.hurry()
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
