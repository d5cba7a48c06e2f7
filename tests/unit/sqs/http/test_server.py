"""SQS's server: the ASGI application gets all other requests, and it closes in good order."""

import asyncio
import contextlib

import pytest

from penstock.core.limits import KIB
from penstock.core.memory_budget import MemoryBudget
from penstock.sqs.http import connection as connecting
from tests.unit.sqs.http.port import FACTORIES, FOREIGN, LIVE, Port, request, serve, until

SETTINGS = b'{"settings":[{"name":"shards","value":"4","source":"default"}]}\n'


@pytest.mark.parametrize("loop", FACTORIES)
def test_a_connection_serves_many_requests(loop: str) -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            for number in range(3):
                client.send(request(b"t%d" % number, b"body"))
                status, head, body = await client.answer()
                assert status == 200
                assert b"\r\nx-amzn-RequestId: 1\r\n" in head
                assert b"\r\nDate: " in head
                assert b"\r\nConnection:" not in head
                assert body == b"POST|/||t%d|body" % number
            (connection,) = port.server.connections
            assert port.echo.accounts == {connection._account}

    serve(story, loop=loop)


@pytest.mark.parametrize("loop", FACTORIES)
def test_what_is_not_sqs_is_handed_over_and_sqs_still_works_there(loop: str) -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            assert await client.ask(FOREIGN) == (200, SETTINGS)
            assert not port.server.connections
            assert await client.ask(request(b"b", b"inside")) == (200, b"POST|/||b|inside")
            assert await client.ask(FOREIGN) == (200, SETTINGS)
            (account,) = port.echo.accounts
            assert account is not None, "messages are read on the connection's account"
            assert account.protocol == "http"

    serve(story, loop=loop)


def test_a_connection_is_handed_over_when_its_next_request_is_not_sqs() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            assert await client.ask(request()) == (200, b"POST|/||a|")
            assert len(port.server.connections) == 1
            client.send(FOREIGN[:20])
            await until(lambda: not port.server.connections or port.echo.asked == [b"a"])
            assert await client.ask(FOREIGN[20:]) == (200, SETTINGS)
            assert not port.server.connections

    serve(story)


PAGES: list[tuple[bytes, dict[str, bytes], int]] = [
    (b"POST", {}, 200),
    (b"POST", {"Host": b"broker.example", "Origin": b"http://broker.example"}, 200),
    (b"POST", {"Host": b"127.0.0.1:1", "Sec_Fetch_Site": b"same-origin"}, 200),
    (b"POST", {"Origin": b"http://evil.example"}, 421),
    (b"POST", {"Origin": b"http://any.example"}, 421),
    (b"POST", {"Host": b"localhost", "Origin": b"http://evil.example"}, 403),
    (b"POST", {"Host": b"localhost", "Origin": b"null"}, 403),
    (b"POST", {"Host": b"localhost", "Referer": b"http://evil.example/a"}, 403),
    (b"GET", {}, 421),
    (b"GET", {"Host": b"localhost"}, 200),
    (b"GET", {"Host": b"localhost", "Sec_Fetch_Site": b"cross-site"}, 403),
    (b"GET", {"Host": b"localhost", "Sec_Fetch_Site": b"none"}, 200),
    (b"GET", {"Host": b"localhost", "Referer": b"http://localhost/page"}, 200),
]


@pytest.mark.parametrize("handed_over", [False, True])
def test_no_page_of_another_site_reaches_sqs(handed_over: bool) -> None:
    async def story(port: Port) -> None:
        for method, headers, status in PAGES:
            asked = request(method=method, **headers).replace(b" / ", b" /?Action=a ")
            if "Host" in headers:
                asked = asked.replace(b"Host: any.example\r\n", b"")
            port.echo.asked.clear()
            async with port.client() as client:
                if handed_over:
                    await client.ask(FOREIGN)
                assert (await client.ask(asked))[0] == status, (method, headers)
                assert bool(port.echo.asked) == (status == 200), (method, headers)

    serve(story)


@pytest.mark.parametrize("handed_over", [False, True])
def test_a_body_has_a_bound(monkeypatch: pytest.MonkeyPatch, handed_over: bool) -> None:
    monkeypatch.setattr(connecting, "SQS_BODY_BYTES_MAX", 1_000)
    monkeypatch.setattr("penstock.sqs.http.middleware.SQS_BODY_BYTES_MAX", 1_000)

    async def story(port: Port) -> None:
        chunked = request().replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        for asked in (request(b"a", b"x" * 1_001), chunked + b"3e9\r\n" + b"x" * 1_001):
            async with port.client() as client:
                if handed_over:
                    await client.ask(FOREIGN)
                assert (await client.ask(asked))[0] == 413
        assert port.echo.asked == []
        async with port.client() as client:
            assert await client.ask(request(b"a", b"x" * 1_000)) == (200, b"POST|/||a|1000")

    serve(story)


LARGE = 20 * KIB
"""A body that is not small: there is no reserve for it."""


def test_requests_together_have_a_bound() -> None:
    memory = MemoryBudget(64 * KIB)

    async def story(port: Port) -> None:
        async with port.client() as one, port.client() as two, port.client() as small:
            one.send(request(b"wait", b"x" * 40 * KIB))
            await until(lambda: port.echo.asked == [b"wait"])
            assert memory.held == 40 * KIB
            assert (await two.ask(request(b"b", b"x" * LARGE)))[0] == 503
            assert (await small.ask(request(b"b", b"x" * 400)))[0] == 200
            assert memory.statistics().refused == {"sqs": 1}
            port.echo.open.set()
            assert (await one.answer())[0] == 200
            assert memory.held == 0

    serve(story, memory=memory)


def test_answers_that_nobody_fetches_count_too() -> None:
    memory = MemoryBudget(64 * KIB)

    async def story(port: Port) -> None:
        async with port.client() as lazy, port.client() as other:
            lazy.writer.transport.pause_reading()  # type: ignore[attr-defined]
            lazy.send(request(b"large") * 3)
            await until(lambda: any(one._writing_paused for one in port.server.connections))
            assert memory.held > memory.bytes_max
            assert (await other.ask(request(b"b", b"x" * LARGE)))[0] == 503
            lazy.writer.transport.resume_reading()  # type: ignore[attr-defined]
            for _ in range(3):
                await lazy.answer()
            await until(lambda: memory.held == 0)
        async with port.client() as other:
            assert (await other.ask(request(b"b", b"x" * LARGE)))[0] == 200

    serve(story, memory=memory)


def test_probes_are_answered_beside_every_bound() -> None:
    """Idle connections with either server, half a head on others: /livez answers all the same."""

    async def story(port: Port) -> None:
        async with contextlib.AsyncExitStack() as clients:

            async def several(count: int, data: bytes, *, answered: bool) -> None:
                for _ in range(count):
                    client = await clients.enter_async_context(port.client())
                    client.send(data)
                    if answered:
                        await client.answer()

            await several(3, request(), answered=True)
            await several(6, FOREIGN, answered=True)
            await several(10, LIVE[:-2], answered=False)
            await until(lambda: len(port.server.surplus) == 4)
            for _ in range(3):
                async with port.client() as probe:
                    assert await probe.ask(LIVE) == (200, b'{"live":true}\n')
            async with port.client() as other:
                assert (await other.ask(FOREIGN))[0] == 503
            assert port.server.refused > 0, "the oldest half heads gave way"

    serve(story, connections_max=3, door_max=4, places=4)


def test_a_probe_and_what_comes_after_it_on_one_connection() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            assert (await client.ask(LIVE))[0] == 200
            assert await client.ask(request(b"a", b"x")) == (200, b"POST|/||a|x")
            client.send(request(b"wait") + LIVE)
            await until(lambda: b"wait" in port.echo.asked)
            port.echo.open.set()
            assert (await client.answer())[2] == b"POST|/||wait|"
            assert (await client.answer())[2] == b'{"live":true}\n'
            assert (await client.ask(FOREIGN))[0] == 200
            assert (await client.ask(LIVE))[0] == 200, "now it is the ASGI server's"
            closing = LIVE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        async with port.client() as client:
            client.send(closing)
            _, head, _ = await client.answer()
            assert b"\r\nConnection: close\r\n" in head
            assert b"\r\nx-content-type-options: nosniff\r\n" in head
            await client.wait_end()

    serve(story)


def test_an_address_with_too_many_connections_may_still_probe() -> None:
    async def story(port: Port) -> None:
        async with port.client() as one, port.client() as two, port.client() as three:
            assert (await one.ask(request()))[0] == 200
            assert (await two.ask(LIVE))[0] == 200
            assert (await three.ask(request()))[0] == 503

    serve(story, memory=MemoryBudget(connections_per_address_max=1))


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_client_that_leaves_in_the_middle_of_pipelined_requests_is_no_error(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(port: Port) -> None:
        for _ in range(20):
            async with port.client() as client:
                client.send(FOREIGN * 30)
                await client.answer()
                client.writer.transport.abort()
        async with port.client() as client:
            assert (await client.ask(FOREIGN))[0] == 200

    serve(story, loop=loop)
    assert not caplog.records


def test_beyond_the_bound_of_connections_the_middleware_serves_sqs() -> None:
    async def story(port: Port) -> None:
        async with port.client() as one, port.client() as two:
            assert (await one.ask(request()))[0] == 200
            assert (await two.ask(request()))[0] == 200
            assert len(port.server.connections) == 1

    serve(story, connections_max=1)


def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    async def story(port: Port) -> None:
        async with port.client() as idle, port.client() as busy:
            await idle.ask(request())
            busy.send(request(b"wait"))
            await until(lambda: b"wait" in port.echo.asked)
            port.server.sweep(1e9)
            port.server.sweep(1e9 + connecting.IDLE_SECONDS_MAX)
            await idle.wait_end()
            port.echo.open.set()
            assert (await busy.answer())[0] == 200

    serve(story)


def test_another_request_behind_one_under_way_ends_the_connection_in_good_order() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            client.send(request(b"wait") + FOREIGN)
            await until(lambda: port.echo.asked == [b"wait"])
            port.echo.open.set()
            status, head, _ = await client.answer()
            assert status == 200
            assert b"\r\nConnection: close\r\n" in head
            await client.wait_end()

    serve(story)


def test_closing_lets_requests_under_way_finish_and_takes_no_more() -> None:
    async def story(port: Port) -> None:
        async with port.client() as idle, port.client() as busy:
            await idle.ask(request())
            busy.send(request(b"wait"))
            await until(lambda: b"wait" in port.echo.asked)
            closing = asyncio.create_task(port.server.close(30.0))
            await idle.wait_end()
            assert not closing.done()
            port.echo.open.set()
            status, head, _ = await busy.answer()
            assert status == 200
            assert b"\r\nConnection: close\r\n" in head
            busy.writer.close()
            idle.writer.close()
            await closing
        async with port.client() as late:
            assert await late.ask(FOREIGN) == (200, SETTINGS)

    serve(story)


def test_a_long_poll_is_answered_when_the_server_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.sqs.http.server.HURRY_SECONDS", 0.0)

    async def story(port: Port) -> None:
        async with port.client() as client:
            client.send(request(b"wait"))
            await until(lambda: b"wait" in port.echo.asked)
            closing = asyncio.create_task(port.server.close(30.0))
            assert (await client.answer())[0] == 200
            assert port.echo.hurried
            client.writer.close()
            await closing

    serve(story)


def test_closing_does_not_wait_for_ever() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            client.send(request(b"for ever"))
            await until(lambda: b"for ever" in port.echo.asked)
            await port.server.close(0.0)
            await client.wait_end()
            assert port.echo.given_up == [b"for ever"]

    serve(story)
