"""The checks that every HTTP request must pass before it is routed.

The port has no users yet and trusts every client that can reach it. A browser on this machine can
reach it, and so can any page that is open in that browser; these rules keep such a page out.

- **Host.** A page can give its own name this machine's address (DNS rebinding) and then counts as
  the same site. So the `Host` must be an address, localhost, or a name this node is known by.
- **To change something** takes `Content-Type: application/json`, which no form can send and no
  script of another site can send without asking first; and the `Origin`, if any, must be the Host.
- **A page must be ours.** A change that shows any sign of a browser (an `Origin`, a `Referer`,
  `Sec-Fetch-Site`) must show the token that our pages carry (`tokens.py`), too. Programs have no
  such signs and need no token.
- **Read-only.** With `web.read_only`, nothing at all is changed by HTTP.
- **Bounds.** A body has at most 1 MiB and is read whole before anything is begun.

Health checks are exempt from the first rule: a load balancer may call a node whatever it likes, and
they give nothing away.

SQS has rules of its own: see `sqs/http/browser_guard.py`.
"""

import asyncio
from collections.abc import Callable, Collection

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.core.errors import Unavailable
from penstock.core.http_hosts import (
    BROWSER_SIGNS,
    Hosts,
    is_known_host,
    is_same_site,
    unknown_host,
)
from penstock.core.limits import MIB
from penstock.core.memory_budget import REQUESTS, SCOPE_ACCOUNT, MemoryAccount
from penstock.web.answers import error_answer, penstock_error_answer
from penstock.web.requests import decimal

TOKEN_HEADER = "x-penstock-token"  # noqa: S105 -- what it is called
BODY_BYTES_MAX = 1 * MIB
BODY_SECONDS_MAX = 10.0

_UNCHANGING = ("/v1/backup/cut",)
"""A POST that changes nothing: see `cuts`."""
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}


class Guard:
    """An ASGI application around another."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Hosts,
        open_paths: Collection[str],
        is_token: Callable[[str], bool],
        read_only: Callable[[], bool],
    ) -> None:
        """`hosts` are the names this node is known by; `open_paths` may be asked by any name;
        `is_token` says whether a token belongs to a page of this broker."""
        self._app = app
        self._hosts = hosts
        self._open_paths = frozenset(open_paths)
        self._is_token = is_token
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            assert scope["type"] == "websocket", f"a scope of type {scope['type']}"
            await send({"type": "websocket.close"})
            return
        headers = Headers(scope=scope)
        draw = RequestDraw(scope.get(SCOPE_ACCOUNT))
        try:
            outcome = self._refusal(scope, headers) or await _read_body(headers, receive, draw)
            if isinstance(outcome, Response):
                await outcome(scope, receive, send)
            else:
                await self._app(scope, _replay(outcome, receive), send)
        finally:
            draw.close()

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if scope["path"] not in self._open_paths and not is_known_host(host, self._hosts):
            return error_answer(421, "UnknownHost", unknown_host(host))
        if scope["method"] in _SAFE_METHODS:
            return None
        if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            return error_answer(
                415, "JsonRequired", "to change something, send Content-Type: application/json"
            )
        origin = headers.get("origin")
        if origin is not None and not is_same_site(origin, host):
            return error_answer(403, "ForeignOrigin", f"a page of {origin} may not change this")
        if any(sign.decode() in headers for sign in BROWSER_SIGNS):
            if not self._is_token(headers.get(TOKEN_HEADER, "")):
                return error_answer(
                    403, "TokenRequired", "this page is not the broker's own, or old: load it again"
                )
        if self._read_only() and scope["path"] not in _UNCHANGING:
            return error_answer(403, "ReadOnly", "web.read_only is set: nothing is changed by HTTP")
        return None


class RequestDraw:
    """The draw of a request body on the memory budget, if the connection has an account."""

    def __init__(self, account: MemoryAccount | None) -> None:
        self._account = account
        self._held = 0

    def take(self, size: int) -> bool:
        """Draw `size` bytes; return False if there is no room for them."""
        account = self._account
        if account is None:
            return True
        self._held += size
        account.take(REQUESTS, size)
        return account.admits(self._held)

    def refused(self) -> Response:
        """The answer to a request that finds no room."""
        assert self._account is not None, "without an account there is always room"
        self._account.budget.refused[self._account.protocol] += 1
        return penstock_error_answer(
            Unavailable("memory is short: see limits.memory_max; try again", retry_after_ms=1_000)
        )

    def close(self) -> None:
        """Return the bytes: the request was answered."""
        if self._account is not None:
            self._account.give_back(REQUESTS, self._held)


async def _read_body(headers: Headers, receive: Receive, draw: RequestDraw) -> Response | bytes:
    too_large = error_answer(413, "BodyTooLarge", f"a body has at most {BODY_BYTES_MAX} bytes")
    claimed = decimal(headers.get("content-length", "0"))
    if claimed is None or claimed > BODY_BYTES_MAX:
        return too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return error_answer(400, "Disconnected", "the request ended early")
                part = message.get("body", b"")
                body += part
                if part and not draw.take(len(part)):
                    return draw.refused()
                if len(body) > BODY_BYTES_MAX:
                    return too_large
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        return error_answer(408, "TimedOut", "the body did not come in time")


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that repeats the body that was read, then continues."""
    pending = [body]

    async def replayed() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return replayed
