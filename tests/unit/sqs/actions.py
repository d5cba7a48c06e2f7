"""A service that notes what it is asked and answers as it is told."""

import asyncio
from collections.abc import Mapping

from penstock.sqs.answers import Answer
from penstock.sqs.endpoint import Endpoint
from penstock.sqs.reply import Reply
from penstock.sqs.requests import Request
from penstock.sqs.service import Call, OnDone

JSON = b"application/x-amz-json-1.0"
FORM = b"application/x-www-form-urlencoded"


class FakeService:
    """Answers all actions alike."""

    def __init__(self, result: Answer | Exception | None = None) -> None:
        self.result = result
        self.asked: list[tuple[str, Request, Call]] = []
        self.begun: list[tuple[str, Request, OnDone]] = []

    async def call(self, action: str, request: Request, call: Call) -> Answer | None:
        self.asked.append((action, request, call))
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def begin(self, action: str, request: Request, _call: Call | None, on_done: OnDone) -> bool:
        if isinstance(self.result, Exception):
            raise self.result
        self.begun.append((action, request, on_done))
        return True


def ask(
    endpoint: Endpoint,
    *,
    method: bytes = b"POST",
    path: bytes = b"/",
    query: bytes = b"",
    headers: Mapping[bytes, bytes] | None = None,
    body: bytes = b"",
) -> Reply:
    """One request."""
    on_done = {b"host": b"sqs.example:8080", **(headers or {})}
    assert endpoint.takes(method, path, query, on_done)
    return asyncio.run(endpoint.answer(method, path, query, on_done, body))


def target(action: str) -> dict[bytes, bytes]:
    """The headers that name a JSON action."""
    return {b"x-amz-target": b"AmazonSQS." + action.encode(), b"content-type": JSON}


def lines(reply: Reply) -> dict[str, str]:
    """A reply's headers, by name in small letters."""
    split = [line.partition(": ") for line in reply.headers.decode().splitlines()]
    return {name.lower(): value for name, _, value in split}
