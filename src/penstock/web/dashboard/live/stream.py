"""`GET /live`: server-sent events for pages that are open.

    event: tick      every two seconds, and as soon as the watch has something else to say about
                     the cluster: how the node is (see `status.py`); a page then asks for itself
                     again
    event: end       the broker stops; the page tries again until there is one

One task beats for all listeners, and only while there are any. Their number has a bound, as each
holds a connection; a page that is not let in asks for itself every few seconds instead. A listener
that does not keep up misses beats, which does no harm: each is complete.

Pages of other sites are not let in: they could not read the events, but would take the
places of those that can.
"""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from penstock.web.answers import SAFE_HEADERS, error_answer, json_answer
from penstock.web.broker import Broker, Phase
from penstock.web.dashboard.live.status import PageStatus, StatusWatch

TICK_SECONDS = 2.0
LOOK_SECONDS = 0.25
"""The interval of checks for a stop and for changes of the cluster."""
LISTENERS_MAX = 64
BEATS_WAITING_MAX = 4
_END = b"event: end\ndata: {}\n\n"


class Live:
    """The live updates of one broker."""

    def __init__(
        self,
        broker: Broker,
        *,
        listeners_max: int = LISTENERS_MAX,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        self._broker = broker
        self._status = StatusWatch(broker)
        self._listeners_max = listeners_max
        self._tick_seconds = tick_seconds
        self._listeners: set[asyncio.Queue[bytes]] = set()
        self._beating: asyncio.Task[None] | None = None

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    async def answer(self, request: Request) -> Response:
        """Let a page listen, if it is ours and there is room."""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return error_answer(403, "ForeignOrigin", "a page of another site may not listen")
        if self._broker.phase is Phase.STOPPING:
            return error_answer(503, "Stopping", "the broker is stopping")
        if len(self._listeners) >= self._listeners_max:
            return json_answer(
                {"error": "TooManyListeners", "message": "too many pages are open; ask instead"},
                status=503,
                headers={"retry-after": "30"},
            )
        headers = {**SAFE_HEADERS, "x-accel-buffering": "no"}
        return StreamingResponse(self._stream(), media_type="text/event-stream", headers=headers)

    async def _stream(self) -> AsyncIterator[bytes]:
        """Begun when the head of the answer has gone out, so that a client that left before that
        was never counted."""
        listener: asyncio.Queue[bytes] = asyncio.Queue(BEATS_WAITING_MAX)
        listener.put_nowait(b"retry: 1000\n\n" + _event(self._status.look()))
        self._listeners.add(listener)
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat(self._health()), name="live")
        try:
            while True:
                part = await listener.get()
                yield part
                if part is _END:
                    return
        finally:
            self._listeners.discard(listener)
            if not self._listeners and self._beating is not None:
                self._beating.cancel()
                self._beating = None

    async def _beat(self, health: str) -> None:
        """Until the last one leaves, or the broker stops; `health` is what pages know."""
        waited = 0.0
        while True:
            await asyncio.sleep(min(LOOK_SECONDS, self._tick_seconds))
            waited += LOOK_SECONDS
            if self._broker.phase is Phase.STOPPING:
                self._send(_END)
                return
            if waited >= self._tick_seconds or self._health() != health:
                waited, health = 0.0, self._health()
                self._send(_event(self._status.beat()))

    def _health(self) -> str:
        """The health of the cluster in one sentence."""
        watch = self._broker.watch
        return "" if watch is None or watch.readings is None else watch.readings.health

    def _send(self, part: bytes) -> None:
        for listener in self._listeners:
            if part is _END and listener.full():
                listener.get_nowait()
            if not listener.full():
                listener.put_nowait(part)


def _event(beat: PageStatus) -> bytes:
    return b"event: tick\ndata: " + msgspec.json.encode(beat) + b"\n\n"
