"""Penstock in FastAPI and Starlette: one client for the application, and workers beside it.

    from fastapi import FastAPI
    from penstock.integrations.fastapi import PenstockClient, lifespan

    app = FastAPI(lifespan=lifespan("penstock://127.0.0.1:9092"))

    @app.post("/orders")
    async def place(order: Order, client: PenstockClient) -> str:
        return (await client.send("orders", order)).id

The client is opened when the application starts and closed when it ends. A broker that cannot be
reached at the start is an error, as a database would be.
"""

import math
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.requests import HTTPConnection
from fastapi.responses import JSONResponse

from penstock.client.client import Client
from penstock.client.settings import ClientSettings
from penstock.core.errors import LocalError, OutcomeUnknown, PenstockError, Unavailable
from penstock.embedded.connector import connect
from penstock.workers.app import App

__all__ = ["PenstockClient", "answer_errors", "client_of", "lifespan"]

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]


def lifespan(
    url: str | None = None,
    *,
    settings: ClientSettings | None = None,
    workers: Iterable[App] = (),
    also: Lifespan | None = None,
) -> Lifespan:
    """The lifespan of an application that has a client.

    Without a URL the broker is where `penstock.connect()` finds it. The applications of `workers`
    run in this process, beside the requests: handy for short work and while developing; other work
    is better off in processes of its own (`penstock work`). `also` is a lifespan of your own, which
    begins after this one and ends before it."""

    @asynccontextmanager
    async def run(app: FastAPI) -> AsyncIterator[Any]:
        async with connect(url, settings=settings) as client, AsyncExitStack() as stack:
            app.state.penstock = client
            for one in workers:
                await stack.enter_async_context(one)
            yield await stack.enter_async_context(also(app)) if also is not None else None

    return run


def client_of(connection: HTTPConnection) -> Client:
    """The client of the application that a request or a websocket belongs to."""
    client = getattr(connection.app.state, "penstock", None)
    if not isinstance(client, Client):
        raise LocalError(
            "this application has no Penstock client: FastAPI(lifespan=lifespan(url)); in a test,"
            " enter the test client with `with`, which runs the lifespan"
        )
    return client


PenstockClient = Annotated[Client, Depends(client_of)]
"""The annotation of a parameter that is to be the application's client."""


def answer_errors(app: FastAPI) -> None:
    """Answer 503 with `Retry-After` where the broker is unavailable, and 504 where it is not known
    whether a message was stored; without it both are 500."""
    app.add_exception_handler(Unavailable, _answer)
    app.add_exception_handler(OutcomeUnknown, _answer)


def _answer(_request: Request, error: Exception) -> Response:
    assert isinstance(error, PenstockError), f"{error!r} is no error of Penstock"
    headers = {}
    if isinstance(error, Unavailable):
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after_ms / 1_000)))
    return JSONResponse({"detail": str(error)}, error.http_status, headers)
