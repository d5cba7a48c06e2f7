"""Records what real clients send, as seeds for the fuzzers:  python -m tests.abuse.capture

A broker is started behind two recording proxies and used by confluent-kafka, kafka-python,
aiokafka, the native client, boto3 (SQS in JSON), a client of the Query protocol, and plain HTTP.
Each different request is kept once or twice, and the files of `corpus/` are written anew. They need
renewal only when a client library, or a node, speaks new versions. What nodes say to each other is
recorded in the same way, at a cluster of three: all that node 2 says to node 1.

    python -m tests.abuse.capture peer      only that
"""

import asyncio
import json
import struct
import sys
import tempfile
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

import msgspec

import penstock
from penstock.core.limits import FRAME_BYTES_MAX
from penstock.engine.peers import frames
from penstock.engine.peers.frames import Frame, FrameKind, FrameReader
from penstock.wire.frames import GREETING, MAGIC, PREFIX, read_prefix
from tests.abuse.fuzzers import CLAIMED, TARGET
from tests.abuse.kafka_wire import Address
from tests.abuse.mutations import write_corpus
from tests.abuse.target import open_target
from tests.cluster.processes import Cluster
from tests.cluster.waiting import pass_time

KEPT_EACH = 2
BYTES_MAX = 3_000
_QUEUE_URL = "http://localhost/000000000000/fuzz-a"


class Recorder:
    """A proxy that keeps what clients send, connection by connection."""

    def __init__(self) -> None:
        self.streams: list[bytearray] = []
        self.target: Address = ("", 0)
        self.address: Address = ("127.0.0.1", 0)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()
        self._ready.wait()

    def _run(self) -> None:
        self._loop.run_until_complete(self._listen())
        self._loop.run_forever()

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._pass, *self.address)
        self.address = server.sockets[0].getsockname()[:2]
        self._ready.set()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept = bytearray()
        self.streams.append(kept)
        try:
            their_reader, their_writer = await asyncio.open_connection(*self.target)
        except OSError:  # A node that is not there yet, or not at the moment.
            writer.transport.abort()
            return

        async def pump(
            source: asyncio.StreamReader, sink: asyncio.StreamWriter, kept: bytearray | None
        ) -> None:
            while data := await source.read(1 << 16):
                if kept is not None:
                    kept += data
                sink.write(data)
            sink.close()

        await asyncio.gather(
            pump(reader, their_writer, kept), pump(their_reader, writer, None),
            return_exceptions=True,
        )  # fmt: skip


class Kept:
    """Requests by kind, a few of each."""

    def __init__(self) -> None:
        self._rows: dict[object, list[bytes]] = {}

    def add(self, kind: object, request: bytes) -> None:
        rows = self._rows.setdefault(kind, [])
        if len(rows) < KEPT_EACH and request not in rows and len(request) <= BYTES_MAX:
            rows.append(request)

    def all(self) -> list[bytes]:
        return [request for rows in self._rows.values() for request in rows]


def split_kafka(stream: bytes, kafka: Kept, native: Kept) -> None:
    """The requests of one connection at the port that two protocols share."""
    if stream.startswith(MAGIC):
        _split_native(stream, native)
        return
    at = 0
    while at + 8 <= len(stream):
        (length,) = struct.unpack_from(">i", stream, at)
        kafka.add(stream[at + 4 : at + 8], stream[at : at + 4 + length])
        at += 4 + length


def _split_native(stream: bytes, native: Kept) -> None:
    at = GREETING.size
    while at + PREFIX.size <= len(stream):
        head = read_prefix(stream, at, 1 << 30)
        start = at + PREFIX.size
        request = stream[start : start + head.head_bytes]
        native.add(request[:8], request)
        at += head.size


def split_http(stream: bytes, kept: Kept) -> None:
    """The requests of one HTTP connection."""
    at = 0
    while (end := stream.find(b"\r\n\r\n", at)) >= 0:
        head = stream[at:end]
        lines = head.split(b"\r\n")
        length = 0
        action = b""
        plain = [lines[0]]
        for line in lines[1:]:
            name = line.split(b":")[0].lower()
            if name == b"content-length":
                length = int(line.split(b":")[1])
            if name == b"x-amz-target":
                action = line
            # What a client says of itself and its machine is of no use to a parser.
            if name not in (b"user-agent", b"amz-sdk-invocation-id", b"authorization", b"host"):
                plain.append(line)
        body = stream[end + 4 : end + 4 + length]
        plain.append(b"Host: localhost")
        kind = action or body.split(b"&")[0][:60]
        request = b"\r\n".join(plain) + b"\r\n\r\n" + body
        kept.add((lines[0].split(b"?")[0], kind), request)
        at = end + 4 + length


def use_confluent(bootstrap: str) -> None:
    """librdkafka: admin, an idempotent producer, a consumer in a group."""
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        AdminClient,
        ConfigResource,
        NewTopic,
    )

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("fuzz-a", 2)])["fuzz-a"].result(30)
    admin.list_topics(timeout=10)
    described = admin.describe_configs([ConfigResource("topic", "fuzz-a")])
    next(iter(described.values())).result(30)
    admin.list_consumer_groups().result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(20):
        producer.produce("fuzz-a", f"v{number}".encode(), key=b"k", headers={"h": b"1"})
    producer.flush(30)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "fuzz-group", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["fuzz-a"])
    consumer.consume(20, 20)
    consumer.commit(asynchronous=False)
    consumer.close()


def use_kafka_python(bootstrap: str) -> None:
    """A client in Python with other versions."""
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type="gzip")
    producer.send("fuzz-b", b"value", key=b"key").get(30)
    producer.close()
    consumer = KafkaConsumer(
        "fuzz-b",
        bootstrap_servers=bootstrap,
        group_id="fuzz-python",
        auto_offset_reset="earliest",
        consumer_timeout_ms=5_000,
    )
    next(iter(consumer))
    consumer.commit()
    consumer.close()


async def use_aiokafka(bootstrap: str) -> None:
    """Another one."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    await producer.send_and_wait("fuzz-c", b"value")
    await producer.stop()
    consumer = AIOKafkaConsumer(
        "fuzz-c", bootstrap_servers=bootstrap, group_id="fuzz-aio", auto_offset_reset="earliest"
    )
    await consumer.start()
    await asyncio.wait_for(consumer.getone(), 20)
    await consumer.commit()
    await consumer.stop()


async def use_native(bootstrap: str) -> None:
    """Penstock's own client."""
    async with penstock.connect(f"penstock://{bootstrap}") as client:
        queue = client.queue("fuzz-native")
        await queue.send_many([b"one", b"two", b"three"])
        for message in await queue.receive(3, wait=5):
            await message.ack()
        await queue.send(b"later", delay=1, key="k", headers={"h": "1"})
        await queue.stats()
        await queue.peek(5)


def use_boto3(http: str) -> None:
    """SQS in JSON."""
    import boto3

    sqs = boto3.client(
        "sqs",
        endpoint_url=f"http://{http}",
        region_name="us-east-1",
        aws_access_key_id="fuzz",
        aws_secret_access_key="fuzz",
    )
    url = sqs.create_queue(QueueName="fuzz-a", Attributes={"DelaySeconds": "0"})["QueueUrl"]
    attribute = {"DataType": "String", "StringValue": "v"}
    sqs.send_message(QueueUrl=url, MessageBody="one", MessageAttributes={"a": attribute})
    sqs.send_message_batch(
        QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": "m"} for n in range(3)]
    )
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)["Messages"]
    receipt = got[0]["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=5)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=receipt)
    sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "40"})
    sqs.list_queues()
    sqs.tag_queue(QueueUrl=url, Tags={"a": "b"})
    sqs.list_queue_tags(QueueUrl=url)
    sqs.create_queue(QueueName="fuzz-c.fifo", Attributes={"FifoQueue": "true"})


def use_forms(http: str) -> None:
    """SQS in forms, as the Query protocol has it."""
    for fields in (
        {"Action": "ListQueues", "Version": "2012-11-05"},
        {"Action": "SendMessage", "QueueUrl": _QUEUE_URL, "MessageBody": "one"},
        {"Action": "ReceiveMessage", "QueueUrl": _QUEUE_URL, "AttributeName.1": "All"},
        {
            "Action": "SendMessageBatch",
            "QueueUrl": _QUEUE_URL,
            "SendMessageBatchRequestEntry.1.Id": "a",
            "SendMessageBatchRequestEntry.1.MessageBody": "b",
        },
        {
            "Action": "SetQueueAttributes",
            "QueueUrl": _QUEUE_URL,
            "Attribute.1.Name": "DelaySeconds",
            "Attribute.1.Value": "0",
        },
    ):
        body = urllib.parse.urlencode({**fields, "Version": "2012-11-05"}).encode()
        request = urllib.request.Request(f"http://{http}/", body)
        urllib.request.urlopen(request, timeout=20).close()


def use_http(http: str) -> None:
    """The HTTP API, as a program without a library uses it."""

    def ask(method: str, path: str, body: object = None) -> None:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"http://{http}{path}", data, headers, method=method)
        urllib.request.urlopen(request, timeout=20).close()

    ask("POST", "/v1/queues", {"name": "fuzz-b-web", "partitions": 1})
    ask("POST", "/v1/queues/fuzz-b-web/messages", {"body": "one"})
    ask("POST", "/v1/queues/fuzz-b-web/receive", {"max": 1, "wait_ms": 10})
    ask("POST", "/v1/queues/fuzz-b-web/pause", {})
    ask("POST", "/v1/queues/fuzz-b-web/resume", {})
    for path in (
        *("/", "/queues", "/topics", "/v1/queues", "/v1/queues/fuzz-b-web", "/v1/cluster"),
        *("/metrics", "/livez", "/v1/audit?limit=5", "/v1/topics/fuzz-a/messages?limit=5"),
        *("/v1/groups", "/v1/trace/fuzz-a:0:0", "/v1/queues/fuzz-b-web/messages?state=ready"),
    ):
        ask("GET", path)


_HANDSHAKE = (FrameKind.CHALLENGE, FrameKind.PROOF, FrameKind.HELLO)


def split_peer(stream: bytes, handshake: Kept, rest: Kept) -> None:
    """The frames of one connection, if it is one of node 2."""
    reader = FrameReader(FRAME_BYTES_MAX)
    found: list[Frame] = []
    while stream:
        space = reader.space()
        count = min(len(space), len(stream))
        space[:count] = stream[:count]
        found += [Frame(one.kind, memoryview(bytes(one.payload))) for one in reader.take(count)]
        stream = stream[count:]
    for frame in found:
        if frame.kind is FrameKind.PROOF:
            proof = frames.decode_payload(frames.PROVEN_HELLO_DECODER, frame)
            if frames.decode_hello(proof.hello).identity.node != CLAIMED:
                return
    for frame in found:
        whole = bytes(frames.encode_frame(frame.kind, msgspec.Raw(frame.payload)))
        kept = handshake if frame.kind in _HANDSHAKE else rest
        if frame.payload:
            kept.add(_kind_of(frame), whole)


def _kind_of(frame: Frame) -> object:
    """What says most about a frame: the types of its messages, or the name of its call."""
    if frame.kind is FrameKind.MESSAGES:
        parcels = frames.decode_payload(frames.MESSAGES_DECODER, frame)
        return tuple(sorted({type(message).__name__ for _, message in parcels}))
    if frame.kind is FrameKind.REQUEST:
        return frames.decode_payload(frames.REQUEST_DECODER, frame).method
    if frame.kind is FrameKind.NOTICE:
        return frames.decode_payload(frames.NOTICE_DECODER, frame).method
    return frame.kind, len(frame.payload).bit_length()


class _RecordedCluster(Cluster):
    """Three nodes; what comes to node 1 from node 2 is recorded on its way."""

    def __init__(self, directory: Path, recorder: Recorder) -> None:
        self._recorder = recorder
        super().__init__(directory, nodes=3, shards=2)

    def _link(self, dialler: int, dialled: int) -> None:
        target = self.nodes[dialled].peer
        if (dialler, dialled) == (CLAIMED, TARGET):
            self._recorder.target, target = target, self._recorder.address
        self.network.add_link(
            dialler=dialler,
            dialled=dialled,
            listen=self.nodes[dialler].dials(dialled),
            target=target,
        )


def capture_peers() -> None:
    """What node 2 says to node 1: at the founding, while clients work, and while node 1 comes back
    to entries and to a snapshot that it has missed."""
    recorder = Recorder()
    with (
        tempfile.TemporaryDirectory(prefix="penstock-capture-") as name,
        _RecordedCluster(Path(name), recorder) as cluster,
    ):
        cluster.start()
        asyncio.run(use_aiokafka(cluster.bootstrap))
        asyncio.run(use_native(cluster.bootstrap))
        use_boto3(cluster.nodes[CLAIMED].http)
        cluster.kill(TARGET)
        asyncio.run(use_native(f"{cluster.nodes[2].kafka},{cluster.nodes[3].kafka}"))
        cluster.restart(TARGET)
        pass_time(5.0)
        cluster.kill(CLAIMED)  # It dials again, and asks for what it has missed.
        cluster.restart(CLAIMED)
        use_http(cluster.nodes[CLAIMED].http)
        pass_time(5.0)
    handshake, rest = Kept(), Kept()
    for stream in recorder.streams:
        split_peer(bytes(stream), handshake, rest)
    for corpus, kept in (("handshake", handshake), ("peer", rest)):
        write_corpus(corpus, kept.all())
        print(f"{corpus}: {len(kept.all())} frames")


def main() -> None:
    capture_peers()
    if sys.argv[1:] == ["peer"]:
        return
    kafka, web = Recorder(), Recorder()
    bootstrap, http = _joined(kafka.address), _joined(web.address)
    with open_target(flags=("--advertise-kafka", bootstrap)) as target:
        kafka.target, web.target = target.kafka, target.http
        uses: tuple[Callable[[], object], ...] = (
            lambda: use_confluent(bootstrap),
            lambda: use_kafka_python(bootstrap),
            lambda: asyncio.run(use_aiokafka(bootstrap)),
            lambda: asyncio.run(use_native(bootstrap)),
            lambda: use_boto3(http),
            lambda: use_forms(http),
            lambda: use_http(http),
        )
        for use in uses:
            use()
    requests, native, pages = Kept(), Kept(), Kept()
    for stream in kafka.streams:
        split_kafka(bytes(stream), requests, native)
    for stream in web.streams:
        split_http(bytes(stream), pages)
    for name, kept in (("kafka", requests), ("native", native), ("http", pages)):
        write_corpus(name, kept.all())
        print(f"{name}: {len(kept.all())} requests")


def _joined(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


if __name__ == "__main__":
    main()
