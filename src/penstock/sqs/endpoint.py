"""SQS over HTTP, whichever server carries it: which requests are SQS's, and what they are answered.

Both of Amazon's protocols are spoken, told apart by the header that names a JSON action. Anything
that goes wrong becomes an answer of the protocol in use: a client's library can read nothing else.

Requests are signed, and the signature is not checked: every client that reaches the port may do
everything, as on the other ports. `verify` is where a check will go; it sees a request first and
raises what is to be answered.

The endpoint is there before the node is, and answers "not now" until it is given a service. When
the broker is about to stop, waiting receives are answered that there are none
(`cancel_long_polls`).
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import msgspec

from penstock.core.clock import precise_seconds
from penstock.core.decoders import json_decoder
from penstock.core.errors import PenstockError
from penstock.core.memory_budget import MemoryAccount
from penstock.core.receiver import receiver_name
from penstock.core.request_times import RequestTimes
from penstock.engine.topics.poll_time import begin_parking
from penstock.engine.topics.slow_requests import SlowRequests
from penstock.sqs.answers import Answer, MessagesReceived
from penstock.sqs.context import PROTOCOL
from penstock.sqs.credential import form_scope, header_scope, is_signed, read_credential
from penstock.sqs.errors import (
    InternalFailure,
    ServiceUnavailable,
    SqsError,
    from_penstock,
)
from penstock.sqs.json_protocol import (
    TARGET,
    TARGET_PREFIX,
    read_json,
    write_json,
    write_json_error,
)
from penstock.sqs.protocol_errors import (
    BadHost,
    BodyTooLarge,
    ForeignPage,
    SlowBody,
    UnknownAction,
    UnknownHost,
    WrongMethod,
)
from penstock.sqs.query_protocol import (
    QUEUE_PATH,
    QUEUE_URL_PATH,
    read_form,
    read_query,
    write_query,
    write_query_error,
)
from penstock.sqs.reply import Reply, RequestIds
from penstock.sqs.requests import ReceiveMessage, Request
from penstock.sqs.service import ACTIONS, AGAIN, BRIEF, UNCHANGING, Call, OnDone

FORM = b"application/x-www-form-urlencoded"
CALLS_REMEMBERED_MAX = 1_024
_BRIEF = {
    TARGET_PREFIX + name.encode(): (
        name,
        brief.asks_who,
        brief.sends,
        json_decoder(ACTIONS[name].request).decode,
    )
    for name, brief in BRIEF.items()
}
UNNAMED = "unnamed"
"""The action under which a request is counted that names none, or one that does not exist."""

TRACE = b"x-amzn-trace-id"
TRACE_BYTES_MAX = 1_024
"""A longer trace header is ignored; X-Ray's own have about a hundred characters."""
NOT_OF_A_QUEUE = ("CreateQueue", "ListQueues")
"""Actions that a GET of a queue's URL does not have, as on Amazon."""
CLIENT = b":client"
"""The client's address among the headers, under a name that no client can send."""
Headers = Mapping[bytes, bytes]
"""The values by name in lower case."""
Verify = Callable[[bytes, bytes, bytes, Headers, bytes], None]
"""Takes method, path, query, headers and body; raises `SqsError` for what must not be done."""

_HOST = re.compile(rb"[A-Za-z0-9_.-]{1,253}(?::\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](?::\d{1,5})?")
_REFUSALS: Mapping[int, type[SqsError]] = {
    403: ForeignPage,
    408: SlowBody,
    413: BodyTooLarge,
    421: UnknownHost,
    503: ServiceUnavailable,
}

logger = logging.getLogger(__name__)


class Actions(Protocol):
    """The actions of SQS; `Service` carries them out."""

    async def call(self, action: str, request: Request, call: Call) -> Answer | None:
        """Carry out an action; None if there is nothing to answer."""

    def begin(self, action: str, request: Request, call: Call | None, on_done: OnDone) -> bool:
        """Carry out an action without a task; False if that cannot be, and nothing is done."""


def accept_all(
    _method: bytes, _path: bytes, _query: bytes, _headers: Headers, _body: bytes
) -> None:
    """Accept the request without checking a signature."""


class Endpoint:
    def __init__(self, *, default_host: str = "localhost", verify: Verify = accept_all) -> None:
        """`default_host` is for clients that do not say how they call us."""
        self.service: Actions | None = None
        """The service that carries out the actions; None until the broker is ready."""
        self.default_host = default_host
        self.times = RequestTimes()
        self.slow_requests: SlowRequests | None = None
        """The log of slow requests, if there is one."""
        self._verify = verify
        self._ids = RequestIds()
        self._calls: dict[tuple[bytes | MemoryAccount | None, ...], Call] = {}
        self._hosts_known: set[bytes] = set()
        self._receiving: set[asyncio.Task[object]] = set()
        self._cancelled: set[asyncio.Task[object]] = set()

    def takes(self, method: bytes, path: bytes, query: bytes, headers: Headers) -> bool:
        """True if a request is for SQS, by its head alone."""
        if method == b"POST":
            if TARGET in headers:
                return True
            if path != b"/" and not QUEUE_PATH.fullmatch(path):
                return False
            return headers.get(b"content-type", b"").lower().startswith(FORM) or _acts(query)
        return method == b"GET" and (_acts(query) or QUEUE_URL_PATH.fullmatch(path) is not None)

    def begin(
        self,
        headers: Headers,
        body: bytes,
        done: Callable[[Reply | None], bool],
        account: MemoryAccount | None = None,
    ) -> bool:
        """Carry out a request without a task, if it is one of those that come in thousands; `done`
        is called with the reply, later, or with None, if it takes a task after all. False: nothing
        has happened, `answer` must do it. What is wrong with a request is for `answer` to find out
        and say. Messages are read on the `account` of the connection."""
        target, service = headers.get(TARGET, b""), self.service
        brief = _BRIEF.get(target)
        if brief is None or service is None or self._verify is not accept_all:
            return False
        name, asks_who, sends, read = brief
        if sends and TRACE in headers:
            return False
        began = precise_seconds()
        try:
            host = headers.get(b"host", b"")
            if host not in self._hosts_known:
                self._know_host(host)
            request = read(body)
            on_done = partial(self._finish, name, headers, began, done)
            call = None
            if asks_who:
                call = self._call(headers, header_scope(headers), b"/", account)
            return service.begin(name, request, call, on_done)
        except (SqsError, PenstockError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        except Exception:
            logger.exception("an SQS request could not be begun (%s)", body[:200])
            return False

    def _finish(
        self,
        name: str,
        headers: Headers,
        began: float,
        done: Callable[[Reply | None], bool],
        answer: Answer | SqsError | PenstockError | None,
    ) -> bool:
        """Answer a request that began without a task; False if its client has gone."""
        try:
            if answer is AGAIN:
                return done(None)
            if answer is None or isinstance(answer, Answer):
                reply = write_json(answer, headers, self._ids.take())
            else:
                error = from_penstock(answer) if isinstance(answer, PenstockError) else answer
                reply = self._write_error(error, headers, self._ids.take(), name)
            took = precise_seconds() - began
            slow = self.slow_requests
            if slow is not None and took >= slow.seconds:
                self._note_time(name, headers, began, 0.0)
            else:
                self.times.of(name).observe(took)
            return done(reply)
        except Exception:
            logger.exception("an SQS request (%s) could not be answered", name)
            return False

    async def answer(
        self,
        method: bytes,
        path: bytes,
        query: bytes,
        headers: Headers,
        body: bytes,
        account: MemoryAccount | None = None,
    ) -> Reply:
        """Carry out a request that `takes` has said yes to."""
        target = headers.get(TARGET)
        request_id = self._ids.take()
        began, parked = precise_seconds(), begin_parking()
        name = UNNAMED
        try:
            if self._verify is not accept_all:
                self._verify(method, path, query, headers, body)
            service = self.service
            if service is None:
                raise ServiceUnavailable("The broker does not serve now; try again.")
            if target is not None:
                name, request = read_json(target, body)
                scope = header_scope(headers)
                call = _traced(self._call(headers, scope, path, account), headers)
                answer = await self._carry_out(service, name, request, call)
                return write_json(answer, headers, request_id)
            if method == b"GET" and not _acts(query):
                return Reply(404, b"Content-Type: text/xml\r\n", b"<UnknownOperationException/>")
            parameters = read_form(query) | read_form(body)
            scope = header_scope(headers) or form_scope(parameters)
            call = _traced(self._call(headers, scope, path, account), headers)
            name, request = read_query(parameters, call.base_url + call.path if path[1:] else "")
            if method == b"GET" and name in NOT_OF_A_QUEUE and QUEUE_URL_PATH.fullmatch(path):
                raise UnknownAction(f"The action {name} is not valid for this endpoint.")
            if method == b"GET" and name not in UNCHANGING and not is_signed(headers):
                raise WrongMethod(
                    f"The action {name} changes something: send it by POST, or sign it by a header."
                )
            answer = await self._carry_out(service, name, request, call)
            return write_query(name, answer, request_id, json=_wants_json(headers))
        except SqsError as error:
            return self._write_error(error, headers, request_id, name)
        except PenstockError as error:
            return self._write_error(from_penstock(error), headers, request_id, name)
        except Exception:
            logger.exception("an SQS request failed (%s)", (target or query or body)[:200])
            bug = InternalFailure("Internal error, a bug of Penstock; see the broker's log.")
            return self._write_error(bug, headers, request_id, name)
        finally:
            self._note_time(name, headers, began, parked.seconds)

    def _note_time(self, name: str, headers: Headers, began: float, waited: float) -> None:
        ended = precise_seconds()
        took = ended - began - waited
        self.times.of(name).observe(took)
        slow = self.slow_requests
        if slow is not None and took >= slow.seconds:
            client = headers.get(CLIENT, b"").decode("latin-1")
            slow.note(PROTOCOL, name, client, began=began, ended=ended, waited=waited)

    def refuse(self, status: int, message: str, headers: Headers) -> Reply:
        """The reply to a request that is not to be carried out."""
        return self._write_error(_REFUSALS[status](message), headers, self._ids.take())

    def cancel_long_polls(self) -> None:
        """End the receives that are under way: they have come to wait by now."""
        self._cancelled |= self._receiving
        for task in self._receiving:
            task.cancel()

    async def _carry_out(
        self, service: Actions, name: str, request: Request, call: Call
    ) -> Answer | None:
        if not isinstance(request, ReceiveMessage):
            return await service.call(name, request, call)
        task = asyncio.current_task()
        assert task is not None, "requests are carried out in tasks"
        self._receiving.add(task)
        try:
            return await service.call(name, request, call)
        except asyncio.CancelledError:
            if task not in self._cancelled or task.uncancel() > 0:
                raise
            return MessagesReceived()
        finally:
            self._receiving.discard(task)
            self._cancelled.discard(task)

    def _know_host(self, host: bytes) -> None:
        """Refuse what cannot be a host's name or address."""
        if host and not _HOST.fullmatch(host):
            raise BadHost("The Host header is not the name or address of a host.")
        if len(self._hosts_known) >= CALLS_REMEMBERED_MAX:
            self._hosts_known.clear()
        self._hosts_known.add(host)

    def _write_error(
        self, error: SqsError, headers: Headers, request_id: bytes, name: str = UNNAMED
    ) -> Reply:
        self.times.error(name, error.code)
        if TARGET in headers:
            return write_json_error(error, headers, request_id)
        return write_query_error(error, request_id, json=_wants_json(headers))

    def _call(
        self, headers: Headers, scope: bytes, path: bytes, account: MemoryAccount | None
    ) -> Call:
        """It is nearly always the same as one before."""
        host, agent = headers.get(b"host", b""), headers.get(b"user-agent", b"")
        client = headers.get(CLIENT, b"")
        key = (host, scope, path, client, agent, account)
        call = self._calls.get(key)
        if call is None:
            self._know_host(host)
            credential = read_credential(scope)
            call = Call(
                base_url=f"http://{host.decode() or self.default_host}",
                region=credential.region,
                access_key=credential.access_key,
                path=path.decode("latin-1"),
                receiver=receiver_name("sqs", client.decode("latin-1"), _program(agent)),
                account=account,
            )
            if len(self._calls) >= CALLS_REMEMBERED_MAX:
                self._calls.clear()
            self._calls[key] = call
        return call


def _program(agent: bytes) -> str:
    """The name and version of a client: `Boto3/1.40.0`."""
    return agent.partition(b" ")[0].decode("latin-1")


def _traced(call: Call, headers: Headers) -> Call:
    trace = headers.get(TRACE)
    if not trace or len(trace) > TRACE_BYTES_MAX or not trace.isascii():
        return call
    return msgspec.structs.replace(call, trace=trace)


def _wants_json(headers: Headers) -> bool:
    return headers.get(b"accept", b"").lower().startswith(b"application/json")


def _acts(query: bytes) -> bool:
    return query.startswith(b"Action=") or b"&Action=" in query
