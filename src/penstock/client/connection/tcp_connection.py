"""One multiplexed connection to a node: many requests in flight, answers matched by request id.

Requests that are made in one turn of the event loop are written together at its end: every write is
a system call and wakes the node, and a receiver acks the last messages while it asks for more. So a
request is encoded when it is written, or just before.

Every request has a deadline, and one timer serves all of them. A caller that gives up or is
cancelled withdraws its request, so that the node does not work in vain; if the answer was under way
by then, `on_late` is called, because the answer may have leased messages. A node from which nothing
at all has come since the request hangs, or has lost its network: its connection is closed. When a
connection breaks, every request under way ends with `OutcomeUnknown`: the client cannot know
whether it was executed.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final, cast

from penstock.client.connection.channel import Buffer, Make, OnAnswer
from penstock.client.connection.timer import NEVER, Alarm, fresh_time
from penstock.core import limits
from penstock.core.errors import (
    InvalidFrame,
    OutcomeUnknown,
    Overloaded,
    PenstockError,
    Unavailable,
)
from penstock.core.write_parts import write_parts
from penstock.wire import codec
from penstock.wire.failures import remake_error
from penstock.wire.frames import Kind, greet, write_prefix
from penstock.wire.requests import Answer, Request
from penstock.wire.stream import Frame, FrameStream

LANDING_BYTES: Final = 256 * limits.KIB
JOINED_BYTES_MAX: Final = 16 * limits.KIB
"""Up to this size, parts are copied together into one write."""
_IDS: Final = 1 << 32
_Waiter = asyncio.Future[tuple[Answer, Buffer]]
_UnderWay = tuple[Request, OnAnswer, float, float]
"""A request, the callback for its outcome, when it was sent, and its deadline."""


class TcpConnection(asyncio.BufferedProtocol):
    """See the top of this module; made by `open_connection`."""

    def __init__(self, name: str, on_late: Callable[[Request, Answer], None]) -> None:
        self._name = name
        self._on_late = on_late
        self._withdrawn: dict[int, Request] = {}
        self._stream = FrameStream(
            memoryview(bytearray(LANDING_BYTES)), limits.NATIVE_ANSWER_BYTES_MAX
        )
        self._transport: asyncio.Transport | None = None
        self._ids = count(1)
        self._under_way: dict[int, _UnderWay] = {}
        self._to_make: list[tuple[Make, OnAnswer]] = []
        self._to_write: list[Buffer] = []
        self._leaves = False
        """True if a flush is scheduled at the end of this turn of the loop."""
        self._paused = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._loop = loop = asyncio.get_running_loop()
        self._alarm = Alarm(loop, self._sweep)
        self.greeted: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[str] = loop.create_future()
        """Done when the connection is over, with the reason."""
        self._asked_at = self._heard_at = fresh_time()

    @property
    def is_open(self) -> bool:
        return not self.lost.done()

    @property
    def is_idle(self) -> bool:
        return not self._under_way and not self._to_make

    @property
    def used_at(self) -> float:
        """The time of the last request or answer."""
        return max(self._asked_at, self._heard_at)

    # Asking.

    def begin(self, make: Make, ended: OnAnswer, *, at_once: bool) -> bool:
        """Make a request and send it at the end of this turn, or at once; False if it would have
        to wait."""
        if self._paused or self.lost.done() or len(self._under_way) >= limits.NATIVE_REQUESTS_MAX:
            return False
        self._to_make.append((make, ended))
        if at_once:
            self._leave()
        elif not self._leaves:
            self._leaves = True
            self._loop.call_soon(self._leave)
        return True

    async def ask(self, request: Request, payload: Buffer, timeout: float) -> tuple[Answer, Buffer]:
        """Send a request and wait for its answer."""
        if self._paused:
            try:
                async with asyncio.timeout(timeout):
                    await self._writable.wait()
            except TimeoutError:
                raise Overloaded(f"{self._name} has not read what was sent before") from None
        if self._transport is None or self.lost.done():
            raise Unavailable(f"the connection to {self._name} is closed")
        if len(self._under_way) >= limits.NATIVE_REQUESTS_MAX:
            raise Overloaded(f"{len(self._under_way)} requests to {self._name} are under way")
        waiter: _Waiter = self._loop.create_future()
        deadline = fresh_time() + timeout
        ask_id = self._put(request, payload, deadline, partial(self._tell, request, waiter))
        self._leave_soon()
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and waiter.exception() is None:
                # The answer came at the very moment its caller left, and is not read.
                self._on_late(request, waiter.result()[0])
            raise
        finally:
            if self._under_way.pop(ask_id, None) is not None and self.is_open:
                self._withdraw(ask_id, request)

    def _tell(
        self, request: Request, waiter: _Waiter, outcome: Answer | PenstockError, payload: Buffer
    ) -> None:
        if waiter.done():  # The waiter is being cancelled and has not noticed yet.
            if isinstance(outcome, Answer):
                self._on_late(request, outcome)
        elif isinstance(outcome, Answer):
            waiter.set_result((outcome, payload))
        else:
            waiter.set_exception(outcome)

    # Leaving.

    def _put(self, request: Request, payload: Buffer, deadline: float, ended: OnAnswer) -> int:
        head = codec.encode(request)
        ask_id = next(self._ids) % _IDS
        self._asked_at = asked_at = fresh_time()
        self._under_way[ask_id] = request, ended, asked_at, deadline
        self._alarm.set(deadline)
        self._to_write.append(write_prefix(Kind.REQUEST, ask_id, len(head), len(payload)) + head)
        if payload:
            self._to_write.append(payload)
        return ask_id

    def _withdraw(self, ask_id: int, request: Request) -> None:
        self._withdrawn[ask_id] = request
        self._to_write.append(write_prefix(Kind.WITHDRAWAL, ask_id, 0, 0))
        self._leave_soon()

    def _leave_soon(self) -> None:
        if not self._leaves:
            self._leaves = True
            self._loop.call_soon(self._leave)

    def _leave(self) -> None:
        self._leaves = False
        to_make, self._to_make = self._to_make, []
        for make, ended in to_make:
            made = make()
            if made is not None:
                self._put(*made, ended)
        parts, self._to_write = self._to_write, []
        if self._transport is None or self.lost.done() or not parts:
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif sum(map(len, parts)) <= JOINED_BYTES_MAX:
            self._transport.write(b"".join(parts))
        else:
            write_parts(self._transport, parts, limits.NATIVE_UNSENT_BYTES_MAX)

    def _sweep(self, now: float) -> float:
        """Fail the requests that were not answered in time."""
        hangs = ""
        for ask_id, (request, ended, asked_at, deadline) in list(self._under_way.items()):
            if deadline > now:
                continue
            del self._under_way[ask_id]
            self._withdraw(ask_id, request)
            seconds = deadline - asked_at
            problem = f"{self._name} did not answer {type(request).__name__} within {seconds:.1f} s"
            if self._heard_at <= asked_at:
                hangs = problem
            ended(OutcomeUnknown(problem), b"")
        if hangs:
            self.abort(hangs)
        return min((deadline for *_, deadline in self._under_way.values()), default=NEVER)

    # The transport's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=limits.NATIVE_UNSENT_BYTES_MAX)
        self._transport.write(greet())

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._stream.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._heard_at = fresh_time()
        try:
            frames = self._stream.received(nbytes)
            if self._stream.version and not self.greeted.done():
                self.greeted.set_result(None)
            for frame in frames:
                self._take(frame)
        except InvalidFrame as error:
            self.abort(f"{self._name} does not speak Penstock's native protocol: {error}")

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._paused = True
        self._writable.clear()

    def resume_writing(self) -> None:
        self._paused = False
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"the connection to {self._name} was lost" + (f": {exc}" if exc else ""))

    def _take(self, frame: Frame) -> None:
        under_way = self._under_way.get(frame.id)
        if under_way is None:
            # It was withdrawn while its answer was under way. Every request has one answer.
            request = self._withdrawn.pop(frame.id, None)
            if request is not None and frame.kind is Kind.ANSWER:
                self._on_late(request, codec.decode_answer(frame.head))
            return
        # What cannot be read ends the connection, and with it all calls that wait here.
        outcome: Answer | PenstockError
        if frame.kind is Kind.ANSWER:
            outcome = codec.decode_answer(frame.head)
        elif frame.kind is Kind.FAILURE:
            outcome = remake_error(codec.decode_failure(frame.head))
        else:
            raise InvalidFrame(f"a {frame.kind.name} where an answer was expected")
        del self._under_way[frame.id]
        under_way[1](outcome, frame.payload)

    # Ending.

    def abort(self, reason: str) -> None:
        """Close the connection without waiting for answers."""
        self._end(reason)
        if self._transport is not None:
            self._transport.abort()

    def _end(self, reason: str) -> None:
        if self.lost.done():
            return
        self.lost.set_result(reason)
        self._writable.set()
        if not self.greeted.done():
            self.greeted.set_exception(Unavailable(reason))
            self.greeted.exception()  # The caller may have stopped waiting for it.
        self._alarm.stop()
        under_way, self._under_way = self._under_way, {}
        to_make, self._to_make = self._to_make, []
        self._to_write.clear()
        for _, ended, _, _ in under_way.values():
            ended(OutcomeUnknown(f"{reason} while a request was under way"), b"")
        for _, ended in to_make:
            ended(Unavailable(reason), b"")


async def open_connection(
    host: str, port: int, timeout: float, on_late: Callable[[Request, Answer], None]
) -> TcpConnection:
    """Connect and greet, or `Unavailable`."""
    name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    loop = asyncio.get_running_loop()
    connection: TcpConnection | None = None
    try:
        async with asyncio.timeout(timeout):
            _, connection = await loop.create_connection(
                lambda: TcpConnection(name, on_late), host, port
            )
            await connection.greeted
    except TimeoutError:
        if connection is not None:
            connection.abort("it did not greet in time")
        raise Unavailable(f"no answer from {name} within {timeout:.1f} s") from None
    except OSError as error:
        raise Unavailable(f"cannot connect to {name}: {error.strerror or error}") from error
    except (PenstockError, asyncio.CancelledError):
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.abort("it is not wanted")
        raise
    return connection
