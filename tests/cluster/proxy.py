"""Links between nodes that can be cut:  python -m tests.cluster.proxy

Every node knows each of its peers under an address of this process, which passes the bytes on. One
listener for each ordered pair (who dials, who is dialled) tells all links apart. What can be cut is
a flow: all bytes from one node to another, whoever dialled.

    pass      bytes go through
    stall     bytes wait. Connections stay open and nobody is told, as when a cable is pulled; when
              the flow passes again the bytes arrive late, as TCP would have sent them again
    delay     bytes arrive later, in order
    refuse    connections are reset, and new ones as well, as when a process is gone

A stalled flow holds back the end of a connection too. A new connection needs both flows: while one
of them is stalled, the dialling node is connected to nobody.

The process is told what to do on its standard input and says when it is done, a line of JSON each.
When the input ends it ends: it cannot outlive the test that started it.
"""

import asyncio
import contextlib
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal

import msgspec

State = Literal["pass", "stall", "refuse"]

_CHUNK_BYTES = 64 << 10
_CHUNKS_HELD_MAX = 32


class Listener(msgspec.Struct, frozen=True):
    """Where one node dials another, and where that one really is."""

    dialler: int
    dialled: int
    listen: tuple[str, int]
    target: tuple[str, int]


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing to do: open a listener, or change a flow."""

    listener: Listener | None = None
    flow: tuple[int, int] | None = None
    state: State = "pass"
    delay_ms: int = 0


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to an order."""

    error: str = ""
    bytes_passed: int = 0


@dataclass
class Flow:
    """All bytes from one node to another."""

    state: State = "pass"
    delay_seconds: float = 0.0
    bytes_passed: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def change(self, state: State, delay_seconds: float) -> None:
        self.state = state
        self.delay_seconds = delay_seconds
        self.changed.set()
        self.changed = asyncio.Event()

    async def wait_open(self) -> None:
        while self.state == "stall":
            await self.changed.wait()


class Proxy:
    """All listeners and flows of one cluster."""

    def __init__(self) -> None:
        self._flows: dict[tuple[int, int], Flow] = defaultdict(Flow)
        self._servers: list[asyncio.Server] = []
        self._connections: dict[asyncio.Task[None], tuple[int, int]] = {}

    async def obey(self, order: Order) -> Done:
        """Do one thing."""
        if order.listener is not None:
            try:
                await self._listen(order.listener)
            except OSError as error:
                return Done(error=str(error))
        if order.flow is None:
            return Done()
        flow = self._flows[order.flow]
        flow.change(order.state, order.delay_ms / 1_000)
        if order.state == "refuse":
            for task, pair in list(self._connections.items()):
                if set(pair) == set(order.flow):
                    task.cancel()
        return Done(bytes_passed=flow.bytes_passed)

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(list(self._connections))

    async def _listen(self, listener: Listener) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections[task] = (listener.dialler, listener.dialled)
            try:
                await self._carry(listener, reader, writer)
            except (OSError, asyncio.CancelledError):
                pass
            finally:
                writer.transport.abort()
                del self._connections[task]

        host, port = listener.listen
        self._servers.append(await asyncio.start_server(accept, host, port, limit=_CHUNK_BYTES))

    async def _carry(
        self, listener: Listener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        out = self._flows[listener.dialler, listener.dialled]
        back = self._flows[listener.dialled, listener.dialler]
        await out.wait_open()
        await back.wait_open()
        if "refuse" in (out.state, back.state):
            return
        host, port = listener.target
        target_reader, target_writer = await asyncio.open_connection(host, port, limit=_CHUNK_BYTES)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pump(reader, target_writer, out))
                tasks.create_task(_pump(target_reader, writer, back))
        except* OSError:
            pass
        finally:
            target_writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flow: Flow) -> None:
    """Pass bytes on, in order, each when it is due; an empty chunk is the end."""
    held: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_CHUNKS_HELD_MAX)
    now = asyncio.get_running_loop().time

    async def take() -> None:
        data = b"more"
        while data:
            data = await reader.read(_CHUNK_BYTES)
            await held.put((now() + flow.delay_seconds, data))

    async def give() -> None:
        while True:
            due, data = await held.get()
            if (wait := due - now()) > 0:
                await asyncio.sleep(wait)
            await flow.wait_open()
            if not data:
                with contextlib.suppress(OSError):
                    writer.write_eof()
                return
            flow.bytes_passed += len(data)
            writer.write(data)
            await writer.drain()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(take())
        tasks.create_task(give())


async def serve() -> None:
    """Orders come on the standard input, one a line; when it ends, so do we."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    decode = msgspec.json.Decoder(Order).decode
    proxy = Proxy()
    while line := await reader.readline():
        done = await proxy.obey(decode(line))
        sys.stdout.write(msgspec.json.encode(done).decode() + "\n")
        sys.stdout.flush()
    await proxy.close()


if __name__ == "__main__":
    asyncio.run(serve())
