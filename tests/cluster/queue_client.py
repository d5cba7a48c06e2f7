"""How the clients of queues talk to a cluster: SQS in JSON, and Penstock's own HTTP interface.

Every request goes to a node chosen by lot, whichever leads; one that did not answer is left alone
for a moment. What comes back is sorted:

    an answer             it happened
    Refused               it certainly did not: a mistake of ours, or "not now", or nobody was there
    Unknown               nobody knows: no answer, or one that says so

A refusal with status 503 says that nothing has happened, and is taken at its word.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import msgspec

from tests.cluster.queue_http import HttpLine, NotSent, Unanswered

ASK_SECONDS = 3.0
AVOID_SECONDS = 2.0
_NOT_NOW = 503
_JSON = {"Content-Type": "application/json"}
_SQS = {"Content-Type": "application/x-amz-json-1.0"}


class Refused(Exception):
    """It certainly did not happen; `later` it may."""

    def __init__(self, code: str, text: str, *, later: bool) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.later = later


class Unknown(Exception):
    """It may have happened."""


class QueueClient:
    """One client: a connection to every node, and one request at a time."""

    def __init__(self, addresses: Callable[[], list[str]], random: Random) -> None:
        """`addresses` of HTTP are asked for every time: members come and go."""
        self.errors: Counter[str] = Counter()
        """What it was told that was no answer, by name."""
        self._addresses = addresses
        self._random = random
        self._lines: dict[str, HttpLine] = {}
        self._avoided: dict[str, float] = {}
        """Who did not answer, and until when nothing is asked of him."""

    async def sqs(self, action: str, *, wait_seconds: float = 0.0, **parameters: Any) -> Any:
        """Do something through SQS."""
        headers = {**_SQS, "X-Amz-Target": f"AmazonSQS.{action}"}
        body = msgspec.json.encode(parameters)
        return await self._ask("POST", "/", body, headers, ASK_SECONDS + wait_seconds)

    async def http(
        self, method: str, path: str, content: Any = None, *, wait_seconds: float = 0.0
    ) -> Any:
        """Do something through `/v1`."""
        body = b"" if content is None else msgspec.json.encode(content)
        return await self._ask(method, f"/v1{path}", body, _JSON, ASK_SECONDS + wait_seconds)

    async def _ask(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], seconds: float
    ) -> Any:
        address = self._choose()
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = HttpLine(address)
        try:
            status, answer = await line.ask(method, path, body, headers, seconds=seconds)
        except NotSent as error:
            self._avoided[address] = time.monotonic() + AVOID_SECONDS
            raise Refused("NotSent", str(error), later=True) from error
        except Unanswered as error:
            self._avoided[address] = time.monotonic() + AVOID_SECONDS
            self.errors["Unanswered"] += 1
            raise Unknown(str(error)) from error
        if status < 300:
            return msgspec.json.decode(answer or b"{}")
        code, text = _error_in(answer)
        self.errors[code] += 1
        if status < 500 or status == _NOT_NOW:
            raise Refused(code, text, later=status == _NOT_NOW)
        raise Unknown(f"{code}: {text}")

    def _choose(self) -> str:
        addresses, now = self._addresses(), time.monotonic()
        good = [one for one in addresses if self._avoided.get(one, 0.0) < now]
        return self._random.choice(good or addresses)

    def close(self) -> None:
        """Hang up everywhere."""
        for line in self._lines.values():
            line.close()


def _error_in(answer: bytes) -> tuple[str, str]:
    """The name and the words of an error, of SQS or of ours."""
    try:
        said = msgspec.json.decode(answer, type=dict[str, Any])
    except msgspec.DecodeError:
        return "Unreadable", answer[:100].decode(errors="replace")
    name = said.get("error") or said.get("__type", "Error")
    return str(name).rpartition("#")[2], str(said.get("message", ""))


def url_of(queue: str) -> str:
    """The name of a queue as SQS has it; who is in it does not matter."""
    return f"http://localhost/000000000000/{queue}"
