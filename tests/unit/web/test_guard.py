"""What a request must pass before anybody looks at it."""

import asyncio

import pytest
from starlette.types import Message

from penstock.web.app import make_app
from penstock.web.guard import BODY_BYTES_MAX, TOKEN_HEADER, Guard
from penstock.web.tokens import page_token
from tests.unit.web.asgi import JSON, FakeBroker, call

ORDER = ("POST", "/v1/cluster/transfer")
BODY = b'{"shard":2,"target":3}'
SHOWN = {TOKEN_HEADER: page_token(FakeBroker())}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("192.0.2.7", 200),
        ("localhost:8080", 200),
        ("BROKER.example:8080", 200),
        ("evil.example:8080", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ],
)
def test_the_host_must_be_known(host: str, status: int) -> None:
    app = make_app(FakeBroker())
    for path in ("/v1/cluster", "/", "/cluster", "/assets/live.js"):
        assert call(app, "GET", path, headers={"host": host}).status == status
    assert call(app, "GET", "/readyz", headers={"host": host}).status == 200


def test_any_host_if_told_so() -> None:
    app = make_app(FakeBroker(known={"*"}))
    assert call(app, "GET", "/v1/cluster", headers={"host": "any.example"}).status == 200
    assert call(app, "GET", "/v1/cluster", headers={"host": ""}).status == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (JSON, 200),
        ({"content-type": "Application/JSON; charset=utf-8"}, 200),
        ({**JSON, "origin": "http://127.0.0.1:8080", **SHOWN}, 200),
        ({**JSON, "referer": "http://127.0.0.1:8080/queues", **SHOWN}, 200),
        ({**JSON, **SHOWN}, 200),
        ({**JSON, "origin": "http://127.0.0.1:8080"}, 403),
        ({**JSON, "origin": "http://127.0.0.1:8080", TOKEN_HEADER: "guessed"}, 403),
        ({**JSON, "referer": "http://127.0.0.1:8080/queues"}, 403),
        ({**JSON, "sec-fetch-site": "same-origin"}, 403),
        ({**JSON, "origin": "http://evil.example", **SHOWN}, 403),
        ({}, 415),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({**JSON, "origin": "http://evil.example"}, 403),
        ({**JSON, "origin": "null"}, 403),
    ],
)
def test_no_page_of_another_site_can_change_anything(headers: dict[str, str], status: int) -> None:
    broker = FakeBroker()
    assert broker.node is not None
    assert call(make_app(broker), *ORDER, headers=headers, parts=[BODY]).status == status
    assert bool(broker.node.cluster.orders) == (status == 200)


def test_nothing_is_changed_where_only_reading_is_allowed() -> None:
    broker = FakeBroker(read_only=True)
    assert broker.node is not None
    answer = call(make_app(broker), *ORDER, headers=JSON, parts=[BODY])
    assert (answer.status, answer.json()["error"]) == (403, "ReadOnly")
    assert broker.node.cluster.orders == []
    assert call(make_app(broker), "GET", "/v1/cluster").status == 200


def test_a_body_has_a_bound() -> None:
    app = make_app(FakeBroker())
    claimed = {**JSON, "content-length": str(BODY_BYTES_MAX + 1)}
    assert call(app, *ORDER, headers=claimed).status == 413
    assert call(app, *ORDER, headers={**JSON, "content-length": "-5"}).status == 413
    parts = [b" " * (1 << 19)] * 3
    assert call(app, *ORDER, headers=JSON, parts=parts).status == 413


def test_a_client_that_goes_away_orders_nothing() -> None:
    broker = FakeBroker()
    assert broker.node is not None
    assert call(make_app(broker), *ORDER, headers=JSON, parts=[]).status == 400
    assert broker.node.cluster.orders == []


def test_no_websockets() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    guard = Guard(
        make_app(FakeBroker()), hosts=set, open_paths=(), is_token=bool, read_only=lambda: False
    )
    asyncio.run(guard({"type": "websocket"}, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"]
