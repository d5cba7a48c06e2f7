"""Unsound frames, as a table: what the bytes are, and where they go.

Each row is a case of its own. None of them asks for anything that could be granted; what matters is
that one connection ends and nothing else notices.
"""

import struct
from collections.abc import Callable
from functools import partial

from penstock.wire.frames import MAGIC, PREFIX, greet
from tests.abuse.kafka_wire import Address, frame, raw_frame, varint
from tests.abuse.registry import Attack, Case, add_case
from tests.abuse.streams import pour
from tests.abuse.target import Target

Row = tuple[str, str, str, bytes]
"""Name, finding, what it tries, the bytes."""

_API_VERSIONS = frame(18, 0, {})
_METADATA = frame(3, 9, {"topics": None})
_INT_MAX = (1 << 31) - 1

KAFKA: tuple[Row, ...] = (
    ("length-negative", "", "a length of -1", struct.pack(">i", -1) + bytes(64)),
    ("length-least", "", "the smallest negative length", struct.pack(">i", -(1 << 31)) + bytes(64)),
    ("length-zero", "", "a length of 0, again and again", bytes(4_000)),
    ("length-greatest", "", "a length of 2 GiB", struct.pack(">ihh", _INT_MAX, 0, 9) + bytes(64)),
    ("length-short", "", "a length that ends in the header", struct.pack(">i", 3) + bytes(3)),
    ("length-control", "", "a Metadata of 90 MiB", struct.pack(">ihh", 90 << 20, 3, 9) + bytes(64)),
    (
        "key-unknown",
        "",
        "an API that nobody serves",
        raw_frame(18, 0, b"").replace(b"\0\x12", b"\x7f\x12", 1),
    ),
    ("key-negative", "", "API -1", struct.pack(">ihhih", 10, -1, 0, 1, -1)),
    ("version-negative", "", "version -1 of Metadata", struct.pack(">ihhih", 10, 3, -1, 1, -1)),
    ("version-greatest", "", "version 32767 of Fetch", struct.pack(">ihhih", 10, 1, 32767, 1, -1)),
    (
        "versions-greatest",
        "",
        "version 32767 of ApiVersions",
        struct.pack(">ihhih", 10, 18, 32767, 1, -1),
    ),
    ("client-negative", "", "a client id of length -2", struct.pack(">ihhih", 10, 3, 0, 1, -2)),
    ("client-beyond", "", "a client id beyond the end", struct.pack(">ihhih", 10, 3, 0, 1, 32767)),
    (
        "client-not-utf8",
        "",
        "a client id that is no text",
        raw_frame(18, 0, b"", client=b"\xff\xfe\xfd"),
    ),
    (
        "client-forges-log",
        "F13",
        "a client id with line ends, as a line of the log",
        raw_frame(3, 0, b"\xff", client=b"a\n00:00:00 error forged\r\x1b[2J"),
    ),
    (
        "array-greatest",
        "",
        "Metadata of 2^31-1 topics",
        raw_frame(3, 1, struct.pack(">i", _INT_MAX)),
    ),
    ("array-negative", "", "Metadata of -2 topics", raw_frame(3, 1, struct.pack(">i", -2))),
    (
        "array-compact-greatest",
        "",
        "a compact array of 2^32-1 rows",
        raw_frame(3, 9, b"\xff\xff\xff\xff\x0f"),
    ),
    ("varint-endless", "", "a varint of 200 bytes", raw_frame(3, 9, b"\xff" * 200)),
    (
        "varint-five-full",
        "",
        "a varint of five full bytes",
        raw_frame(3, 9, b"\xff\xff\xff\xff\xff\x01"),
    ),
    (
        "string-beyond",
        "",
        "a string beyond the end",
        raw_frame(10, 0, struct.pack(">h", 32767) + b"a"),
    ),
    ("string-negative", "", "a string of length -5", raw_frame(10, 0, struct.pack(">h", -5))),
    (
        "string-not-utf8",
        "",
        "a group whose name is no text",
        raw_frame(10, 0, struct.pack(">h", 2) + b"\xff\xff"),
    ),
    (
        "string-surrogate",
        "",
        "a name with half a surrogate pair",
        raw_frame(10, 0, struct.pack(">h", 3) + b"\xed\xa0\x80"),
    ),
    ("string-nul", "", "a group named NUL", raw_frame(10, 0, struct.pack(">h", 1) + b"\0")),
    (
        "tags-greatest",
        "F5a",
        "2^32-1 header tags",
        raw_frame(18, 3, b"", tags=b"\xff\xff\xff\xff\x0f"),
    ),
    (
        "tag-size-beyond",
        "F5a",
        "a tag beyond the end",
        raw_frame(18, 3, b"", tags=b"\1\0\xff\xff\x7f"),
    ),
    ("tags-out-of-order", "F5a", "tags backwards", raw_frame(18, 3, b"\2a\2b\2\5\0\1\0")),
    (
        "body-missing",
        "",
        "a header and nothing else, for every API",
        b"".join(raw_frame(key, 0, b"") for key in (3, 18)),
    ),
    ("body-behind", "", "bytes behind the request", raw_frame(18, 0, bytes(100_000))),
    (
        "records-beyond",
        "",
        "a Produce whose records end elsewhere",
        raw_frame(
            0,
            3,
            struct.pack(">hhiih", -1, -1, 1000, 1, 1) + b"t" + struct.pack(">iii", 1, 0, 1 << 30),
        ),
    ),
    (
        "records-one-byte",
        "",
        "a Produce with one byte of records",
        raw_frame(
            0,
            3,
            struct.pack(">hhiih", -1, -1, 1000, 1, 5)
            + b"known"
            + struct.pack(">iii", 1, 0, 1)
            + b"x",
        ),
    ),
    (
        "acks-seven",
        "",
        "a Produce with acks=7",
        raw_frame(0, 3, struct.pack(">hhii", -1, 7, 1000, 0)),
    ),
    (
        "timeout-negative",
        "",
        "a Produce with a negative timeout",
        raw_frame(0, 3, struct.pack(">hhii", -1, -1, -5, 0)),
    ),
    (
        "wait-greatest",
        "",
        "a Fetch that waits 24 days for 2 GiB",
        frame(1, 4, {"max_wait": _INT_MAX, "min_bytes": _INT_MAX, "topics": []}),
    ),
    (
        "wait-negative",
        "",
        "a Fetch that waits -1 ms",
        frame(1, 4, {"max_wait": -1, "min_bytes": -1, "max_bytes": -1, "topics": []}),
    ),
    ("http-request", "", "an HTTP request at the Kafka port", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    (
        "tls-hello",
        "",
        "a TLS handshake at the Kafka port",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(506),
    ),
    ("zeros", "", "a megabyte of zeros", bytes(1 << 20)),
    ("ones", "", "a megabyte of ones", b"\xff" * (1 << 20)),
    (
        "sound-then-broken",
        "",
        "a thousand sound requests and a broken one",
        _API_VERSIONS * 1_000 + b"\xff" * 40,
    ),
    ("greeting-late", "", "a native greeting behind a Kafka request", _API_VERSIONS + greet()),
    (
        "sasl-handshake",
        "",
        "SASL, which is not offered",
        struct.pack(">ihhih", 17, 17, 1, 1, -1) + struct.pack(">h", 5) + b"PLAIN",
    ),
    (
        "transactions",
        "",
        "AddPartitionsToTxn, which is not served",
        struct.pack(">ihhih", 10, 24, 0, 1, -1),
    ),
    (
        "varint-sum",
        "",
        "a compact string of 2^32-1 bytes",
        raw_frame(10, 3, b"\xff\xff\xff\xff\x0fk"),
    ),
    ("metadata-many", "F5", "Metadata of everything, 2,000 times", _METADATA * 2_000),
    (
        "compact-null-row",
        "",
        "null where a row must be",
        raw_frame(3, 12, varint(2) + bytes(16) + b"\0\0"),
    ),
)

_NATIVE = greet()


def _native(kind: int, number: int, head: bytes, payload: bytes = b"", length: int = -1) -> bytes:
    size = PREFIX.size - 4 + len(head) + len(payload) if length < 0 else length
    return _NATIVE + PREFIX.pack(size, kind, number, len(head)) + head + payload


NATIVE: tuple[Row, ...] = (
    ("greeting-version-0", "", "version 0", MAGIC + struct.pack(">I", 0)),
    ("greeting-version-greatest", "", "version 2^32-1", MAGIC + b"\xff\xff\xff\xff"),
    ("greeting-half", "", "half a greeting", MAGIC[:5]),
    ("greeting-twice", "", "two greetings", _NATIVE + _NATIVE),
    ("kind-unknown", "", "a frame of kind 200", _native(200, 1, b"\x90")),
    ("kind-answer", "", "an answer that nobody asked for", _native(2, 1, b"\x90")),
    ("length-greatest", "", "a frame of 4 GiB", _native(1, 1, b"", length=(1 << 32) - 1)),
    ("length-zero", "", "a frame of no length", _native(1, 1, b"", length=0)),
    ("head-beyond", "", "a head longer than its frame", _NATIVE + PREFIX.pack(20, 1, 1, 1 << 31)),
    ("head-empty", "", "an empty head", _native(1, 1, b"")),
    ("head-nil", "", "nil as a request", _native(1, 1, b"\xc0")),
    ("head-word-unknown", "", "a request that does not exist", _native(1, 1, b"\x91\xa3abc")),
    ("head-deep", "", "arrays 10,000 deep", _native(1, 1, b"\x91" * 10_000 + b"\xc0")),
    (
        "head-claims",
        "",
        "an array of 2^32-1 elements in five bytes",
        _native(1, 1, b"\xdd\xff\xff\xff\xff"),
    ),
    (
        "head-string-claims",
        "",
        "a string of 4 GiB in five bytes",
        _native(1, 1, b"\x92\xa6append\xdb\xff\xff\xff\xff"),
    ),
    (
        "head-not-utf8",
        "",
        "a topic whose name is no text",
        _native(1, 1, b"\x92\xa5topic\xa2\xff\xff"),
    ),
    (
        "head-number-huge",
        "F14",
        "a number above 64 bits",
        _native(1, 1, b"\x93\xa5fetch\x90\xcf" + b"\xff" * 8),
    ),
    (
        "id-twice",
        "",
        "two requests under one id",
        _native(1, 7, b"\x91\xa6topics") + _native(1, 7, b"\x91\xa6topics")[len(_NATIVE) :],
    ),
    (
        "withdraw-unknown",
        "",
        "10,000 withdrawals of what was never asked",
        _NATIVE + PREFIX.pack(9 + 2, 4, 9, 0) * 1,
    ),
    (
        "payload-unwanted",
        "",
        "a payload where none is wanted",
        _native(1, 1, b"\x91\xa6topics", bytes(1 << 20)),
    ),
    (
        "append-garbage",
        "",
        "an append whose batch is garbage",
        _native(1, 1, b"\x93\xa6append\xc4\x10" + bytes(16) + b"\0", b"garbage"),
    ),
    (
        "topic-name-huge",
        "F14",
        "a topic with a name of a megabyte",
        _native(1, 1, b"\x92\xa5topic\xdb" + struct.pack(">I", 1 << 20) + b"t" * (1 << 20)),
    ),
    ("nothing-but-length", "", "a length and nothing more", _NATIVE + struct.pack(">I", 100)),
)


async def _send(data: bytes, where: Callable[[Target], Address], target: Target) -> None:
    await pour(where(target), data, seconds=3.0, quiet_seconds=0.2)


def _kafka(target: Target) -> Address:
    return target.kafka


def _enter(prefix: str, group: str, rows: tuple[Row, ...]) -> None:
    for name, finding, what, data in rows:
        attack: Attack = partial(_send, data, _kafka)
        add_case(Case(f"{prefix}-{name}", group, finding, what, attack))


_enter("k-frame", "kafka", KAFKA)
_enter("n-frame", "native", NATIVE)
