"""Messages: defaults, what is refused, and what is a bug of ours."""

import pytest

from penstock.core.errors import MalformedRequest
from penstock.kafka.api import Api
from penstock.kafka.codec import codec, reader, writer
from penstock.kafka.schema import schema_of
from penstock.kafka.table import APIS, TABLE


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
