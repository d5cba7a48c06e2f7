"""Record batches that lie about themselves, and bombs: small until they are opened.

A queue with rules reads the headers of messages, a compacted topic their keys, a receive their
bodies: each of them opens batches, in different places.
"""

import asyncio
import gzip
import json
import random
from collections.abc import Callable

from tests.abuse.hostile_batches import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    batch,
    empty_gzip_members,
    gzip_bomb,
    honest,
    lz4_bomb,
    lz4_frames,
    many_records_gzip,
    record,
    records,
    snappy_blocks,
    snappy_claim,
    zigzag,
    zstd_bomb,
    zstd_frames,
    zstd_window,
)
from tests.abuse.kafka_wire import KafkaConnection, produce
from tests.abuse.registry import Attack, Broken, Case, add_case, case
from tests.abuse.streams import http
from tests.abuse.target import MIB, Target

_LARGE = {
    "max.message.bytes": str(16 * MIB),
    "message.timestamp.after.max.ms": str(1 << 62),
}
FIFO = {**_LARGE, "queue.order": "fifo"}
HEADERS = {**_LARGE, "queue.message.headers": "true"}
COMPACT = {**_LARGE, "cleanup.policy": "compact"}


async def _throw(target: Target, topic: str, configs: dict[str, str], data: bytes) -> int:
    """Produce one batch, however long it takes, and receive what has become of it."""
    await target.topic(topic, 1, configs)
    connection = await target.leader(topic)
    try:
        code = int((await produce(connection, topic, 0, data)).error_code)
    finally:
        connection.close()
    await _receive(target, topic)
    return code


async def _receive(target: Target, topic: str) -> None:
    body = json.dumps({"max": 10, "wait_ms": 100}).encode()
    await http(
        target.http,
        "POST",
        f"/v1/queues/{topic}/receive",
        body,
        {"content-type": "application/json"},
        seconds=20.0,
    )


async def depth_of(target: Target, queue: str) -> int:
    """How many messages of a queue are ready, or dead."""
    status, _, body = await http(target.http, "GET", f"/v1/queues/{queue}")
    if status != 200:
        return 0
    text = json.loads(body)
    return sum(
        int(value) for key, value in _numbers(text) if key in ("ready", "dead", "leased", "delayed")
    )


def _numbers(value: object, name: str = "") -> list[tuple[str, int]]:
    if isinstance(value, dict):
        return [one for key, row in value.items() for one in _numbers(row, key)]
    if isinstance(value, list):
        return [one for row in value for one in _numbers(row, name)]
    return [(name, value)] if isinstance(value, int) else []


@case("batches", "F3", alone=True, seconds=60)
async def b08_empty_gzip_members_to_fifo(target: Target) -> None:
    """2 MiB of empty gzip members to a FIFO queue: each costs a copy of all that follow."""
    await _throw(target, "b08", FIFO, batch(empty_gzip_members(2 * MIB), 1, codec=GZIP))


@case("batches", "F3", alone=True, seconds=60)
async def b08b_empty_gzip_members_to_a_queue_with_headers(target: Target) -> None:
    """The same to a standard queue whose messages say how they are to be handled."""
    await _throw(target, "b08b", HEADERS, batch(empty_gzip_members(2 * MIB), 1, codec=GZIP))


@case("batches", "F3", alone=True, seconds=60)
async def b08c_empty_gzip_members_to_a_compacted_topic(target: Target) -> None:
    """The same to a compacted topic, which looks at the keys."""
    await _throw(target, "b08c", COMPACT, batch(empty_gzip_members(2 * MIB), 1, codec=GZIP))


@case("batches", "F3", alone=True, seconds=60)
async def b08d_empty_gzip_members_are_received(target: Target) -> None:
    """The same to a topic without rules, which is received from as a queue."""
    await _throw(target, "b08d", _LARGE, batch(empty_gzip_members(2 * MIB), 1, codec=GZIP))


@case("batches", "F3", nodes=3, alone=True, seconds=90)
async def poison_of_3_mebibytes(target: Target) -> None:
    """3 MiB of empty gzip members to a FIFO queue of three nodes: each replica applies it, and
    again at each restart."""
    await target.topic("poison", 1, FIFO)
    connection = await target.leader("poison")
    try:
        await produce(connection, "poison", 0, batch(empty_gzip_members(3 * MIB), 1, codec=GZIP))
    finally:
        connection.close()


@case("batches", "F3", alone=True, seconds=60)
async def poison_of_15_mebibytes(target: Target) -> None:
    """The same with the largest batch that a topic may allow."""
    data = batch(empty_gzip_members(15 * MIB), 1, codec=GZIP)
    await _throw(target, "poison", FIFO, data)


@case("batches", "F3", alone=True, seconds=60)
async def q09b_500000_records_to_fifo(target: Target) -> None:
    """500,000 records in 0.7 MB of gzip to a FIFO queue."""
    data = batch(many_records_gzip(500_000), 500_000, codec=GZIP)
    await _throw(target, "q09b", FIFO, data)


@case("batches", "F3", alone=True, seconds=60)
async def q09c_500000_records_to_a_compacted_topic(target: Target) -> None:
    """500,000 records without keys in one batch to a compacted topic."""
    data = batch(many_records_gzip(500_000), 500_000, codec=GZIP)
    await _throw(target, "q09c", COMPACT, data)


@case("batches", "F3", alone=True, seconds=60)
async def b07_two_million_snappy_blocks(target: Target) -> None:
    """12 MB of snappy blocks of one byte each to a FIFO queue."""
    await _throw(target, "b07", FIFO, batch(snappy_blocks(1_700_000), 1, codec=SNAPPY))


@case("batches", "F3", alone=True, seconds=60)
async def b09_lz4_frames_by_the_hundred_thousand(target: Target) -> None:
    """Many lz4 frames of one byte, one after the other, to a FIFO queue."""
    await _throw(target, "b09", FIFO, batch(lz4_frames(200_000), 1, codec=LZ4))


@case("batches", "F3", alone=True, seconds=60)
async def b10_zstd_frames_by_the_hundred_thousand(target: Target) -> None:
    """Many empty zstd frames to a FIFO queue."""
    await _throw(target, "b10", FIFO, batch(zstd_frames(500_000), 1, codec=ZSTD))


@case("batches", "F3", alone=True, seconds=90)
async def b13_many_small_bombs_at_once(target: Target) -> None:
    """64 connections produce a bomb of 64 MiB each to a FIFO queue, at the same time."""
    await target.topic("b13", 4, FIFO)
    data = batch(gzip_bomb(63), 1, codec=GZIP)
    await asyncio.gather(
        *(target.produce("b13", number % 4, data) for number in range(64)), return_exceptions=True
    )


@case("batches", "F11", alone=True)
async def x03_sixteen_million_messages_in_66_bytes(target: Target) -> None:
    """A compressed batch of 66 bytes says that it has 16,777,216 records: they must not be counted,
    delivered, and made dead letters, one by one."""
    await _forged_count(target, "x03", 1 << 24, GZIP, {})


@case("batches", "F11", alone=True)
async def x04_two_billion_messages_in_66_bytes(target: Target) -> None:
    """The same with as many records as the header can say."""
    await _forged_count(target, "x04", (1 << 31) - 1, GZIP, {})


@case("batches", "F11", alone=True)
async def x05_a_forged_count_in_a_fifo_queue(target: Target) -> None:
    """The same to a FIFO queue."""
    await _forged_count(target, "x05", 1 << 24, ZSTD, FIFO)


@case("batches", "F11", alone=True)
async def x06_a_forged_count_becomes_dead_letters(target: Target) -> None:
    """The same to a queue with a dead-letter queue and one delivery."""
    await target.topic("x06-dead", 1)
    rules = {"queue.deliveries.max": "1", "queue.dead.letter.topic": "x06-dead"}
    await _forged_count(target, "x06", 1 << 24, GZIP, rules)
    for _ in range(5):
        await _receive(target, "x06")


async def _forged_count(
    target: Target, topic: str, count: int, codec: int, configs: dict[str, str]
) -> None:
    from penstock.wire.cumulative_ack_requests import BeginWork
    from tests.abuse.target import native_call

    await target.topic(topic, 1, {**_LARGE, **configs})
    await native_call(target.kafka, BeginWork(topic, "default", -2))
    code = await target.produce(topic, 0, batch(b"\x1f\x8b\x08\0\0", count, codec=codec))
    await _receive(target, topic)
    depth = await depth_of(target, topic)
    if code == 0 and depth > 1_000:
        raise Broken(f"66 bytes count as {depth:,} messages")


# One row each: a batch, and the topics it is thrown at.


def _random(size: int) -> bytes:
    return random.Random(7).randbytes(size)


def _headers(count: int) -> bytes:
    return zigzag(count) + (zigzag(1) + b"h" + zigzag(1) + b"v") * count


_LIES: tuple[tuple[str, str, Callable[[], bytes]], ...] = (
    ("gzip-1-gib", "a gibibyte of zeros in gzip", lambda: batch(gzip_bomb(1_024), 1, codec=GZIP)),
    ("lz4-256-mib", "256 MiB of zeros in lz4", lambda: batch(lz4_bomb(256), 1, codec=LZ4)),
    ("zstd-512-mib", "512 MiB of zeros in zstd", lambda: batch(zstd_bomb(512), 1, codec=ZSTD)),
    (
        "snappy-claim",
        "snappy that claims 4 GiB",
        lambda: batch(snappy_claim((1 << 32) - 1), 1, codec=SNAPPY),
    ),
    ("zstd-window", "a zstd window of 2 GiB", lambda: batch(zstd_window(), 1, codec=ZSTD)),
    ("codec-unknown", "codec 7", lambda: batch(b"abc", 1, codec=7)),
    ("gzip-garbage", "gzip that is none", lambda: batch(_random(2_000), 3, codec=GZIP)),
    ("snappy-garbage", "snappy that is none", lambda: batch(_random(2_000), 3, codec=SNAPPY)),
    ("lz4-garbage", "lz4 that is none", lambda: batch(_random(2_000), 3, codec=LZ4)),
    ("zstd-garbage", "zstd that is none", lambda: batch(_random(2_000), 3, codec=ZSTD)),
    (
        "gzip-truncated",
        "gzip without its end",
        lambda: batch(gzip.compress(records([b"x"] * 9))[:-9], 9, codec=GZIP),
    ),
    ("plain-garbage", "uncompressed records that are none", lambda: batch(_random(500), 7)),
    ("plain-empty", "no records where five are said to be", lambda: batch(b"", 5)),
    (
        "count-too-high",
        "nine records, of which two are there",
        lambda: batch(records([b"a", b"b"]), 9),
    ),
    (
        "count-too-low",
        "one record, of which three are there",
        lambda: batch(records([b"a", b"b", b"c"]), 1),
    ),
    ("count-negative", "minus one record", lambda: batch(records([b"a"]), -1, delta=0)),
    ("count-zero", "no record", lambda: batch(b"", 0, delta=-1)),
    (
        "delta-greatest",
        "the last offset delta 2^31-1",
        lambda: batch(records([b"a"]), 1, delta=(1 << 31) - 1),
    ),
    ("delta-negative", "a negative offset delta", lambda: batch(records([b"a"]), 1, delta=-5)),
    ("record-length-negative", "a record of length -1", lambda: batch(zigzag(-1), 1)),
    ("record-length-huge", "a record of 2^62 bytes", lambda: batch(zigzag(1 << 62), 1)),
    (
        "record-key-beyond",
        "a key beyond its record",
        lambda: batch(zigzag(8) + b"\0\0\0" + zigzag(1 << 30) + b"aaa", 1),
    ),
    (
        "record-offsets-equal",
        "ten records with one offset",
        lambda: batch(b"".join(record(b"x", 0) for _ in range(10)), 10),
    ),
    (
        "record-offsets-negative",
        "records with negative offsets",
        lambda: batch(b"".join(record(b"x", -n) for n in range(10)), 10),
    ),
    (
        "headers-100000",
        "100,000 headers in one record",
        lambda: batch(record(b"x", headers=_headers(100_000)), 1),
    ),
    (
        "headers-claim",
        "2^31 headers in five bytes",
        lambda: batch(record(b"x", headers=zigzag(1 << 31)), 1),
    ),
    (
        "header-name-null",
        "a header without a name",
        lambda: batch(record(b"x", headers=zigzag(1) + zigzag(-1) + zigzag(-1)), 1),
    ),
    (
        "header-name-not-utf8",
        "a header whose name is no text",
        lambda: batch(record(b"x", headers=zigzag(1) + zigzag(2) + b"\xff\xfe" + zigzag(-1)), 1),
    ),
    ("control-batch", "a control batch", lambda: batch(records([b"a"]), 1, attributes=0x20)),
    (
        "transactional",
        "a transactional batch of nobody",
        lambda: batch(records([b"a"]), 1, attributes=0x10, producer=(5, 0, 0)),
    ),
    (
        "producer-greatest",
        "a producer id of 2^63-1",
        lambda: batch(records([b"a"]), 1, producer=((1 << 63) - 1, 32767, (1 << 31) - 1)),
    ),
    (
        "producer-negative",
        "a producer with a negative epoch",
        lambda: batch(records([b"a"]), 1, producer=(5, -1, -1)),
    ),
    ("time-least", "a time of -2^63", lambda: batch(records([b"a"]), 1, time_ms=-(1 << 63))),
    ("time-greatest", "a time of 2^63-1", lambda: batch(records([b"a"]), 1, time_ms=(1 << 63) - 1)),
    (
        "attributes-all",
        "every bit of the attributes",
        lambda: batch(records([b"a"]), 1, attributes=0x7FF8),
    ),
    (
        "horizon-forged",
        "the bit that marks a tombstone's horizon",
        lambda: batch(records([b"a"]), 1, attributes=0x40),
    ),
    ("two-batches", "two batches in one row", lambda: honest([b"a"]) + honest([b"b"])),
    (
        "magic-0",
        "a message of format 0",
        lambda: b"\0" * 8 + (60).to_bytes(4, "big") + b"\0" * 4 + b"\0" + bytes(60),
    ),
)


def _thrower(name: str, configs: dict[str, str], make: Callable[[], bytes]) -> Attack:
    async def attack(target: Target) -> None:
        await _throw(target, name, configs, make())

    return attack


for _name, _what, _make in _LIES:
    add_case(
        Case(
            f"batch-{_name}-to-fifo",
            "batches",
            "",
            f"{_what}, to a FIFO queue",
            _thrower(f"lie-fifo-{_name}", FIFO, _make),
        )
    )
for _name, _what, _make in _LIES[:14]:
    add_case(
        Case(
            f"batch-{_name}-to-compacted",
            "batches",
            "",
            f"{_what}, to a compacted topic",
            _thrower(f"lie-compact-{_name}", COMPACT, _make),
        )
    )


@case("batches", "")
async def checksums_are_looked_at(target: Target) -> None:
    """Every byte behind the checksum of a batch is changed in turn: none may be stored."""
    await target.topic("sums", 1)
    sound = honest([b"a message of some length"])
    async with await KafkaConnection.open(target.kafka) as connection:
        for at in range(21, len(sound), 3):
            bad = bytearray(sound)
            bad[at] ^= 0x41
            row = await produce(connection, "sums", 0, bytes(bad))
            if row.error_code == 0:
                raise Broken(f"a batch was stored whose byte {at} was changed")
