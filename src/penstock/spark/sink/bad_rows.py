"""Rows that cannot be written: the error that names the first, or dead letters of all of them.

A dead letter has the row's key, value and headers, and says in the headers of any dead letter where
it should have gone and why it could not (`core.delivery_headers`). So it is seen, counted and
redriven like any other. A value that is too large for its topic is too large for this one as well:
it is cut, and the reason says so.

Bad rows are few, so they are made one by one.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.core import delivery_headers
from penstock.core.errors import InvalidRequest
from penstock.core.message import Header, NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.murmur2 import partition_of
from penstock.spark.sink.destinations import BATCH_BYTES, OutgoingBatch, TopicRoom
from penstock.spark.sink.encoder import HEADERS, KEY, VALUE
from penstock.spark.sink.outgoing_rows import TOPIC, Complaints

LETTER_RECORDS_MAX: Final = 10_000
_KEPT_BYTES: Final = 4_096
"""Of each of a key and all headers of a row that is too large."""
_FRAME_BYTES: Final = 512


def refusal(rows: pa.RecordBatch, complaints: Complaints, *, before: int) -> InvalidRequest:
    """Return the error for the first bad row; `before` rows precede these in the task."""
    row, reason = complaints.first()
    count = int(complaints.bad.sum())
    others = f", nor can {count - 1:,} others near it" if count > 1 else ""
    shown = {
        name: _shortened(rows.column(name)[row].as_py())
        for name in (KEY, VALUE)
        if name in rows.schema.names
    }
    said = ", ".join(f"{name} {value}" for name, value in shown.items())
    return InvalidRequest(
        f"row {before + row:,} of this task ({said}) cannot be written{others}: {reason}. Nothing"
        " of this batch was published. Correct the rows, or set badRows=deadLetter and"
        " deadLetterTopic=… to have such rows put there"
    )


def dead_letters(
    rows: pa.RecordBatch,
    complaints: Complaints,
    *,
    room: TopicRoom,
    topic: str | None,
    now_ms: int,
) -> Iterator[OutgoingBatch]:
    """Batches of the bad rows for the dead letter topic; `topic` is where all rows should go, if
    one is named."""
    waiting: dict[int, list[NewMessage]] = {}
    sizes: dict[int, int] = {}
    for row in np.flatnonzero(complaints.bad).tolist():
        one = rows.slice(row, 1).to_pylist()[0]
        reason = complaints.reasons[complaints.by_row[row]]
        letter = _letter(one, reason, room, topic or one.get(TOPIC), now_ms)
        partition = row % room.partitions if letter.key is None else _of_key(letter, room)
        size = _size(letter)
        held = waiting.setdefault(partition, [])
        full = sizes.get(partition, 0) + size > room.batch_bytes - _FRAME_BYTES
        if held and (full or len(held) >= LETTER_RECORDS_MAX):
            yield _batch(room, partition, held, now_ms)
            held.clear()
            sizes[partition] = 0
        held.append(letter)
        sizes[partition] = sizes.get(partition, 0) + size
    for partition, held in waiting.items():
        yield _batch(room, partition, held, now_ms)


def _letter(
    row: dict[str, object], reason: str, room: TopicRoom, topic: object, now_ms: int
) -> NewMessage:
    value, key = row[VALUE], row.get(KEY)
    assert value is None or isinstance(value, bytes)
    assert key is None or isinstance(key, bytes)
    headers = _headers(row.get(HEADERS))
    room_bytes = min(room.bytes_max, BATCH_BYTES) - _FRAME_BYTES - 2 * _KEPT_BYTES
    if _size(NewMessage(value, key, headers)) > room_bytes:
        key = None if key is None else key[:_KEPT_BYTES]
        if sum(map(_header_size, headers)) > _KEPT_BYTES:
            headers = ()
        if value is not None and len(value) > room_bytes:
            reason += f" (here its value is cut from {len(value):,} bytes)"
            value = value[: max(room_bytes - _KEPT_BYTES, 0)]
    said = {delivery_headers.DEAD_REASON: reason, delivery_headers.DEAD_MS: str(now_ms)}
    if isinstance(topic, str):
        said[delivery_headers.DEAD_TOPIC] = topic
    headers += tuple((name, text.encode()) for name, text in said.items())
    return NewMessage(value, key, headers, now_ms)


def _headers(given: object) -> tuple[Header, ...]:
    """The headers of a row that have a name."""
    if not isinstance(given, list):
        return ()
    return tuple(
        (one["key"].decode("utf-8", "replace"), one["value"])
        for one in given
        if one is not None and one["key"] is not None
    )


def _batch(
    room: TopicRoom, partition: int, letters: list[NewMessage], now_ms: int
) -> OutgoingBatch:
    return OutgoingBatch(room.name, partition, build_messages(letters, now_ms), len(letters))


def _of_key(letter: NewMessage, room: TopicRoom) -> int:
    assert letter.key is not None
    return partition_of(letter.key, room.partitions)


def _size(message: NewMessage) -> int:
    fields = len(message.value or b"") + len(message.key or b"") + 32
    return fields + sum(map(_header_size, message.headers))


def _header_size(header: Header) -> int:
    name, value = header
    return 4 * len(name) + len(value or b"") + 8


def _shortened(value: bytes | None) -> str:
    if value is None:
        return "NULL"
    text = value[:60].decode("utf-8", "backslashreplace")
    return repr(text) + ("…" if len(value) > 60 else "")
