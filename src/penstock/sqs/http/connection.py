"""One connection that carries SQS requests: the part of HTTP/1.1 that they need.

    head     collected, with a bound, until the parser has the end of it; then it is decided whether
             the request is SQS's and may be carried out
    body     collected, with a bound; `Expect: 100-continue` is answered when it is this request's
             turn
    answer   requests that come ahead of their turn wait, up to a number; each is answered in one
             write. Most are begun and answered by a call each (`SqsApi.begin`): a task
             costs as much as all that a small request asks for, so only those have one that need it

The parser is httptools', which is llhttp: where a request ends must never be a matter of opinion.
Only one request of a connection is carried out at a time. A client that sends the next one early
means it to come after the one before.

An answer that ends the connection is followed by the end of our stream, and what the client still
sends is read and dropped for a while: closing at once would make the system throw away the answer.
A client that closes its stream is gone, as for uvicorn: its requests are cancelled, so that no
message is delivered to a client that cannot receive it.
"""

import asyncio
import contextlib
import logging
from collections import deque
from typing import cast

import httptools

from penstock.core.limits import KIB, SQS_BODY_BYTES_MAX
from penstock.core.memory_budget import ANSWERS, REQUESTS
from penstock.sqs.endpoint import CLIENT
from penstock.sqs.http.browser_guard import page_refusal
from penstock.sqs.http.server import Entry, Fallback, SqsHttpServer
from penstock.sqs.reply import Reply

HEAD_BYTES_MAX = 64 * KIB
WRITE_HIGH_BYTES = 16 * KIB
"""The limit of answers in the transport's buffer, which the memory budget does not count."""
REQUESTS_WAITING_MAX = 32
"""The number of requests that may wait for their turn; at the limit no more are read."""

HEAD_SECONDS_MAX = 10.0
BODY_SECONDS_MAX = 30.0
IDLE_SECONDS_MAX = 75.0
"""Longer than load balancers keep a connection, so that they are the ones to close it."""
UNREAD_SECONDS_MAX = 30.0
END_SECONDS_MAX = 5.0

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_OFFERS = (b"connection", b"http2-settings", b"upgrade")
_TOO_LARGE = f"A request body has at most {SQS_BODY_BYTES_MAX} bytes."
_TOO_SLOW = f"The request body did not come within {BODY_SECONDS_MAX:.0f} seconds."
_TOO_MANY = "The broker holds as much as it may (limits.memory_max); try again."
_CROWDED = Reply(
    503,
    b"Content-Type: text/plain; charset=utf-8\r\nRetry-After: 1\r\n",
    b"your address has too many connections (limits.connections_per_address_max)\n",
)

logger = logging.getLogger(__name__)


class _Request:
    """A request, whole or still arriving."""

    __slots__ = (
        "body", "body_bytes", "headers", "keep_alive", "method", "path", "query", "refusal",
        "wants_continue",
    )  # fmt: skip

    def __init__(self, method: bytes, path: bytes, query: bytes, headers: dict[bytes, bytes]):
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body: list[bytes] = []
        self.body_bytes = 0
        self.keep_alive = True
        self.wants_continue = False
        self.refusal: Reply | None = None


class SqsConnection(asyncio.Protocol):
    """A connection, from its first byte until it is closed."""

    def __init__(self, server: SqsHttpServer, fallback: Fallback) -> None:
        self._server = server
        self._fallback = fallback
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._client = b""
        self._arriving: _Request | None = None
        self._raw: list[bytes] | None = []
        """The bytes received since the request began; None if it did not begin at the start of a
        read."""
        self._in_head = False
        self._head_bytes = 0
        self._is_foreign = False
        self._waiting: deque[_Request] = deque()
        self._current: _Request | None = None
        self._task: asyncio.Task[None] | None = None
        self._requests = 0
        self._reading_paused = False
        self._writing_paused = False
        self._unsent_bytes = 0
        self._kept_bytes = 0
        """Of an incomplete head, as it is counted."""
        self._moved_bytes = 0
        self._entry = Entry.LET_IN
        self._ending = False
        """No more is read; the connection ends when what waits is answered."""
        self._phase: tuple[int, float] = (-1, 0.0)
        self._phase_since = 0.0

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        address = ""
        if isinstance(name, tuple):
            address = str(name[0])
            self._client = f"{name[0]}:{name[1]}".encode()
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        entry = self._server.accept(self, address)
        self._account = self._server.memory.open("sqs", address, self)
        if entry is Entry.HANDED_OVER:
            self._hand_over()
        self._entry = entry

    def data_received(self, data: bytes) -> None:
        if self._ending:
            return
        if self._arriving is None:
            self._head_bytes += len(data)
            if self._raw is None and not self._in_head:
                self._raw = []
            if self._raw is not None:
                self._raw.append(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._stay_with_http(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._take_nonsense()
        if self._is_foreign:
            self._hand_over()
        elif self._arriving is None and self._head_bytes > HEAD_BYTES_MAX:
            self.abort()
        if self._kept_bytes or self._head_bytes:
            self._count_head()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._count_unsent()
        self._pause_reading()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._count_unsent()
        self._go_on()
        self._say_continue()
        self._resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._ending = True
        if self._task is not None:
            self._task.cancel()
        self._waiting.clear()
        self._current = self._arriving = self._raw = None
        self._account.close()
        self._server.remove(self)

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._in_head = True
        self._url = b""
        self._headers = {}

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        if self._is_foreign or self._ending:
            return
        path, headers, parser = self._url, self._headers, self._parser
        query = b""
        if path != b"/":
            path, _, query = (path if path[:1] == b"/" else _path_of(path)).partition(b"?")
        method = parser.get_method()
        upgrades = b"upgrade" in headers and parser.should_upgrade()
        reply = self._server.probe(path) if method == b"GET" and not upgrades else None
        if reply is not None:
            self._take_probe(headers, reply)
            return
        if self._entry is Entry.PROBES:
            self._server.refused += 1
            self._take_probe(headers, _CROWDED)
            return
        crowded = self._entry is Entry.CROWDED
        if crowded or not self._server.api.takes(method, path, query, headers):
            self._is_foreign = True
            return
        if upgrades:
            return
        self._requests += 1
        headers[CLIENT] = self._client
        self._arriving = request = _Request(method, path, query, headers)
        if not parser.should_keep_alive() or (
            # Of HTTP/1.0, only what says so is kept: not here.
            b"connection" in headers and parser.get_http_version() == "1.0"
        ):
            request.keep_alive = False
        self._raw = None
        refused = page_refusal(method, headers, self._server.hosts)
        claimed = headers.get(b"content-length", b"0")
        if refused is not None:
            self._refuse(request, *refused)
        elif not claimed.isdigit() or int(claimed) > SQS_BODY_BYTES_MAX:
            self._refuse(request, 413, _TOO_LARGE)
        elif b"expect" in headers:
            request.wants_continue = headers[b"expect"].lower() == b"100-continue"
            self._say_continue()

    def on_body(self, body: bytes) -> None:
        request = self._arriving
        if request is None or request.refusal is not None:
            return
        server, size = self._server, len(body)
        request.body.append(body)
        request.body_bytes += size
        self._account.take(REQUESTS, size)
        if request.body_bytes > SQS_BODY_BYTES_MAX:
            self._refuse(request, 413, _TOO_LARGE)
        elif not self._account.admits(request.body_bytes):
            server.throttled += 1
            server.memory.refused["sqs"] += 1
            self._refuse(request, 503, _TOO_MANY)

    def on_message_complete(self) -> None:
        request, self._arriving = self._arriving, None
        if request is None or request.refusal is not None:
            return
        self._raw = None
        if self._current is None and not self._waiting and not self._writing_paused:
            self._begin(request)
        else:
            self._take(request)

    # Receiving.

    def _take_probe(self, headers: dict[bytes, bytes], reply: Reply) -> None:
        """Answer at once, or when it is its turn, without a look at the bounds."""
        self._requests += 1
        self._raw = None
        self._arriving = request = _Request(b"GET", b"", b"", headers)
        request.refusal = reply
        request.keep_alive = self._entry is Entry.LET_IN and self._parser.should_keep_alive()
        if not request.keep_alive:
            self._ending = True
        self._take(request)

    def _take(self, request: _Request) -> None:
        waiting = self._waiting
        waiting.append(request)
        self._go_on()
        if len(waiting) > REQUESTS_WAITING_MAX:
            self._pause_reading()

    def _refuse(self, request: _Request, status: int, message: str) -> None:
        """Answer when it is this request's turn, and read no more: what follows may be the body of
        what was refused."""
        request.refusal = self._server.api.refuse(status, message, request.headers)
        request.keep_alive = False
        self._ending = True
        self._take(request)

    def _stay_with_http(self, rest: bytes) -> None:
        """A client that would like another protocol gets this one: the offer need not be taken.

        The parser has taken the head and leaves the body to that protocol. So a new parser reads
        the request again, without the offer."""
        if self._is_foreign or self._ending:
            return
        lines = [b"%b %b HTTP/1.1\r\n" % (self._parser.get_method(), self._url)]
        for name, value in self._headers.items():
            if name not in _OFFERS:
                lines.append(b"%b: %b\r\n" % (name, value))
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(b"".join((*lines, b"\r\n", rest)))

    def _take_nonsense(self) -> None:
        """Bytes that are no HTTP are left to the ASGI server, or else end the connection."""
        if self._is_foreign or self._ending:
            return
        if self._arriving is None and self._entry is not Entry.PROBES:
            self._is_foreign = True
        else:
            self.abort()

    def _hand_over(self) -> None:
        """Hand the connection to the ASGI server, with the request that is not SQS's."""
        transport = self._transport
        assert transport is not None, "a lost connection cannot be handed over"
        if self._is_busy or self._writing_paused or self._raw is None:
            # Others are before it, or it began in the middle of what has arrived: the connection
            # ends in good order, and a client that pipelines sends this request again.
            self._ending = True
            if not self._is_busy:
                self._end()
            return
        raw, self._raw = b"".join(self._raw), []
        self._server.remove(self)
        self._account.close()
        self._ending = True
        protocol = self._fallback()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if raw:
            protocol.data_received(raw)

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if (
            self._transport is not None
            and self._reading_paused
            and not self._writing_paused
            and len(self._waiting) <= REQUESTS_WAITING_MAX // 2
        ):
            self._reading_paused = False
            self._transport.resume_reading()

    # Answering.

    @property
    def _is_busy(self) -> bool:
        """A request is being carried out, or waits for its turn."""
        return self._current is not None or bool(self._waiting)

    def _go_on(self) -> None:
        """Begin what waits, if nothing is under way and the client takes its answers."""
        if self._current is not None or self._writing_paused or not self._waiting:
            return
        request = self._waiting.popleft()
        if request.refusal is not None:
            self._current = request
            self._answer(request.refusal)
        else:
            self._begin(request)

    def _begin(self, request: _Request) -> None:
        """Start a request: its turn has come."""
        self._current = request
        parts = request.body
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        if not self._server.api.begin(request.headers, body, self._finish, self._account):
            self._begin_task(request)

    def _begin_task(self, request: _Request) -> None:
        work = self._work(request, b"".join(request.body))
        self._task = asyncio.get_running_loop().create_task(work)

    async def _work(self, request: _Request, body: bytes) -> None:
        try:
            reply = await self._server.api.answer(
                request.method,
                request.path,
                request.query,
                request.headers,
                body,
                self._account,
            )
        except Exception:
            logger.exception("an SQS request failed")
            self.abort()
        else:
            self._task = None
            self._answer(reply)

    def _finish(self, reply: Reply | None) -> bool:
        """A request that was begun without a task is done, or, with None, takes one after all.
        False: the client has gone."""
        request = self._current
        if request is None:
            return False
        if reply is None:
            self._begin_task(request)
            return True
        server, transport = self._server, self._transport
        unusual = self._waiting or self._ending or self._arriving or self._reading_paused
        if unusual or server.retiring or not request.keep_alive or transport is None:
            self._answer(reply)
            return True
        self._current = None
        if request.body_bytes:
            self._account.give_back(REQUESTS, request.body_bytes)
        body = reply.body
        transport.write(
            b"%b%bContent-Length: %d\r\n\r\n%b"
            % (server.head(reply.status), reply.headers, len(body), body)
        )
        return True

    def _answer(self, reply: Reply) -> None:
        """The request under way is answered; the next one may begin."""
        request, self._current = self._current, None
        if request is None:
            return  # The client has gone.
        self._release(request)
        last = not request.keep_alive or self._server.retiring
        last = last or (self._ending and not self._waiting)
        self._send(reply, last)
        if last:
            self._drop_waiting()
            self._end()
            return
        if self._waiting:
            self._go_on()
        if self._arriving is not None:
            self._say_continue()
        if self._reading_paused:
            self._resume_reading()

    def _send(self, reply: Reply, last: bool) -> None:
        if self._transport is None:
            return
        body = reply.body
        self._transport.write(
            b"%b%bContent-Length: %d\r\n%b%b"
            % (
                self._server.head(reply.status),
                reply.headers,
                len(body),
                b"Connection: close\r\n\r\n" if last else b"\r\n",
                body,
            )
        )

    def _say_continue(self) -> None:
        """The body may come, if all that is before it is answered."""
        request = self._arriving
        if request is None or self._is_busy or self._writing_paused:
            return
        if request.wants_continue:
            request.wants_continue = False
            if self._transport is not None and not self._ending:
                self._transport.write(_CONTINUE)

    def _release(self, request: _Request) -> None:
        self._account.give_back(REQUESTS, request.body_bytes)
        request.body_bytes = 0

    def _drop_waiting(self) -> None:
        for request in self._waiting:
            self._release(request)
        self._waiting.clear()

    def _count_unsent(self) -> None:
        now = 0
        if self._writing_paused and self._transport is not None:
            now = self._transport.get_write_buffer_size()
        before, self._unsent_bytes = self._unsent_bytes, now
        self._account.take(ANSWERS, now)
        self._account.give_back(ANSWERS, before)
        self._moved_bytes += max(0, before - now)

    def _count_head(self) -> None:
        before, self._kept_bytes = self._kept_bytes, self._head_bytes
        self._account.take(REQUESTS, self._kept_bytes)
        self._account.give_back(REQUESTS, before)
        self._moved_bytes += max(0, self._kept_bytes - before)

    def moved_bytes(self) -> int | None:
        """For the memory budget: how far an unfinished request, or an unread answer, has come."""
        if self._writing_paused:
            self._count_unsent()
        elif self._arriving is not None:
            return self._moved_bytes + self._arriving.body_bytes
        elif not self._kept_bytes:
            return None
        return self._moved_bytes

    def evict(self, reason: str) -> None:
        """For the memory budget: give way to others."""
        logger.warning("HTTP client %s was disconnected: %s", self._client.decode(), reason)
        self.abort()

    # Ending.

    def retire(self) -> None:
        """Finish the requests in flight and close."""
        if not self._is_busy:
            self._end()

    def _end(self) -> None:
        """Say that there is no more, and wait a little for the client to close."""
        self._ending = True
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if transport.can_write_eof():
            transport.write_eof()
            if self._reading_paused:
                self._reading_paused = False
                transport.resume_reading()
        else:
            transport.close()

    def abort(self) -> None:
        """Close at once, without a word."""
        self._ending = True
        if self._transport is not None:
            self._transport.abort()

    def sweep(self, now: float) -> None:
        """Called twice a second: end a step that takes too long."""
        phase = (self._requests, self._allowance())
        if phase != self._phase:
            self._phase, self._phase_since = phase, now
        elif now - self._phase_since >= phase[1]:
            slow = self._arriving
            if slow is None or self._writing_paused or self._ending:
                self.abort()
            else:
                self._refuse(slow, 408, _TOO_SLOW)

    def _allowance(self) -> float:
        """The longest time for which the connection may stay in its current state."""
        if self._writing_paused:
            return UNREAD_SECONDS_MAX
        if self._is_busy:
            return float("inf")
        if self._ending:
            return END_SECONDS_MAX
        if self._arriving is not None:
            return BODY_SECONDS_MAX
        if self._in_head or not self._requests:
            return HEAD_SECONDS_MAX
        return IDLE_SECONDS_MAX


def _path_of(url: bytes) -> bytes:
    """Path and query of a URL that names its host, as proxies get them."""
    with contextlib.suppress(httptools.HttpParserInvalidURLError):
        parsed = httptools.parse_url(url)
        if parsed.path:
            return parsed.path + (b"?" + parsed.query if parsed.query else b"")
    return url
