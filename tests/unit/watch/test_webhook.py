"""Notices to a real HTTP server."""

import asyncio
import math
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

import msgspec
import pytest

from penstock.core.alert_levels import Level
from penstock.core.errors import InvalidRequest, Unavailable
from penstock.core.retries import Retrier
from penstock.watch.alert import Alert, AlertState, Subject
from penstock.watch.webhook import TRIES_MAX, Notice, Webhook
from tests.unit.engine.nodes import until
from tests.unit.watch.looped import on_a_loop


class Receiver:
    """Somebody who is told; answers what a test wants, then 204."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.got: list[tuple[str, dict[str, str], Any]] = []
        outer = self

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.got.append((self.path, headers, msgspec.json.decode(body)))
                status = outer.answers.pop(0) if outer.answers else 204
                self.send_response(status)
                self.send_header("content-length", "0")
                if status == 302:
                    self.send_header("location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_said: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook?token=geheim"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


class Pauses:
    """Time that passes at once, and is noted."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self.retrier = Retrier(now=lambda: sum(self.taken), random=Random(1), sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.taken.append(seconds)
        await asyncio.sleep(0)


def notice(number: int = 1) -> Notice:
    return Notice(
        cluster="c",
        node=1,
        sent_ms=5,
        alert=Alert(
            key=f"depth:queue/jobs-{number}/queue",
            rule="depth",
            title="Queue depth",
            level=Level.WARNING,
            state=AlertState.FIRING,
            subject=Subject(kind="queue", queue=f"jobs-{number}", group="queue"),
            value=60_000,
            threshold=50_000,
            unit="messages",
            message="too much",
            advice="add workers",
            runbook="docs/runbooks/depth.md",
            since_ms=1,
            fired_ms=2,
        ),
    )


@on_a_loop
async def test_a_change_is_one_post(receiver: Receiver) -> None:
    webhook = Webhook(receiver.url)
    webhook.start()
    webhook.send(notice())
    await until(lambda: webhook.statistics().sent == 1)
    await webhook.close()
    ((path, headers, body),) = receiver.got
    assert path == "/hook?token=geheim"
    assert headers["content-type"] == "application/json"
    assert body["alert"]["level"] == "warning"
    assert body["alert"]["state"] == "firing"
    assert body["alert"]["subject"]["queue"] == "jobs-1"
    assert body["version"] == 1


@on_a_loop
async def test_a_receiver_that_fails_is_tried_again_in_order(receiver: Receiver) -> None:
    receiver.answers = [500, 503, 302]
    pauses = Pauses()
    webhook = Webhook(receiver.url, retrier=pauses.retrier)
    webhook.start()
    webhook.send(notice(1))
    webhook.send(notice(2))
    await until(lambda: webhook.statistics().sent == 2)
    await webhook.close()
    told = [body["alert"]["subject"]["queue"] for _, _, body in receiver.got]
    assert told == ["jobs-1"] * 4 + ["jobs-2"]
    assert [math.ceil(one) for one in pauses.taken] == [1, 2, 4]
    assert webhook.statistics().failed == 3
    assert webhook.statistics().problem == ""


@on_a_loop
async def test_a_receiver_that_is_gone_is_given_up_on(receiver: Receiver) -> None:
    receiver.answers = [500] * TRIES_MAX
    webhook = Webhook(receiver.url, retrier=Pauses().retrier)
    webhook.start()
    webhook.send(notice(1))
    webhook.send(notice(2))
    await until(lambda: webhook.statistics().sent == 1)
    await webhook.close()
    assert webhook.statistics().dropped == 1
    assert receiver.got[-1][2]["alert"]["subject"]["queue"] == "jobs-2"


@on_a_loop
async def test_what_waits_is_bounded_and_the_oldest_goes(receiver: Receiver) -> None:
    webhook = Webhook(receiver.url, messages_max=2)
    for number in range(5):
        webhook.send(notice(number))
    assert webhook.statistics().dropped == 3
    webhook.start()
    await until(lambda: webhook.statistics().sent == 2)
    await webhook.close()
    told = [body["alert"]["subject"]["queue"] for _, _, body in receiver.got]
    assert told == ["jobs-3", "jobs-4"]


@on_a_loop
async def test_nobody_to_tell_is_fine() -> None:
    webhook = Webhook("")
    webhook.start()
    webhook.send(notice())
    assert not webhook.is_set
    assert webhook.statistics().waiting == 0
    await webhook.close()
    with pytest.raises(InvalidRequest, match=r"alerts\.webhook"):
        await webhook.try_now(notice())


@on_a_loop
async def test_a_try_says_how_it_went(receiver: Receiver) -> None:
    webhook = Webhook(receiver.url)
    await webhook.try_now(notice())
    receiver.answers = [404]
    with pytest.raises(Unavailable, match="it answered 404"):
        await webhook.try_now(notice())


@on_a_loop
async def test_a_secret_in_the_address_is_not_shown(receiver: Receiver) -> None:
    webhook = Webhook(receiver.url)
    receiver.answers = [500]
    with pytest.raises(Unavailable) as raised:
        await webhook.try_now(notice())
    assert "geheim" not in str(raised.value)
    assert webhook.shown == "http://127.0.0.1/…"


@on_a_loop
async def test_a_name_and_a_password_are_sent_as_such(receiver: Receiver) -> None:
    webhook = Webhook(receiver.url.replace("127.0.0.1", "me:p%40ss@127.0.0.1"))
    await webhook.try_now(notice())
    ((_, headers, _),) = receiver.got
    assert headers["authorization"] == "Basic " + b64encode(b"me:p@ss").decode()
    assert webhook.shown == "http://127.0.0.1/…"


@on_a_loop
async def test_an_address_that_cannot_be_asked_is_a_problem_like_others() -> None:
    webhook = Webhook("http://127.0.0.1:9/ä b")
    with pytest.raises(Unavailable):
        await webhook.try_now(notice())


@pytest.mark.parametrize("url", ["ftp://somewhere/", "somewhere", "http://", "http://a:70000/"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest):
        Webhook(url)
