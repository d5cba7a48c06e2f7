"""The audit log of HTTP: which requests are administrative actions, each of which leaves a record.

An action changes a queue, a group, a topic or the cluster; sending, receiving and settling messages
is traffic and is not recorded. `ORDERS` lists them all. A dry run is not recorded. Refused actions
are, with the reason: an investigation asks what was tried, too.

An action is attributed to the address it came from, and to a page or a program; there are no users
yet.
"""

import re
from typing import NamedTuple

import msgspec
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.core.decoders import UNREADABLE, decode_json
from penstock.engine.cluster.node import Node
from penstock.web.broker import Broker
from penstock.web.guard import TOKEN_HEADER

DETAIL_BYTES_MAX = 2_000


class Order(NamedTuple):
    """A kind of request that is recorded."""

    method: str
    path: re.Pattern[str]
    """The first group of the pattern matches the target."""
    action: str


def _order(method: str, path: str, action: str) -> Order:
    return Order(method, re.compile(path.replace("{}", "([^/]+)")), action)


ORDERS = (
    _order("POST", "/v1/queues", "create queue"),
    _order("PATCH", "/v1/queues/{}", "configure queue"),
    _order("DELETE", "/v1/queues/{}", "delete queue"),
    _order("POST", "/v1/queues/{}/purge", "purge queue"),
    _order("POST", "/v1/queues/{}/pause", "pause queue"),
    _order("POST", "/v1/queues/{}/resume", "resume queue"),
    _order("POST", "/v1/queues/{}/reset", "reset queue"),
    _order("POST", "/v1/queues/{}/redrive", "redrive from queue"),
    _order("DELETE", "/v1/queues/{}/moves/[^/]+", "stop redrive from queue"),
    _order("POST", "/v1/queues/{}/dead/revive", "revive dead messages of queue"),
    _order("POST", "/v1/queues/{}/dead/discard", "discard dead messages of queue"),
    _order("POST", "/v1/queues/{}/dead/archive", "archive dead messages of queue"),
    _order("DELETE", "/v1/queues/{}/messages/.+", "cancel message of queue"),
    _order("POST", "/v1/topics", "create topic"),
    _order("PATCH", "/v1/topics/{}", "configure topic"),
    _order("DELETE", "/v1/topics/{}", "delete topic"),
    _order("POST", "/v1/groups/(.+)/reset", "reset group"),
    _order("DELETE", "/v1/groups/(.+)", "delete group"),
    _order("POST", "/v1/cluster/members", "add node"),
    _order("DELETE", "/v1/cluster/members/{}", "remove node"),
    _order("POST", "/v1/cluster/transfer", "transfer leadership"),
    _order("POST", "/v1/cluster/key/rotate", "replace cluster key"),
    _order("POST", "/v1/alerts/test", "test alerts"),
    _order("POST", "/v1/alerts/ack", "acknowledge alert"),
    _order("POST", "/v1/alerts/silences", "silence alerts"),
    _order("DELETE", "/v1/alerts/silences/{}", "end silence"),
    _order("POST", "/v1/backup/.+", "back up"),
)


class _Body(msgspec.Struct, frozen=True):
    """The fields of a body that name the target."""

    name: str = ""
    key: str = ""
    rule: str = ""
    subject: str = ""
    dry_run: bool = False


class OrderNotes:
    """An ASGI application around another, which notes orders."""

    def __init__(self, app: ASGIApp, broker: Broker) -> None:
        self._app = app
        self._broker = broker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = find_order(scope["method"], scope["path"])
        if found is None:
            await self._app(scope, receive, send)
            return
        body = bytearray()
        status = 500

        async def receive_noted() -> Message:
            message = await receive()
            body.extend(message.get("body", b""))
            return message

        async def send_noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive_noted, send_noted)
        finally:
            self._note(scope, *found, body=bytes(body), status=status)

    def _note(self, scope: Scope, action: str, target: str, *, body: bytes, status: int) -> None:
        node = self._broker.node
        told = _told(body)
        if not isinstance(node, Node) or told.dry_run:
            return
        node.audit.note(
            who(scope),
            action,
            target or told.name or told.key or f"{told.rule} {told.subject}".strip(),
            body[:DETAIL_BYTES_MAX].decode("utf-8", "replace").strip().removeprefix("{}"),
            "done" if status < 300 else f"refused: {status}",
        )


def find_order(method: str, path: str) -> tuple[str, str] | None:
    """Return the action and the target of a request; None if it is not recorded."""
    for order in ORDERS:
        if order.method == method and (match := order.path.fullmatch(path)):
            return order.action, match[1] if match.re.groups else ""
    return None


def who(scope: Scope) -> str:
    """The origin of a request."""
    address = (scope.get("client") or ("unknown",))[0]
    return f"{address} ({'dashboard' if TOKEN_HEADER in Headers(scope=scope) else 'http'})"


def _told(body: bytes) -> _Body:
    try:
        return decode_json(body or b"{}", _Body)
    except UNREADABLE:
        return _Body()
