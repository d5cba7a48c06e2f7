"""A plain HTTP client for asyncio that knows what it does not know.

It sends one request at a time over one connection, never sends one again, and tells two failures
apart: a request that never left (`NotSent`), and one that may have been carried out (`Unanswered`).
The libraries that programs use try again by themselves, and what they did is not to be known.
"""

import asyncio
import contextlib
from collections.abc import Mapping

ANSWER_BYTES_MAX = 16 << 20
CONNECT_SECONDS = 1.0


class NotSent(Exception):
    """Nobody was there."""


class Unanswered(Exception):
    """It was sent, wholly or in part, and there is no answer, or none that can be read."""


class HttpLine:
    """One connection to one server, made when it is needed."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], *, seconds: float
    ) -> tuple[int, bytes]:
        """Status and body of the answer."""
        reader, writer = await self._connect()
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._address}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {len(body)}", "", ""]
        try:
            async with asyncio.timeout(seconds):
                writer.write("\r\n".join(lines).encode() + body)
                await writer.drain()
                return await self._read(reader)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, TimeoutError) as error:
            self.close()
            raise Unanswered(f"{type(error).__name__}: {error}") from error
        except asyncio.CancelledError:
            self.close()
            raise

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None and not self._streams[0].at_eof():
            return self._streams
        self.close()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                self._streams = await asyncio.open_connection(self._host, self._port)
        except (OSError, TimeoutError) as error:
            raise NotSent(str(error)) from error
        return self._streams

    async def _read(self, reader: asyncio.StreamReader) -> tuple[int, bytes]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split(" ", 2)[1])
        said = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        length = int(said["content-length"])
        if not 0 <= length <= ANSWER_BYTES_MAX:
            raise ValueError(f"an answer of {length} bytes")
        body = await reader.readexactly(length)
        if said.get("connection") == "close":
            self.close()
        return status, body

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._streams[1].transport.abort()
            self._streams = None
