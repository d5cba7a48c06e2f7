"""One Kafka client's connection: frames in, answers out, in the order of the requests.

    frame    length i32 | API key i16 | version i16 | correlation id i32 | client id | [tags] | body
    answer   length i32 | correlation id i32 | [tags] | body

Receiving. Bytes land in a place that all connections share; whole requests are copied out of it.
One that does not fit gets a buffer of its own, which the rest is read into directly, so that large
ones, the batches of messages, are not copied again before they are written to the log. The buffer
starts small and grows as bytes come, whatever length was claimed.

Serving. Many requests of one connection may be under way. Those with a `start` begin at once, in
their order; the others go through one task, one after the other, which lives only while there are
any. Answers wait until all before them are sent.

Pushing back. What the client makes this node hold is drawn on the memory budget. No further request
is looked at while too many answers have not left, also those of this turn of the loop, too many
requests or bytes are under way, or the budget has no room: reading pauses, and TCP tells the
client.

The native protocol shares the port (`port_state.native_listener`): a connection that begins with
its greeting is handed over, and this object has nothing more to do with it.

A client that sends what is no request, or asks for what is not served, is disconnected with a line
in the log, as Kafka does it; so is one whose request makes us fail, and the others go on.
"""

import asyncio
import logging
import socket
import struct
from collections import deque
from typing import Final, cast

from penstock.core import limits
from penstock.core.errors import MalformedRequest, PenstockError
from penstock.core.frame_buffer import first_bytes, grown_bytes
from penstock.core.memory_budget import ANSWERS, REQUESTS
from penstock.core.write_parts import write_parts
from penstock.engine.replica.time_slices import TimeSlices
from penstock.kafka.api import Api
from penstock.kafka.codec import skip_tags
from penstock.kafka.context import Buffer, Context
from penstock.kafka.error_codes import UNSUPPORTED_VERSION
from penstock.kafka.port_state import PROTOCOL, PortState

log = logging.getLogger("penstock.kafka")

_LENGTH: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">hhih")
_KEY: Final = struct.Struct(">h")
_PRODUCE_KEY: Final = 0
_API_VERSIONS_KEY: Final = 18
_JOINED_BYTES_MAX: Final = 16 * limits.KIB
"""Small answers are joined: one copy of a few bytes costs less than a list of many buffers."""
_WRITE_HIGH_BYTES: Final = _JOINED_BYTES_MAX
"""What the transport may keep of an answer without being counted."""


LINGER_SECONDS: Final = 0.5
"""How long a client has to close after this side has said that there is no more."""


_KEEPALIVE_IDLE_SECONDS: Final = 60
_KEEPALIVE_INTERVAL_SECONDS: Final = 10
_KEEPALIVE_PROBES_MAX: Final = 6


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """TCP keepalive: the system probes a silent connection, and finds out that its client's machine
    is gone."""
    connected = transport.get_extra_info("socket")
    if connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_SECONDS)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_SECONDS)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES_MAX)


class Connection(asyncio.BufferedProtocol):
    def __init__(self, port_state: PortState) -> None:
        self.port_state = port_state
        self.client_host = ""
        self.requests = 0
        """How many have come; the sweep compares it to find who is silent."""
        self.requests_seen = 0
        self.active_ms = 0
        self._client = ""
        self._transport: asyncio.Transport | None = None
        self._under_way: deque[Context] = deque()
        self._under_way_bytes = 0
        self._unsent_bytes = 0
        """Answers that wait for earlier ones, or for the end of this turn of the loop."""
        self._buffered_bytes = 0
        """What the transport has not got rid of, while it says that this is too much."""
        self._moved_bytes = 0
        """Of requests that came in parts, and of answers that did not leave at once."""
        self._outgoing: list[Buffer] = []
        self._queue: deque[tuple[Context, bytearray, int]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._frame: bytearray | None = None
        self._frame_bytes = 0
        self._filled = 0
        self._rest = b""
        self._kept_bytes = 0
        """Of `_rest`, as it is counted."""
        self._client_id = (b"", "")
        self._writing_paused = False
        self._reading_paused = False
        self._waits_for_room = False
        self._retiring = False
        self._lingering = False
        self._closed = False
        self._partial = (-1, 0)
        """The number of the request that was found incomplete by a sweep, and when."""

    @property
    def client_address(self) -> str:
        """Where the client is: host and port."""
        return self._client

    # The transport's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple):
            self.client_host = str(name[0])
            self._client = f"{name[0]}:{name[1]}"
        port_state = self.port_state
        present = len(port_state.connections) + (
            len(port_state.native_listener) if port_state.native_listener is not None else 0
        )
        reason = ""
        if present >= port_state.settings.connections_max:
            reason = f"there are {present} connections, as many as limits.connections_max allows"
        elif not port_state.memory.takes_connection(self.client_host):
            reason = "its address has limits.connections_per_address_max connections"
        self.account = port_state.memory.open(PROTOCOL, self.client_host, self)
        if reason:
            self._closed = True
            port_state.refused += 1
            port_state.complaints.note(f"Kafka client {self._client} was refused: {reason}")
            transport.abort()
            return
        keep_alive(transport)
        port_state.accepted += 1
        port_state.connections.add(self)
        self.active_ms = port_state.clock.monotonic_ms()
        transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        if self._frame is None:
            return self.port_state.landing
        return memoryview(self._frame)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self.port_state.bytes_in += nbytes
        if self._lingering:
            return
        frame = self._frame
        if frame is None:
            self._take(self.port_state.landing[:nbytes])
            return
        self._filled += nbytes
        self._moved_bytes += nbytes
        if self._filled == len(frame):
            self._fill_on(frame)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._count_buffered()
        self._pause_reading()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._count_buffered()
        self.continue_soon()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._closed = True
        self.port_state.leave(self)
        self.account.close()
        self._frame = None
        self._rest = b""
        self._outgoing = []
        self._queue.clear()
        if self._task is not None:
            self._task.cancel()
        under_way, self._under_way = self._under_way, deque()
        for context in under_way:
            context.abandoned = True
            if context.on_cancel is not None:
                context.on_cancel()

    # Receiving.

    def _take(self, view: memoryview) -> bool:
        """Serve the whole requests in what has landed, and keep the beginning of the next. Whether
        more may be read."""
        if self._rest:
            view = memoryview(self._rest + view)
            self._keep(b"")
        if not self.requests and self._is_native(view):
            return True
        position, end = 0, len(view)
        # The API key is wanted too: it decides how long a request may be.
        must_wait = False
        while end - position >= _LENGTH.size + _KEY.size:
            (length,) = _LENGTH.unpack_from(view, position)
            must_wait = self._must_wait(length)
            if must_wait:
                break
            start = position + _LENGTH.size
            if not self._accepts_length(length, _KEY.unpack_from(view, start)[0]):
                return False
            position = start + length
            if position > end:
                self._begin_frame(length, view[start:])
                return True
            self.account.take(REQUESTS, length)
            self._serve(bytearray(view[start:position]))
            if self._closed:
                return False
        if position < end:
            self._keep(bytes(view[position:]))
        if must_wait or self._is_busy():
            self._pause_reading()
            return False
        return True

    def _keep(self, rest: bytes) -> None:
        """What has landed and is not looked at yet."""
        self._rest = rest
        self.account.give_back(REQUESTS, self._kept_bytes)
        self._kept_bytes = len(rest)
        self.account.take(REQUESTS, self._kept_bytes)

    def _is_native(self, view: memoryview) -> bool:
        """Whether the first bytes are, or may become, the greeting of another protocol that shares
        the port: then the connection is its, and what follows is none of ours."""
        native_listener = self.port_state.native_listener
        if native_listener is None or not native_listener.magic.startswith(
            bytes(view[: len(native_listener.magic)])
        ):
            return False
        if len(view) < len(native_listener.magic):
            self._keep(bytes(view))
        elif self._transport is not None:
            transport, self._transport = self._transport, None
            self._closed = True
            self.port_state.leave(self)
            self.account.close()
            native_listener.take_over(transport, view)
        return True

    def _accepts_length(self, length: int, key: int) -> bool:
        bound = self.port_state.settings.request_bytes_max
        if key != _PRODUCE_KEY:
            bound = min(bound, limits.KAFKA_CONTROL_REQUEST_BYTES_MAX)
        if _HEADER.size <= length <= bound:
            return True
        self.close(
            f"a request of {length} bytes for API {key}; from {_HEADER.size} to {bound} may be"
        )
        return False

    def _begin_frame(self, length: int, first: memoryview) -> None:
        """A request has only begun to arrive: read the rest of it into a buffer of its own, which
        grows as bytes come."""
        self._frame_bytes = length
        size = first_bytes(grown_bytes(len(first), length), length)
        self._frame = frame = bytearray(size)
        frame[: len(first)] = first
        self._filled = len(first)
        self._moved_bytes += len(first)
        self.account.take(REQUESTS, size)

    def _fill_on(self, frame: bytearray) -> None:
        """The buffer is full: serve the request, or make room for more of it."""
        if len(frame) < self._frame_bytes:
            if self.account.admits(self._frame_bytes):
                self._grow(frame)
            else:
                self._pause_reading()
                self._wait_for_room()
            return
        self._frame = None
        self._serve(frame)
        if self._is_busy():
            self._pause_reading()

    def _grow(self, frame: bytearray) -> None:
        # A new buffer: the loop may still hold on to this one, and it cannot be resized then.
        size = grown_bytes(len(frame), self._frame_bytes)
        self.account.take(REQUESTS, size - len(frame))
        self._frame = bytearray(size)
        self._frame[: len(frame)] = frame

    def _is_busy(self) -> bool:
        """Whether the next request has to wait for something of this connection; what ends the
        reason calls `continue_soon`."""
        return (
            self._writing_paused
            or self._retiring
            or len(self._under_way) >= limits.KAFKA_CONNECTION_REQUESTS_MAX
            or self._under_way_bytes >= limits.KAFKA_CONNECTION_REQUESTS_BYTES_MAX
            or self._unsent_bytes >= limits.KAFKA_CONNECTION_UNSENT_BYTES_MAX
        )

    def _must_wait(self, length: int) -> bool:
        """Whether the next request, which has this length, has to wait."""
        if self._is_busy():
            return True
        if self.account.admits(length):
            return False
        self._wait_for_room()
        return True

    def _wait_for_room(self) -> None:
        if not self._waits_for_room:
            self._waits_for_room = True
            self.port_state.throttled += 1
            self.account.wait(self._has_room)

    def _has_room(self) -> None:
        self._waits_for_room = False
        self.continue_soon()

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def continue_soon(self) -> None:
        """Something that reading waited for has ended."""
        if self._reading_paused and self._transport is not None:
            asyncio.get_running_loop().call_soon(self._continue)

    def _continue(self) -> None:
        if self._closed or self._retiring or self._writing_paused or not self._reading_paused:
            return
        frame = self._frame
        if frame is not None:
            if self._filled == len(frame):
                if not self.account.admits(self._frame_bytes):
                    self._wait_for_room()
                    return
                self._grow(frame)
        elif self._is_busy() or (self._rest and not self._take(memoryview(b""))):
            return
        if self._transport is not None and not self._closed:
            self._reading_paused = False
            self._transport.resume_reading()

    # Serving.

    def _serve(self, frame: bytearray) -> None:
        self.requests += 1
        key, version, correlation_id, client_bytes = _HEADER.unpack_from(frame)
        api = self.port_state.apis.get(key)
        if api is None:
            self.close(f"API {key} is not served")
            return
        self.port_state.requests[key] += 1
        first, last = api.served
        if not first <= version <= last:
            if key == _API_VERSIONS_KEY and version > last:
                self._begin(api, 0, correlation_id, "", frame)
                self._answer_older_version()
            else:
                self.close(f"{api.name} version {version}; {first} to {last} are served")
            return
        try:
            position = _HEADER.size + max(client_bytes, 0)
            client_id = self._name(frame[_HEADER.size : position])
            if version >= self.port_state.flexible_from[key]:
                position = skip_tags(frame, position)
            if position > limits.KAFKA_HEADER_BYTES_MAX:
                raise MalformedRequest(f"{position} bytes; {limits.KAFKA_HEADER_BYTES_MAX} at most")
        except (IndexError, UnicodeDecodeError, MalformedRequest) as error:
            self.close(f"{api.name} version {version} with a bad header: {error}")
            return
        context = self._begin(api, version, correlation_id, client_id, frame)
        try:
            if api.start is not None:
                api.start(frame, position, context)
            else:
                self._queue.append((context, frame, position))
                if self._task is None:
                    self._task = asyncio.get_running_loop().create_task(self._work())
        except Exception as error:  # noqa: BLE001
            self.end_badly(context, error)

    def _begin(
        self, api: Api, version: int, correlation_id: int, client_id: str, frame: bytearray
    ) -> Context:
        context = Context(self, api, version, correlation_id, client_id, len(frame))
        self._under_way.append(context)
        self._under_way_bytes += len(frame)
        return context

    def _name(self, raw: bytearray) -> str:
        """The client's name for itself; it is nearly always the same as before."""
        known, name = self._client_id
        if raw != known:
            name = raw.decode()
            self._client_id = bytes(raw), name
        return name

    def _answer_older_version(self) -> None:
        """KIP-35: asked for ApiVersions in a version we do not know, answer in the oldest."""
        context = self._under_way[-1]
        keys = [
            {"api_key": api.key, "min_version": api.advertised[0], "max_version": api.advertised[1]}
            for api in self.port_state.apis.values()
        ]
        context.count_error(UNSUPPORTED_VERSION)
        context.answer({"error_code": UNSUPPORTED_VERSION, "api_keys": keys})

    async def _work(self) -> None:
        """Serve what is queued, one after the other, until there is no more.

        They share time slices: a hundred short requests are as long as one long request."""
        slices = TimeSlices()
        slices.begin()
        try:
            while self._queue:
                context, frame, position = self._queue.popleft()
                context.slices = slices
                try:
                    await context.serve(frame, position)
                except Exception as error:  # noqa: BLE001
                    self.end_badly(context, error)
                await slices.let_others()
        finally:
            self._task = None

    def end_badly(self, context: Context, error: BaseException) -> None:
        """A refusal is answered; a failure of our own ends this connection, and no other."""
        if isinstance(error, MalformedRequest):
            context.close(str(error))
            return
        if isinstance(error, PenstockError):
            context.refuse(error)
            return
        name = context.api.name
        self.port_state.complaints.failure(
            f"{name} v{context.version} from {self._client} failed", error
        )
        self.close(f"{name} failed: {type(error).__name__}: {error}")

    # Answering.

    def send_finished(self, finished: Context) -> None:
        """Send all answers that no earlier request stands before."""
        under_way = self._under_way
        buffers = finished.buffers
        assert buffers is not None
        size = sum(map(len, buffers))
        self._unsent_bytes += size
        if under_way[0] is finished:
            under_way.popleft()
            while under_way and (more := under_way[0].buffers) is not None:
                under_way.popleft()
                buffers = buffers + more
            self._send(buffers)
        self._under_way_bytes -= finished.frame_bytes
        self.account.turn_into_answer(finished.frame_bytes, size)
        if self._reading_paused:
            self.continue_soon()
        if self._retiring and not under_way:
            self._close_in_order()

    def _send(self, ready: list[Buffer]) -> None:
        """Answers leave at the end of the loop's turn, all with one call to the system."""
        if not self._outgoing:
            self.port_state.flush_soon(self)
        self._outgoing += ready

    def flush(self) -> None:
        """Hand over to the transport what was answered in this turn."""
        outgoing, self._outgoing = self._outgoing, []
        if outgoing and self._transport is not None and not self._closed:
            size = sum(map(len, outgoing))
            self.port_state.bytes_out += size
            if size <= _JOINED_BYTES_MAX:
                self._transport.write(b"".join(outgoing))
            else:
                write_parts(self._transport, outgoing, _WRITE_HIGH_BYTES)
            if self._writing_paused:
                self._count_buffered()
            self._unsent_bytes -= size
            self.account.give_back(ANSWERS, size)
            if self._reading_paused:
                self.continue_soon()

    def _count_buffered(self) -> None:
        now = 0
        if self._writing_paused and self._transport is not None:
            now = self._transport.get_write_buffer_size()
        before, self._buffered_bytes = self._buffered_bytes, now
        if now > before:
            self.account.take(ANSWERS, now - before)
        elif now < before:
            self._moved_bytes += before - now
            self.account.give_back(ANSWERS, before - now)

    # Ending.

    def close(self, reason: str) -> None:
        """Disconnect the client, with one line in the log."""
        if self._transport is not None and not self._closed:
            self._closed = True
            self.port_state.faulted += 1
            self.port_state.complaints.note(
                f"Kafka client {self._client} was disconnected: {reason}"
            )
            self._transport.abort()

    def retire(self) -> None:
        """Take no more requests, finish those under way, then close."""
        self._retiring = True
        self._pause_reading()
        for context in list(self._under_way):
            if context.on_cancel is not None:
                context.on_cancel()
        if not self._under_way:
            self._close_in_order()

    def _close_in_order(self) -> None:
        """Say that there is no more, and wait for the client to close.

        Closing by ourselves while it still sends would make the system take back what it has not
        yet read, and the client would not learn what was acknowledged."""
        self.flush()
        transport = self._transport
        if transport is None or transport.is_closing() or self._lingering:
            return
        self._lingering = True
        if self._frame is not None:
            self.account.give_back(REQUESTS, len(self._frame))
            self._frame = None
        if transport.can_write_eof():
            transport.write_eof()
            transport.resume_reading()
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self.abort)
        else:
            transport.close()

    def moved_bytes(self) -> int | None:
        """For the memory budget: how far an unfinished request, or unread answers, have come."""
        if self._writing_paused:
            self._count_buffered()
        elif self._frame is None:
            return None
        return self._moved_bytes

    def evict(self, reason: str) -> None:
        """For the memory budget: give way to others."""
        self.close(reason)

    def abort(self) -> None:
        """Close at once, without a word."""
        self._closed = True
        if self._transport is not None:
            self._transport.abort()

    def sweep(self, now_ms: int) -> None:
        """Called about every second: give up on clients that are silent or half say something."""
        if self._lingering:
            return
        if self._frame is not None or (self._rest and not self._reading_paused):
            number, since_ms = self._partial
            if number != self.requests:
                self._partial = (self.requests, now_ms)
            elif now_ms - since_ms >= self.port_state.settings.frame_ms_max:
                self.close(f"a request has been incomplete for {now_ms - since_ms} ms")
        elif self.requests != self.requests_seen or self._under_way:
            self.requests_seen = self.requests
            self.active_ms = now_ms
        elif now_ms - self.active_ms >= self.port_state.settings.connection_idle_ms:
            self.retire()
