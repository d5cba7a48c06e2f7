"""Pages that many people have open, made once for all of them.

Open pages are refreshed at the same time. A page made only of the watch's readings depends on
nothing but its address, the last reading, the alerts and the state of the broker. It is kept until
one of these changes, and further requests get the kept page: many screens cost as much as one.
"""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.clock import precise_seconds
from penstock.web.broker import Broker
from penstock.web.dashboard.live.recent_readings import LINES_AGAIN_MS
from penstock.web.dashboard.renderer import FRAGMENT, page_answer

KEPT_MAX = 64
KEPT_SECONDS = LINES_AGAIN_MS / 1_000
"""The lifetime of a cached page: the events of other nodes on it are requested again after that."""


class Shared:
    """For one broker. A whole page has a token in it and is not shared, only the middle of one."""

    def __init__(self, broker: Broker, now: Callable[[], float] = precise_seconds) -> None:
        self._broker = broker
        self._now = now
        self._seen: tuple[object, ...] = ()
        self._until = 0.0
        self._made: dict[str, bytes] = {}

    def find(self, request: Request) -> Response | None:
        """The cached page, if nothing has changed since."""
        seen, now = self._look(), self._now()
        if now >= self._until or seen != self._seen:
            self._seen, self._until = seen, now + KEPT_SECONDS
            self._made.clear()
        body = self._made.get(_key(request)) if FRAGMENT in request.headers else None
        return None if body is None else page_answer(body)

    def keep(self, request: Request, answer: Response) -> None:
        """Cache a page, unless something changed while it was made."""
        if FRAGMENT not in request.headers or answer.media_type != "text/html":
            return
        if answer.status_code == 200 and len(self._made) < KEPT_MAX and self._look() == self._seen:
            self._made[_key(request)] = bytes(answer.body)

    def _look(self) -> tuple[object, ...]:
        broker, watch = self._broker, self._broker.watch
        readings = None if watch is None else watch.readings
        alerts = () if watch is None else (watch.alerts.firing(), watch.silences.current())
        return broker.phase, readings, alerts, (*broker.problems(), *broker.warnings())


def _key(request: Request) -> str:
    return f"{request.url.path}?{request.url.query}"
