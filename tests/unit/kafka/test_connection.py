"""Frames, order, bounds and ends of a connection, without an engine behind it.

Long because each bound of a connection has its attack.
"""

import asyncio
import logging
import math
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest

from penstock.core import limits
from penstock.core.errors import InvalidRequest, Unavailable
from penstock.core.memory_budget import STALL_MS, MemoryBudget
from penstock.engine.engine import Engine
from penstock.engine.replica import time_slices
from penstock.engine.topics.traffic import Traffic
from penstock.kafka import KafkaListener, KafkaSettings
from penstock.kafka.api import Api, Start
from penstock.kafka.codec import Answer, Message
from penstock.kafka.connection import LINGER_SECONDS, Connection
from penstock.kafka.context import Context
from penstock.kafka.listener import HANG_UP_MS_MAX, HANG_UP_MS_MIN
from penstock.kafka.table import TABLE
from penstock.testing import ManualClock
from tests.unit.kafka.wire import Run, WireClient, request_frame, wire_client

HEARTBEAT = 12
METADATA = 3


class Place:
    """A listener whose APIs do what the test wants."""

    def __init__(
        self, settings: KafkaSettings | None = None, memory: MemoryBudget | None = None
    ) -> None:
        self.clock = ManualClock()
        self.started: list[Context] = []
        self.frames: list[bytes] = []
        self.handled: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.at_once: Start | None = None
        table = {
            0: Api(0, "Produce", (3, 13), start=self._park),
            METADATA: Api(METADATA, "Metadata", (0, 13), handle=self._handle),
            11: Api(11, "JoinGroup", (0, 9), handle=self._handle_slowly),
            HEARTBEAT: Api(HEARTBEAT, "Heartbeat", (0, 4), start=self._park),
            13: Api(13, "LeaveGroup", (0, 5), handle=self._refuse),
            18: TABLE[18],
        }
        self.cut_off = False
        topics = SimpleNamespace(
            clock=self.clock,
            is_cut_off=lambda: self.cut_off,
            traffic=Traffic(),
            slow_requests=SimpleNamespace(seconds=math.inf),
        )
        engine = SimpleNamespace(topics=topics)
        self.memory = memory or MemoryBudget()
        self.listener = KafkaListener(
            cast(Engine, engine), settings, table=table, memory=self.memory
        )
        self.host = ""
        self.port = 0

    def _park(self, frame: bytearray, position: int, context: Context) -> None:
        if self.at_once is not None:
            self.at_once(frame, position, context)
            return
        self.started.append(context)
        self.frames.append(bytes(frame))

    async def _handle(self, request: Message, context: Context) -> Answer:
        return {"brokers": [], "topics": []}

    async def _handle_slowly(self, request: Message, context: Context) -> Answer:
        self.handled.append(request.group_id)
        if request.group_id == "bug":
            raise ValueError("a bug of ours")
        await self.gates[request.group_id].wait()
        return {"protocol_name": "", "leader": "", "member_id": request.group_id, "members": []}

    async def _refuse(self, request: Message, context: Context) -> Answer:
        if request.group_id == "invalid":
            raise InvalidRequest("nobody can leave this")
        raise Unavailable("not now")


@asynccontextmanager
async def open_place(
    settings: KafkaSettings | None = None, memory: MemoryBudget | None = None
) -> AsyncIterator[Place]:
    place = Place(settings, memory)
    place.host, place.port = await place.listener.start("127.0.0.1", 0)
    try:
        yield place
    finally:
        await place.listener.close(grace_seconds=0.0)


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something is so."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


async def heartbeats(place: Place, client: WireClient, count: int) -> list[Context]:
    before = len(place.started)
    for number in range(count):
        client.send(HEARTBEAT, 0, {"group_id": str(number)})
    await until(lambda: len(place.started) == before + count)
    return place.started[before:]


async def iter_started(place: Place) -> AsyncIterator[Context]:
    """Requests in the order in which they were begun."""
    begun: list[Context] = []
    while True:
        await until(lambda: len(place.started) > len(begun))
        begun.append(place.started[len(begun)])
        yield begun[-1]


def is_half_told(connection: Connection) -> bool:
    """Whether the beginning of a request has arrived."""
    return connection._frame is not None or bool(connection._rest)


def test_answers_leave_in_the_order_of_requests(run_on_each: Run) -> None:
    async def scenario() -> None:
        async with open_place() as place, wire_client(place.host, place.port) as client:
            contexts = await heartbeats(place, client, 3)
            contexts[2].answer({"error_code": 2})
            contexts[1].answer({"error_code": 1})
            assert place.listener.front_end().held_bytes["answers"] > 0
            contexts[0].answer({"error_code": 0})
            codes = [(await client.receive()).error_code for _ in range(3)]
            assert codes == [0, 1, 2]
            assert place.listener.front_end().held_bytes["answers"] == 0
            assert place.listener.front_end().held_bytes["requests"] == 0

    run_on_each(scenario())


def test_requests_may_come_byte_by_byte_and_all_at_once(run_on_each: Run) -> None:
    async def scenario() -> None:
        async with open_place() as place, wire_client(place.host, place.port) as client:
            for byte in request_frame(METADATA, 9, {"topics": None}, correlation_id=1):
                client.writer.write(bytes([byte]))
                await client.writer.drain()
                await asyncio.sleep(0)
            client._sent = [(METADATA, 9, 1)]
            await client.receive()
            client.writer.write(request_frame(METADATA, 1, {}, correlation_id=2) * 50)
            client._sent = [(METADATA, 1, 2)] * 50
            for _ in range(50):
                await client.receive()

    run_on_each(scenario())


def test_requests_that_come_at_once_share_time_slices(
    run_on_each: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_slices, "SLICE_SECONDS", 0.0)
    many = 50

    async def scenario() -> None:
        async with open_place() as place, wire_client(place.host, place.port) as client:
            place.gates["at once"] = asyncio.Event()
            place.gates["at once"].set()
            for _ in range(many):
                client.send(11, 0, {"group_id": "at once"})
            seen: set[int] = set()
            async with asyncio.timeout(60):
                while len(place.handled) < many:
                    await asyncio.sleep(0)
                    seen.add(len(place.handled))
            assert len(seen) >= many, "another task had a turn after each"

    run_on_each(scenario())


@pytest.mark.parametrize("size", [61, 60_000, 70_000, 3_000_000])
def test_large_requests_arrive_whole(run_on_each: Run, size: int) -> None:
    async def scenario() -> None:
        async with open_place() as place, wire_client(place.host, place.port) as client:
            records = bytes(number % 251 for number in range(size))
            fields = {
                "acks": 0,
                "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": records}]}],
            }
            frame = request_frame(0, 9, fields)
            client.writer.write(frame * 3)
            await until(lambda: len(place.started) == 3)
            assert place.frames == [frame[4:]] * 3
            for context in place.started:
                context.finish([])
            assert place.listener.front_end().held_bytes["requests"] == 0

    run_on_each(scenario())


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">ih", -1, 0) + bytes(20),
        struct.pack(">ih", 0, 0) + bytes(20),
        struct.pack(">ih", 9, 0) + bytes(20),
        struct.pack(">ih", limits.KAFKA_REQUEST_BYTES_MAX + 1, 0) + bytes(20),
        struct.pack(">ih", limits.KAFKA_CONTROL_REQUEST_BYTES_MAX + 1, 3) + bytes(20),
        struct.pack(">ihhih", 20, 500, 0, 1, 0) + bytes(30),
        struct.pack(">ihhih", 20, 3, 99, 1, 0) + bytes(30),
        struct.pack(">ihhih", 20, 3, 1, 1, 1000) + bytes(30),
        struct.pack(">ihhih", 12, 3, 1, 1, 2) + b"\xff\xfe" + bytes(30),
        struct.pack(">ihhih", 14, 3, 1, 1, 0) + b"\x7f\xff\xff\xff" + bytes(30),
    ],
    ids=[
        "negative", "zero", "no header", "too long", "too long for its API", "unknown API",
        "unknown version", "client id too long", "client id not text", "malformed body",
    ],
)  # fmt: skip
def test_what_is_no_request_ends_the_connection_with_one_line(
    run: Run, frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with open_place() as place:
            async with wire_client(place.host, place.port) as client:
                client.writer.write(frame)
                assert await client.is_closed()
            async with wire_client(place.host, place.port) as client:
                await client.call(METADATA, 0, {})
            statistics = place.listener.front_end()
            assert statistics.faulted == 1
            assert statistics.held_bytes["requests"] == 0

    with caplog.at_level(logging.WARNING):
        run(scenario())
    assert len(caplog.records) == 1


def test_a_newer_api_versions_is_answered_in_the_oldest(run: Run) -> None:
    async def scenario() -> None:
        async with open_place() as place, wire_client(place.host, place.port) as client:
            body = struct.pack(">hhih", 18, 99, 5, 2) + b"me" + b"whatever that is"
            client.writer.write(struct.pack(">i", len(body)) + body)
            client._sent = [(18, 0, 5)]
            answer = await client.receive()
            assert answer.error_code == 35
            assert {row.api_key for row in answer.api_keys} == {0, 3, 11, 12, 13, 18}
            answer = await client.call(18, 3, {"client_software_name": "x"})
            assert answer.error_code == 0

    run(scenario())


def test_other_requests_go_on_while_one_waits_its_turn(run: Run) -> None:
    async def scenario() -> None:
        async with open_place() as place, wire_client(place.host, place.port) as client:
            place.gates = {"a": asyncio.Event(), "b": asyncio.Event()}
            client.send(11, 0, {"group_id": "a"})
            client.send(11, 0, {"group_id": "b"})
            client.send(HEARTBEAT, 0, {})
            await until(lambda: place.started and place.handled)
            place.started[0].answer({})
            assert place.handled == ["a"], "the second waits for the first, as in Kafka"
            place.gates["b"].set()
            place.gates["a"].set()
            assert (await client.receive()).member_id == "a"
            assert (await client.receive()).member_id == "b"
            await client.receive()

    run(scenario())


def test_refusals_are_answered_with_their_code(run: Run) -> None:
    async def scenario() -> None:
        async with open_place() as place, wire_client(place.host, place.port) as client:
            for version in range(6):
                assert (await client.call(13, version, {"group_id": "invalid"})).error_code == 42
                assert (await client.call(13, version, {"group_id": "g"})).error_code == 7
            assert place.listener.front_end().requests.errors == {
                ("LeaveGroup", "INVALID_REQUEST"): 6,
                ("LeaveGroup", "REQUEST_TIMED_OUT"): 6,
            }

    run(scenario())


def test_a_failure_ends_its_connection_and_no_other(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with (
            open_place() as place,
            wire_client(place.host, place.port) as bad,
            wire_client(place.host, place.port) as good,
        ):
            bad.send(11, 0, {"group_id": "bug"})
            assert await bad.is_closed()
            await good.call(METADATA, 0, {})

    with caplog.at_level(logging.ERROR):
        run(scenario())
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_a_client_that_goes_away_ends_what_it_waits_for(run: Run) -> None:
    async def scenario() -> None:
        async with open_place() as place:
            hurried: list[bool] = []
            async with wire_client(place.host, place.port) as client:
                place.gates = {"a": asyncio.Event()}
                client.send(11, 0, {"group_id": "a"})
                (context,) = await heartbeats(place, client, 1)
                context.on_cancel = lambda: hurried.append(context.abandoned)
            await until(lambda: place.listener.front_end().connections == 0)
            assert hurried == [True]
            context.answer({})  # Nobody is there to get it.
            assert place.listener.front_end().held_bytes["requests"] == 0

    run(scenario())


# Bounds.


def test_too_many_requests_wait_outside(run_on_each: Run) -> None:
    async def scenario() -> None:
        async with open_place() as place, wire_client(place.host, place.port) as client:
            count = limits.KAFKA_CONNECTION_REQUESTS_MAX
            for _ in range(count + 100):
                client.send(HEARTBEAT, 0, {})
            await until(lambda: len(place.started) == count)
            for _ in range(50):
                await asyncio.sleep(0)
            assert len(place.started) == count
            started = iter_started(place)
            for _ in range(count + 100):
                (await anext(started)).answer({})
            for _ in range(count + 100):
                await client.receive()

    run_on_each(scenario())


def test_a_client_that_does_not_read_is_not_served_further(run_on_each: Run) -> None:
    async def scenario() -> None:
        async with open_place() as place, wire_client(place.host, place.port) as client:
            (first,) = await heartbeats(place, client, 1)
            large = bytes(32 * limits.MIB)
            first.finish([struct.pack(">i", len(large)), large])
            await until(lambda: place.listener.front_end().held_bytes["answers"] > 0)
            client.send(HEARTBEAT, 0, {})
            for _ in range(50):
                await asyncio.sleep(0)
            assert len(place.started) == 1
            await client.reader.readexactly(4 + len(large))
            await until(lambda: len(place.started) == 2)
            assert place.listener.front_end().held_bytes["answers"] == 0

    run_on_each(scenario())


def test_all_requests_together_are_bounded(run_on_each: Run) -> None:
    async def scenario() -> None:
        async with (
            open_place(memory=MemoryBudget(4 * limits.MIB)) as place,
            wire_client(place.host, place.port) as one,
            wire_client(place.host, place.port) as other,
        ):
            frame = struct.pack(">ihhih", 3 * limits.MIB, 0, 9, 1, 0)
            frame += bytes(3 * limits.MIB - 10)
            one.writer.write(frame)
            await until(lambda: len(place.started) == 1)
            other.writer.write(frame)
            front_end = place.listener.front_end
            await until(lambda: place.memory.statistics().waiting == 1)
            for _ in range(50):
                await asyncio.sleep(0)
            assert len(place.started) == 1, "half of the second request is here and has to wait"
            assert front_end().held_bytes["requests"] <= 4 * limits.MIB
            place.started[0].finish([])
            await until(lambda: len(place.started) == 2)
            place.started[1].finish([])
            assert front_end().held_bytes["requests"] == 0

    run_on_each(scenario())


def test_a_claimed_length_reserves_little(run: Run) -> None:
    async def scenario() -> None:
        async with open_place() as place, wire_client(place.host, place.port) as client:
            client.writer.write(struct.pack(">ihhih", limits.KAFKA_REQUEST_BYTES_MAX, 0, 9, 1, 0))
            await until(lambda: place.memory.held)
            assert place.memory.held == limits.FRAME_BYTES_MIN

    run(scenario())


def test_answers_of_one_turn_are_counted(run_on_each: Run) -> None:
    """Pipelined requests that are answered at once: the answers have not left yet, but they are
    there."""

    async def scenario() -> None:
        answer = bytes(limits.KAFKA_CONNECTION_UNSENT_BYTES_MAX // 2)

        def answer_at_once(frame: bytearray, position: int, context: Context) -> None:
            place.started.append(context)
            context.finish([struct.pack(">i", len(answer)), answer])

        async with open_place() as place, wire_client(place.host, place.port) as client:
            place.at_once = answer_at_once
            # In one packet, so that one turn of the loop has them all.
            client.writer.write(request_frame(HEARTBEAT, 0, {}) * 1_000)
            await until(lambda: place.started)
            assert len(place.started) == 2
            assert place.memory.held <= 2 * (len(answer) + 4) + 64 * limits.KIB
            for count in range(1, 11):
                await client.reader.readexactly(4 + len(answer))
                assert len(place.started) <= count + 3
            assert place.memory.held_by("kafka")["answers"] <= 3 * (len(answer) + 4)
        await until(lambda: not place.memory.held)

    run_on_each(scenario())


def test_begun_requests_of_many_connections_hold_little(run: Run) -> None:
    """A connection is charged for what has come, not for what it announces; others are served."""

    async def scenario() -> None:
        beginning = struct.pack(">ihh", limits.KAFKA_REQUEST_BYTES_MAX, 0, 9)
        async with open_place() as place, AsyncExitStack() as opened:
            for _ in range(150):
                one = await opened.enter_async_context(wire_client(place.host, place.port))
                one.writer.write(beginning)
            await until(lambda: place.memory.held == 150 * limits.FRAME_BYTES_MIN)
            good = await opened.enter_async_context(wire_client(place.host, place.port))
            await good.call(METADATA, 0, {})
        await until(lambda: not place.memory.held)

    run(scenario())


def test_small_requests_are_served_when_memory_is_full(run_on_each: Run) -> None:
    async def scenario() -> None:
        memory = MemoryBudget(8 * limits.MIB)
        async with (
            open_place(memory=memory) as place,
            wire_client(place.host, place.port) as one,
            wire_client(place.host, place.port) as large,
            wire_client(place.host, place.port) as small,
        ):
            frame = struct.pack(">ihhih", 7 * limits.MIB, 0, 9, 1, 0) + bytes(7 * limits.MIB - 10)
            one.writer.write(frame)
            await until(lambda: len(place.started) == 1)
            large.writer.write(frame)
            await until(lambda: memory.statistics().waiting == 1)
            await small.call(METADATA, 0, {})
            assert len(place.started) == 1

    run_on_each(scenario())


def test_a_stalled_request_makes_room_for_one_that_waits(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        memory = MemoryBudget(8 * limits.MIB)
        async with (
            open_place(memory=memory) as place,
            wire_client(place.host, place.port) as stalled,
            wire_client(place.host, place.port) as good,
        ):
            frame = struct.pack(">ihhih", 7 * limits.MIB, 0, 9, 1, 0) + bytes(7 * limits.MIB - 10)
            stalled.writer.write(frame[:-1])
            await until(lambda: memory.held >= 7 * limits.MIB)
            good.writer.write(frame)
            await until(lambda: memory.statistics().waiting == 1)
            for _ in range(3):
                place.clock.advance(STALL_MS)
                place.listener.sweep()
            assert await stalled.is_closed()
            await until(lambda: len(place.started) == 1)
            assert memory.statistics().evicted == {"kafka": 1}

    with caplog.at_level(logging.WARNING):
        run(scenario())
    (text,) = [record.getMessage() for record in caplog.records]
    assert "memory is short" in text


def test_an_unread_answer_makes_room_for_others(run: Run) -> None:
    async def scenario() -> None:
        memory = MemoryBudget(32 * limits.MIB)
        async with (
            open_place(memory=memory) as place,
            wire_client(place.host, place.port) as unread,
            wire_client(place.host, place.port) as good,
        ):
            (context,) = await heartbeats(place, unread, 1)
            answer = bytes(64 * limits.MIB)
            context.finish([struct.pack(">i", len(answer)), answer])
            await until(lambda: memory.held > memory.bytes_max)
            good.send(HEARTBEAT, 0, {})
            await until(lambda: memory.statistics().waiting == 1)
            for _ in range(3):
                place.clock.advance(STALL_MS)
                place.listener.sweep()
            await until(lambda: len(place.started) == 2)
            assert memory.statistics().evicted == {"kafka": 1}

    run(scenario())


def test_an_address_has_only_so_many_connections(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with (
            open_place(memory=MemoryBudget(connections_per_address_max=1)) as place,
            wire_client(place.host, place.port) as first,
        ):
            await first.call(METADATA, 0, {})
            async with wire_client(place.host, place.port) as second:
                assert await second.is_closed()
            await first.call(METADATA, 0, {})
            assert place.listener.front_end().refused == 1

    with caplog.at_level(logging.WARNING):
        run(scenario())
    assert "limits.connections_per_address_max" in caplog.text


def test_connections_are_bounded(run: Run) -> None:
    async def scenario() -> None:
        async with (
            open_place(KafkaSettings(connections_max=1)) as place,
            wire_client(place.host, place.port) as first,
        ):
            await first.call(METADATA, 0, {})
            async with wire_client(place.host, place.port) as second:
                assert await second.is_closed()
            await first.call(METADATA, 0, {})
            assert place.listener.front_end().refused == 1

    run(scenario())


# Ends.


def test_a_request_that_stays_incomplete_is_given_up(run: Run) -> None:
    async def scenario() -> None:
        async with open_place() as place:
            for beginning in (b"\x00", struct.pack(">ihhih", 100_000, 0, 9, 1, 0)):
                async with wire_client(place.host, place.port) as client:
                    await heartbeats(place, client, 1)  # Waiting for an answer is no excuse.
                    client.writer.write(beginning)
                    (connection,) = place.listener._port_state.connections
                    await until(partial(is_half_told, connection))
                    place.listener.sweep()
                    place.clock.advance(limits.KAFKA_FRAME_MS_MAX - 1)
                    place.listener.sweep()
                    assert place.listener.front_end().connections == 1
                    place.clock.advance(1)
                    place.listener.sweep()
                    assert await client.is_closed()
                    await until(lambda: place.listener.front_end().connections == 0)
            assert place.listener.front_end().held_bytes["requests"] == 0

    run(scenario())


def test_a_broker_that_hears_no_leader_hangs_up_now_and_then(run: Run) -> None:
    async def scenario() -> None:
        async with open_place() as place:
            place.cut_off = True
            async with wire_client(place.host, place.port) as client:
                (context,) = await heartbeats(place, client, 1)
                place.listener.sweep()
                context.answer({})
                await client.receive()  # What is under way is finished first.
                assert await client.is_closed()
            for wait_ms in (HANG_UP_MS_MIN, 2 * HANG_UP_MS_MIN, 4 * HANG_UP_MS_MIN):
                async with wire_client(place.host, place.port) as client:
                    await client.call(METADATA, 0, {})
                    place.clock.advance(wait_ms - 1)
                    place.listener.sweep()
                    await client.call(METADATA, 0, {})  # This may be all there is left.
                    place.clock.advance(1)
                    place.listener.sweep()
                    assert await client.is_closed()
            place.cut_off = False
            async with wire_client(place.host, place.port) as client:
                place.clock.advance(HANG_UP_MS_MAX)
                place.listener.sweep()
                await client.call(METADATA, 0, {})
                place.cut_off = True
                place.listener.sweep()
                assert await client.is_closed()

    run(scenario())


def test_an_idle_connection_is_closed(run: Run) -> None:
    async def scenario() -> None:
        async with open_place() as place, wire_client(place.host, place.port) as client:
            (context,) = await heartbeats(place, client, 1)
            place.clock.advance(limits.KAFKA_CONNECTION_IDLE_MS)
            place.listener.sweep()  # Not idle: it waits for us.
            context.answer({})
            await client.receive()
            place.clock.advance(limits.KAFKA_CONNECTION_IDLE_MS - 1)
            place.listener.sweep()
            await client.call(METADATA, 0, {})
            place.listener.sweep()
            place.clock.advance(limits.KAFKA_CONNECTION_IDLE_MS)
            place.listener.sweep()
            assert await client.is_closed()
            assert place.listener.front_end().faulted == 0

    run(scenario())


def test_closing_lets_requests_finish(run_on_each: Run) -> None:
    async def scenario() -> None:
        async with open_place() as place, wire_client(place.host, place.port) as client:
            contexts = await heartbeats(place, client, 2)
            contexts[1].on_cancel = lambda: contexts[1].answer({"error_code": 1})
            closing = asyncio.create_task(place.listener.close(grace_seconds=20.0))
            await asyncio.sleep(0)
            client.send(HEARTBEAT, 0, {})
            await until(lambda: contexts[1].buffers is not None)
            contexts[0].answer({})
            assert (await client.receive()).error_code == 0
            assert (await client.receive()).error_code == 1
            assert await client.is_closed()
            client.writer.close()
            await closing
            assert len(place.started) == 2, "nothing new was begun"

    run_on_each(scenario())


def test_closing_does_not_wait_for_idle_clients(run_on_each: Run) -> None:
    """A client that never closes its end is disconnected half a second after it was asked to."""

    async def scenario() -> None:
        async with open_place() as place, wire_client(place.host, place.port) as client:
            await client.call(METADATA, 0, {})
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            async with asyncio.timeout(LINGER_SECONDS * 60):
                await place.listener.close(grace_seconds=3_600.0)

    run_on_each(scenario())


def test_closing_does_not_wait_for_ever(run_on_each: Run) -> None:
    async def scenario() -> None:
        async with open_place() as place, wire_client(place.host, place.port) as client:
            await heartbeats(place, client, 1)
            await place.listener.close(grace_seconds=0.0)
            assert await client.is_closed()

    run_on_each(scenario())


def test_a_failure_in_the_middle_of_waiting_ends_the_connection(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with open_place() as place, wire_client(place.host, place.port) as client:
            (context,) = await heartbeats(place, client, 1)
            context.fail(ValueError("a bug of ours"))
            assert await client.is_closed()
            context.fail(ValueError("and again"))

    with caplog.at_level(logging.ERROR):
        run(scenario())
    assert len(caplog.records) == 1
