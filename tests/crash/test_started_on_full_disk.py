"""A broker that is started on a full disk serves readers, and lets its queues be worked off."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

import penstock
from penstock import Client
from penstock.core.errors import StorageFull
from tests.cluster.clients import READER
from tests.cluster.processes import Cluster
from tests.crash.images import mounted_memory, mounting_missing
from tests.interop.served import Answer, Served

pytestmark = [pytest.mark.slow, pytest.mark.crash]

NODE = 1
DISK_BYTES = 40 << 20
FLAGS = ("--storage.segment-size=1MiB", "--storage.ballast-size=2MiB")
WITHIN_SECONDS = 120.0
QUEUE = "work"
BODY_BYTES = 200_000
READ_MESSAGES = 20


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """One node; its data lies on a small disk, its log and its ready file do not."""
    if (missing := mounting_missing()) is not None:
        pytest.skip(missing)
    with contextlib.ExitStack() as stack:
        # Made before the disk is mounted, closed after the node: a disk in use stays mounted.
        one = Cluster(tmp_path, nodes=1, shards=2, flags=FLAGS)
        stack.enter_context(mounted_memory(DISK_BYTES, str(one.nodes[NODE].data)))
        stack.enter_context(one)
        yield one


def connect(cluster: Cluster) -> Client:
    return penstock.connect(f"penstock://{cluster.bootstrap}")


async def send_until_refused(client: Client) -> list[bytes]:
    queue = client.queue(QUEUE, codec=bytes)
    await queue.create(partitions=1)
    sent: list[bytes] = []
    random = Random(1)  # What compresses well fills no disk.
    with contextlib.suppress(StorageFull):
        while True:
            body = random.randbytes(BODY_BYTES)
            await queue.send(body)
            sent.append(body)
    return sent


def read_by_kafka(cluster: Cluster, count: int) -> list[bytes]:
    """The first messages, in order."""
    consumer = Consumer({**READER, "bootstrap.servers": cluster.bootstrap, "group.id": "reader"})
    consumer.assign([TopicPartition(QUEUE, 0, OFFSET_BEGINNING)])
    found: list[bytes] = []
    try:
        while len(found) < count:
            message = consumer.poll(WITHIN_SECONDS)
            assert message is not None
            assert message.error() is None
            value = message.value()
            assert value is not None
            found.append(value)
    finally:
        consumer.close()
    return found


async def work_off(client: Client) -> list[bytes]:
    queue = client.queue(QUEUE, codec=bytes)
    done: list[bytes] = []
    while messages := await queue.receive(10, wait=1.0):
        assert await queue.ack(messages) == len(messages)
        done += [message.body for message in messages]
    return done


async def send_when_possible(client: Client) -> None:
    queue = client.queue(QUEUE, codec=bytes)
    while True:
        with contextlib.suppress(StorageFull):
            await queue.send(b"there is room again")
            return
        await asyncio.sleep(0.1)


def fill_up(file: Path) -> None:
    """Take all the space that is left."""
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as filler:
        while True:
            filler.write(b"x" * 4096)


def readiness(cluster: Cluster) -> Answer:
    return Served(cluster).ask("GET", "/readyz")


def test_a_broker_started_on_a_full_disk_is_worked_off(cluster: Cluster) -> None:
    async def fill() -> list[bytes]:
        async with connect(cluster) as client:
            return await send_until_refused(client)

    async def empty(sent: list[bytes]) -> None:
        async with asyncio.timeout(WITHIN_SECONDS), connect(cluster) as client:
            with pytest.raises(StorageFull, match="the disk is full"):
                await client.queue(QUEUE, codec=bytes).send(b"one more")
            assert await work_off(client) == sent
            await send_when_possible(client)
            assert await work_off(client) == [b"there is room again"]

    cluster.start()
    sent = asyncio.run(fill())
    assert len(sent) > READ_MESSAGES
    filler = cluster.nodes[NODE].data / "filler"
    for to_the_last_byte in (False, True):
        cluster.kill(NODE)
        if to_the_last_byte:
            fill_up(filler)
        cluster.start()
        answer = readiness(cluster)
        assert (answer.status, answer.document["ready"]) == (200, True)
        assert "the disk is full" in " ".join(answer.document["warnings"])
        assert read_by_kafka(cluster, READ_MESSAGES) == sent[:READ_MESSAGES]
    filler.unlink()
    asyncio.run(empty(sent))
    assert readiness(cluster).document == {"ready": True, "problems": [], "warnings": []}
    assert not cluster.complaints(), "\n".join(cluster.complaints())
