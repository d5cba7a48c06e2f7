"""An HTTP port with SQS's server on a real loop, and clients that send any bytes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import uvloop

from penstock.core.memory_budget import MemoryAccount, MemoryBudget
from penstock.core.request_times import RequestTimes
from penstock.sqs.endpoint import Headers
from penstock.sqs.http import connection as connecting
from penstock.sqs.http.middleware import SqsMiddleware
from penstock.sqs.http.server import SqsHttpServer
from penstock.sqs.reply import Reply
from penstock.web.app import make_app
from penstock.web.listener import HttpListener
from penstock.web.probes import PROBE_PATHS, Probes
from tests.unit.web.asgi import FakeBroker

LIVE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
"""A probe, answered at the door."""
FOREIGN = b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\n\r\n"
"""A request that is the ASGI server's."""


REQUEST_ID = b"x-amzn-RequestId: 1\r\n"


@dataclass
class Echo:
    """Answers a target with itself and the body; `waits` holds answers back until told."""

    asked: list[bytes] = field(default_factory=list)
    accounts: set[MemoryAccount | None] = field(default_factory=set)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: list[bytes] = field(default_factory=list)
    error: Exception | None = None
    hurried: bool = False
    holds: bool = False
    """Whether answers that take no task are held until they are released."""
    held: list[Callable[[], None]] = field(default_factory=list)
    heard: list[bool] = field(default_factory=list)
    """Of those answers: whether anybody was there."""
    takes_task: bool = False
    """Whether what seemed to take no task does after all."""

    def takes(self, method: bytes, _path: bytes, query: bytes, headers: Headers) -> bool:
        return (method == b"POST" and b"x-amz-target" in headers) or b"Action=" in query

    def begin(
        self,
        headers: Headers,
        body: bytes,
        done: Callable[[Reply | None], bool],
        account: MemoryAccount | None = None,
    ) -> bool:
        self.accounts.add(account)
        target = headers.get(b"x-amz-target", b"")
        if target != b"brief":
            return False
        self.asked.append(target)
        reply = None if self.takes_task else Reply(200, REQUEST_ID, b"brief|" + body)
        self.held.append(lambda: self.heard.append(done(reply)))
        if not self.holds:
            asyncio.get_running_loop().call_soon(self.release)
        return True

    def release(self) -> None:
        """Give the answers that are held."""
        held, self.held = self.held, []
        for give in held:
            give()

    async def answer(
        self,
        method: bytes,
        path: bytes,
        query: bytes,
        headers: Headers,
        body: bytes,
        account: MemoryAccount | None = None,
    ) -> Reply:
        self.accounts.add(account)
        target = headers.get(b"x-amz-target", b"")
        self.asked.append(target)
        if self.error is not None:
            raise self.error
        if target in (b"wait", b"for ever"):
            opens = self.open if target == b"wait" else asyncio.Event()
            try:
                await opens.wait()
            except asyncio.CancelledError:
                self.given_up.append(target)
                raise
        if target == b"large":
            return Reply(200, REQUEST_ID, bytes(1 << 22))
        parts = [method, path, query, target, body if len(body) < 100 else b"%d" % len(body)]
        return Reply(200, REQUEST_ID, b"|".join(parts))

    def cancel_long_polls(self) -> None:
        self.hurried = True
        self.open.set()

    def refuse(self, status: int, message: str, _headers: Headers) -> Reply:
        return Reply(status, REQUEST_ID, message.encode())


class Client:
    """A connection that speaks as it is told and reads answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, bytes, bytes]:
        """Status, head and body of the next answer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return int(head.split()[1]), head, await self.reader.readexactly(length)

    async def ask(self, data: bytes) -> tuple[int, bytes]:
        self.send(data)
        status, _, body = await self.answer()
        return status, body

    async def wait_end(self) -> None:
        """The other side ends the connection without a word."""
        with contextlib.suppress(ConnectionError):
            assert await self.reader.read() == b""


class Port:
    """The port, and what serves it."""

    def __init__(self, echo: Echo, server: SqsHttpServer, host: str, port: int) -> None:
        self.echo = echo
        self.server = server
        self._place = (host, port)

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_connection(*self._place, limit=1 << 23)
        try:
            yield Client(reader, writer)
        finally:
            writer.close()


Story = Callable[[Port], Awaitable[None]]
FACTORIES = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def serve(
    story: Story,
    *,
    loop: str = "uvloop",
    memory: MemoryBudget | None = None,
    places: int = 16,
    **settings: int,
) -> None:
    """Run a story at a port of its own."""

    async def run() -> None:
        echo, broker = Echo(), FakeBroker()
        probes = Probes(broker, RequestTimes())

        def probe(path: bytes) -> Reply | None:
            found = probes.answer(path)
            return None if found is None else Reply(found.status, found.header_lines, found.body)

        server = SqsHttpServer(echo, hosts=broker.hosts, memory=memory, probe=probe, **settings)
        app = SqsMiddleware(make_app(broker), echo, hosts=broker.hosts)
        listener = HttpListener(
            app,
            connections_max=places,
            first=partial(connecting.SqsConnection, server),
            memory=server.memory,
            always=PROBE_PATHS,
        )
        host, port = await listener.start("127.0.0.1", 0)
        try:
            async with asyncio.timeout(60):
                await story(Port(echo, server, host, port))
        finally:
            echo.open.set()
            await server.close(5.0)
            await listener.close()
        assert server.memory.held == 0
        assert not server.connections

    with asyncio.Runner(loop_factory=FACTORIES[loop]) as runner:
        runner.run(run())


def request(
    target: bytes = b"a", body: bytes = b"", *, method: bytes = b"POST", **headers: bytes
) -> bytes:
    """An SQS request; headers are named with `_` for `-`."""
    more = b"".join(
        b"%b: %b\r\n" % (name.replace("_", "-").encode(), value) for name, value in headers.items()
    )
    return (
        b"%b / HTTP/1.1\r\nHost: any.example\r\nX-Amz-Target: %b\r\n%bContent-Length: %d\r\n\r\n%b"
        % (method, target, more, len(body), body)
    )


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something is so."""
    while not condition():  # noqa: ASYNC110 - what it waits for has no event
        await asyncio.sleep(0)


def has_begun(connection: connecting.SqsConnection) -> bool:
    """Part of a request has arrived."""
    return bool(connection._head_bytes) or connection._arriving is not None
