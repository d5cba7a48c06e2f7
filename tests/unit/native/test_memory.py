"""What native clients can make a broker hold: over real sockets, counted by the memory budget."""

import asyncio
import contextlib
from pathlib import Path

from penstock.core import limits
from penstock.core.limits import KIB, MIB
from penstock.core.memory_budget import MemoryBudget
from penstock.core.topic import Topic
from penstock.engine.topics.topics import Acks
from penstock.native.listener import NativeConnections
from penstock.wire.frames import Kind, write_prefix
from penstock.wire.read_requests import Fetch, Fetched, FetchPart
from penstock.wire.requests import AskCluster, ClusterInfo, ReceiveRequest, ReceiveResponse
from tests.batches import build_batch
from tests.kafka_broker import Broker
from tests.unit.native.test_connection import RawClient, play

BATCHES = 24
BATCH = 1 * MIB
TURNS = 2_000
"""How often the loop may turn while a client does not read."""


async def filled_topic(broker: Broker) -> Topic:
    topics = broker.node.engine.topics
    topic = await topics.create_topic("orders", 1, {})
    for _ in range(BATCHES):
        await topics.produce(topic, 0, build_batch(value=bytes(BATCH - KIB)), Acks.ALL)
    return topic


async def most_held(memory: MemoryBudget) -> int:
    """The most that is held while the loop turns for a while."""
    most = 0
    for _ in range(TURNS):
        await asyncio.sleep(0)
        most = max(most, memory.held)
    return most


def test_pipelined_fetches_hold_no_more_than_a_connection_may(tmp_path: Path) -> None:
    memory = MemoryBudget(64 * MIB)

    async def scene(broker: Broker) -> None:
        topic = await filled_topic(broker)
        client = await RawClient.open(broker)
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        wanted = Fetch((FetchPart(topic.topic_id, 0, 0),), 4 * MIB, 60_000)
        for number in range(50):
            client.send(number, wanted)
        # What a connection may have read, and a batch that did not fit any more.
        assert await most_held(memory) <= memory.connection_max + 2 * BATCH
        client.reader._transport.resume_reading()  # type: ignore[attr-defined]
        seen = set()
        for _ in range(50):
            number, answer, payload = await client.answer()
            assert isinstance(answer, Fetched)
            assert len(payload) >= BATCH - KIB, "it waits for memory and gets at least one batch"
            seen.add(number)
        assert len(seen) == 50
        await client.close()

    play(scene, tmp_path, memory)
    assert not memory.held


def test_pipelined_receives_hold_no_more_than_a_connection_may(tmp_path: Path) -> None:
    memory = MemoryBudget(64 * MIB)

    async def scene(broker: Broker) -> None:
        topic = await filled_topic(broker)
        client = await RawClient.open(broker)
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        count = 2 * BATCHES
        for number in range(count):
            wanted = ReceiveRequest(topic.topic_id, "queue", 20, 16 * MIB, 60_000, 1_000)
            client.send(number, wanted)
        assert await most_held(memory) <= memory.connection_max + 2 * BATCH
        client.reader._transport.resume_reading()  # type: ignore[attr-defined]
        offsets: list[int] = []
        for _ in range(count):
            _, answer, _ = await client.answer()
            assert isinstance(answer, ReceiveResponse)
            for part in answer.parts:
                for first, end, deliveries, _ in part.runs:
                    assert deliveries == 1, "what found no memory was not delivered"
                    offsets += range(first, end)
        assert sorted(offsets) == list(range(BATCHES))
        await client.close()

    play(scene, tmp_path, memory)
    assert not memory.held


def test_a_request_that_waits_holds_more_than_its_bytes(tmp_path: Path) -> None:
    memory = MemoryBudget(64 * MIB)

    async def scene(broker: Broker) -> None:
        topic = await broker.node.engine.topics.create_topic("orders", 1, {})
        client = await RawClient.open(broker)
        for number in range(100):
            client.send(number, ReceiveRequest(topic.topic_id, "queue", 10, 1 << 20, -1, 60_000))
        while memory.held < 100 * limits.NATIVE_REQUEST_COST_BYTES:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for number in range(100):
            client.writer.write(write_prefix(Kind.WITHDRAWAL, number, 0, 0))
        for _ in range(100):
            await client.answer()
        while memory.held:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await client.close()

    play(scene, tmp_path, memory)
    assert not memory.held


def test_unfinished_frames_hold_what_has_come(tmp_path: Path) -> None:
    memory = MemoryBudget(64 * MIB)

    async def scene(broker: Broker) -> None:
        prefix = write_prefix(Kind.REQUEST, 1, 8, limits.NATIVE_REQUEST_BYTES_MAX - 100)
        async with contextlib.AsyncExitStack() as clients:
            opened = [await RawClient.open(broker) for _ in range(30)]
            for client in opened:
                clients.push_async_callback(client.close)
                client.writer.write(prefix)
            while memory.held < 30 * limits.FRAME_BYTES_MIN:  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert await most_held(memory) == 30 * limits.FRAME_BYTES_MIN
            opened[0].writer.write(bytes(100 * KIB))
            while memory.held == 30 * limits.FRAME_BYTES_MIN:  # noqa: ASYNC110
                await asyncio.sleep(0)
            beyond = await most_held(memory) - 30 * limits.FRAME_BYTES_MIN
            assert 100 * KIB <= beyond <= 4 * 100 * KIB

    play(scene, tmp_path, memory)
    assert not memory.held


def test_frames_that_fill_the_memory_wait_and_small_requests_are_served(tmp_path: Path) -> None:
    memory = MemoryBudget(16 * MIB)

    async def scene(broker: Broker) -> None:
        prefix = write_prefix(Kind.REQUEST, 1, 8, limits.NATIVE_REQUEST_BYTES_MAX - 100)
        async with contextlib.AsyncExitStack() as clients:
            opened = [await RawClient.open(broker) for _ in range(8)]
            for client in opened:
                clients.push_async_callback(client.close)
                client.writer.write(prefix)
            while memory.held < 8 * limits.FRAME_BYTES_MIN:  # noqa: ASYNC110
                await asyncio.sleep(0)  # A frame that arrives alone may be larger than everything.
            for client in opened:
                client.writer.write(bytes(8 * MIB))
            while not memory.statistics().waiting:  # noqa: ASYNC110
                await asyncio.sleep(0)
            most = await most_held(memory)
            # There was room when the last buffer began to grow, and it has grown once.
            assert most <= memory.address_max + 4 * MIB
            good = await RawClient.open(broker)
            clients.push_async_callback(good.close)
            good.send(1, AskCluster())
            assert isinstance((await good.answer())[1], ClusterInfo)

    play(scene, tmp_path, memory)
    assert not memory.held


def test_a_lost_connection_keeps_no_buffer_until_garbage_is_collected(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        native = broker.listener._port_state.native_listener
        assert isinstance(native, NativeConnections)
        client = await RawClient.open(broker)
        client.writer.write(
            write_prefix(Kind.REQUEST, 1, 8, limits.NATIVE_REQUEST_BYTES_MAX - 100) + bytes(MIB)
        )
        while not native.connections:  # noqa: ASYNC110
            await asyncio.sleep(0)
        (connection,) = native.connections
        stream = connection._stream
        while stream.held_bytes < MIB:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await client.close()
        while native.connections:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert not stream.held_bytes

    play(scene, tmp_path)


def test_a_silent_connection_is_closed(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        native = broker.listener._port_state.native_listener
        assert native is not None
        topic = await broker.node.engine.topics.create_topic("orders", 1, {})
        silent, waiting = await RawClient.open(broker), await RawClient.open(broker)
        waiting.send(1, ReceiveRequest(topic.topic_id, "queue", 10, 1 << 20, -1, 60_000))
        waiting.send(2, AskCluster())
        await waiting.answer()
        begun_ms = broker.node.engine.topics.clock.monotonic_ms()
        native.sweep(begun_ms)
        native.sweep(begun_ms + limits.KAFKA_CONNECTION_IDLE_MS - 1)
        assert len(native) == 2
        native.sweep(begun_ms + limits.KAFKA_CONNECTION_IDLE_MS)
        assert await silent.is_hung_up()
        assert len(native) == 1, "one that waits for messages is not silent"
        await silent.close()
        await waiting.close()

    play(scene, tmp_path)
