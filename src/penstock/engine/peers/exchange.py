"""Requests and answers over one link, in both directions at once and in any order.

The one promise that matters: a request that may have been carried out is never reported as
failed. Before a request is handed to the link nothing has happened (`Unavailable`, `Overloaded`);
from then on only the other node's answer or failure ends the doubt, and a lost link or a deadline
is an `OutcomeUnknown`.

Both sides are bounded. A node has so many requests waiting at another and no more; the other serves
so many, of so many bytes together, and refuses the rest at once with `Overloaded`, before anything
is begun. A request carries its deadline, and is withdrawn when its caller goes away, so that no
work is done in vain; what is being served ends with its link.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

import msgspec

from penstock.core.errors import (
    InvalidRequest,
    OutcomeUnknown,
    Overloaded,
    PenstockError,
    Unavailable,
)
from penstock.core.limits import (
    CALL_MS_MAX,
    REQUEST_BODY_BYTES_MAX,
    REQUESTS_IN_FLIGHT_MAX,
    REQUESTS_SERVED_BYTES_MAX,
)
from penstock.core.memory_budget import REQUESTS, MemoryAccount
from penstock.core.types import NodeId
from penstock.engine.peers.frames import (
    NAME_CHARACTERS_MAX,
    Answer,
    Failure,
    FrameKind,
    Request,
    Withdrawal,
    encode_frame,
)
from penstock.engine.peers.send_queue import LinkCounters, Outgoing
from penstock.wire import failures
from penstock.wire.failures import Described


def describe_error(request_id: int, error: PenstockError) -> Failure:
    """The frame that carries an error to another node: `wire.failures` does the same for clients.
    The id of the request is part of the frame."""
    parts = failures.describe_error(error)
    return Failure(request_id, parts.kinds, parts.message, parts.details)


def remake_error(failure: Failure) -> PenstockError:
    """The exception another node raised, or the nearest one that is known here."""
    return failures.remake_error(Described(failure.kinds, failure.message, failure.details))


class Caller(NamedTuple):
    """The node that makes a call."""

    node: NodeId
    is_member: bool
    """Of this node's cluster; what others may call is in the table of calls."""
    account: MemoryAccount | None = None
    """What its link draws on the memory budget."""


Serve = Callable[[Caller, str, bytes], Awaitable[bytes]]


class Exchange:
    """The requests of one link. `tasks` is the owner's: it awaits them when all has ended."""

    def __init__(
        self,
        peer: NodeId,
        *,
        outgoing: Outgoing,
        account: MemoryAccount,
        serve: Serve,
        tasks: set[asyncio.Task[bytes]],
        counters: LinkCounters,
        announce: Callable[[str], None],
    ) -> None:
        self._peer = peer
        self._outgoing = outgoing
        self._account = account
        self._serve = serve
        self._tasks = tasks
        self._counters = counters
        self._announce = announce
        self._loop = asyncio.get_running_loop()
        self._next_id = 1
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self._serving: dict[asyncio.Task[bytes], int] = {}
        self._serving_ids: dict[int, asyncio.Task[bytes]] = {}
        self._serving_bytes = 0

    # Asking.

    async def ask(
        self,
        method: str,
        body: bytes,
        *,
        timeout: float,  # It travels with the request, so it must be known here.
    ) -> bytes:
        """The other node's answer; see the top for what is raised instead."""
        assert len(method) <= NAME_CHARACTERS_MAX, f"{method}: too long for a name"
        if len(body) > REQUEST_BODY_BYTES_MAX:
            raise InvalidRequest(
                f"{method}: a request between nodes has at most {REQUEST_BODY_BYTES_MAX} bytes,"
                f" this one has {len(body)}"
            )
        if len(self._asked) >= REQUESTS_IN_FLIGHT_MAX:
            raise Overloaded(
                f"node {self._peer} has {REQUESTS_IN_FLIGHT_MAX} requests to answer; {method}"
                " was not sent"
            )
        request_id = self._next_id
        request = Request(request_id, method, max(0, round(timeout * 1000)), body)
        if not self._outgoing.send_frame(encode_frame(FrameKind.REQUEST, request)):
            raise Unavailable(f"too much waits to leave for node {self._peer}: {method} not sent")
        self._next_id += 1
        self._counters.requests_sent += 1
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._asked[request_id] = future
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise OutcomeUnknown(
                f"node {self._peer} did not answer {method} within {timeout:g} s"
            ) from None
        except asyncio.CancelledError:
            self._outgoing.send_frame(encode_frame(FrameKind.WITHDRAWAL, Withdrawal(request_id)))
            raise
        finally:
            self._asked.pop(request_id, None)

    def answered(self, answer: Answer) -> None:
        """An answer has come; its caller may have given up."""
        future = self._asked.get(answer.id)
        if future is not None and not future.done():
            future.set_result(answer.body)

    def failed(self, failure: Failure) -> None:
        """A failure has come."""
        future = self._asked.get(failure.id)
        if future is not None and not future.done():
            future.set_exception(remake_error(failure))

    # Serving.

    def serve(self, request: Request, *, is_member: bool) -> None:
        """Begin to serve a request, or refuse it."""
        size = len(request.body)
        if len(self._serving) >= REQUESTS_IN_FLIGHT_MAX or (
            self._serving and self._serving_bytes + size > REQUESTS_SERVED_BYTES_MAX
        ):
            self._counters.requests_refused += 1
            self._fail(request, Overloaded(f"{request.method}: too many requests at once"))
            return
        # A member has to go on when clients have taken all the memory; its own bounds are above.
        if not is_member and not self._account.admits(size):
            self._counters.requests_refused += 1
            self._fail(request, Overloaded(f"{request.method}: memory is short"))
            return
        self._counters.requests_served += 1
        self._account.take(REQUESTS, size)
        caller = Caller(self._peer, is_member, self._account)
        task = self._loop.create_task(self._answer(request, caller))
        self._serving[task] = size
        self._serving_ids[request.id] = task
        self._serving_bytes += size
        self._tasks.add(task)
        task.add_done_callback(partial(self._served, request))

    def withdrawn(self, withdrawal: Withdrawal) -> None:
        """The caller has gone away."""
        task = self._serving_ids.get(withdrawal.id)
        if task is not None:
            task.cancel()

    async def _answer(self, request: Request, caller: Caller) -> bytes:
        async with asyncio.timeout(min(request.timeout_ms, CALL_MS_MAX) / 1000):
            return await self._serve(caller, request.method, request.body)

    def _served(self, request: Request, task: asyncio.Task[bytes]) -> None:
        self._tasks.discard(task)
        size = self._serving.pop(task, 0)
        self._serving_bytes -= size
        self._account.give_back(REQUESTS, size)
        self._serving_ids.pop(request.id, None)
        if task.cancelled():  # The link is gone, or the caller.
            return
        error = task.exception()
        if error is None:
            self._reply(request, task.result())
        elif isinstance(error, PenstockError):
            self._fail(request, error)
        elif isinstance(error, TimeoutError):
            self._fail(request, OutcomeUnknown(f"{request.method} did not end in time"))
        elif isinstance(error, msgspec.DecodeError | UnicodeDecodeError):  # Of the body.
            self._fail(request, InvalidRequest(f"{request.method}: {error}"))
        else:
            self._announce(f"failed to serve {request.method} of node {self._peer}: {error!r}")
            self._fail(request, OutcomeUnknown(f"{request.method} failed inside: {error!r}"))

    def _reply(self, request: Request, body: bytes) -> None:
        if len(body) > REQUEST_BODY_BYTES_MAX:
            problem = f"an answer of {len(body)} bytes; at most {REQUEST_BODY_BYTES_MAX} travel"
            self._fail(request, OutcomeUnknown(f"{request.method}: {problem}"))
        elif not self._outgoing.send_frame(
            encode_frame(FrameKind.ANSWER, Answer(request.id, body))
        ):
            self._fail(request, OutcomeUnknown(f"{request.method}: no room for the answer"))

    def _fail(self, request: Request, error: PenstockError) -> None:
        frame = encode_frame(FrameKind.FAILURE, describe_error(request.id, error))
        if not self._outgoing.send_frame(frame):
            # Short and few: at most as many as there are requests in flight.
            self._outgoing.send_now(frame)

    # The end.

    def close(self, reason: str) -> None:
        """The link is gone: no request is answered any more, in either direction."""
        for future in self._asked.values():
            if not future.done():
                future.set_exception(
                    OutcomeUnknown(f"the link with node {self._peer} was lost: {reason}")
                )
        for task in self._serving:
            task.cancel()
        self._account.give_back(REQUESTS, self._serving_bytes)
        self._serving.clear()
        self._serving_ids.clear()
        self._serving_bytes = 0
