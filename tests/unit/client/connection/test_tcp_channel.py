"""The way to a cluster of which some nodes are silent: a deadline is one deadline, however many."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from penstock.client.connection.tcp_channel import TcpChannel
from penstock.core.errors import OutcomeUnknown, Unavailable
from penstock.wire import codec
from penstock.wire.frames import PREFIX, Kind, greet, read_prefix, write_prefix
from penstock.wire.requests import Answer, AskCluster, ClusterInfo
from tests.manual_loop import run_manually

pytestmark = pytest.mark.slow

ATTEMPT_SECONDS = 0.2
QUIET_SECONDS = 0.05
INFO = ClusterInfo("cluster", 1, 1, "1", ())


@asynccontextmanager
async def node(*, greets: bool = True, answers: bool = True) -> AsyncIterator[tuple[str, int]]:
    """A node that does what it should, or less."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if greets:
                writer.write(greet())
            await reader.readexactly(len(greet()))
            while True:
                head = read_prefix(await reader.readexactly(PREFIX.size), 0, 1 << 20)
                await reader.readexactly(head.head_bytes)
                if answers and head.kind is Kind.REQUEST:
                    said = codec.encode(INFO)
                    writer.write(write_prefix(Kind.ANSWER, head.id, len(said), 0) + said)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield "127.0.0.1", server.sockets[0].getsockname()[1]
    finally:
        server.close()


def test_many_silent_nodes_have_one_deadline() -> None:
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            hosts = [await stack.enter_async_context(node(greets=False)) for _ in range(20)]
            channel = TcpChannel(hosts)
            stack.push_async_callback(channel.close)
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(Unavailable, match="no answer"):
                await channel.ask(None, AskCluster(), timeout=ATTEMPT_SECONDS)
            assert loop.time() - began == pytest.approx(ATTEMPT_SECONDS, rel=0.1)

    run_manually(scene(), quiet_seconds=QUIET_SECONDS)


@pytest.mark.parametrize("silent", [{"greets": False}, {"answers": False}])
def test_the_one_that_answers_is_found_and_stayed_with(silent: dict[str, bool]) -> None:
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            hosts = [await stack.enter_async_context(node(**silent)) for _ in range(3)]
            hosts.insert(2, await stack.enter_async_context(node()))
            hosts.insert(0, ("127.0.0.1", 1))
            channel = TcpChannel(hosts)
            stack.push_async_callback(channel.close)
            problems = 0
            answer: Answer | None = None
            while answer is None:
                try:
                    answer, _ = await channel.ask(None, AskCluster(), timeout=ATTEMPT_SECONDS)
                except (Unavailable, OutcomeUnknown):
                    problems += 1
                    assert problems < len(hosts), "each attempt begins with another node"
            assert answer == INFO
            for _ in range(10):
                assert (await channel.ask(None, AskCluster(), timeout=ATTEMPT_SECONDS))[0] == INFO

    run_manually(scene(), quiet_seconds=QUIET_SECONDS)
