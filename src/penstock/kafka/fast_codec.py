"""Produce and Fetch by hand: what comes a hundred thousand times a second is not left to tables.

A Produce request is read without copying: each batch is a `memoryview` of the frame it came in, and
is stamped there. A Fetch answer is a list of buffers in which the stored batches stand as they were
read; nothing joins them. `tests/properties/test_kafka_hot.py` compares every version byte by byte
with another implementation.

    Produce request    transactional id | acks i16 | timeout i32 | topics: name or id, partitions:
                       index i32, records
    Produce answer     topics: name or id, partitions: index i32, error i16, base offset i64, append
                       time i64, 5+ log start i64, 8+ record errors, message | throttle i32
    Fetch answer       throttle i32 | 7+ error i16, session i32 | topics: name or id, partitions:
                       index i32, error i16, high watermark i64, last stable i64, 5+ log start i64,
                       aborted, 11+ preferred replica i32, records

From the flexible version on, lengths are varints of the length plus one, and each of these levels
ends with tagged fields. Hints to the right leader (KIP-951) are such fields.
"""

import struct
from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from penstock.core.errors import MalformedRequest
from penstock.core.limits import KAFKA_REQUEST_ROWS_MAX
from penstock.core.types import TopicId
from penstock.kafka.codec import (
    ROWS_PER_PORTION,
    read_varint,
    skip_tags,
    write_count,
    write_varint,
)
from penstock.kafka.context import Buffer

PRODUCE_FLEXIBLE: Final = 9
PRODUCE_TOPIC_IDS: Final = 13
PRODUCE_HINTS: Final = 10
FETCH_FLEXIBLE: Final = 12
FETCH_TOPIC_IDS: Final = 13
FETCH_HINTS: Final = 16

_SHORT: Final = struct.Struct(">h")
_LONG: Final = struct.Struct(">i")
_ACKS: Final = struct.Struct(">hi")
_HEAD: Final = struct.Struct(">ii")
_APPENDED: Final = struct.Struct(">ihqq")
_APPENDED_5: Final = struct.Struct(">ihqqq")
_APPENDED_8: Final = struct.Struct(">ihqqqi")
_WRONG: Final = struct.Struct(">ixx")
"""A record error without a text of its own: the row's says it."""
_WRONG_8: Final = struct.Struct(">ih")
_FETCHED: Final = struct.Struct(">ihqqi")
_FETCHED_5: Final = struct.Struct(">ihqqqi")
_FETCHED_11: Final = struct.Struct(">ihqqqii")
_FETCHED_12: Final = struct.Struct(">ihqqqBi")
_FETCH_HEAD: Final = struct.Struct(">iihi")
_LEADER: Final = struct.Struct(">iiB")

TopicKey = str | TopicId
"""A topic's name, or its id in the versions that send ids."""


class LeaderHint(NamedTuple):
    """Where to go instead."""

    node: int
    epoch: int


class Endpoint(NamedTuple):
    """The address of a node that a hint names."""

    node: int
    host: str
    port: int
    rack: str | None


class ProduceRequest(NamedTuple):
    """A decoded Produce request; the batches still lie in the frame."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]]


class ProduceRow(NamedTuple):
    """What came of one partition's batch."""

    partition: int
    code: int
    base_offset: int = -1
    log_append_ms: int = -1
    log_start: int = -1
    message: str | None = None
    hint: LeaderHint | None = None
    wrong: Sequence[int] = ()
    """The records, by their number in the batch, for which all of it was refused (KIP-467)."""


class FetchRow(NamedTuple):
    """What one partition has to say."""

    partition: int
    code: int
    high_watermark: int = -1
    log_start: int = -1
    records: Sequence[Buffer] = ()
    hint: LeaderHint | None = None


class FetchRows(Protocol):
    """The rows of one topic."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[FetchRow]: ...


def read_produce(frame: bytearray, position: int, version: int) -> ProduceRequest:
    """The Produce request whose body starts at `position`; raises `MalformedRequest`."""
    try:
        if version >= PRODUCE_FLEXIBLE:
            return _read_produce_flexible(frame, position, version >= PRODUCE_TOPIC_IDS)
        return _read_produce_plain(frame, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedRequest(f"a Produce request ends too early: {error}") from error


def _read_produce_plain(frame: bytearray, position: int) -> ProduceRequest:
    view = memoryview(frame)
    name, position = _plain_string(view, position)
    acks, timeout_ms = _ACKS.unpack_from(view, position)
    topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]] = []
    count, position = _plain_count(view, position + _ACKS.size, 6)
    for _ in range(count):
        topic, position = _plain_string(view, position)
        if topic is None:
            raise MalformedRequest("a topic without a name")
        rows: list[tuple[int, memoryview | None]] = []
        partitions, position = _plain_count(view, position, 8)
        for _ in range(partitions):
            index, size = _HEAD.unpack_from(view, position)
            position += _HEAD.size
            if size < 0:
                rows.append((index, None))
                continue
            end = position + size
            if end > len(view):
                raise MalformedRequest(f"{size} bytes of records where fewer are left")
            rows.append((index, view[position:end]))
            position = end
        topics.append((topic, rows))
    return ProduceRequest(name, acks, timeout_ms, topics)


def _read_produce_flexible(frame: bytearray, position: int, by_id: bool) -> ProduceRequest:
    view = memoryview(frame)
    name, position = _compact_string(view, position)
    acks, timeout_ms = _ACKS.unpack_from(view, position)
    topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]] = []
    count, position = _compact_count(view, position + _ACKS.size, 3)
    for _ in range(count):
        topic: TopicKey | None
        if by_id:
            topic, position = TopicId(bytes(view[position : position + 16])), position + 16
        else:
            topic, position = _compact_string(view, position)
        if topic is None:
            raise MalformedRequest("a topic without a name")
        rows: list[tuple[int, memoryview | None]] = []
        partitions, position = _compact_count(view, position, 6)
        for _ in range(partitions):
            (index,) = _LONG.unpack_from(view, position)
            size, position = read_varint(view, position + 4)
            end = position + size - 1
            if size == 0:
                rows.append((index, None))
                end = position
            elif end > len(view):
                raise MalformedRequest(f"{size - 1} bytes of records where fewer are left")
            else:
                rows.append((index, view[position:end]))
            position = end + 1 if view[end] == 0 else skip_tags(view, end)
        position = skip_tags(view, position)
        topics.append((topic, rows))
    return ProduceRequest(name, acks, timeout_ms, topics)


def _plain_string(view: memoryview, position: int) -> tuple[str | None, int]:
    (size,) = _SHORT.unpack_from(view, position)
    position += 2
    if size < 0:
        return None, position
    end = position + size
    if end > len(view):
        raise MalformedRequest(f"a string of {size} bytes where fewer are left")
    return str(view[position:end], "utf-8"), end


def _compact_string(view: memoryview, position: int) -> tuple[str | None, int]:
    size = view[position]
    if size < 0x80:
        position += 1
    else:
        size, position = read_varint(view, position)
    if size == 0:
        return None, position
    end = position + size - 1
    if end > len(view):
        raise MalformedRequest(f"a string of {size - 1} bytes where fewer are left")
    return str(view[position:end], "utf-8"), end


def _plain_count(view: memoryview, position: int, least: int) -> tuple[int, int]:
    (count,) = _LONG.unpack_from(view, position)
    return _checked(count, view, position + 4, least)


def _compact_count(view: memoryview, position: int, least: int) -> tuple[int, int]:
    if 0 < (count := view[position]) < 0x80 and (count - 1) * least < len(view) - position:
        return count - 1, position + 1
    count, position = read_varint(view, position)
    return _checked(count - 1, view, position, least)


def _checked(count: int, view: memoryview, position: int, least: int) -> tuple[int, int]:
    if not 0 <= count <= KAFKA_REQUEST_ROWS_MAX or count * least > len(view) - position:
        raise MalformedRequest(f"an array of {count} rows in {len(view) - position} bytes")
    return count, position


def write_produce(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[TopicKey, Sequence[ProduceRow]]],
    endpoints: Sequence[Endpoint] = (),
) -> bytearray:
    """A whole Produce answer."""
    flexible = version >= PRODUCE_FLEXIBLE
    out = bytearray(_HEAD.size + flexible)
    write_count(len(topics), out, flexible)
    for topic, rows in topics:
        _write_topic(topic, out, flexible)
        write_count(len(rows), out, flexible)
        for row in rows:
            _write_produce_row(row, out, version)
        if flexible:
            out.append(0)
    out += b"\x00\x00\x00\x00"
    if flexible:
        _write_endpoints(endpoints if version >= PRODUCE_HINTS else (), out)
    _HEAD.pack_into(out, 0, len(out) - 4, correlation_id)
    return out


def _write_produce_row(row: ProduceRow, out: bytearray, version: int) -> None:
    index, code, base_offset, log_append_ms, log_start, message, hint, wrong = row
    if version >= PRODUCE_FLEXIBLE:
        out += _APPENDED_5.pack(index, code, base_offset, log_append_ms, log_start)
        if wrong:
            write_varint(len(wrong) + 1, out)
            for number in wrong:
                out += _WRONG.pack(number)
        else:
            out.append(1)
        if message is None:
            out.append(0)
        else:
            text = message.encode()
            write_varint(len(text) + 1, out)
            out += text
        _write_hint(hint if version >= PRODUCE_HINTS else None, 0, out)
    elif version >= 8:
        out += _APPENDED_8.pack(index, code, base_offset, log_append_ms, log_start, len(wrong))
        for number in wrong:
            out += _WRONG_8.pack(number, -1)
        text = b"" if message is None else message.encode()[:32_767]
        out += _SHORT.pack(-1 if message is None else len(text)) + text
    elif version >= 5:
        out += _APPENDED_5.pack(index, code, base_offset, log_append_ms, log_start)
    else:
        out += _APPENDED.pack(index, code, base_offset, log_append_ms)


def write_fetch(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[TopicKey, FetchRows]],
    endpoints: Sequence[Endpoint] = (),
    code: int = 0,
) -> list[Buffer]:
    """A whole Fetch answer as buffers, of which the records are taken as they are."""
    buffers: list[Buffer] = []
    for _ in write_fetch_in_portions(buffers, version, correlation_id, topics, endpoints, code):
        pass
    return buffers


def write_fetch_in_portions(
    buffers: list[Buffer],
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[TopicKey, FetchRows]],
    endpoints: Sequence[Endpoint] = (),
    code: int = 0,
) -> Generator[None, None, None]:
    """The same behind `buffers`, which are empty; yields after each portion of rows."""
    flexible = version >= FETCH_FLEXIBLE
    out = bytearray(_HEAD.size + flexible)
    out += _FETCH_HEAD.pack(0, 0, code, 0)[4:] if version >= 7 else bytes(4)
    size = 0
    written = 0
    write_count(len(topics), out, flexible)
    for topic, rows in topics:
        _write_topic(topic, out, flexible)
        write_count(len(rows), out, flexible)
        for row in rows:
            written += 1
            if written % ROWS_PER_PORTION == 0:
                yield
            records = row.records
            length = sum(map(len, records))
            _write_fetch_row(row, length, out, version)
            if length:
                buffers.append(out)
                buffers += records
                size += len(out) + length
                out = bytearray()
            if flexible:
                _write_hint(row.hint, 1, out)
        if flexible:
            out.append(0)
    if flexible:
        _write_endpoints(endpoints if version >= FETCH_HINTS else (), out)
    buffers.append(out)
    first = buffers[0]
    assert isinstance(first, bytearray)
    _HEAD.pack_into(first, 0, size + len(out) - 4, correlation_id)


def _write_fetch_row(row: FetchRow, length: int, out: bytearray, version: int) -> None:
    index, code, high_watermark, log_start = row[:4]
    # Nothing can be aborted: all that is committed is stable, and the list of aborted is empty.
    if version >= FETCH_FLEXIBLE:
        out += _FETCHED_12.pack(index, code, high_watermark, high_watermark, log_start, 1, -1)
        write_varint(length + 1, out)
        return
    if version >= 11:
        out += _FETCHED_11.pack(index, code, high_watermark, high_watermark, log_start, 0, -1)
    elif version >= 5:
        out += _FETCHED_5.pack(index, code, high_watermark, high_watermark, log_start, 0)
    else:
        out += _FETCHED.pack(index, code, high_watermark, high_watermark, 0)
    out += _LONG.pack(length)


def _write_topic(topic: TopicKey, out: bytearray, flexible: bool) -> None:
    if isinstance(topic, bytes):
        out += topic
        return
    name = topic.encode()
    if flexible:
        write_varint(len(name) + 1, out)
    else:
        out += _SHORT.pack(len(name))
    out += name


def _write_hint(hint: LeaderHint | None, tag: int, out: bytearray) -> None:
    if hint is None:
        out.append(0)
    else:
        out += bytes((1, tag, _LEADER.size)) + _LEADER.pack(hint.node, hint.epoch, 0)


def _write_endpoints(endpoints: Sequence[Endpoint], out: bytearray) -> None:
    if not endpoints:
        out.append(0)
        return
    body = bytearray()
    write_varint(len(endpoints) + 1, body)
    for node, host, port, rack in endpoints:
        body += _LONG.pack(node)
        _write_topic(host, body, True)
        body += _LONG.pack(port)
        if rack is None:
            body.append(0)
        else:
            _write_topic(rack, body, True)
        body.append(0)
    out += b"\x01\x00"
    write_varint(len(body), out)
    out += body
