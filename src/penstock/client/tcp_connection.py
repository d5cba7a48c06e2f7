"""One connection to a node: many requests under way, answers matched by their ids.

Whoever waits for an answer waits with a timeout of its own. One that gives up, or is cancelled,
withdraws its request, so that the node does not work for nobody; if the answer was under way by
then, somebody is told, for it may have leased messages. When the connection breaks, every
request under way ends with `OutcomeUnknown`: whether it was carried out, nobody here can say.
"""

import asyncio
import contextlib
from collections.abc import Callable
from itertools import count
from typing import Final, cast

from penstock.client.channel import Buffer
from penstock.core import limits
from penstock.core.errors import (
    InvalidFrame,
    OutcomeUnknown,
    Overloaded,
    PenstockError,
    Unavailable,
)
from penstock.wire import codec
from penstock.wire.failures import remake_error
from penstock.wire.frames import Kind, greet, write_prefix
from penstock.wire.requests import Answer, Request
from penstock.wire.stream import Frame, FrameStream

LANDING_BYTES: Final = 256 * limits.KIB
_IDS: Final = 1 << 32
_Waiter = asyncio.Future[tuple[Answer, Buffer]]


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
        self._waiting: dict[int, tuple[_Waiter, Request]] = {}
        self._writable = asyncio.Event()
        self._writable.set()
        loop = asyncio.get_running_loop()
        self.greeted: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[str] = loop.create_future()
        """Done when the connection is over, with the reason."""
        self.used_at = self.heard_at = loop.time()

    @property
    def is_open(self) -> bool:
        return not self.lost.done()

    @property
    def is_idle(self) -> bool:
        return not self._waiting

    # Asking.

    async def ask(self, request: Request, payload: Buffer, timeout: float) -> tuple[Answer, Buffer]:
        """Send a request and wait for its answer."""
        if not self._writable.is_set():
            try:
                async with asyncio.timeout(timeout):
                    await self._writable.wait()
            except TimeoutError:
                raise Overloaded(f"{self._name} has not read what was sent before") from None
        if self._transport is None or not self.is_open:
            raise Unavailable(f"the connection to {self._name} is closed")
        if len(self._waiting) >= limits.NATIVE_REQUESTS_MAX:
            raise Overloaded(f"{len(self._waiting)} requests to {self._name} are under way")
        head = codec.encode(request)
        ask_id = next(self._ids) % _IDS
        waiter: _Waiter = asyncio.get_running_loop().create_future()
        self._waiting[ask_id] = waiter, request
        prefix = write_prefix(Kind.REQUEST, ask_id, len(head), len(payload))
        if payload:
            self._transport.writelines((prefix + head, payload))
        else:
            self._transport.write(prefix + head)
        try:
            async with asyncio.timeout(timeout):
                return await self._answer_to(request, waiter)
        except TimeoutError:
            raise OutcomeUnknown(
                f"{self._name} did not answer {type(request).__name__} within {timeout:.1f} s"
            ) from None
        finally:
            self.used_at = asyncio.get_running_loop().time()
            if self._waiting.pop(ask_id, None) is not None and self.is_open:
                self._withdrawn[ask_id] = request
                self._transport.write(write_prefix(Kind.WITHDRAWAL, ask_id, 0, 0))

    async def _answer_to(self, request: Request, waiter: _Waiter) -> tuple[Answer, Buffer]:
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and waiter.exception() is None:
                # The answer came at the very moment its caller left, and nobody will look at it.
                self._on_late(request, waiter.result()[0])
            raise

    # The transport's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=limits.NATIVE_UNSENT_BYTES_MAX)
        self._transport.write(greet())

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._stream.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.heard_at = asyncio.get_running_loop().time()
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
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"the connection to {self._name} was lost" + (f": {exc}" if exc else ""))

    def _take(self, frame: Frame) -> None:
        waiting = self._waiting.get(frame.id)
        if waiting is None:
            # It was withdrawn while its answer was under way. Every request has one answer.
            self._take_late(frame, self._withdrawn.pop(frame.id, None))
            return
        waiter, request = waiting
        if waiter.done():  # Whoever waits is being cancelled and has not noticed yet.
            del self._waiting[frame.id]
            self._take_late(frame, request)
            return
        # What cannot be read ends the connection, and with it everybody who still waits here.
        if frame.kind is Kind.ANSWER:
            waiter.set_result((codec.decode_answer(frame.head), frame.payload))
        elif frame.kind is Kind.FAILURE:
            waiter.set_exception(remake_error(codec.decode_failure(frame.head)))
        else:
            raise InvalidFrame(f"a {frame.kind.name} where an answer was expected")
        del self._waiting[frame.id]

    def _take_late(self, frame: Frame, request: Request | None) -> None:
        if request is not None and frame.kind is Kind.ANSWER:
            self._on_late(request, codec.decode_answer(frame.head))

    # Ending.

    def abort(self, reason: str) -> None:
        """Close at once."""
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
            self.greeted.exception()  # Somebody may have stopped waiting for it.
        waiting, self._waiting = self._waiting, {}
        for waiter, _ in waiting.values():
            if not waiter.done():
                waiter.set_exception(OutcomeUnknown(f"{reason} while a request was under way"))


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
        raise Unavailable(f"nobody answers at {name} within {timeout:.1f} s") from None
    except OSError as error:
        raise Unavailable(f"nobody answers at {name}: {error.strerror or error}") from error
    except (PenstockError, asyncio.CancelledError):
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.abort("it is not wanted")
        raise
    return connection
