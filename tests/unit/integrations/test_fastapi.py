"""The lifespan and the dependency of FastAPI, with FastAPI's own test client and a real broker."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event

import pytest
from fastapi import FastAPI, WebSocket
from fastapi.testclient import TestClient
from pydantic import BaseModel

from penstock.core.errors import LocalError, OutcomeUnknown, Unavailable
from penstock.integrations.fastapi import PenstockClient, answer_errors, lifespan
from penstock.workers import App
from tests.web_broker import WebBroker

WORK_SECONDS_MAX = 60


class Order(BaseModel):
    number: int


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with WebBroker(Path(tmp_path_factory.mktemp("fastapi"))) as broker:
        yield f"penstock://{broker.address}"


def test_requests_share_a_client_and_workers_run_beside_them(url: str) -> None:
    jobs = App(url)
    done: list[int] = []
    told = Event()

    @jobs.worker("fast-orders")
    async def pack(order: Order) -> None:
        done.append(order.number)
        told.set()

    seen: list[str] = []

    @asynccontextmanager
    async def also(app: FastAPI) -> AsyncIterator[None]:
        seen.append("began")
        yield
        seen.append("ended")

    web = FastAPI(lifespan=lifespan(url, workers=[jobs], also=also))
    clients = set()

    @web.post("/orders")
    async def place(order: Order, client: PenstockClient) -> str:
        clients.add(id(client))
        return (await client.send("fast-orders", order)).id

    @web.websocket("/depth")
    async def depth(socket: WebSocket, client: PenstockClient) -> None:
        await socket.accept()
        clients.add(id(client))
        await socket.send_json((await client.queue("fast-orders").stats()).sent)
        await socket.close()

    with TestClient(web) as browser:
        answer = browser.post("/orders", json={"number": 7})
        assert answer.status_code == 200
        assert answer.json()
        assert told.wait(WORK_SECONDS_MAX)
        with browser.websocket_connect("/depth") as socket:
            assert socket.receive_json() == 1
        assert seen == ["began"]
    assert seen == ["began", "ended"]
    assert done == [7]
    assert len(clients) == 1


def test_without_the_lifespan_the_error_says_what_is_missing() -> None:
    web = FastAPI()

    @web.get("/")
    async def look(client: PenstockClient) -> None: ...

    with pytest.raises(LocalError, match=r"lifespan=lifespan\(url\)"):
        TestClient(web).get("/")


def test_errors_of_the_broker_are_answers() -> None:
    web = FastAPI(lifespan=lifespan("memory:"))
    answer_errors(web)

    @web.get("/unavailable")
    async def unavailable() -> None:
        raise Unavailable("no leader", retry_after_ms=1_500)

    @web.get("/unknown")
    async def unknown() -> None:
        raise OutcomeUnknown("perhaps")

    with TestClient(web) as browser:
        answer = browser.get("/unavailable")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        assert answer.json() == {"detail": "no leader"}
        assert browser.get("/unknown").status_code == 504
