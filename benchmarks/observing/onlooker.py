"""Somebody who looks: Prometheus every second, and a browser with the overview open.

Runs in a process of its own. The page listens to `/live`, as a browser does, and asks for itself
whenever it is told to, and for what its chart shows every few seconds. Whoever begins to listen is
told at once: in stretches of a second the page is asked for twice as often as by a browser that
stays.
"""

import http.client
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import msgspec

from benchmarks.observing.stretches import OBSERVED, Stretch

SCRAPE_EVERY_SECONDS = 1.0
CHART_EVERY_SECONDS = 4.5
ANSWER_WITHIN_SECONDS = 30.0
PAGE = "/"
CHART = "/v1/history?names=in_rate,out_rate,ack_rate&since_s=900"
FRAGMENT = {"x-penstock-fragment": "1"}


@dataclass(slots=True)
class Looked:
    """How often it looked, and what it saw last."""

    scrapes: int = 0
    scrape_seconds: float = 0.0
    """Of the slowest."""
    lines: int = 0
    pages: int = 0
    charts: int = 0


def look_on(address: str, stretches: Sequence[Stretch]) -> Looked:
    """Look in those of them in which somebody does."""
    looked = Looked()
    with closing(_connection(address)) as scraper, closing(_connection(address)) as browser:
        page = _Page(address, browser, looked)
        page.ask()  # The first one of all compiles the templates, which is done once.
        looked.pages = looked.charts = 0
        for stretch in stretches:
            if stretch.way == OBSERVED:
                _sleep_until(stretch.begin)
                with page:
                    _scrape_until(scraper, stretch.end, looked)
    return looked


def order(address: str, path: str, document: object) -> None:
    """Have something made."""
    with closing(_connection(address)) as connection:
        body = msgspec.json.encode(document)
        connection.request("POST", path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status < http.client.BAD_REQUEST, f"{path} was answered {text!r}"


def _scrape_until(connection: http.client.HTTPConnection, end: float, looked: Looked) -> None:
    due = time.monotonic()
    while due < end - SCRAPE_EVERY_SECONDS / 2:
        began = time.perf_counter()
        text = _get(connection, "/metrics")
        looked.scrape_seconds = max(looked.scrape_seconds, time.perf_counter() - began)
        looked.scrapes += 1
        looked.lines = text.count(b"\n")
        due += SCRAPE_EVERY_SECONDS
        _sleep_until(min(due, end))


class _Page:
    """An overview that is open inside a `with` block."""

    def __init__(
        self, address: str, connection: http.client.HTTPConnection, looked: Looked
    ) -> None:
        self._address = address
        self._connection = connection
        self._looked = looked
        self._charted = 0.0
        self._stream: http.client.HTTPConnection | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        self._stream = _connection(self._address)
        self._stream.request("GET", "/live", headers={"accept": "text/event-stream"})
        self._thread = threading.Thread(target=self._listen, args=(self._stream,))
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        assert self._stream is not None
        assert self._thread is not None
        if self._stream.sock is not None:
            self._stream.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._stream.close()

    def _listen(self, stream: http.client.HTTPConnection) -> None:
        try:
            events = stream.getresponse()
            while line := events.readline():
                if line.startswith(b"event: tick"):
                    self.ask()
        except (OSError, http.client.HTTPException):
            return  # It was closed.

    def ask(self) -> None:
        """For itself, and for its chart if that is old."""
        _get(self._connection, PAGE, FRAGMENT)
        self._looked.pages += 1
        if time.monotonic() - self._charted >= CHART_EVERY_SECONDS:
            self._charted = time.monotonic()
            _get(self._connection, CHART)
            self._looked.charts += 1


def _connection(address: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(address, timeout=ANSWER_WITHIN_SECONDS)


def _get(
    connection: http.client.HTTPConnection, path: str, headers: dict[str, str] | None = None
) -> bytes:
    connection.request("GET", path, headers=headers or {})
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == http.client.OK, f"{path} was answered {answer.status}"
    return text


def _sleep_until(at: float) -> None:
    time.sleep(max(0.0, at - time.monotonic()))
