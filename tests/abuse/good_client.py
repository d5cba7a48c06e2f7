"""A well-behaved client that says how long each answer took:  python -m tests.abuse.good_client

It asks for the same few things again and again, at a small steady load, beside an attack: a produce
and its fetch by the Kafka protocol, a send and a receive by the native one and by SQS, and /livez
and /readyz on a new connection each time. One line of JSON for each answer: what, when it was first
asked, when it was answered, and how many tries failed in between. A try that fails is repeated, so
the time of an answer includes every failure.

It has a process of its own, so that the attacker's work is not counted as the broker's. What the
machine itself costs is measured in the same run by an echo server in a further process (`echo`):
the same client, the same kind of question, and no broker.
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import penstock
from penstock.client.client import Client
from penstock.core.errors import PenstockError
from tests.abuse.hostile_batches import honest, values_of
from tests.abuse.kafka_wire import (
    Address,
    KafkaConnection,
    create_topic,
    fetch_frame,
    leader_of,
    produce,
)
from tests.abuse.streams import HttpConnection

PAUSE_SECONDS = 0.02
TRY_SECONDS = 60.0
AGAIN_SECONDS = 0.02
TOPIC = "steady"
QUEUE = "steady-native"
SQS_QUEUE = "steady-sqs"
_TROUBLE = (OSError, EOFError, ValueError, AssertionError, TimeoutError, PenstockError)

Ask = Callable[[], Awaitable[None]]


class GoodClient:
    """All its conversations. Each is a function that asks once and raises if it failed."""

    def __init__(self, kafka: list[Address], http: Address, echo: Address) -> None:
        self._bootstrap = kafka
        self._http = http
        self._echo_address = echo
        self._kafka: KafkaConnection | None = None
        self._native: Client | None = None
        self._sqs: HttpConnection | None = None
        self._echo: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def kafka(self) -> None:
        """Append a message and read it."""
        try:
            if self._kafka is None:
                self._kafka = await self._connect_kafka()
            row = await produce(self._kafka, TOPIC, 0, honest([b"steady"]))
            assert row.error_code == 0, f"error {row.error_code}"
            self._kafka.writer.write(
                fetch_frame(TOPIC, [(0, row.base_offset)], bytes_max=1 << 16, wait_ms=100)
            )
            answer = await self._kafka.answer(1, 11)
            (part,) = answer.responses[0].partitions
            assert values_of(bytes(part.records or b""))[:1] == [b"steady"], "it is not there"
        except BaseException:
            if self._kafka is not None:
                self._kafka.close()
            self._kafka = None
            raise

    async def _connect_kafka(self) -> KafkaConnection:
        for address in self._bootstrap:
            with contextlib.suppress(OSError, EOFError):
                await create_topic(address, TOPIC, 1)
                leader = await leader_of(address, TOPIC)
                if leader is not None:
                    return await KafkaConnection.open(leader)
        raise OSError("no node names a leader")

    async def native(self) -> None:
        """Send a message to a queue, and receive what is there."""
        if self._native is None:
            nodes = ",".join(f"{host}:{port}" for host, port in self._bootstrap)
            self._native = penstock.connect(f"penstock://{nodes}")
            await self._native.__aenter__()
        queue = self._native.queue(QUEUE)
        await queue.send(b"steady")
        for message in await queue.receive(10, wait=1):
            await message.ack()

    async def sqs(self) -> None:
        """The same by SQS."""
        try:
            if self._sqs is None:
                self._sqs = await HttpConnection.open(self._http)
            made = await self._sqs.sqs("CreateQueue", {"QueueName": SQS_QUEUE})
            url = {"QueueUrl": made["QueueUrl"]}
            await self._sqs.sqs("SendMessage", {**url, "MessageBody": "steady"})
            got = await self._sqs.sqs("ReceiveMessage", {**url, "MaxNumberOfMessages": 10})
            for message in got.get("Messages", ()):
                await self._sqs.sqs(
                    "DeleteMessage", {**url, "ReceiptHandle": message["ReceiptHandle"]}
                )
        except BaseException:
            if self._sqs is not None:
                self._sqs.close()
            self._sqs = None
            raise

    async def livez(self) -> None:
        """The loop turns."""
        await self._health("/livez")

    async def readyz(self) -> None:
        """The broker serves."""
        await self._health("/readyz")

    async def _health(self, path: str) -> None:
        connection = await HttpConnection.open(self._http)
        try:
            status, _, body = await connection.ask("GET", path)
            assert status == 200, f"{path}: {status} {body[:200]!r}"
        finally:
            connection.close()

    async def echo(self) -> None:
        """What the machine costs, without a broker."""
        if self._echo is None:
            self._echo = await asyncio.open_connection(*self._echo_address)
        reader, writer = self._echo
        writer.write(b"steady\n")
        assert await reader.readline() == b"steady\n"

    def conversations(self) -> dict[str, Ask]:
        """What it asks, by name."""
        return {
            "kafka": self.kafka,
            "native": self.native,
            "sqs": self.sqs,
            "livez": self.livez,
            "readyz": self.readyz,
            "echo": self.echo,
        }


async def converse(name: str, ask: Ask) -> None:
    """Ask for ever."""
    while True:
        began, failures, why = time.monotonic(), 0, ""
        while True:
            try:
                async with asyncio.timeout(TRY_SECONDS):
                    await ask()
                break
            except _TROUBLE as error:
                failures, why = failures + 1, repr(error)[:200]
                await asyncio.sleep(AGAIN_SECONDS)
        print(json.dumps([name, began, time.monotonic(), failures, why]), flush=True)
        await asyncio.sleep(PAUSE_SECONDS)


async def _serve_echo() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def _start_echo() -> "tuple[subprocess.Popen[bytes], int]":
    echo = subprocess.Popen(
        [sys.executable, "-m", "tests.abuse.good_client", "--echo"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert echo.stdout is not None
    return echo, int(echo.stdout.readline())


async def _serve_good(options: argparse.Namespace) -> None:
    echo, port = _start_echo()
    client = GoodClient(
        [address_of(one) for one in options.kafka.split(",")],
        address_of(options.http),
        ("127.0.0.1", port),
    )
    tasks = [
        asyncio.create_task(converse(name, ask)) for name, ask in client.conversations().items()
    ]
    # Its parent closes the pipe when it has seen enough, or has died.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for task in tasks:
        task.cancel()
    assert echo.stdin is not None
    echo.stdin.close()
    await asyncio.to_thread(echo.wait, 10)


def address_of(text: str) -> Address:
    """What a flag says as HOST:PORT."""
    host, port = text.rsplit(":", 1)
    return host, int(port)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kafka", default="")
    parser.add_argument("--http", default="")
    parser.add_argument("--echo", action="store_true")
    chosen = parser.parse_args()
    asyncio.run(_serve_echo() if chosen.echo else _serve_good(chosen))
