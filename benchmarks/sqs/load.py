"""A client of SQS that costs next to nothing: requests made beforehand, sent over plain sockets.

An SDK spends a hundred times as long on a request as a broker does, most of it on signing. So the
requests here are bytes that were made once, as boto3 would make them but for a signature that is
none; of the answers, only the receipt handles are read. Each connection has one request under way.
All of it is one process's, with a loop.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
import uvloop

from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.orders import Moved

BATCH = 10
"""SQS's largest batch."""
_EMPTY_RECEIVES_MAX = 3
"""In a row, by which a connection takes a queue to be empty."""
_HEAD = (
    "POST / HTTP/1.1\r\nHost: {host}\r\nX-Amz-Target: AmazonSQS.{action}\r\n"
    "Content-Type: application/x-amz-json-1.0\r\nx-amzn-query-mode: true\r\n"
    "User-Agent: Boto3/1.40 md/Botocore#1.40 ua/2.1 os/linux lang/python#3.12\r\n"
    "X-Amz-Date: 20260131T000000Z\r\n"
    "Authorization: AWS4-HMAC-SHA256 Credential=benchmark/20260131/us-east-1/sqs/aws4_request, "
    "SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=" + "0" * 64 + "\r\n"
    "amz-sdk-invocation-id: 00000000-0000-4000-8000-000000000000\r\n"
    "amz-sdk-request: attempt=1\r\nContent-Length: {length}\r\n\r\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to do, where, over how many connections and for how long."""

    host: str
    """With its port."""
    queue_url: str
    connections: int
    seconds: float
    body_bytes: int = 100


class _Received(msgspec.Struct, rename="pascal"):
    receipt_handle: str


class _Answer(msgspec.Struct, rename="pascal"):
    messages: list[_Received] = []
    queue_url: str = ""
    failed: list[msgspec.Raw] = []


_DECODER = msgspec.json.Decoder(_Answer)


class _Line(asyncio.Protocol):
    """A connection that sends a request and hands out the answer's body; made again if closed."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def ask(self, request: bytes) -> "asyncio.Future[bytes]":
        assert self.transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        end = received.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        head = bytes(received[:end]).lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 : head.index(b"\r\n", at)])
        if len(received) < end + length or self._answer is None:
            return
        body = bytes(received[end : end + length])
        received.clear()
        if b"\r\nconnection: close\r\n" in head and self.transport is not None:
            self.transport.close()
            self.transport = None
        answer, self._answer = self._answer, None
        if head[9:12] == b"200":
            answer.set_result(body)
        else:
            answer.set_exception(ClientFailed(f"{head[:200]!r} {body[:200]!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ClientFailed(f"the server hung up: {exc}"))


class _Caller:
    def __init__(self, host: str) -> None:
        self._host, _, port = host.rpartition(":")
        self._port = int(port)
        self._line: _Line | None = None

    async def ask(self, request: bytes) -> bytes:
        line = self._line
        if line is None or line.transport is None or line.transport.is_closing():
            loop = asyncio.get_running_loop()
            _, line = await loop.create_connection(_Line, self._host, self._port)
            self._line = line
        return await line.ask(request)

    def close(self) -> None:
        if self._line is not None and self._line.transport is not None:
            self._line.transport.close()


@asynccontextmanager
async def _calling(host: str) -> AsyncIterator[_Caller]:
    caller = _Caller(host)
    try:
        yield caller
    finally:
        caller.close()


def request(host: str, action: str, document: object) -> bytes:
    """A request as it goes over the wire."""
    body = msgspec.json.encode(document)
    return _HEAD.format(host=host, action=action, length=len(body)).encode() + body


def create_queue(host: str, name: str) -> str:
    """Make a queue; returns its URL."""

    async def run() -> str:
        async with _calling(host) as caller:
            body = await caller.ask(request(host, "CreateQueue", {"QueueName": name}))
            return _DECODER.decode(body).queue_url

    return uvloop.run(run())


def send(order: Order) -> Moved:
    """One message a request, until the time is over."""
    asked = request(
        order.host,
        "SendMessage",
        {"QueueUrl": order.queue_url, "MessageBody": "x" * order.body_bytes},
    )
    return _run(order, lambda deadline: _send_on(order.host, asked, 1, deadline))


def send_batches(order: Order) -> Moved:
    """Ten messages a request, until the time is over."""
    entries = [
        {"Id": str(number), "MessageBody": "x" * order.body_bytes} for number in range(BATCH)
    ]
    asked = request(
        order.host, "SendMessageBatch", {"QueueUrl": order.queue_url, "Entries": entries}
    )
    return _run(order, lambda deadline: _send_on(order.host, asked, BATCH, deadline))


def receive_and_delete(order: Order) -> Moved:
    """Up to ten messages a request, each deleted, until the time is over or the queue is empty."""
    return _run(order, lambda deadline: _drain(order, deadline))


def _run(order: Order, work: Callable[[float], Awaitable[int]]) -> Moved:
    async def all_connections() -> int:
        deadline = time.monotonic() + order.seconds
        counts = await asyncio.gather(*(work(deadline) for _ in range(order.connections)))
        return sum(counts)

    began, cpu = time.monotonic(), time.process_time()
    messages = uvloop.run(all_connections())
    return Moved(messages, time.monotonic() - began, time.process_time() - cpu)


async def _send_on(host: str, asked: bytes, messages: int, deadline: float) -> int:
    sent = 0
    async with _calling(host) as caller:
        while time.monotonic() < deadline:
            answer = await caller.ask(asked)
            if b'"Failed": [{' in answer or b'"Failed":[{' in answer:
                raise ClientFailed(f"a message was refused: {answer[:200]!r}")
            sent += messages
    return sent


async def _drain(order: Order, deadline: float) -> int:
    receive = request(
        order.host, "ReceiveMessage", {"QueueUrl": order.queue_url, "MaxNumberOfMessages": BATCH}
    )
    deleted = empty = 0
    async with _calling(order.host) as caller:
        while time.monotonic() < deadline and empty < _EMPTY_RECEIVES_MAX:
            messages = _DECODER.decode(await caller.ask(receive)).messages
            if not messages:
                empty += 1
                continue
            empty = 0
            entries = [
                {"Id": str(number), "ReceiptHandle": one.receipt_handle}
                for number, one in enumerate(messages)
            ]
            document = {"QueueUrl": order.queue_url, "Entries": entries}
            answer = await caller.ask(request(order.host, "DeleteMessageBatch", document))
            if _DECODER.decode(answer).failed:
                raise ClientFailed(f"a message was not deleted: {answer[:200]!r}")
            deleted += len(messages)
    return deleted
