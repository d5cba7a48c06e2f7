"""Connections of attackers: bytes out, what came back, and a bound on everything."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tests.abuse.kafka_wire import Address

KEPT_BYTES = 1 << 16
_GONE = (OSError, EOFError)


async def pour(
    address: Address,
    data: bytes,
    *,
    seconds: float = 3.0,
    quiet_seconds: float = 0.5,
    times: int = 1,
) -> bytes:
    """Send, `times` over, and read to the end, or until nothing comes for a while; the beginning
    of what came. Answers beyond that are read and dropped. OSError if nobody listens: an attack
    that does not arrive shows nothing."""
    kept = bytearray()
    reader, writer = await asyncio.open_connection(*address)
    sending = asyncio.create_task(_send(writer, data, times))
    with contextlib.suppress(TimeoutError, *_GONE):
        async with asyncio.timeout(seconds):
            while True:
                wait = quiet_seconds if sending.done() else seconds
                piece = await asyncio.wait_for(reader.read(1 << 18), wait)
                if not piece:
                    break
                if len(kept) < KEPT_BYTES:
                    kept += piece
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    writer.transport.abort()
    return bytes(kept[:KEPT_BYTES])


async def _send(writer: asyncio.StreamWriter, data: bytes, times: int) -> None:
    with contextlib.suppress(*_GONE):
        for _ in range(times):
            writer.write(data)
            await writer.drain()


@contextlib.asynccontextmanager
async def silent(
    address: Address,
    data: bytes,
    count: int,
    *,
    receive_buffer: int = 0,
    source: str = "",
    connect_seconds: float = 5.0,
    share_min: float = 0.9,
) -> AsyncIterator[list[socket.socket]]:
    """So many connections that send this and never read. Those that do not take it are missing;
    OSError if not even this share of them came about."""
    connected = [0]
    opened = await open_silent(
        address,
        data,
        count,
        receive_buffer=receive_buffer,
        source=source,
        connect_seconds=connect_seconds,
        connected=connected,
    )
    try:
        if connected[0] < share_min * count:
            raise OSError(f"{connected[0]} of {count} connections came about")
        yield opened
    finally:
        for one in opened:
            one.close()


async def open_silent(
    address: Address,
    data: bytes,
    count: int,
    *,
    receive_buffer: int = 0,
    source: str = "",
    connect_seconds: float = 5.0,
    connected: list[int] | None = None,
) -> list[socket.socket]:
    """The same; the caller closes them. `connected` counts those, too, that did not take it."""
    loop = asyncio.get_running_loop()
    opened: list[socket.socket] = []

    async def open_one() -> None:
        one = socket.socket()
        one.setblocking(False)
        if receive_buffer:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            if source:
                one.bind((source, 0))
            async with asyncio.timeout(connect_seconds):
                await loop.sock_connect(one, address)
                if connected is not None:
                    connected[0] += 1
                if data:
                    await loop.sock_sendall(one, data)
        except BaseException as error:
            one.close()
            if isinstance(error, OSError | TimeoutError):
                return
            raise
        opened.append(one)

    for begun in range(0, count, 100):
        await asyncio.gather(*(open_one() for _ in range(min(100, count - begun))))
    return opened


class HttpConnection:
    """One HTTP/1.1 connection that asks and waits."""

    def __init__(self, address: Address, streams: Any) -> None:
        self._address = address
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._reader, self._writer = streams

    @classmethod
    async def open(cls, address: Address) -> "HttpConnection":
        """Connect."""
        return cls(address, await asyncio.open_connection(*address, limit=1 << 20))

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer."""
        self._writer.write(http_request(method, path, body, headers, self._address))
        return await read_answer(self._reader)

    async def sqs(self, action: str, document: Mapping[str, object]) -> dict[str, Any]:
        """Carry out an action of SQS; raises ValueError if it is refused."""
        status, _, body = await self.ask(
            "POST",
            "/",
            json.dumps(document).encode(),
            {
                "content-type": "application/x-amz-json-1.0",
                "x-amz-target": f"AmazonSQS.{action}",
            },
        )
        if status != 200:
            raise ValueError(f"{action}: {status} {body[:300]!r}")
        answer: dict[str, Any] = json.loads(body or b"{}")
        return answer

    def close(self) -> None:
        """Abort it."""
        self._writer.transport.abort()


def http_request(
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    host: Address | str = "localhost",
) -> bytes:
    """One request as bytes."""
    named = host if isinstance(host, str) else f"{host[0]}:{host[1]}"
    lines = {"host": named, "content-length": str(len(body)), **(headers or {})}
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
    return head.encode("utf-8", "surrogateescape") + b"\r\n" + body


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """One answer with a length or in chunks."""
    status = int((await reader.readline()).split()[1])
    headers: dict[str, str] = {}
    while (line := (await reader.readline()).decode("latin-1").strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    if headers.get("transfer-encoding") == "chunked":
        body = bytearray()
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return status, headers, bytes(body)
    return status, headers, await reader.readexactly(int(headers.get("content-length", "0")))


async def http(
    address: Address,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    seconds: float = 20.0,
) -> tuple[int, dict[str, str], bytes]:
    """One request on a connection of its own; status 0 if there was no answer."""
    try:
        async with asyncio.timeout(seconds):
            connection = await HttpConnection.open(address)
            try:
                return await connection.ask(method, path, body, headers)
            finally:
                connection.close()
    except (*_GONE, ValueError, IndexError, TimeoutError):
        return 0, {}, b""
