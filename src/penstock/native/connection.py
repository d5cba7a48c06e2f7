"""One native client's connection: requests in, answers out, in any order.

Each request is a task. They begin in the order in which they came, so that batches of one sender
are appended in the order they were sent. A request that is withdrawn, and all of a connection that
is lost, are cancelled: a long poll ends, and what it would have leased goes back. Appends and
verdicts, the most frequent of them, wait for one thing only: they are handed to their shard as soon
as they are read, and their answer is a callback, without a task in between.

Pushing back. What the client makes this node hold is drawn on the memory budget. While it does not
read its answers, has too much under way, or the budget has no room, no further request is begun and
nothing more is read from it: TCP tells it. A client that sends what is no request is disconnected,
with a line in the log, and no other client notices.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from penstock.core import limits
from penstock.core.clock import precise_seconds
from penstock.core.errors import InvalidFrame, PenstockError, Unavailable
from penstock.core.memory_budget import ANSWERS, REQUESTS, MemoryAccount
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

WAITING = (Fetch, JoinGroup, SyncGroup, ReceiveRequest)
"""Requests that may wait for something to happen: they end when the node stops."""


WRITE_HIGH_BYTES = 16 * limits.KIB
"""What the transport may keep of answers without being counted."""


class NativeConnection(asyncio.BufferedProtocol):
    def __init__(self, listener: "NativeConnections") -> None:
        self._listener = listener
        self._stream = FrameStream(listener.landing, limits.NATIVE_REQUEST_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._client = ""
        self._account: MemoryAccount | None = None
        self._pending: deque[Frame] = deque()
        """Requests that have come and are not begun: too much is under way."""
        self._under_way: dict[int, tuple[asyncio.Future[Any], Request, int]] = {}
        self._under_way_bytes = 0
        self._writing_paused = False
        self._reading_paused = False
        self._retiring = False
        self._closed = False
        self._partial_bytes = 0
        """What an incomplete request takes up, as it is counted."""
        self._buffered_bytes = 0
        """What the transport has not got rid of, while it says that this is too much."""
        self._moved_bytes = 0
        self._waits_for_room = False
        self._partial_since_ms = -1
        self._moved_before = 0
        """What `_moved_bytes` was when a sweep looked last."""
        self._active_ms = -1

    # The transport's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        self._client = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "?"
        address = str(name[0]) if isinstance(name, tuple) else ""
        self._account = self._listener.memory.open(PROTOCOL, address, self)
        self._listener.connections.add(self)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        self._transport.write(greet())

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        view = self._stream.buffer()
        if self._stream.held_bytes != self._partial_bytes:
            self._count_partial()
        return view

    def buffer_updated(self, nbytes: int) -> None:
        self._listener.bytes_in += nbytes
        self._moved_bytes += nbytes
        self._take(lambda: self._stream.received(nbytes))

    def feed(self, data: memoryview) -> None:
        """What was read from the socket before this protocol had it."""
        self._take(lambda: self._stream.feed(data))

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._count_buffered()
        self._look_at_bounds()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._count_buffered()
        self._begin_pending()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._closed = True
        self._transport = None
        self._pending.clear()
        self._stream.clear()
        for task, _, _ in self._under_way.values():
            task.cancel()
        if self._account is not None:
            self._account.close()
        self._listener.leave(self)

    # Serving.

    def _take(self, frames: Callable[[], list[Frame]]) -> None:
        if self._closed:
            return
        account = self._account
        assert account is not None, "a connection has an account"
        try:
            for frame in frames():
                if frame.kind is Kind.WITHDRAWAL:
                    self._withdraw(frame.id)
                    continue
                account.take(REQUESTS, len(frame.head) + len(frame.payload))
                self._pending.append(frame)
        except InvalidFrame as error:
            self._disconnect(str(error))
            return
        if self._stream.held_bytes != self._partial_bytes:
            self._count_partial()
        self._begin_pending()

    def _begin_pending(self) -> None:
        """Begin the requests that have come, in their order, as far as the bounds allow."""
        pending = self._pending
        if self._retiring:
            self._refuse_pending()
        try:
            while pending and not self._closed and not self._is_busy():
                self._serve(pending.popleft())
        except InvalidFrame as error:
            self._disconnect(str(error))
        self._look_at_bounds()

    def _refuse_pending(self) -> None:
        while self._pending:
            frame = self._pending.popleft()
            self._give_back(len(frame.head) + len(frame.payload))
            self._refuse(frame.id, Unavailable("this node is stopping; ask another"))

    def _withdraw(self, frame_id: int) -> None:
        """The client does not want an answer any more."""
        known = self._under_way.get(frame_id)
        if known is not None:
            known[0].cancel()
            return
        for frame in self._pending:
            if frame.id == frame_id:
                self._pending.remove(frame)
                self._give_back(len(frame.head) + len(frame.payload))
                self._refuse(frame_id, Unavailable("the request was withdrawn"))
                return

    def _give_back(self, size: int) -> None:
        assert self._account is not None, "a connection has an account"
        self._account.give_back(REQUESTS, size)

    def _serve(self, frame: Frame) -> None:
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
            # A receive of 30 bytes may wait for a minute, with a task and all that belongs to it.
            assert self._account is not None, "a connection has an account"
            self._account.take(REQUESTS, limits.NATIVE_REQUEST_COST_BYTES)
            size += limits.NATIVE_REQUEST_COST_BYTES
            task = asyncio.get_running_loop().create_task(
                self._carry_out(frame.id, request, frame.payload, began)
            )
            self._note_begun(frame.id, request, size, task)
            task.add_done_callback(lambda task: self._end(frame.id, task))

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
        """Refuse a request. An unexpected error ends the connection, with a line in the log."""
        name = _api_of(request)
        if isinstance(error, PenstockError):
            self._listener.times.error(name, type(error).__name__)
            self._refuse(frame_id, error)
        else:
            self._listener.complaints.failure(f"{name} from {self._client} failed", error)
            self._disconnect(f"{name} failed")

    async def _carry_out(
        self, frame_id: int, request: Request, payload: memoryview, began: float
    ) -> None:
        parked = begin_parking()
        try:
            if self._retiring:
                raise Unavailable("this node is stopping; ask another")
            answer, extra = await self._listener.service.answer(
                request, payload, address=self._client, account=self._account
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, it is answered
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
        self._give_back(size)
        if task.cancelled():
            gone = Unavailable("the request was withdrawn, or this node is stopping")
            self._refuse(frame_id, gone)
        if self._pending:
            self._begin_pending()
        else:
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
            write_parts(self._transport, (prefix + head, payload), WRITE_HIGH_BYTES)
        else:
            self._transport.write(prefix + head)
        if self._writing_paused:
            self._count_buffered()

    def _is_busy(self) -> bool:
        """Whether the next request has to wait for those before it."""
        return (
            self._buffered_bytes >= limits.NATIVE_UNSENT_BYTES_MAX
            or self._retiring
            or len(self._under_way) >= limits.NATIVE_REQUESTS_MAX
            or self._under_way_bytes >= limits.NATIVE_REQUESTS_BYTES_MAX
        )

    def _has_room(self) -> bool:
        """Whether the budget has room for the next request, or for more of the one arriving."""
        assert self._account is not None, "a connection has an account"
        frame_bytes = self._stream.frame_bytes
        if self._account.admits(frame_bytes):
            if frame_bytes:
                # Grown and counted at once: the next connection is admitted by what is left.
                self._stream.buffer()
                self._count_partial()
            return True
        if not self._waits_for_room:
            self._waits_for_room = True
            self._account.wait(self._look_again)
        return False

    def _look_again(self) -> None:
        """There may be room."""
        self._waits_for_room = False
        if not self._closed:
            asyncio.get_running_loop().call_soon(self._begin_pending)

    def _look_at_bounds(self) -> None:
        """Read on, or not."""
        if self._transport is None or self._closed:
            return
        full = bool(self._pending) or self._is_busy() or not self._has_room()
        if full and not self._reading_paused:
            self._reading_paused = True
            self._listener.throttled += 1
            self._transport.pause_reading()
        elif not full and self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    def _count_partial(self) -> None:
        assert self._account is not None, "a connection has an account"
        before, self._partial_bytes = self._partial_bytes, self._stream.held_bytes
        self._account.take(REQUESTS, self._partial_bytes)
        self._account.give_back(REQUESTS, before)

    def _count_buffered(self) -> None:
        """What the transport keeps because the client does not read it."""
        if self._account is None or self._transport is None:
            return
        now = self._transport.get_write_buffer_size() if self._writing_paused else 0
        before, self._buffered_bytes = self._buffered_bytes, now
        self._account.take(ANSWERS, now)
        self._account.give_back(ANSWERS, before)
        self._moved_bytes += max(0, before - now)

    def moved_bytes(self) -> int | None:
        """For the memory budget: how far an unfinished request, or unread answers, have come."""
        if self._writing_paused:
            self._count_buffered()
        elif not self._stream.is_partial or (self._reading_paused and not self._waits_for_room):
            return None
        return self._moved_bytes

    # Ending.

    def _disconnect(self, reason: str) -> None:
        if self._transport is not None and not self._closed:
            self._closed = True
            self._listener.faulted += 1
            text = f"native client {self._client} was disconnected: {reason}"
            self._listener.complaints.note(text)
            self._transport.abort()

    def evict(self, reason: str) -> None:
        """For the memory budget: give way to others."""
        self._disconnect(reason)

    def retire(self) -> None:
        """Take no more requests, finish those under way, then close. Long polls end at once."""
        self._retiring = True
        self._refuse_pending()
        self._look_at_bounds()
        for task, request, _ in list(self._under_way.values()):
            if isinstance(request, WAITING):
                task.cancel()
        if not self._under_way and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once, without a word."""
        if self._transport is not None:
            self._transport.abort()

    def sweep(self, now_ms: int) -> None:
        """Called every now and then: give up on clients that half say something, or nothing."""
        if self._moved_bytes != self._moved_before or self._under_way or self._active_ms < 0:
            self._moved_before, self._active_ms = self._moved_bytes, now_ms
        elif now_ms - self._active_ms >= self._listener.connection_idle_ms:
            self.retire()
            return
        if not self._stream.is_partial and self._stream.version:
            self._partial_since_ms = -1
        elif self._partial_since_ms < 0:
            self._partial_since_ms = now_ms
        elif now_ms - self._partial_since_ms >= limits.KAFKA_FRAME_MS_MAX:
            if not self._reading_paused or self._waits_for_room:
                self._disconnect("a request has been incomplete for too long")


def _api_of(request: Request) -> str:
    """The name of a request in metrics and logs. Two have kept theirs of release 0.1, so that its
    series and dashboards go on."""
    if isinstance(request, ReceiveRequest):
        return "Take"
    if isinstance(request, CumulativeAck):
        return "Cover"
    return type(request).__name__
