"""SQS as ASGI middleware, for connections that carry other requests as well.

The same API as in `connection.py`, with the same rules and bounds; slower, and rarely used.
"""

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.core.http_hosts import Hosts
from penstock.core.limits import SQS_BODY_BYTES_MAX
from penstock.core.memory_budget import SCOPE_ACCOUNT, MemoryAccount
from penstock.sqs.endpoint import CLIENT, Headers
from penstock.sqs.http.browser_guard import page_refusal
from penstock.sqs.http.server import SqsApi
from penstock.sqs.reply import Reply

BODY_SECONDS_MAX = 30.0


class SqsMiddleware:
    """An ASGI application around another, which gets all requests that are not SQS's."""

    def __init__(self, app: ASGIApp, api: SqsApi, *, hosts: Hosts) -> None:
        """`hosts` are the names this node is known by, for browsers."""
        self._app = app
        self._api = api
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            method = scope["method"].encode()
            path, query = scope["raw_path"], scope["query_string"]
            headers = dict(scope["headers"])
            if self._api.takes(method, path, query, headers):
                client = scope.get("client")
                if client is not None:
                    headers[CLIENT] = f"{client[0]}:{client[1]}".encode()
                account = scope.get(SCOPE_ACCOUNT)
                reply = await self._reply(method, path, query, headers, receive, account)
                if reply is not None:
                    await _send(reply, send)
                return
        await self._app(scope, receive, send)

    async def _reply(
        self,
        method: bytes,
        path: bytes,
        query: bytes,
        headers: Headers,
        receive: Receive,
        account: MemoryAccount | None,
    ) -> Reply | None:
        refused = page_refusal(method, headers, self._hosts)
        if refused is not None:
            return self._api.refuse(*refused, headers)
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS_MAX):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > SQS_BODY_BYTES_MAX:
                        return self._api.refuse(413, "The request body is too long.", headers)
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            return self._api.refuse(408, "The request body did not come in time.", headers)
        return await self._api.answer(method, path, query, headers, bytes(body), account)


async def _send(reply: Reply, send: Send) -> None:
    lines = [line.partition(b": ") for line in reply.headers.splitlines()]
    headers = [(name.lower(), value) for name, _, value in lines]
    headers.append((b"content-length", b"%d" % len(reply.body)))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body, "more_body": False})
