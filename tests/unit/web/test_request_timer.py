"""HTTP requests are timed by route, until their answers begin."""

import asyncio

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from penstock.core.request_times import OTHER, RequestReading, RequestTimes
from penstock.engine.topics.poll_time import parked
from penstock.web.request_timer import Timing
from tests.unit.web.asgi import call


async def _plain(_request: Request) -> Response:
    return PlainTextResponse("well")


async def _refused(_request: Request) -> Response:
    return PlainTextResponse("no", status_code=409)


async def _waiting(_request: Request) -> Response:
    with parked():
        await asyncio.sleep(0)
    return PlainTextResponse("at last")


ROUTES = [
    Route("/queues/{name}", _plain),
    Route("/refused", _refused, methods=["POST"]),
    Route("/waiting", _waiting),
]


def counted(*requests: tuple[str, str]) -> RequestReading:
    times = RequestTimes()
    app = Timing(Starlette(routes=ROUTES), ROUTES, times, lambda: None)
    for method, path in requests:
        call(app, method, path)
    return times.statistics()


def test_a_route_is_one_kind_whatever_its_path_holds() -> None:
    reading = counted(("GET", "/queues/a"), ("GET", "/queues/b"), ("GET", "/waiting"))
    assert {api: one.count for api, one in reading.times.items()} == {
        "GET /queues/{name}": 2,
        "GET /waiting": 1,
    }
    assert reading.errors == {}


def test_paths_that_are_made_up_are_one_kind() -> None:
    reading = counted(*(("GET", f"/made/up/{number}") for number in range(50)))
    assert {api: one.count for api, one in reading.times.items()} == {OTHER: 50}
    assert reading.errors == {(OTHER, "404"): 50}


def test_refusals_are_errors() -> None:
    reading = counted(("POST", "/refused"))
    assert reading.errors == {("POST /refused", "409"): 1}


def test_waiting_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 10))
    for module in ("penstock.web.request_timer", "penstock.engine.topics.poll_time"):
        monkeypatch.setattr(f"{module}.precise_seconds", lambda: float(next(clock)))
    reading = counted(("GET", "/waiting"))
    assert reading.times["GET /waiting"].sum == 20, "of thirty, ten were spent waiting"
