"""The HTTP port on a real loop: bounds on what comes before a request is one."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from penstock.web import listener as listening
from penstock.web.app import make_app
from penstock.web.listener import HttpListener
from tests.unit.web.asgi import FakeBroker

Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def converse(*conversations: Conversation, connections_max: int = 16) -> None:
    """Each conversation on a connection of its own, one after the other."""

    async def run() -> None:
        listener = HttpListener(make_app(FakeBroker()), connections_max=connections_max)
        host, port = await listener.start("127.0.0.1", 0)
        try:
            for conversation in conversations:
                reader, writer = await asyncio.open_connection(host, port)
                await conversation(reader, writer)
                writer.close()
        finally:
            await listener.close()

    asyncio.run(run())


async def ask_twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for _ in range(2):
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"\r\nserver:" not in head.lower()
        assert await reader.readexactly(14) == b'{"live":true}\n'


async def wait_end(reader: asyncio.StreamReader) -> None:
    """Wait until the other side ends the connection without a word."""
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""


def test_a_connection_serves_many_requests() -> None:
    converse(ask_twice)


def test_a_head_without_end_is_cut_off() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"GET / HTTP/1.1\r\n" + b"X-Filler: xxxxxxxx\r\n" * 10_000)
        await wait_end(reader)

    converse(flood, ask_twice)


def test_a_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "HEAD_SECONDS_MAX", 0.01)

    async def listen(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await wait_end(reader)

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"GET / HTTP/1.1\r\nX-Slow: ")
        await wait_end(reader)

    converse(listen, trickle)


def test_too_many_connections_are_told_so() -> None:
    async def crowd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 503 ")

    converse(crowd, connections_max=1)


def test_a_port_that_is_taken_is_an_error_of_the_system() -> None:
    async def run() -> None:
        first = HttpListener(make_app(FakeBroker()), connections_max=4)
        host, port = await first.start("127.0.0.1", 0)
        second = HttpListener(make_app(FakeBroker()), connections_max=4)
        with pytest.raises(OSError, match="in use"):
            await second.start(host, port)
        await second.close()
        await first.close()

    asyncio.run(run())
