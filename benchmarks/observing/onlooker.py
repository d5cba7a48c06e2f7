"""Somebody who looks: Prometheus every second, and a browser with the overview open.

Runs in a process of its own. The page listens to `/live`, as a browser does, and asks for itself
whenever it is told to.
"""

import http.client
import threading
import time
from dataclasses import dataclass

import msgspec

SCRAPE_EVERY_SECONDS = 1.0
ANSWER_WITHIN_SECONDS = 30.0
PAGE = "/"


@dataclass(slots=True)
class Looked:
    """How often it looked, and what it saw last."""

    scrapes: int = 0
    scrape_seconds: float = 0.0
    """Of the slowest."""
    lines: int = 0
    pages: int = 0


def look_on(address: str, seconds: float) -> Looked:
    """Look for so long."""
    looked = Looked()
    deadline = time.monotonic() + seconds
    page = threading.Thread(target=_keep_page_open, args=(address, deadline, looked))
    page.start()
    while time.monotonic() < deadline:
        began = time.perf_counter()
        text = fetch(address, "/metrics")
        looked.scrape_seconds = max(looked.scrape_seconds, time.perf_counter() - began)
        looked.scrapes += 1
        looked.lines = text.count(b"\n")
        time.sleep(max(0.0, min(SCRAPE_EVERY_SECONDS, deadline - time.monotonic())))
    page.join()
    return looked


def fetch(address: str, path: str) -> bytes:
    """One answer."""
    connection = http.client.HTTPConnection(address, timeout=ANSWER_WITHIN_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == http.client.OK, f"{path} was answered {answer.status}"
        return text
    finally:
        connection.close()


def order(address: str, path: str, document: object) -> None:
    """Have something made."""
    connection = http.client.HTTPConnection(address, timeout=ANSWER_WITHIN_SECONDS)
    try:
        body = msgspec.json.encode(document)
        connection.request("POST", path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status < http.client.BAD_REQUEST, f"{path} was answered {text!r}"
    finally:
        connection.close()


def _keep_page_open(address: str, deadline: float, looked: Looked) -> None:
    connection = http.client.HTTPConnection(address, timeout=ANSWER_WITHIN_SECONDS)
    try:
        connection.request("GET", "/live", headers={"accept": "text/event-stream"})
        events = connection.getresponse()
        while time.monotonic() < deadline:
            if events.readline().startswith(b"event: tick"):
                fetch(address, PAGE)
                looked.pages += 1
    finally:
        connection.close()
