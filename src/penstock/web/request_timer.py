"""Measures the duration of HTTP requests, by the path of their route.

The time until an answer begins is measured: an answer that goes on for hours, as a stream of events
does, is not slow. Paths without a route count as `other`, so that a client that tries paths cannot
make the metrics long.
"""

from collections.abc import Callable, Iterable
from typing import Final

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.core.clock import precise_seconds
from penstock.core.request_times import OTHER, RequestTimes
from penstock.engine.topics.poll_time import begin_parking
from penstock.engine.topics.slow_requests import SlowRequests
from penstock.web.probes import PROBE_PATHS

PROTOCOL: Final = "http"
_FIRST_ERROR: Final = 400


class Timing:
    """An ASGI application around another."""

    def __init__(
        self,
        app: ASGIApp,
        routes: Iterable[BaseRoute],
        times: RequestTimes,
        slow_requests: Callable[[], SlowRequests | None],
    ) -> None:
        self._app = app
        self._times = times
        self._slow_requests = slow_requests
        self._paths: dict[object, str] = {
            one.endpoint: one.path for one in routes if isinstance(one, Route)
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, parked = precise_seconds(), begin_parking()

        async def timed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(scope, message["status"], began, parked.seconds)
            await send(message)

        await self._app(scope, receive, timed)

    def _note(self, scope: Scope, status: int, began: float, waited: float) -> None:
        path = self._paths.get(scope.get("endpoint"))
        if path in PROBE_PATHS:  # They share an endpoint.
            path = scope["path"]
        name = OTHER if path is None else f"{scope['method']} {path}"
        ended = precise_seconds()
        self._times.observe(name, ended - began - waited)
        if status >= _FIRST_ERROR:
            self._times.error(name, str(status))
        slow = self._slow_requests()
        if slow is not None:
            client = scope.get("client") or ("", 0)
            slow.note(PROTOCOL, name, str(client[0]), began=began, ended=ended, waited=waited)
