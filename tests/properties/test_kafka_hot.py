"""The hand-written Produce and Fetch, byte by byte against another implementation."""

import io
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.serial import entity_reader, entity_writer

from penstock.core.types import TopicId
from penstock.kafka.codec import codec, writer
from penstock.kafka.fast_codec import (
    FETCH_TOPIC_IDS,
    PRODUCE_TOPIC_IDS,
    Endpoint,
    FetchRow,
    LeaderHint,
    ProduceRow,
    TopicKey,
    read_produce,
    write_fetch,
    write_produce,
)

T = TypeVar("T")

I16 = st.integers(-(1 << 15), (1 << 15) - 1)
I32 = st.integers(-(1 << 31), (1 << 31) - 1)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
CODES = st.integers(-1, 118)
TEXT = st.text(max_size=200)
IDS = st.binary(min_size=16, max_size=16).map(TopicId)
HINTS = st.none() | st.builds(LeaderHint, st.integers(0, 1000), st.integers(0, 1000))
ENDPOINTS = st.lists(
    st.builds(Endpoint, st.integers(0, 1000), TEXT, st.integers(1, 65_535), st.none() | TEXT),
    max_size=3,
)


def topics(
    row: st.SearchStrategy[T], by_id: bool
) -> st.SearchStrategy[list[tuple[TopicKey, list[T]]]]:
    key = IDS if by_id else TEXT
    return st.lists(st.tuples(key, st.lists(row, max_size=3)), max_size=3)


def same_bytes(key: int, version: int, correlation_id: int, ours: bytes) -> None:
    """What another implementation reads and writes again is what we wrote."""
    chosen = codec(key, version)
    head = chosen.head(correlation_id, len(ours) - chosen.head_bytes)
    assert ours[: chosen.head_bytes] == head
    kind = load_response_schema(key, version)
    entity, size = entity_reader(kind)(ours, chosen.head_bytes)
    assert size == len(ours) - chosen.head_bytes
    again = io.BytesIO()
    entity_writer(kind)(again, entity)
    assert ours[chosen.head_bytes :] == again.getvalue()


@given(st.integers(3, 13), I32, st.data())
def test_produce_answers(version: int, correlation_id: int, data: st.DataObject) -> None:
    row = st.builds(
        ProduceRow,
        I32,
        CODES,
        I64,
        st.just(-1) | st.integers(0, 1 << 31).map(lambda second: second * 1000),
        I64,
        st.none() | TEXT,
        HINTS,
        st.lists(I32, max_size=3),
    )
    drawn = data.draw(topics(row, version >= PRODUCE_TOPIC_IDS))
    endpoints = data.draw(ENDPOINTS)
    ours = bytes(write_produce(version, correlation_id, drawn, endpoints))
    same_bytes(0, version, correlation_id, ours)
    fields = {
        "responses": [
            {
                ("topic_id" if version >= PRODUCE_TOPIC_IDS else "name"): key,
                "partition_responses": [_produce_fields(one, version) for one in rows],
            }
            for key, rows in drawn
        ],
        "node_endpoints": [
            {"node_id": one.node, "host": one.host, "port": one.port, "rack": one.rack}
            for one in endpoints
        ],
    }
    assert ours == bytes(codec(0, version).encode(correlation_id, fields))


def _produce_fields(row: ProduceRow, version: int) -> dict[str, object]:
    fields: dict[str, object] = {
        "index": row.partition,
        "error_code": row.code,
        "base_offset": row.base_offset,
        "log_append_time": row.log_append_ms,
        "log_start_offset": row.log_start,
    }
    if version >= 8:
        fields["error_message"] = row.message
        fields["record_errors"] = [{"batch_index": number} for number in row.wrong]
    if row.hint is not None:
        fields["current_leader"] = {"leader_id": row.hint.node, "leader_epoch": row.hint.epoch}
    return fields


@given(st.integers(4, 18), I32, CODES, st.data())
def test_fetch_answers(version: int, correlation_id: int, code: int, data: st.DataObject) -> None:
    row = st.builds(
        FetchRow, I32, CODES, I64, I64, st.lists(st.binary(max_size=200), max_size=3), HINTS
    )
    drawn = data.draw(topics(row, version >= FETCH_TOPIC_IDS))
    endpoints = data.draw(ENDPOINTS)
    buffers = write_fetch(version, correlation_id, drawn, endpoints, code)
    ours = b"".join(buffers)
    same_bytes(1, version, correlation_id, ours)
    fields = {
        "error_code": code,
        "session_id": 0,
        "responses": [
            {
                ("topic_id" if version >= FETCH_TOPIC_IDS else "topic"): key,
                "partitions": [_fetch_fields(one) for one in rows],
            }
            for key, rows in drawn
        ],
        "node_endpoints": [
            {"node_id": one.node, "host": one.host, "port": one.port, "rack": one.rack}
            for one in endpoints
        ],
    }
    assert ours == bytes(codec(1, version).encode(correlation_id, fields))


def _fetch_fields(row: FetchRow) -> dict[str, object]:
    fields: dict[str, object] = {
        "partition_index": row.partition,
        "error_code": row.code,
        "high_watermark": row.high_watermark,
        "last_stable_offset": row.high_watermark,
        "log_start_offset": row.log_start,
        "aborted_transactions": [],
        "records": b"".join(row.records),
    }
    if row.hint is not None:
        fields["current_leader"] = {"leader_id": row.hint.node, "leader_epoch": row.hint.epoch}
    return fields


def test_stored_records_are_sent_as_they_are() -> None:
    records = b"stored" * 100
    buffers = write_fetch(12, 1, [("t", [FetchRow(0, 0, 5, 0, [records])])])
    assert any(buffer is records for buffer in buffers)


def _batch_fields(row: tuple[int, bytes | None]) -> dict[str, object]:
    return {"index": row[0], "records": row[1]}


@given(st.integers(3, 13), st.data())
def test_produce_requests(version: int, data: st.DataObject) -> None:
    by_id = version >= PRODUCE_TOPIC_IDS
    row = st.tuples(I32, st.none() | st.binary(max_size=300))
    drawn = data.draw(topics(row, by_id))
    name, acks, timeout_ms = data.draw(st.tuples(st.none() | TEXT, I16, I32))
    fields = {
        "transactional_id": name,
        "acks": acks,
        "timeout": timeout_ms,
        "topic_data": [
            {
                ("topic_id" if by_id else "name"): key,
                "partition_data": [_batch_fields(one) for one in rows],
            }
            for key, rows in drawn
        ],
    }
    out = bytearray(b"head")
    writer(0, "request", version)(fields, out)
    request = read_produce(out, 4, version)
    assert request[:3] == (name, acks, timeout_ms)
    assert request.topics == drawn
    for _, batches in request.topics:
        for _, batch in batches:
            assert batch is None or batch.obj is out, "records are not copied"
