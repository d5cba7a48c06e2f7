"""The decoders that `codec_fuzz` fuzzes: each takes bytes and may raise the declared error only.

Imported by itself, so that the engine can instrument `penstock` while it is imported.
"""

import contextlib
import random
import time
from collections.abc import Callable
from typing import Any

from penstock.core.append_payload import decode_append
from penstock.core.errors import PenstockError
from penstock.core.message_batches import open_messages
from penstock.core.record_bodies import read_records
from penstock.core.records import check_batch
from penstock.engine.peers import frames
from penstock.engine.peers.message_check import check_message
from penstock.kafka.codec import codec as kafka_codec
from penstock.kafka.codec import skip_tags
from penstock.kafka.schema import schema_of
from penstock.kafka.table import TABLE
from penstock.sqs import json_protocol, query_protocol
from penstock.sqs.errors import SqsError
from penstock.wire import codec as native_codec
from penstock.wire.stream import FrameStream
from tests.abuse.grammar_http import http_input
from tests.abuse.grammar_kafka import kafka_request
from tests.abuse.grammar_structs import native_head, peer_frame
from tests.abuse.hostile_batches import PAST_MS, batch, honest, records
from tests.abuse.mutations import corpus, mutate

INPUT_BYTES_MAX = 64 * 1024
_SEEDS = 200

Target = Callable[[bytes], None]


def fuzz_kafka(data: bytes) -> None:
    """The first two bytes choose the API and the version."""
    if len(data) < 3:
        return
    apis = list(TABLE.values())
    api = apis[data[0] % len(apis)]
    first, last = api.served
    version = first + data[1] % (last - first + 1)
    position = 2
    with contextlib.suppress(PenstockError):
        # A header that ends too early is the connection's to find, by IndexError.
        with contextlib.suppress(IndexError):
            if schema_of(api.key, "request").is_flexible_in(version):
                position = skip_tags(data, position)
        kafka_codec(api.key, version).decode(data, position)


def fuzz_batch(data: bytes) -> None:
    """A body under a header that is right: opened as queues do, and as compaction does."""
    if len(data) < 2:
        return
    whole = batch(data[2:], data[1] or 1, codec=data[0] % 6)
    with contextlib.suppress(PenstockError):
        check_batch(whole)
        _, messages = open_messages(whole)
        for _ in messages:
            pass
    with contextlib.suppress(PenstockError):
        read_records(whole)


def fuzz_native(data: bytes) -> None:
    """As a head, and as a stream of frames."""
    with contextlib.suppress(PenstockError):
        native_codec.decode_request(data)
    stream = FrameStream(memoryview(bytearray(1 << 16)), INPUT_BYTES_MAX)
    with contextlib.suppress(PenstockError):
        for frame in stream.feed(memoryview(bytearray(data))):
            native_codec.decode_request(frame.head)


_PEER_DECODERS: tuple[tuple[frames.FrameKind, Any], ...] = (
    (frames.FrameKind.HELLO, frames.HELLO_DECODER),
    (frames.FrameKind.REFUSED, frames.REFUSED_DECODER),
    (frames.FrameKind.MESSAGES, frames.MESSAGES_DECODER),
    (frames.FrameKind.REQUEST, frames.REQUEST_DECODER),
    (frames.FrameKind.ANSWER, frames.ANSWER_DECODER),
    (frames.FrameKind.FAILURE, frames.FAILURE_DECODER),
    (frames.FrameKind.NOTICE, frames.NOTICE_DECODER),
    (frames.FrameKind.WITHDRAWAL, frames.WITHDRAWAL_DECODER),
    (frames.FrameKind.CHALLENGE, frames.CHALLENGE_DECODER),
    (frames.FrameKind.RESPONSE, frames.RESPONSE_DECODER),
    (frames.FrameKind.PROOF, frames.PROVEN_HELLO_DECODER),
    (frames.FrameKind.CONFIRM, frames.PROVEN_HELLO_DECODER),
)


def fuzz_peer(data: bytes) -> None:
    """As a stream of frames, and as the payload of a frame whose kind the first byte chooses;
    messages are checked as they are before a replica takes them."""
    reader = frames.FrameReader()
    space = reader.space()
    count = min(len(space), len(data))
    space[:count] = data[:count]
    with contextlib.suppress(PenstockError):
        for _ in reader.take(count):
            pass
    if data:
        kind, decoder = _PEER_DECODERS[data[0] % len(_PEER_DECODERS)]
        with contextlib.suppress(PenstockError):
            decoded = frames.decode_payload(decoder, frames.Frame(kind, memoryview(data)[1:]))
            for _, message in decoded if kind is frames.FrameKind.MESSAGES else ():
                check_message(message)


def fuzz_sqs_json(data: bytes) -> None:
    """The first line names the action, the rest is the body."""
    action, _, body = data.partition(b"\n")
    with contextlib.suppress(SqsError, PenstockError):
        json_protocol.read_json(b"AmazonSQS." + action, body)


def fuzz_sqs_query(data: bytes) -> None:
    """A form."""
    with contextlib.suppress(SqsError, PenstockError):
        query_protocol.read_query(query_protocol.read_form(data), "")


def fuzz_append(data: bytes) -> None:
    """What a node finds in its log, or is sent by a leader."""
    with contextlib.suppress(PenstockError):
        decode_append(data)


TARGETS: dict[str, Target] = {
    "kafka": fuzz_kafka,
    "batch": fuzz_batch,
    "native": fuzz_native,
    "peer": fuzz_peer,
    "sqs_json": fuzz_sqs_json,
    "sqs_query": fuzz_sqs_query,
    "append": fuzz_append,
}


def seeds_of(name: str) -> list[bytes]:
    """What the corpus of a target begins with: captured requests, and some of the grammar."""
    rng = random.Random(name)
    match name:
        case "kafka":
            keys = [api.key for api in TABLE.values()]
            requests = [*corpus("kafka"), *(kafka_request(rng) for _ in range(_SEEDS))]
            return [_kafka_seed(request, keys) for request in requests if request[5] in keys]
        case "batch":
            bodies = (records([b"a", b"b"]), honest([b"x"], PAST_MS)[61:], b"")
            return [bytes([codec, 2]) + body for codec in range(6) for body in bodies]
        case "native":
            return [*corpus("native"), *(native_head(rng) for _ in range(_SEEDS))]
        case "peer":
            kinds = [kind for kind, _ in _PEER_DECODERS]
            made = [*(peer_frame(rng) for _ in range(_SEEDS)), *captured_frames()]
            return [bytes([kinds.index(kind)]) + payload for kind, payload in made]
        case "append":
            return [bytes(64), bytes(12), b"\1" * 12 + bytes(32) + honest([b"x"], PAST_MS)]
    wanted = b"x-amz-target" if name == "sqs_json" else b"x-www-form"
    pages = [*corpus("http"), *(http_input(rng) for _ in range(4 * _SEEDS))]
    return [_sqs_seed(name, page) for page in pages if wanted in page.lower()]


def captured_frames() -> list[tuple[frames.FrameKind, bytes]]:
    """What nodes have said to each other: kinds and payloads."""
    found = []
    for seed in (*corpus("peer"), *corpus("handshake")):
        reader = frames.FrameReader(INPUT_BYTES_MAX)
        reader.space()[: len(seed)] = seed
        found += [(frame.kind, bytes(frame.payload)) for frame in reader.take(len(seed))]
    return found


def _kafka_seed(request: bytes, keys: list[int]) -> bytes:
    key, version = request[5], request[7]
    first, _ = TABLE[key].served
    client = int.from_bytes(request[12:14], "big", signed=True)
    body = request[14 + max(client, 0) :]
    return bytes([keys.index(key), max(version - first, 0)]) + body


def _sqs_seed(name: str, page: bytes) -> bytes:
    head, _, body = page.partition(b"\r\n\r\n")
    if name == "sqs_query":
        return body
    action = head.lower().split(b"amazonsqs.")[-1].split(b"\r\n")[0]
    at = head.lower().find(action)
    return head[at : at + len(action)] + b"\n" + body


def fuzz_without_engine(name: str, inputs: int, seed: int = 1) -> float:
    """Mutants of the seeds; how many a second. Raises what the target raises."""
    target, seeds = TARGETS[name], seeds_of(name)
    rng = random.Random(f"{name}/{seed}")
    began = time.monotonic()
    for _ in range(inputs):
        target(mutate(rng, rng.choice(seeds), seeds))
    return inputs / max(time.monotonic() - began, 0.001)
