"""One request under way: who asks, in which version, and where its answer goes.

Answers leave a connection in the order in which its requests came, so a finished answer may have to
wait for others; the connection sees to it. A context is finished exactly once. If its connection is
lost first, `abandoned` turns true, `on_cancel` is called if it is set, and finishing does nothing.

Requests that are served by a coroutine draw on the memory budget for their rows while they are
decoded, and for those of their answers while `rows` encodes them (`kafka.answer_memory`). Work that
takes long gives way after a time slice, to what is short and to other long requests.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Generator, Iterable
from typing import TYPE_CHECKING, TypeVar

from penstock.core.clock import precise_seconds
from penstock.core.errors import MalformedRequest, PenstockError
from penstock.core.limits import (
    KAFKA_ANSWER_PORTION_BYTES,
    KAFKA_DECODED_AT_ONCE_BYTES,
    KAFKA_DECODED_WHOLE_BYTES_MAX,
    KAFKA_ROW_BYTES,
    KAFKA_UNCOUNTED_BYTES_MAX,
)
from penstock.engine.replica.time_slices import TimeSlices
from penstock.kafka.answer_memory import AnswerMemory
from penstock.kafka.codec import (
    ROWS_PER_PORTION,
    Answer,
    Codec,
    EncodedRows,
    Message,
    codec,
    row_writer,
)

if TYPE_CHECKING:
    from penstock.engine.engine import Engine
    from penstock.kafka.api import Api
    from penstock.kafka.connection import Connection
    from penstock.kafka.port_state import PortState

Buffer = bytes | bytearray | memoryview
_NO_SLICES = TimeSlices()

T = TypeVar("T")


class Context:
    """What an API knows about a request besides its content."""

    __slots__ = (
        "abandoned",
        "api",
        "began",
        "buffers",
        "client_id",
        "connection",
        "correlation_id",
        "engine",
        "frame_bytes",
        "memory",
        "on_cancel",
        "port_state",
        "slices",
        "version",
        "waited",
    )  # fmt: skip

    def __init__(
        self,
        connection: "Connection",
        api: "Api",
        version: int,
        correlation_id: int,
        client_id: str,
        frame_bytes: int,
    ) -> None:
        self.connection = connection
        self.port_state: PortState = connection.port_state
        self.engine: Engine = connection.port_state.engine
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.frame_bytes = frame_bytes
        self.slices = _NO_SLICES
        """Of the task that carries it out, which may carry out others before and after it."""
        self.memory: AnswerMemory | None = None
        """What it draws for rows, if they are many."""
        self.began = precise_seconds()
        self.waited = 0.0
        """For how many seconds it waited because its client wanted to."""
        self.buffers: list[Buffer] | None = None
        self.abandoned = False
        self.on_cancel: Callable[[], None] | None = None
        """Called when the answer is wanted at once: the port is closing or the client has gone."""

    @property
    def client_host(self) -> str:
        """The client's address, as its socket tells it."""
        return self.connection.client_host

    @property
    def codec(self) -> Codec:
        """How this API is written in the client's version."""
        return codec(self.api.key, self.version)

    def decode(self, frame: bytearray, position: int) -> Message:
        """The request in a frame; for the APIs that are served by `start`."""
        if self.frame_bytes > KAFKA_DECODED_WHOLE_BYTES_MAX:
            raise MalformedRequest(
                f"{self.frame_bytes} bytes; {KAFKA_DECODED_WHOLE_BYTES_MAX} at most"
            )
        return self.codec.decode(bytes(frame), position)

    @property
    def is_long(self) -> bool:
        """Whether the request is so large that it is carried out in time slices."""
        return self.frame_bytes > KAFKA_DECODED_AT_ONCE_BYTES

    async def decode_in_slices(self, frame: bytearray, position: int) -> Message:
        """The same as `decode` for a request that may be long."""
        if not self.is_long:
            return self.decode(frame, position)
        return await self.run_in_slices(self.codec.decode_in_portions(bytes(frame), position))

    async def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """The items of a request one by one, in time slices."""
        for item in items:
            if self.slices.is_used_up:
                await self.let_others()
            yield item

    async def let_others(self) -> None:
        """Give way, if it is time to, to all that is short and to other long requests."""
        if self.slices.is_used_up:
            await self._wait_for_turn()

    async def _wait_for_turn(self) -> None:
        self.slices.end()
        await self.port_state.turns.wait()
        self.slices.begin()

    async def run_in_slices(self, portions: Generator[None, None, T], portion_bytes: int = 0) -> T:
        """Carry out work that yields between its portions, and draw for each."""
        while True:
            try:
                next(portions)
            except StopIteration as end:
                result: T = end.value
                return result
            if portion_bytes:
                await self.draw(portion_bytes)
            await self.let_others()

    async def rows(self, array: str, rows: AsyncIterable[Answer]) -> EncodedRows:
        """The rows of an array of the answer, which are encoded one by one: as objects they would
        take many times the memory. An array in rows of another is named behind it."""
        write = row_writer(self.api.key, self.version, tuple(array.split()))
        out = bytearray()
        number = drawn = 0
        async for row in rows:
            write(row, out)
            number += 1
            if len(out) - drawn >= KAFKA_ANSWER_PORTION_BYTES:
                await self.draw(len(out) - drawn)
                drawn = len(out)
                assert self.memory is not None
                await self.memory.note_answer(drawn)
        return EncodedRows(number, out)

    async def draw(self, size: int) -> None:
        """Draw bytes on the memory budget until the request is over; waits for room."""
        if self.memory is None:
            self.memory = AnswerMemory(
                self.connection.account, self.slices, self.port_state.long_answers
            )
        await self.memory.draw(size)

    async def serve(self, frame: bytearray, position: int) -> None:
        """Carry out a request of an API that is served by a coroutine, and answer it."""
        assert self.api.handle is not None, f"{self.api.name} has no code"
        try:
            if self.frame_bytes <= KAFKA_UNCOUNTED_BYTES_MAX:
                request = self.decode(frame, position)
            else:
                if self.is_long:
                    await self._wait_for_turn()
                rows = self.codec.decode_in_portions(bytes(frame), position)
                request = await self.run_in_slices(rows, ROWS_PER_PORTION * KAFKA_ROW_BYTES)
            answer = await self.api.handle(request, self)
            if isinstance(answer, bytes):
                self.answer(answer)
            else:
                portions = self.codec.encode_in_portions(self.correlation_id, answer)
                self.finish([await self.run_in_slices(portions)])
        finally:
            if self.memory is not None:
                self.memory.close()

    def run_alone(self, work: Coroutine[object, object, None]) -> None:
        """Carry out the request by a task of its own, beside the requests that come after it."""
        self.slices = TimeSlices()
        self.slices.begin()
        task = asyncio.get_running_loop().create_task(self._run(work))
        tasks = self.port_state.tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _run(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001
            self.fail(error)

    def answer(self, answer: Answer | bytes) -> None:
        """Finish with an answer: fields, or an encoded body."""
        chosen = self.codec
        if isinstance(answer, bytes):
            self.finish([chosen.head(self.correlation_id, len(answer)), answer])
        else:
            self.finish([chosen.encode(self.correlation_id, answer)])

    def finish(self, buffers: list[Buffer]) -> None:
        """Finish with whole encoded bytes; an empty list is no answer at all."""
        if self.abandoned:
            return
        assert self.buffers is None, f"{self.api.name} was answered twice"
        self.buffers = buffers
        self.on_cancel = None
        ended = precise_seconds()
        took = ended - self.began - self.waited
        self.port_state.histograms[self.api.key].observe(took)
        if took >= self.engine.topics.slow_requests.seconds:
            self._note_slow(ended)
        self.connection.send_finished(self)

    def _note_slow(self, ended: float) -> None:
        self.engine.topics.slow_requests.note(
            "kafka",
            f"{self.api.name} v{self.version}",
            f"{self.client_id} at {self.client_host}",
            began=self.began,
            ended=ended,
            waited=self.waited,
        )

    def refuse(self, error: PenstockError) -> None:
        """Finish with an error, or close the connection if the API has no place for one."""
        if self.abandoned or self.buffers is not None:
            return
        code = self.api.code(error)
        self.count_error(code)
        chosen = self.codec
        if chosen.has_error_code:
            self.finish([chosen.refuse(self.correlation_id, code, str(error))])
        else:
            self.close(str(error))

    def fail(self, error: BaseException) -> None:
        """End badly: an unexpected error ends this connection, and no other."""
        if not self.abandoned:
            self.connection.end_badly(self, error)

    def close(self, reason: str) -> None:
        """Close the connection, with one line in the log that says why."""
        self.connection.close(f"{self.api.name} v{self.version}: {reason}")

    def count_error(self, code: int) -> None:
        """Note an error code that goes into the answer, for the statistics."""
        self.port_state.count_error(self.api.key, code)
