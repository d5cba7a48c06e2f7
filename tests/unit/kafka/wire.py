"""A Kafka client with nothing in it: a request goes out, its answer comes back.

It writes requests and reads answers with the codec under test; that the codec's bytes are Kafka's
is proven against another implementation in tests/properties, and by real clients in tests/interop.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from penstock.kafka.codec import Message, reader, writer
from penstock.kafka.schema import schema_of

ANSWER_SECONDS_MAX = 120

Run = Callable[[Coroutine[object, object, None]], None]
Connect = Callable[[], AbstractAsyncContextManager["WireClient"]]


class WireClient:
    """One connection. `call` sends and waits; `send` and `receive` do one half each."""

    def __init__(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.reader, self.writer = streams
        self._correlation_id = 0
        self._sent: list[tuple[int, int, int]] = []

    async def call(self, key: int, version: int, fields: Mapping[str, object]) -> Message:
        """The answer to a request; fields that are not given take their defaults."""
        self.send(key, version, fields)
        return await self.receive()

    def send(self, key: int, version: int, fields: Mapping[str, object]) -> None:
        """Send a request without waiting for its answer."""
        self._correlation_id += 1
        self._sent.append((key, version, self._correlation_id))
        self.writer.write(request_frame(key, version, fields, self._correlation_id))

    def expect_nothing(self) -> None:
        """The request sent last has no answer."""
        self._sent.pop()

    async def receive(self) -> Message:
        """The answer to the oldest request that has none yet."""
        key, version, correlation_id = self._sent.pop(0)
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            (length,) = struct.unpack(">i", await self.reader.readexactly(4))
            data = await self.reader.readexactly(length)
        assert struct.unpack_from(">i", data)[0] == correlation_id
        flexible = schema_of(key, "response").is_flexible_in(version) and key != 18
        message, end = reader(key, "response", version)(data, 5 if flexible else 4)
        assert end == len(data), f"{len(data) - end} bytes are left over"
        return message

    async def is_closed(self) -> bool:
        """Wait until the other side has closed the connection."""
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True


def request_frame(
    key: int, version: int, fields: Mapping[str, object], correlation_id: int = 1
) -> bytes:
    """A request with its length and header."""
    flexible = schema_of(key, "request").is_flexible_in(version)
    out = bytearray(struct.pack(">hhih", key, version, correlation_id, 4) + b"test")
    if flexible:
        out.append(0)
    writer(key, "request", version)(complete(key, version, fields), out)
    return struct.pack(">i", len(out)) + out


def complete(key: int, version: int, fields: Mapping[str, object]) -> Mapping[str, object]:
    """Fill in what a request needs and was not given."""
    wanted = [field for field in schema_of(key, "request").fields if field.exists_in(version)]
    return {**{field.name: field.neutral for field in wanted}, **fields}


@asynccontextmanager
async def wire_client(host: str, port: int) -> AsyncIterator[WireClient]:
    """A connected client."""
    client = WireClient(await asyncio.open_connection(host, port))
    try:
        yield client
    finally:
        client.writer.close()
