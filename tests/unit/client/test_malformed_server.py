"""A server that speaks nonsense, or falls silent, is a clear error and never a hang."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

import msgspec
import pytest

import penstock
from penstock import Client, ClientSettings
from penstock.core.errors import (
    InvalidFrame,
    LocalError,
    OutcomeUnknown,
    PenstockError,
    Unavailable,
)
from penstock.wire import codec
from penstock.wire.failures import Described
from penstock.wire.frames import LENGTH, PREFIX, Kind, greet, read_prefix, write_prefix
from penstock.wire.requests import AskCluster, ClusterInfo, Done, NodeInfo
from tests.manual_loop import run_manually

Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

SETTINGS = ClientSettings(timeout=60, attempt_timeout=30)
QUIET_SECONDS = 0.05
PATIENCE_SECONDS = 600.0
"""A call that has not come back by then hangs."""

pytestmark = pytest.mark.slow


async def meet(behave: Behave, act: Callable[[Client], Coroutine[None, None, object]]) -> object:
    """Connect to a server that behaves like this, and act."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behave(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async with penstock.connect(
                f"penstock://127.0.0.1:{port}", settings=SETTINGS
            ) as client:
                return await act(client)
    finally:
        server.close()


def play(scene: Coroutine[None, None, object]) -> object:
    return run_manually(scene, quiet_seconds=QUIET_SECONDS)


async def send(client: Client) -> object:
    return await client.send("orders", b"x")


def says(data: bytes, *, then_closes: bool = False) -> Behave:
    """Says this to everybody, and no more."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        if not then_closes:
            await reader.read()

    return behave


def answers(make: Callable[[int], bytes], *, then_closes: bool = False) -> Behave:
    """Greets as it should, and answers each request with what is made for its id."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(greet()))
        writer.write(greet())
        while True:
            prefix = await reader.readexactly(PREFIX.size)
            head = read_prefix(prefix, 0, 1 << 30)
            await reader.readexactly(head.head_bytes + head.payload_bytes)
            if head.kind is Kind.REQUEST:
                writer.write(make(head.id))
                await writer.drain()
                if then_closes:
                    return

    return behave


def frame(kind: Kind, frame_id: int, head: bytes) -> bytes:
    return write_prefix(kind, frame_id, len(head), 0) + head


NONSENSE: dict[str, Behave] = {
    "closes at once": says(b"", then_closes=True),
    "half a greeting": says(greet()[:5], then_closes=True),
    "half a greeting, and waits": says(greet()[:5]),
    "never greets": says(b""),
    "speaks HTTP": says(b"HTTP/1.1 400 Bad Request\r\n\r\n", then_closes=True),
    "random bytes": says(bytes(range(1, 200))),
    "a later version": says(greet(1_000)),
    "greets and is silent": says(greet()),
    "greets and closes": says(greet(), then_closes=True),
    "too long a frame": says(greet() + LENGTH.pack(0xFFFFFFFF) + bytes(20)),
    "a frame shorter than its head": says(greet() + PREFIX.pack(12, Kind.ANSWER, 1, 500)),
    "a frame of no kind": says(greet() + PREFIX.pack(12, 99, 1, 0)),
    "a request": answers(lambda number: frame(Kind.REQUEST, number, codec.encode(AskCluster()))),
    "half a frame, and waits": answers(lambda number: frame(Kind.ANSWER, number, bytes(50))[:30]),
    "half a frame": answers(
        lambda number: frame(Kind.ANSWER, number, bytes(50))[:30], then_closes=True
    ),
    "no MessagePack": answers(lambda number: frame(Kind.ANSWER, number, b"\xc1\xff")),
    "an empty answer": answers(lambda number: frame(Kind.ANSWER, number, b"")),
    "an answer of no kind": answers(
        lambda number: frame(Kind.ANSWER, number, msgspec.msgpack.encode(["nonsense", 1]))
    ),
    "an answer to another question": answers(
        lambda number: frame(Kind.ANSWER, number, codec.encode(Done(1)))
    ),
    "an answer with wrong fields": answers(
        lambda number: frame(Kind.ANSWER, number, msgspec.msgpack.encode(["cluster", 1, "x"]))
    ),
    "answers to what nobody asked": answers(
        lambda number: frame(Kind.ANSWER, number + 1_000, codec.encode(Done(1)))
    ),
    "a failure that is none": answers(lambda number: frame(Kind.FAILURE, number, b"\x00")),
}


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense_is_a_clear_error_and_no_hang(nonsense: str) -> None:
    with pytest.raises(PenstockError) as told:
        play(meet(NONSENSE[nonsense], send))
    assert isinstance(told.value, Unavailable | OutcomeUnknown | InvalidFrame), told.value
    assert str(told.value)


def failure(*kinds: str, **details: int | bool | str) -> Behave:
    described = Described(kinds, "it is so", details)
    return answers(lambda number: frame(Kind.FAILURE, number, msgspec.msgpack.encode(described)))


@pytest.mark.parametrize(
    ("behave", "kind"),
    [
        (failure("OfALaterVersion", "LocalError", "PenstockError"), LocalError),
        (failure("OfALaterVersion"), PenstockError),
        (failure("SystemExit"), PenstockError),
        (failure("Overloaded", "Unavailable", "PenstockError"), Unavailable),
        (failure("Overloaded", retry_after_ms="soon"), PenstockError),
        (failure("NotLeader", "Unavailable", leader=7, __class__="x"), Unavailable),
        (failure("DamagedFile", "StorageError", "PenstockError"), PenstockError),
    ],
)
def test_a_failure_arrives_as_the_nearest_error_that_is_known(
    behave: Behave, kind: type[PenstockError]
) -> None:
    with pytest.raises(kind):
        play(meet(behave, send))


def test_a_broker_that_says_wait_is_waited_for_no_longer_than_the_deadline() -> None:
    with pytest.raises(Unavailable):
        play(meet(failure("Overloaded", "Unavailable", retry_after_ms=3_600_000), send))


def test_a_cluster_of_nodes_that_are_nowhere_is_no_hang() -> None:
    nowhere = ClusterInfo(
        "c", 1, 1, "1", (NodeInfo(1, "127.0.0.1:1", True), NodeInfo(2, "x", True))
    )
    with pytest.raises(PenstockError):
        play(meet(answers(lambda number: frame(Kind.ANSWER, number, codec.encode(nowhere))), send))
