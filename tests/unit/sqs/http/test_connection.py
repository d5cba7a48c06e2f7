"""One connection of SQS's server: HTTP cut anywhere, without end, or none at all."""

import asyncio
import random
from itertools import pairwise

import pytest

from penstock.sqs.http import connection as connecting
from tests.unit.sqs.http.port import Port, has_begun, request, serve, until


def test_requests_sent_ahead_are_answered_in_order_and_one_at_a_time() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            client.send(request(b"wait") + request(b"b", b"x" * 50) + request(b"c"))
            await until(lambda: port.echo.asked == [b"wait"])
            port.echo.open.set()
            bodies = [(await client.answer())[2] for _ in range(3)]
            assert bodies == [b"POST|/||wait|", b"POST|/||b|" + b"x" * 50, b"POST|/||c|"]

    serve(story)


def test_requests_that_take_no_task_keep_their_turn_among_others() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            asked = [b"brief", b"wait", b"brief", b"brief", b"b", b"brief"]
            client.send(b"".join(request(one, b"%d" % number) for number, one in enumerate(asked)))
            await until(lambda: port.echo.asked == [b"brief", b"wait"])
            assert (await client.answer())[2] == b"brief|0"
            port.echo.open.set()
            bodies = [(await client.answer())[2] for _ in asked[1:]]
            assert bodies == [b"POST|/||wait|1", b"brief|2", b"brief|3", b"POST|/||b|4", b"brief|5"]
            assert port.echo.asked == asked

    serve(story)


def test_a_client_that_goes_before_a_request_without_a_task_is_answered() -> None:
    async def story(port: Port) -> None:
        port.echo.holds = True
        async with port.client() as client:
            client.send(request(b"brief", b"x" * 50) + request(b"b"))
            await until(lambda: len(port.echo.held) == 1)
            assert port.server.memory.held == 50
        await until(lambda: not port.server.connections)
        assert port.server.memory.held == 0
        port.echo.release()
        assert port.echo.asked == [b"brief"], "the next one is not begun for nobody"
        assert port.echo.heard == [False]

    serve(story)


def test_a_request_that_takes_a_task_after_all() -> None:
    async def story(port: Port) -> None:
        port.echo.takes_task = True
        async with port.client() as client:
            client.send(request(b"brief", b"0") + request(b"brief", b"1"))
            bodies = [(await client.answer())[2] for _ in range(2)]
            assert bodies == [b"POST|/||brief|0", b"POST|/||brief|1"]
        assert port.echo.heard == [True, True]
        assert port.echo.asked == [b"brief"] * 4

    serve(story)


def test_a_server_that_closes_answers_what_takes_no_task() -> None:
    async def story(port: Port) -> None:
        port.echo.holds = True
        async with port.client() as client:
            client.send(request(b"brief", b"last") + request(b"b"))
            await until(lambda: len(port.echo.held) == 1)
            closing = asyncio.create_task(port.server.close(5.0))
            await asyncio.sleep(0)
            port.echo.release()
            _, head, body = await client.answer()
            assert body == b"brief|last"
            assert b"\r\nConnection: close\r\n" in head
            await client.wait_end()
        await closing

    serve(story)


def test_a_request_in_pieces() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            whole = request(b"slow", b"in pieces")
            for byte in whole:
                client.send(bytes([byte]))
                await client.writer.drain()
                await asyncio.sleep(0)
            assert (await client.answer())[2] == b"POST|/||slow|in pieces"

    serve(story)


def test_it_does_not_matter_where_the_bytes_are_cut() -> None:
    chunked = request(b"d").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    whole = (
        request(b"a")
        + request(b"b", b"\r\n\r\nPOST / HTTP/1.1\r\n")
        + request(b"c", method=b"GET").replace(b" / ", b" /?Action=x ")
        .replace(b"any.example", b"localhost")
        + chunked + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        + request(b"e", b"x" * 99)
    )  # fmt: skip
    expected = [
        b"POST|/||a|",
        b"POST|/||b|\r\n\r\nPOST / HTTP/1.1\r\n",
        b"GET|/|Action=x|c|",
        b"POST|/||d|abcde",
        b"POST|/||e|" + b"x" * 99,
    ]

    async def story(port: Port) -> None:
        chance = random.Random(1)
        for _ in range(100):
            cuts = sorted(chance.sample(range(1, len(whole)), chance.randrange(1, 12)))
            async with port.client() as client:
                for start, end in pairwise([0, *cuts, len(whole)]):
                    client.send(whole[start:end])
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                assert [(await client.answer())[2] for _ in expected] == expected, cuts

    serve(story)


def test_a_chunked_body() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            head = request(b"c").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
            client.send(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
            assert (await client.answer())[2] == b"POST|/||c|abcde"

    serve(story)


def test_a_url_that_names_its_host_as_for_a_proxy() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            client.send(request().replace(b"POST / ", b"POST http://any.example/0/q?a=b "))
            assert (await client.answer())[2] == b"POST|/0/q|a=b|a|"

    serve(story)


def test_a_client_that_asks_whether_to_continue_is_told_so_in_its_turn() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            whole = request(b"b", b"body", Expect=b"100-continue")
            client.send(request(b"wait") + whole[:-4])
            await until(lambda: port.echo.asked == [b"wait"])
            port.echo.open.set()
            assert (await client.answer())[2] == b"POST|/||wait|"
            assert (await client.answer())[0] == 100
            assert await client.ask(b"body") == (200, b"POST|/||b|body")

    serve(story)


def test_an_offer_of_another_protocol_is_not_taken() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            offer = request(b"b", b"body", Connection=b"Upgrade", Upgrade=b"h2c")
            client.send(offer + offer)
            assert (await client.answer())[2] == b"POST|/||b|body"
            assert (await client.answer())[2] == b"POST|/||b|body"
            assert await client.ask(request(b"c")) == (200, b"POST|/||c|")

    serve(story)


@pytest.mark.parametrize(
    "asked",
    [
        request(Connection=b"close"),
        request().replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
)
def test_a_connection_ends_if_the_client_says_so(asked: bytes) -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            client.send(asked)
            status, head, _ = await client.answer()
            assert status == 200
            assert b"\r\nConnection: close\r\n" in head
            await client.wait_end()

    serve(story)


def test_a_body_that_was_refused_is_never_a_request() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            hidden = request(b"hidden")
            client.send(request(b"a", hidden, Origin=b"http://evil.example") + request(b"next"))
            assert (await client.answer())[0] == 421
            await client.wait_end()
            assert port.echo.asked == []

    serve(story)


def test_a_head_without_end_is_cut_off() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            client.send(b"POST / HTTP/1.1\r\nX-Amz-Target: a\r\n" + b"X-Filler: x\r\n" * 10_000)
            await client.wait_end()

    serve(story)


def test_many_requests_sent_ahead_wait_in_the_system() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            count = 5_000
            client.send(request(b"wait", b"x" * 40))
            client.send(b"".join(request(b"t", b"%05d" % number) for number in range(count)))
            await until(lambda: any(one._reading_paused for one in port.server.connections))
            (held,) = port.server.connections
            assert len(held._waiting) < count / 2
            port.echo.open.set()
            await client.answer()
            for number in range(count):
                assert (await client.answer())[2] == b"POST|/||t|%05d" % number

    serve(story)


def test_a_client_that_does_not_read_gets_no_more_answers() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.send(request(b"large") * 20)
            await until(lambda: any(one._writing_paused for one in port.server.connections))
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(port.echo.asked) < 20
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            for _ in range(20):
                assert len((await client.answer())[2]) == 1 << 22

    serve(story)


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [
        (b"", connecting.HEAD_SECONDS_MAX),
        (b"POST / HTTP/1.1\r\nX-Slow: ", connecting.HEAD_SECONDS_MAX),
    ],
)
def test_nothing_may_last_for_ever(sent: bytes, seconds: float) -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            client.send(sent)
            await until(lambda: sent == b"" or any(map(has_begun, port.server.connections)))
            await until(lambda: bool(port.server.connections))
            port.server.sweep(1e9)
            port.server.sweep(1e9 + seconds - 0.1)
            assert port.server.connections
            port.server.sweep(1e9 + seconds)
            await client.wait_end()

    serve(story)


def test_who_sends_no_body_is_told_so() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            client.send(request(b"a", b"body")[:-1])
            await until(lambda: any(map(has_begun, port.server.connections)))
            port.server.sweep(1e9)
            port.server.sweep(1e9 + connecting.BODY_SECONDS_MAX)
            assert (await client.answer())[0] == 408
            await client.wait_end()

    serve(story)


@pytest.mark.parametrize("before", [b"", request()])
def test_nonsense_is_answered_or_ends_the_connection(before: bytes) -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            if before:
                await client.ask(before)
            client.send(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
            assert (await client.answer())[0] == 400

    serve(story)


def test_nonsense_behind_a_request_does_not_take_its_answer() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            client.send(request(b"wait") + b"nonsense\r\n\r\n")
            await until(lambda: port.echo.asked == [b"wait"])
            port.echo.open.set()
            status, head, _ = await client.answer()
            assert status == 200
            assert b"\r\nConnection: close\r\n" in head
            await client.wait_end()

    serve(story)


def test_a_client_that_goes_is_given_up() -> None:
    async def story(port: Port) -> None:
        async with port.client() as client:
            client.send(request(b"wait", b"x" * 50) + request(b"b", b"x" * 50))
            await until(lambda: port.echo.asked == [b"wait"])
            assert port.server.memory.held == 100
        await until(lambda: not port.server.connections)
        await until(lambda: port.echo.given_up == [b"wait"])
        assert port.server.memory.held == 0
        assert port.echo.asked == [b"wait"]

    serve(story)


def test_a_bug_ends_one_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def story(port: Port) -> None:
        async with port.client() as client, port.client() as other:
            port.echo.error = ZeroDivisionError()
            client.send(request())
            await client.wait_end()
            port.echo.error = None
            assert (await other.ask(request()))[0] == 200

    serve(story)
    assert "ZeroDivisionError" in caplog.text
