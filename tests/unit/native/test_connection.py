"""Native clients at the Kafka port, over real sockets: also those that do not behave."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import penstock
from penstock.core.errors import UnknownTopic
from penstock.core.memory_budget import MemoryBudget
from penstock.wire import codec
from penstock.wire.failures import Described, remake_error
from penstock.wire.frames import GREETING, PREFIX, Kind, greet, read_prefix, write_prefix
from penstock.wire.requests import (
    Answer,
    Append,
    AskCluster,
    AskTopic,
    ClusterInfo,
    ReceiveRequest,
    Request,
    TopicInfo,
)
from tests.kafka_broker import Broker, open_broker

PATIENCE_SECONDS = 60.0


class RawClient:
    """A client that writes what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, broker: Broker, *, greets: bool = True) -> "RawClient":
        made = cls(*await asyncio.open_connection(broker.host, broker.port))
        if greets:
            made.writer.write(greet())
            await made.reader.readexactly(GREETING.size)
        return made

    def send(self, number: int, request: Request, payload: bytes = b"") -> None:
        head = codec.encode(request)
        prefix = write_prefix(Kind.REQUEST, number, len(head), len(payload))
        self.writer.write(prefix + head + payload)

    async def answer(self) -> tuple[int, Answer | Described, bytes]:
        head = read_prefix(await self.reader.readexactly(PREFIX.size), 0, 1 << 26)
        body = await self.reader.readexactly(head.head_bytes)
        payload = await self.reader.readexactly(head.payload_bytes)
        decode = codec.decode_answer if head.kind is Kind.ANSWER else codec.decode_failure
        return head.id, decode(body), payload

    async def is_hung_up(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.close()


def play(
    scene: Callable[[Broker], Awaitable[None]], data: Path, memory: MemoryBudget | None = None
) -> None:
    async def whole() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), open_broker(data, memory=memory) as broker:
            await scene(broker)

    asyncio.run(whole())


def test_a_greeting_in_single_bytes_is_understood(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        client = await RawClient.open(broker, greets=False)
        for byte in greet():
            client.writer.write(bytes([byte]))
            await client.writer.drain()
            await asyncio.sleep(0)
        assert await client.reader.readexactly(GREETING.size) == greet()
        client.send(1, AskCluster())
        _, answer, _ = await client.answer()
        assert isinstance(answer, ClusterInfo)
        assert answer.nodes[0].address == broker.address
        await client.close()

    play(scene, tmp_path)


def test_many_requests_are_answered_by_their_ids(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        client = await RawClient.open(broker)
        for number in range(200):
            client.send(number, AskCluster())
        seen = {(await client.answer())[0] for _ in range(200)}
        assert seen == set(range(200))
        await client.close()

    play(scene, tmp_path)


def test_a_refusal_is_an_answer_and_the_connection_goes_on(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        client = await RawClient.open(broker)
        client.send(1, AskTopic("nowhere"))
        _, failure, _ = await client.answer()
        assert isinstance(failure, Described)
        assert isinstance(remake_error(failure), UnknownTopic)
        client.send(2, AskTopic("somewhere", "queue"))
        assert isinstance((await client.answer())[1], TopicInfo)
        await client.close()

    play(scene, tmp_path)


@pytest.mark.parametrize(
    "garbage",
    [
        write_prefix(Kind.REQUEST, 1, 5, 0) + b"\xff\xff\xff\xff\xff",
        write_prefix(Kind.ANSWER, 1, 0, 0),
        PREFIX.pack(2**31, Kind.REQUEST, 1, 0),
        PREFIX.pack(12, 77, 1, 0) + bytes(8),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_who_sends_what_is_no_request_is_disconnected_and_nobody_else(
    garbage: bytes, tmp_path: Path
) -> None:
    async def scene(broker: Broker) -> None:
        good, bad = await RawClient.open(broker), await RawClient.open(broker)
        bad.writer.write(garbage)
        assert await bad.is_hung_up()
        good.send(1, AskCluster())
        assert isinstance((await good.answer())[1], ClusterInfo)
        await good.close()
        await bad.close()

    play(scene, tmp_path)


def test_one_id_twice_is_no_request(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        client = await RawClient.open(broker)
        client.send(1, AskTopic("orders", "queue"))
        info = (await client.answer())[1]
        assert isinstance(info, TopicInfo)
        wait = ReceiveRequest(info.topic_id, "queue", 10, 1 << 20, -1, 20_000)
        client.send(2, wait)
        client.send(2, wait)
        assert await client.is_hung_up()
        await client.close()

    play(scene, tmp_path)


def test_a_batch_that_is_none_is_refused(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        client = await RawClient.open(broker)
        client.send(1, AskTopic("orders", "queue"))
        info = (await client.answer())[1]
        assert isinstance(info, TopicInfo)
        for payload in (b"", b"x", b"\xff" * 200):
            client.send(2, Append(info.topic_id, 0), payload)
            assert isinstance((await client.answer())[1], Described)
        client.send(3, Append(info.topic_id, 99), b"\0" * 80)
        assert isinstance((await client.answer())[1], Described)
        await client.close()

    play(scene, tmp_path)


def test_a_withdrawn_wait_ends_and_leases_nothing(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        raw = await RawClient.open(broker)
        raw.send(1, AskTopic("orders", "queue"))
        info = (await raw.answer())[1]
        assert isinstance(info, TopicInfo)
        raw.send(2, ReceiveRequest(info.topic_id, "queue", 10, 1 << 20, -1, 20_000))
        raw.writer.write(write_prefix(Kind.WITHDRAWAL, 2, 0, 0))
        number, failure, _ = await raw.answer()
        assert number == 2
        assert isinstance(failure, Described)
        async with penstock.connect(f"penstock://{broker.address}") as client:
            await client.send("orders", "x")
            (message,) = await client.receive("orders")
            assert (message.body, message.deliveries) == ("x", 1)
        await raw.close()

    play(scene, tmp_path)


def test_a_lost_connection_gives_back_what_it_waited_for(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        async with penstock.connect(f"penstock://{broker.address}") as client:
            await client.create_queue("orders")
            info = await client.describe_queue("orders")
            raw = await RawClient.open(broker)
            raw.send(1, ReceiveRequest(bytes.fromhex(info.id), "queue", 10, 1 << 20, -1, 20_000))
            await client.cluster()  # The wait has begun.
            raw.writer.transport.abort()
            await client.send("orders", "x")
            (message,) = await client.receive("orders", wait=60)
            assert (message.body, message.deliveries) == ("x", 1)

    play(scene, tmp_path)


def test_a_broker_that_stops_ends_waits_and_says_why(tmp_path: Path) -> None:
    async def scene(broker: Broker) -> None:
        raw = await RawClient.open(broker)
        raw.send(1, AskTopic("orders", "queue"))
        info = (await raw.answer())[1]
        assert isinstance(info, TopicInfo)
        raw.send(2, ReceiveRequest(info.topic_id, "queue", 10, 1 << 20, -1, 20_000))
        raw.send(3, AskCluster())
        await raw.answer()
        closing = asyncio.create_task(broker.listener.close(grace_seconds=20))
        number, failure, _ = await raw.answer()
        assert (number, type(failure)) == (2, Described)
        assert await raw.is_hung_up()
        await closing
        await raw.close()

    play(scene, tmp_path)
