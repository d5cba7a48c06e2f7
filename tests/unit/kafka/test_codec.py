"""Messages: defaults, what is refused, and what is a bug of ours."""

from collections.abc import Generator
from typing import TypeVar

import pytest

from penstock.core.errors import MalformedRequest
from penstock.core.limits import KAFKA_REQUEST_ROWS_MAX
from penstock.kafka.api import Api
from penstock.kafka.codec import ROWS_PER_PORTION, codec, reader, skip_tags, writer
from penstock.kafka.schema import schema_of
from penstock.kafka.table import APIS, TABLE

Result = TypeVar("Result")


def test_fields_that_a_version_lacks_have_their_defaults() -> None:
    out = bytearray()
    writer(3, "request", 0)({"topics": [{"name": "t"}]}, out)
    request = codec(3, 0).decode(bytes(out), 0)
    assert request.topics[0].name == "t"
    assert request.topics[0].topic_id == bytes(16)
    assert request.allow_auto_topic_creation is True
    assert request.include_topic_authorized_operations is False


def test_a_struct_that_is_missing_is_made_of_defaults() -> None:
    out = bytearray()
    writer(1, "request", 4)({"replica_id": -1, "max_wait": 1, "min_bytes": 1, "topics": []}, out)
    request = codec(1, 4).decode(bytes(out), 0)
    assert request.replica_state.replica_id == -1
    assert request.session_epoch == -1


def test_unknown_tags_are_passed_over() -> None:
    out = bytearray()
    writer(12, "request", 4)({"group_id": "g", "generation_id": 1, "member_id": "m"}, out)
    assert out[-1] == 0
    tagged = bytes(out[:-1]) + b"\x02\x05\x03abc\x7f\x00"
    assert codec(12, 4).decode(tagged, 0).member_id == "m"
    with pytest.raises(MalformedRequest):
        codec(12, 4).decode(bytes(out[:-1]) + b"\x01\x05\x03ab", 0)


def test_a_misspelt_or_missing_field_of_an_answer_is_a_bug() -> None:
    chosen = codec(3, 1)
    with pytest.raises(AssertionError, match="no field .'topicz'"):
        chosen.encode(1, {"brokers": [], "topics": [], "topicz": []})
    with pytest.raises(AssertionError, match="needs brokers"):
        chosen.encode(1, {"topics": []})
    with pytest.raises(AssertionError, match="cannot be written"):
        chosen.encode(1, {"brokers": [{"node_id": None, "host": "", "port": 1}], "topics": []})
    with pytest.raises(AssertionError, match="null"):
        chosen.encode(1, {"brokers": None, "topics": []})


def test_an_answer_may_hold_what_only_other_versions_have() -> None:
    answer = {"brokers": [], "topics": [], "cluster_id": "c", "controller_id": 1}
    assert len(codec(3, 0).encode(1, answer)) < len(codec(3, 2).encode(1, answer))


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_every_api_can_refuse_as_far_as_it_has_a_place_for_it(api: Api) -> None:
    key = api.key
    first, last = TABLE[key].served
    for version in range(first, last + 1):
        chosen = codec(key, version)
        if chosen.has_error_code:
            data = bytes(chosen.refuse(7, 42, "no"))
            answer, end = reader(key, "response", version)(data, chosen.head_bytes)
            assert answer.error_code == 42
            assert end == len(data)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_only_versions_that_exist_are_served(api: Api) -> None:
    key = api.key
    served = TABLE[key].served
    known = schema_of(key, "request").versions
    assert known[0] <= served[0] <= served[1] <= known[1]
    assert known == schema_of(key, "response").versions


def test_the_table_is_sorted_and_each_api_has_one_kind_of_code() -> None:
    assert [api.key for api in APIS] == sorted(TABLE)
    assert all((api.handle is None) != (api.start is None) for api in APIS)


def in_portions(portions: Generator[None, None, Result]) -> tuple[Result, int]:
    """What a generator returns, and how often it gave way."""
    pauses = 0
    while True:
        try:
            next(portions)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


def fetch_request(version: int, rows: int) -> bytes:
    parts = [
        {"partition": index, "fetch_offset": index, "partition_max_bytes": 1}
        for index in range(rows)
    ]
    topics = [{"topic": "t", "topic_id": b"t" * 16, "partitions": parts}] * 2
    out = bytearray()
    fields = {"max_wait": 1, "min_bytes": 1, "topics": topics, "forgotten_topics_data": []}
    writer(1, "request", version)(fields, out)
    return bytes(out)


@pytest.mark.parametrize("version", [4, 12, 18])
def test_reading_in_portions_reads_the_same(version: int) -> None:
    data = fetch_request(version, 1_000)
    chosen = codec(1, version)
    request, pauses = in_portions(chosen.decode_in_portions(data, 0))
    assert request == chosen.decode(data, 0)
    assert pauses == 2 * (1_000 // ROWS_PER_PORTION)
    for end in range(0, len(data), 997):
        with pytest.raises(MalformedRequest):
            in_portions(chosen.decode_in_portions(data[:end], 0))


@pytest.mark.parametrize("version", [0, 5, 9])
def test_writing_in_portions_writes_the_same(version: int) -> None:
    rows = [
        {
            "partition_index": index,
            "leader_id": 1,
            "replica_nodes": [1, 2],
            "isr_nodes": [1],
            "offline_replicas": [],
        }
        for index in range(500)
    ]
    topics = [{"name": f"t{index}", "partitions": rows} for index in range(3)]
    answer = {"brokers": [], "topics": [*topics, {"name": "none", "partitions": []}]}
    chosen = codec(3, version)
    written, pauses = in_portions(chosen.encode_in_portions(7, answer))
    assert written == chosen.encode(7, answer)
    assert pauses == 3 * (500 // ROWS_PER_PORTION)


def test_all_rows_of_a_request_together_are_bounded() -> None:
    one = writer(3, "request", 0)
    out = bytearray()
    one({"topics": [{"name": ""}] * (KAFKA_REQUEST_ROWS_MAX + 1)}, out)
    with pytest.raises(MalformedRequest, match="an array of"):
        codec(3, 0).decode(bytes(out), 0)
    # Each array is allowed by itself, but not both.
    data = fetch_request(4, KAFKA_REQUEST_ROWS_MAX // 2 + 2 * ROWS_PER_PORTION)
    with pytest.raises(MalformedRequest, match="send several"):
        in_portions(codec(1, 4).decode_in_portions(data, 0))


def test_tags_are_few_and_each_comes_once() -> None:
    out = bytearray()
    fields = {"max_wait": 1, "min_bytes": 1, "topics": [], "forgotten_topics_data": []}
    writer(1, "request", 12)(fields, out)
    assert out[-1] == 0
    # Tag 0 is the cluster's id.
    assert codec(1, 12).decode(bytes(out[:-1]) + b"\x01\x00\x03\x03id", 0).cluster_id == "id"
    for tags in (b"\x02" + b"\x00\x03\x03id" * 2, b"\x02\x05\x00" + b"\x00\x03\x03id"):
        with pytest.raises(MalformedRequest, match="order"):
            codec(1, 12).decode(bytes(out[:-1]) + tags, 0)
    many = b"".join(bytes((tag, 0)) for tag in range(1, 66))
    with pytest.raises(MalformedRequest, match="65 tagged fields"):
        codec(1, 12).decode(bytes(out[:-1]) + b"\x41" + many, 0)
    with pytest.raises(MalformedRequest, match="65 tagged fields"):
        skip_tags(b"\x41" + many, 0)
