"""Telling the world outside: one POST for each change of an alert.

The body is JSON (see `Notice`). A receiver that does not answer with a success is tried again, with
growing pauses, and then given up on; what waits is bounded, and the oldest is dropped first. So a
receiver that is down for an hour does not make the broker grow, and gets what is new when it is
back; what is wrong all the time can be asked for (`GET /v1/alerts`).

A change may come twice, when leadership moves just then: `key`, `state` and `level` tell. It may
not come at all, if every try fails. Redirects are not followed. The address may hold a secret, so
only its host is ever shown.
"""

import asyncio
import http.client
import logging
import time
from base64 import b64encode
from collections import deque
from random import SystemRandom
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from penstock.core.errors import InvalidRequest, Unavailable
from penstock.core.limits import (
    WEBHOOK_MESSAGES_MAX,
    WEBHOOK_PAUSE_SECONDS,
    WEBHOOK_PAUSE_SECONDS_MAX,
)
from penstock.core.retries import PauseBounds, Retrier
from penstock.core.version import __version__
from penstock.watch.alert import Alert

TRIES_MAX = 6
PAUSES = PauseBounds(WEBHOOK_PAUSE_SECONDS, WEBHOOK_PAUSE_SECONDS_MAX)
ANSWER_SECONDS_MAX = 5.0

logger = logging.getLogger(__name__)


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """The document that is sent."""

    version: int = 1
    """The version of the document."""
    cluster: str
    node: int
    """The node that sends it."""
    sent_ms: int
    test: bool = False
    alert: Alert


class WebhookStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of the webhook."""

    sent: int
    failed: int
    """The number of failed attempts."""
    dropped: int
    """Notices that could not be delivered."""
    waiting: int
    problem: str
    """Why the last try failed; empty if it did not."""


class Webhook:
    """Sends notices, one after the other, in the order in which things changed."""

    def __init__(
        self,
        url: str,
        *,
        retrier: Retrier | None = None,
        messages_max: int = WEBHOOK_MESSAGES_MAX,
    ) -> None:
        self._place = _place(url) if url else None
        self._retrier = retrier or Retrier(
            now=time.monotonic, random=SystemRandom(), sleep=asyncio.sleep
        )
        self._waiting: deque[Notice] = deque()
        self._messages_max = messages_max
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._sent = self._failed = self._dropped = 0
        self._problem = ""

    @property
    def is_set(self) -> bool:
        """True if a receiver is configured."""
        return self._place is not None

    @property
    def shown(self) -> str:
        """The address of the receiver without its path, which may be a secret."""
        return "" if self._place is None else f"{self._place.scheme}://{self._place.hostname}/…"

    def start(self) -> None:
        """Send what comes, until `close`."""
        if self._place is not None and self._task is None:
            self._task = asyncio.create_task(self._run(), name="webhook")

    async def close(self) -> None:
        """Stop sending."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def send(self, notice: Notice) -> None:
        """Queue a notice for sending."""
        if self._place is None:
            return
        if len(self._waiting) >= self._messages_max:
            self._waiting.popleft()
            self._dropped += 1
        self._waiting.append(notice)
        self._woken.set()

    async def try_now(self, notice: Notice) -> None:
        """Send this notice once, now, and return the outcome. For trying out a webhook."""
        if self._place is None:
            raise InvalidRequest("no webhook is set; set alerts.webhook to an http(s) address")
        problem = await self._post(notice)
        if problem:
            raise Unavailable(f"{self.shown} does not take it: {problem}")

    def statistics(self) -> WebhookStatistics:
        """Return the counters."""
        return WebhookStatistics(
            sent=self._sent,
            failed=self._failed,
            dropped=self._dropped,
            waiting=len(self._waiting),
            problem=self._problem,
        )

    async def _run(self) -> None:
        while True:
            while not self._waiting:
                self._woken.clear()
                await self._woken.wait()
            notice = self._waiting[0]
            await self._deliver(notice)
            if self._waiting and self._waiting[0] is notice:
                self._waiting.popleft()

    async def _deliver(self, notice: Notice) -> None:
        retries = self._retrier.times(TRIES_MAX, PAUSES)
        while await self._post(notice):
            if not await retries.pause():
                break
        else:
            return
        self._dropped += 1
        logger.warning(
            "%s could not be notified of an alert, after %d tries: %s",
            self.shown,
            TRIES_MAX,
            self._problem,
        )

    async def _post(self, notice: Notice) -> str:
        """Try once; why it failed, if it did."""
        assert self._place is not None, "no webhook is configured"
        body = msgspec.json.encode(notice)
        try:
            status = await asyncio.to_thread(_post, self._place, body)
            problem = "" if 200 <= status < 300 else f"it answered {status}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            problem = str(error) or type(error).__name__
        if problem:
            self._failed += 1
        else:
            self._sent += 1
        self._problem = problem
        return problem


def _place(url: str) -> SplitResult:
    wrong = InvalidRequest("alerts.webhook is an address such as https://host/path")
    try:
        place = urlsplit(url)
        port = place.port
    except ValueError as error:
        raise wrong from error
    if place.scheme not in ("http", "https") or not place.hostname or port == 0:
        raise wrong
    return place


def _post(place: SplitResult, body: bytes) -> int:
    """Send one request, on a thread of its own, and return the status of the answer."""
    host = place.hostname or ""
    connection: http.client.HTTPConnection
    if place.scheme == "https":
        connection = http.client.HTTPSConnection(host, place.port, timeout=ANSWER_SECONDS_MAX)
    else:
        connection = http.client.HTTPConnection(host, place.port, timeout=ANSWER_SECONDS_MAX)
    path = (place.path or "/") + (f"?{place.query}" if place.query else "")
    headers = {
        "content-type": "application/json",
        "user-agent": f"penstock/{__version__}",
    }
    if place.username is not None:
        pair = f"{unquote(place.username)}:{unquote(place.password or '')}"
        headers["authorization"] = "Basic " + b64encode(pair.encode()).decode()
    try:
        connection.request("POST", path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()
