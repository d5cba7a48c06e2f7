"""A client of SQS that costs next to nothing: requests made beforehand, sent over plain sockets.

An SDK spends a hundred times as long on a request as a broker does, most of it on signing. So the
requests here are bytes that were made once, as boto3 would make them but for a signature that is
none; of the answers, only the receipt handles are read. Each connection has one request under way,
and its next one is written when the answer is read: by a call, without a task, for a task costs as
much as all the rest. All of it is one process's, with a loop.
"""

import asyncio
import time
from collections.abc import Callable, Generator
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


Script = Generator[bytes, bytes, int]
"""Yields requests and is sent the bodies of their answers; returns how many messages it moved."""


class _Line(asyncio.Protocol):
    """A connection that plays a script; made again if it is closed between two requests."""

    def __init__(self, host: str, script: Script) -> None:
        self._place = host.rpartition(":")
        self._script = script
        self._request: bytes | None = next(script, None)
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._closes = False
        self._opening: asyncio.Task[None] | None = None
        self.moved: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._request is None:
            self.moved.set_result(0)

    async def open(self) -> None:
        """Connect, and begin."""
        await asyncio.get_running_loop().create_connection(
            lambda: self, self._place[0], int(self._place[2])
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._closes = False
        if self._request is not None:
            transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if self._received:
            data = self._received + data
        end = data.find(b"\r\n\r\n") + 4
        head = data[:end].lower()
        at = head.find(b"content-length:") + 15
        if end < 4 or len(data) < end + int(head[at : head.index(b"\r\n", at)]):
            self._received = data
            return
        self._received = b""
        if head[9:12] != b"200":
            self._fail(f"{data[:400]!r}")
            return
        self._closes = b"\r\nconnection: close\r\n" in head
        transport = self._transport
        assert transport is not None, "what has arrived came over a connection"
        try:
            self._request = self._script.send(data[end:])
        except StopIteration as over:
            self._request = None
            self.moved.set_result(over.value)
            transport.close()
        except ClientFailed as error:
            self._fail(str(error))
        else:
            if not self._closes:
                transport.write(self._request)
        if self._closes:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self.moved.done():
            return
        if not self._closes:
            self._fail(f"the server hung up: {exc}")
        else:
            self._opening = asyncio.get_running_loop().create_task(self.open())

    def _fail(self, why: str) -> None:
        if not self.moved.done():
            self.moved.set_exception(ClientFailed(why))


async def _play(host: str, scripts: list[Script]) -> int:
    """Play each script over a connection of its own, all at once."""
    lines = [_Line(host, script) for script in scripts]
    await asyncio.gather(*(line.open() for line in lines))
    return sum(await asyncio.gather(*(line.moved for line in lines)))


def request(host: str, action: str, document: object) -> bytes:
    """A request as it goes over the wire."""
    body = msgspec.json.encode(document)
    return _HEAD.format(host=host, action=action, length=len(body)).encode() + body


def create_queue(host: str, name: str) -> str:
    """Make a queue; returns its URL."""
    found: list[str] = []

    def script() -> Script:
        body = yield request(host, "CreateQueue", {"QueueName": name})
        found.append(_DECODER.decode(body).queue_url)
        return 0

    uvloop.run(_play(host, [script()]))
    return found[0]


def send(order: Order) -> Moved:
    """One message a request, until the time is over."""
    asked = request(
        order.host,
        "SendMessage",
        {"QueueUrl": order.queue_url, "MessageBody": "x" * order.body_bytes},
    )
    return _run(order, lambda deadline: _send_on(asked, 1, deadline))


def send_batches(order: Order) -> Moved:
    """Ten messages a request, until the time is over."""
    entries = [
        {"Id": str(number), "MessageBody": "x" * order.body_bytes} for number in range(BATCH)
    ]
    asked = request(
        order.host, "SendMessageBatch", {"QueueUrl": order.queue_url, "Entries": entries}
    )
    return _run(order, lambda deadline: _send_on(asked, BATCH, deadline))


def receive_and_delete(order: Order) -> Moved:
    """Up to ten messages a request, each deleted, until the time is over or the queue is empty."""
    return _run(order, lambda deadline: _drain(order, deadline))


def _run(order: Order, work: Callable[[float], Script]) -> Moved:
    async def all_connections() -> int:
        deadline = time.monotonic() + order.seconds
        return await _play(order.host, [work(deadline) for _ in range(order.connections)])

    began, cpu = time.monotonic(), time.process_time()
    messages = uvloop.run(all_connections())
    return Moved(messages, time.monotonic() - began, time.process_time() - cpu)


def _send_on(asked: bytes, messages: int, deadline: float) -> Script:
    sent = 0
    while True:
        answer = yield asked
        if b'"Failed"' in answer and _DECODER.decode(answer).failed:
            raise ClientFailed(f"a message was refused: {answer[:200]!r}")
        sent += messages
        if time.monotonic() >= deadline:
            return sent


def _drain(order: Order, deadline: float) -> Script:
    receive = request(
        order.host, "ReceiveMessage", {"QueueUrl": order.queue_url, "MaxNumberOfMessages": BATCH}
    )
    deleted = empty = 0
    while time.monotonic() < deadline and empty < _EMPTY_RECEIVES_MAX:
        messages = _DECODER.decode((yield receive)).messages
        if not messages:
            empty += 1
            continue
        empty = 0
        entries = [
            {"Id": str(number), "ReceiptHandle": one.receipt_handle}
            for number, one in enumerate(messages)
        ]
        document = {"QueueUrl": order.queue_url, "Entries": entries}
        answer = yield request(order.host, "DeleteMessageBatch", document)
        if _DECODER.decode(answer).failed:
            raise ClientFailed(f"a message was not deleted: {answer[:200]!r}")
        deleted += len(messages)
    return deleted
