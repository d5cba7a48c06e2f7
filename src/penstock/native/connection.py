"""One native client's connection: requests in, answers out, in any order.

Each request is a task. They begin in the order in which they came, so that batches of one sender
are appended in the order they were sent. A request that is withdrawn, and all of a connection that
is lost, are cancelled: a long poll ends, and what it would have leased goes back. Appends and
verdicts, the most frequent of them, wait for one thing only: they are handed to their shard as soon
as they are read, and their answer is a callback, without a task in between.

Pushing back. While a client does not read its answers, or has too much under way, nothing more is
read from it: TCP tells it. A client that sends what is no request is disconnected, with a line in
the log, and no other client notices.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from penstock.core import limits
from penstock.core.clock import precise_seconds
from penstock.core.errors import InvalidFrame, PenstockError, Unavailable
from penstock.core.write_parts import write_parts
from penstock.engine.topics.poll_time import begin_parking
from penstock.native.context import PROTOCOL, Buffer
from penstock.native.messages import QUICK_HANDLERS, Quick
from penstock.wire import codec
from penstock.wire.cumulative_ack_requests import CumulativeAck
from penstock.wire.failures import describe_error
from penstock.wire.frames import Kind, greet, write_prefix
from penstock.wire.group_requests import JoinGroup, SyncGroup
from penstock.wire.read_requests import Fetch
from penstock.wire.requests import ReceiveRequest, Request
from penstock.wire.stream import Frame, FrameStream

if TYPE_CHECKING:
    from penstock.native.listener import NativeConnections

log = logging.getLogger("penstock.native")

WAITING = (Fetch, JoinGroup, SyncGroup, ReceiveRequest)
"""Requests that may wait for something to happen: they end when the node stops."""


class NativeConnection(asyncio.BufferedProtocol):
    def __init__(self, listener: "NativeConnections") -> None:
        self._listener = listener
        self._stream = FrameStream(listener.landing, limits.NATIVE_REQUEST_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._client = ""
        self._under_way: dict[int, tuple[asyncio.Future[Any], Request, int]] = {}
        self._under_way_bytes = 0
        self._writing_paused = False
        self._reading_paused = False
        self._retiring = False
        self._closed = False
        self._partial_since_ms = -1

    # The transport's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        self._client = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "?"
        self._listener.connections.add(self)
        self._transport.set_write_buffer_limits(high=limits.NATIVE_UNSENT_BYTES_MAX)
        self._transport.write(greet())

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._stream.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._listener.bytes_in += nbytes
        self._take(lambda: self._stream.received(nbytes))

    def feed(self, data: memoryview) -> None:
        """What was read from the socket before this protocol had it."""
        self._take(lambda: self._stream.feed(data))

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._look_at_bounds()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._look_at_bounds()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._closed = True
        self._transport = None
        for task, _, _ in self._under_way.values():
            task.cancel()
        self._listener.leave(self)

    # Serving.

    def _take(self, frames: Callable[[], list[Frame]]) -> None:
        if self._closed:
            return
        try:
            for frame in frames():
                self._serve(frame)
        except InvalidFrame as error:
            self._disconnect(str(error))

    def _serve(self, frame: Frame) -> None:
        if frame.kind is Kind.WITHDRAWAL:
            known = self._under_way.get(frame.id)
            if known is not None:
                known[0].cancel()
            return
        if frame.kind is not Kind.REQUEST or frame.id in self._under_way:
            raise InvalidFrame(f"{frame.kind.name} {frame.id} where a new request was expected")
        request = codec.decode_request(frame.head)
        self._listener.requests += 1
        size = len(frame.head) + len(frame.payload)
        began = precise_seconds()
        quick = QUICK_HANDLERS.get(type(request))
        if quick is not None and not self._retiring:
            doing = self._listener.service.begin(quick, request, frame.payload)
            self._note_begun(frame.id, request, size, doing)
            doing.add_done_callback(partial(self._done, frame.id, request, quick, began))
        else:
            task = asyncio.get_running_loop().create_task(
                self._carry_out(frame.id, request, frame.payload, began)
            )
            self._note_begun(frame.id, request, size, task)
            task.add_done_callback(lambda task: self._end(frame.id, task))
        self._look_at_bounds()

    def _note_begun(
        self, frame_id: int, request: Request, size: int, doing: asyncio.Future[Any]
    ) -> None:
        self._under_way[frame_id] = doing, request, size
        self._under_way_bytes += size

    def _done(
        self,
        frame_id: int,
        request: Request,
        quick: Quick,
        began: float,
        doing: "asyncio.Future[Any]",
    ) -> None:
        if not doing.cancelled():
            error = doing.exception()
            if error is None:
                head = codec.encode(quick.answer(doing.result()))
                self._send(Kind.ANSWER, frame_id, head, b"")
            else:
                self._fail(frame_id, request, error)
            self._note_time(request, began, 0)
        self._end(frame_id, doing)

    def _fail(self, frame_id: int, request: Request, error: BaseException) -> None:
        """A request is refused; what nobody expects ends the connection, and is told of."""
        name = _api_of(request)
        if isinstance(error, PenstockError):
            self._listener.times.error(name, type(error).__name__)
            self._refuse(frame_id, error)
        else:
            log.error("%s from %s failed", name, self._client, exc_info=error)
            self._disconnect(f"{name} failed")

    async def _carry_out(
        self, frame_id: int, request: Request, payload: memoryview, began: float
    ) -> None:
        parked = begin_parking()
        try:
            if self._retiring:
                raise Unavailable("this node is stopping; ask another")
            answer, extra = await self._listener.service.answer(
                request, payload, address=self._client
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            self._fail(frame_id, request, error)
        else:
            if self._closed:
                self._listener.service.undo(request, answer)
            else:
                self._send(Kind.ANSWER, frame_id, codec.encode(answer), extra)
        self._note_time(request, began, parked.seconds)

    def _note_time(self, request: Request, began: float, waited: float) -> None:
        name = _api_of(request)
        ended = precise_seconds()
        took = ended - began - waited
        self._listener.times.observe(name, took)
        slow = self._listener.service.slow_requests
        if took >= slow.seconds:
            slow.note(PROTOCOL, name, self._client, began=began, ended=ended, waited=waited)

    def _end(self, frame_id: int, task: "asyncio.Future[Any]") -> None:
        """A request is over; one that was cancelled may not even have begun."""
        _, _, size = self._under_way.pop(frame_id)
        self._under_way_bytes -= size
        if task.cancelled():
            gone = Unavailable("the request was withdrawn, or this node is stopping")
            self._refuse(frame_id, gone)
        self._look_at_bounds()
        if self._retiring and not self._under_way and self._transport is not None:
            self._transport.close()

    def _refuse(self, frame_id: int, error: PenstockError) -> None:
        self._listener.refused += 1
        self._send(Kind.FAILURE, frame_id, codec.encode(describe_error(error)), b"")

    def _send(self, kind: Kind, frame_id: int, head: bytes, payload: Buffer) -> None:
        if self._transport is None or self._closed:
            return
        prefix = write_prefix(kind, frame_id, len(head), len(payload))
        if payload:
            write_parts(self._transport, (prefix + head, payload), limits.NATIVE_UNSENT_BYTES_MAX)
        else:
            self._transport.write(prefix + head)

    def _look_at_bounds(self) -> None:
        """Read on, or not."""
        if self._transport is None or self._closed:
            return
        full = (
            self._writing_paused
            or self._retiring
            or len(self._under_way) >= limits.NATIVE_REQUESTS_MAX
            or self._under_way_bytes >= limits.NATIVE_REQUESTS_BYTES_MAX
        )
        if full and not self._reading_paused:
            self._reading_paused = True
            self._listener.throttled += 1
            self._transport.pause_reading()
        elif not full and self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    # Ending.

    def _disconnect(self, reason: str) -> None:
        if self._transport is not None and not self._closed:
            self._closed = True
            self._listener.faulted += 1
            log.warning("native client %s was disconnected: %s", self._client, reason)
            self._transport.abort()

    def retire(self) -> None:
        """Take no more requests, finish those under way, then close. Nobody waits any longer."""
        self._retiring = True
        self._look_at_bounds()
        for task, request, _ in list(self._under_way.values()):
            if isinstance(request, WAITING):
                task.cancel()
        if not self._under_way and self._transport is not None:
            self._transport.close()

    @property
    def held_bytes(self) -> int:
        """What its requests under way take up."""
        return self._under_way_bytes

    def abort(self) -> None:
        """Close at once, without a word."""
        if self._transport is not None:
            self._transport.abort()

    def sweep(self, now_ms: int) -> None:
        """Called every now and then: give up on clients that half say something."""
        if not self._stream.is_partial and self._stream.version:
            self._partial_since_ms = -1
        elif self._partial_since_ms < 0:
            self._partial_since_ms = now_ms
        elif now_ms - self._partial_since_ms >= limits.KAFKA_FRAME_MS_MAX:
            if not self._reading_paused:
                self._disconnect("a request has been incomplete for too long")


def _api_of(request: Request) -> str:
    """The name of a request in metrics and logs. Two have kept theirs of release 0.1, so that its
    series and dashboards go on."""
    if isinstance(request, ReceiveRequest):
        return "Take"
    if isinstance(request, CumulativeAck):
        return "Cover"
    return type(request).__name__
