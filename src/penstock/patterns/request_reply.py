"""Request and reply over queues: ask, go on, and get the answer that belongs to the question.

A queue is the wrong tool where a caller waits for the answer: each way is a durable write. It is
the right one where the answer may take a while and must not be lost with the process that computes
it. The requester has a reply queue of its own and names it in every request, with a correlation id;
the worker sends the answer there, under that id.

    async with Requester(client) as requester:
        price = await requester.request("prices", {"item": 7}, timeout=10)

    await respond(client, "prices", compute_price)          # in any number of other processes

Rules:

- A request has the timeout as its time to live: no worker handles a request whose caller has gone.
- An answer that comes too late, or twice, is dropped and counted: `statistics()`.
- A responder acknowledges the request after the answer was sent. If it dies in between, the
  question is answered twice, and the second answer is one that comes too late.
- An exception of the function is an answer too: it is raised at the requester as `RequestFailed`.
  The request counts as done; retrying is the asker's decision.
- The reply queue is deleted by `close`. That of a process that was killed stays behind, empty or
  nearly so, under a name that begins with `replies-`: replies that are not read expire.
"""

import asyncio
import inspect
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from penstock.client.client import Client
from penstock.client.message import Message
from penstock.client.queue import Queue
from penstock.core.errors import PenstockError

_log = logging.getLogger(__name__)

CORRELATION_ID = "correlation-id"
REPLY_TO = "reply-to"
FAILURE = "failure"
REPLY_TTL_SECONDS = 600.0
PENDING_MAX = 10_000
"""The number of requests in flight; above it `request` waits."""
RECEIVE_MAX = 100
RECEIVE_WAIT_SECONDS = 10.0
TROUBLE_SECONDS = 1.0
FAILURE_CHARACTERS_MAX = 1_000

Responder = Callable[[Message[object]], Awaitable[object] | object]


class RequestFailed(Exception):
    """The function that should have answered has raised; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequesterStatistics:
    """The counters of a requester."""

    asked: int
    answered: int
    timed_out: int
    late: int
    """Answers that came after their caller had stopped waiting."""
    pending: int


class Requester:
    """Asks questions and waits for the answers, as many at once as you like."""

    def __init__(self, client: Client, *, name: str | None = None) -> None:
        self.queue: Queue[object] = client.queue(f"replies-{name or uuid.uuid4().hex}")
        self._client = client
        self._pending: dict[str, asyncio.Future[object]] = {}
        self._places = asyncio.Semaphore(PENDING_MAX)
        self._opening = asyncio.Lock()
        self._listening: asyncio.Task[None] | None = None
        self._asked = self._answered = self._timed_out = self._late = 0

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Create the reply queue and listen to it."""
        async with self._opening:
            if self._listening is None:
                await self._client.create_queue(
                    self.queue.name,
                    partitions=1,
                    exist_ok=True,
                    ttl=REPLY_TTL_SECONDS,
                    dead_letter="",
                )
                self._listening = asyncio.create_task(self._listen(), name=self.queue.name)

    async def close(self) -> None:
        """Delete the reply queue. Questions still open fail as if their time were up."""
        if self._listening is None:
            return
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        self._listening = None
        for future in self._pending.values():
            if not future.done():
                future.set_exception(TimeoutError("the requester was closed"))
        await self._client.delete_queue(self.queue.name)

    async def request(
        self, destination: str, body: object, *, timeout: float = 30.0, key: str | None = None
    ) -> object:
        """Ask, and wait for the answer: `TimeoutError` if there is none in time, `RequestFailed`
        if the other side has raised."""
        await self.open()
        correlation = uuid.uuid4().hex
        async with asyncio.timeout(timeout), self._places:
            answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            self._pending[correlation] = answer
            self._asked += 1
            try:
                await self._client.send(
                    destination,
                    body,
                    key=key,
                    ttl=timeout,
                    headers={CORRELATION_ID: correlation, REPLY_TO: self.queue.name},
                )
                return await answer
            except asyncio.CancelledError:
                self._timed_out += 1
                raise
            finally:
                del self._pending[correlation]

    def statistics(self) -> RequesterStatistics:
        """Return the counters."""
        return RequesterStatistics(
            asked=self._asked,
            answered=self._answered,
            timed_out=self._timed_out,
            late=self._late,
            pending=len(self._pending),
        )

    async def _listen(self) -> None:
        while True:
            try:
                replies = await self.queue.receive(RECEIVE_MAX, wait=RECEIVE_WAIT_SECONDS)
                for reply in replies:
                    self._take(reply)
                if replies:
                    await self.queue.ack(replies)
            except PenstockError as error:
                _log.warning("%s cannot be read now: %s", self.queue.name, error)
                await asyncio.sleep(TROUBLE_SECONDS)

    def _take(self, reply: Message[object]) -> None:
        correlation = (reply.headers.get(CORRELATION_ID) or b"").decode(errors="replace")
        waiting = self._pending.get(correlation)
        if waiting is None or waiting.done():
            self._late += 1
            return
        self._answered += 1
        failure = reply.headers.get(FAILURE)
        try:
            if failure is not None:
                waiting.set_exception(RequestFailed(failure.decode(errors="replace")))
            else:
                waiting.set_result(reply.body)
        except PenstockError as error:  # The body cannot be read.
            waiting.set_exception(error)


async def answer(client: Client, request: Message[object], function: Responder) -> bool:
    """Answer one request and acknowledge it; False if it asked for no reply.

    For workers that receive their messages themselves; `respond` does the rest, too."""
    to = request.headers.get(REPLY_TO)
    correlation = request.headers.get(CORRELATION_ID)
    result, failure = await _call(function, request)
    if to is None or correlation is None:
        await request.ack()
        return False
    headers: dict[str, str | bytes | None] = {CORRELATION_ID: correlation}
    if failure is not None:
        headers[FAILURE] = failure
    await client.send(to.decode(), result, headers=headers)
    await request.ack()
    return True


async def _call(function: Responder, request: Message[object]) -> tuple[object, str | None]:
    try:
        if inspect.iscoroutinefunction(function):
            return await function(request), None
        result = await asyncio.to_thread(function, request)
        return (await result if inspect.isawaitable(result) else result), None
    except Exception as error:  # noqa: BLE001 - whatever the function raises is the answer
        return "", f"{type(error).__name__}: {error}"[:FAILURE_CHARACTERS_MAX]


async def respond(
    client: Client, queue: str, function: Responder, *, concurrency: int = 10
) -> None:
    """Answer the requests of a queue until cancelled, up to `concurrency` at once."""
    places = asyncio.Semaphore(concurrency)
    handle: Queue[object] = client.queue(queue)
    async with (
        asyncio.TaskGroup() as tasks,
        handle.consume(prefetch=concurrency, create=True) as requests,
    ):

        async def one(request: Message[object]) -> None:
            try:
                await answer(client, request, function)
            except PenstockError as error:
                _log.warning("a request of %s comes again: %s", queue, error)
            finally:
                places.release()

        async for request in requests:
            await places.acquire()
            tasks.create_task(one(request))
