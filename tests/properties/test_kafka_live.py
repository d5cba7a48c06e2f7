"""Every API in every version, with sense and nonsense, against a real broker.

Requests are drawn at random, with names and numbers that often mean something, and some are damaged
on their way. Whatever comes, the broker answers or disconnects; it never fails by itself, and goes
on serving others.
"""

import asyncio
import logging
import struct
from collections.abc import Iterator
from random import Random

import pytest

from penstock.kafka.schema import Field, schema_of
from penstock.kafka.table import TABLE
from tests.batches import build_batch
from tests.kafka_broker import Broker, ThreadedBroker
from tests.unit.kafka.wire import request_frame, wire_client

NAMES = ("alpha", "beta", "nothing", "", "bad name!", "g1", "g2", "retention.ms", "consumer")
SMALL = (-3, -2, -1, -1, 0, 0, 0, 1, 1, 2, 5, 100)
ROUNDS = 12
WAIT_SECONDS_MAX = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedBroker]:
    with ThreadedBroker(tmp_path_factory.mktemp("broker")) as running:
        assert running.broker is not None
        for name in ("alpha", "beta"):
            running.call(running.broker.node.engine.topics.create_topic(name, 2, {}))
        yield running


def draw(random: Random, field: Field, version: int) -> object:
    """A value that may mean something."""
    if field.may_be_null_in(version) and field.tag is None and random.random() < 0.3:
        return None
    if field.is_array:
        one = Field(field.name, field.kind, False, field.versions, None, None, 0, field.children)
        return [draw(random, one, version) for _ in range(random.choice((0, 1, 1, 2)))]
    if field.kind == "struct":
        return draw_struct(random, field.children, version)
    if field.kind == "string":
        return random.choice(NAMES)
    if field.kind == "uuid":
        return random.choice((bytes(16), random.randbytes(16)))
    if field.kind == "records":
        return random.choice((b"", None, bytes(build_batch(3)), random.randbytes(80)))
    if field.kind == "bytes":
        return random.randbytes(random.choice((0, 3, 40)))
    if field.kind == "bool":
        return random.random() < 0.5
    if field.kind == "float64":
        return random.random()
    if field.name in ("max_wait", "timeout", "rebalance_timeout"):
        return random.choice((0, 1, 10))  # Nobody waits for long in this test.
    value = random.choice(SMALL)
    return max(value, 0) if field.kind.startswith("uint") else value


def draw_struct(random: Random, fields: tuple[Field, ...], version: int) -> dict[str, object]:
    return {
        field.name: draw(random, field, version) for field in fields if field.exists_in(version)
    }


def damaged(random: Random, frame: bytes) -> bytes:
    """The same frame with some bits turned over, behind the client's name."""
    out = bytearray(frame)
    if len(out) > 18:
        for _ in range(random.randint(1, 3)):
            out[random.randrange(18, len(out))] ^= 1 << random.randrange(8)
    return bytes(out)


async def throw(broker: Broker, key: int, random: Random) -> None:
    """A connection after the other, as the broker closes them."""
    first, last = TABLE[key].served
    for version in range(first, last + 1):
        for turn in range(ROUNDS):
            fields = draw_struct(random, schema_of(key, "request").fields, version)
            frame = request_frame(key, version, fields)
            if turn % 2:
                frame = damaged(random, frame)
            async with wire_client(broker.host, broker.port) as client:
                client.writer.write(frame)
                client.writer.write(request_frame(18, 0, {}, correlation_id=77))
                await answers_until_the_end(client.reader)


async def answers_until_the_end(stream: asyncio.StreamReader) -> None:
    """Read until the answer to the last request, or until the broker closes."""
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while True:
                (length,) = struct.unpack(">i", await stream.readexactly(4))
                data = await stream.readexactly(length)
                if struct.unpack_from(">i", data) == (77,):
                    return
    except (asyncio.IncompleteReadError, ConnectionError):
        return


@pytest.mark.slow
@pytest.mark.parametrize("key", sorted(TABLE))
def test_nothing_makes_the_broker_fail(
    key: int, broker: ThreadedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    assert broker.broker is not None
    with caplog.at_level(logging.ERROR):
        asyncio.run(throw(broker.broker, key, Random(key)))
    failures = [record.getMessage() for record in caplog.records]
    assert failures == []
