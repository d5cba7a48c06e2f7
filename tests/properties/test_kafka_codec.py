"""Kafka messages against another implementation: same bytes out, same values in, no bytes harmful.

Values are drawn for any message and version of the protocol, written by our codec, read and written
again by the kio package, and read by our codec. What kio writes must be what we wrote, and what we
read must be what was drawn. Damaged requests may only raise `MalformedRequest`, and may not make us
reserve memory for what they claim.
"""

import io
import tracemalloc
from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from penstock.core.errors import MalformedRequest
from penstock.kafka.codec import Message, codec, reader, writer
from penstock.kafka.fast_codec import read_produce
from penstock.kafka.schema import Direction, Field, schema_of
from penstock.kafka.table import TABLE

KEYS = sorted(TABLE)
ALL_KEYS = [key for key in range(93) if key not in (4, 5, 6, 7)]
DIRECTIONS: tuple[Direction, ...] = ("request", "response")

_INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_YEAR_9999_MS = 253_370_764_800_000


def values(field: Field, version: int) -> st.SearchStrategy[object]:
    """Anything a field may hold in a version."""
    kind = field.kind
    one: st.SearchStrategy[object]
    if kind in _INTEGERS:
        bound = 1 << (_INTEGERS[kind] - 1)
        one = st.integers(-bound, bound - 1)
    elif kind == "struct":
        one = st.fixed_dictionaries(
            {part.name: values(part, version) for part in field.children if part.exists_in(version)}
        )
    else:
        one = _OTHERS[kind]
    if field.is_array:
        one = st.lists(one, max_size=3)
    nullable = field.may_be_null_in(version) and field.tag is None
    return st.none() | one if nullable and kind not in _NEVER_NONE else one


_NEVER_NONE = ("datetime_i64",)
_OTHERS: dict[str, st.SearchStrategy[object]] = {
    "bool": st.booleans(),
    "bytes": st.binary(max_size=300),
    "datetime_i64": st.integers(0, _YEAR_9999_MS // 1000).map(lambda second: second * 1000),
    "error_code": st.integers(-1, 118),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "records": st.binary(max_size=300),
    "string": st.text(max_size=150),
    "timedelta_i32": st.integers(-(1 << 31), (1 << 31) - 1),
    "timedelta_i64": st.integers(-(1 << 40), 1 << 40),
    "uint16": st.integers(0, 65_535),
    "uuid": st.binary(min_size=16, max_size=16),
}


@st.composite
def messages(draw: st.DrawFn, key: int) -> tuple[Direction, int, dict[str, object]]:
    """A direction, a version and the fields of a message."""
    direction = draw(st.sampled_from(DIRECTIONS))
    schema = schema_of(key, direction)
    version = draw(st.integers(*schema.versions))
    fields = {
        field.name: draw(values(field, version))
        for field in schema.fields
        if field.exists_in(version)
    }
    return direction, version, fields


def check(key: int, drawn: tuple[Direction, int, dict[str, object]]) -> None:
    direction, version, fields = drawn
    out = bytearray()
    writer(key, direction, version)(fields, out)
    load = load_request_schema if direction == "request" else load_response_schema
    kind = load(key, version)
    entity, size = entity_reader(kind)(bytes(out), 0)
    assert size == len(out)
    again = io.BytesIO()
    entity_writer(kind)(again, entity)
    assert bytes(out) == again.getvalue()
    message, end = reader(key, direction, version)(bytes(out), 0)
    assert end == len(out)
    assert_same(message, fields)


def assert_same(message: Message, fields: Mapping[str, object]) -> None:
    for name, wanted in fields.items():
        got = getattr(message, name)
        if isinstance(wanted, dict):
            assert_same(got, wanted)
        elif isinstance(wanted, list):
            assert len(got) == len(wanted)
            for one, row in zip(got, wanted, strict=True):
                assert_same(one, row) if isinstance(row, dict) else _assert_equal(one, row)
        else:
            _assert_equal(got, wanted)


def _assert_equal(got: object, wanted: object) -> None:
    assert got == wanted


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_served_messages_have_the_bytes_of_another_implementation(key: int) -> None:
    @given(messages(key))
    def property_(drawn: tuple[Direction, int, dict[str, object]]) -> None:
        check(key, drawn)

    property_()


@pytest.mark.slow
@given(st.sampled_from(ALL_KEYS).flatmap(lambda key: st.tuples(st.just(key), messages(key))))
@settings(max_examples=300)
def test_all_messages_have_the_bytes_of_another_implementation(
    drawn: tuple[int, tuple[Direction, int, dict[str, object]]],
) -> None:
    check(*drawn)


def test_every_version_of_every_message_can_be_compiled() -> None:
    for key in ALL_KEYS:
        for direction in DIRECTIONS:
            first, last = schema_of(key, direction).versions
            for version in range(first, last + 1):
                reader(key, direction, version)
                writer(key, direction, version)


# Damage.


def read_any(key: int, version: int, data: bytes) -> None:
    """Read a request as the broker would; only the one error may come of it."""
    try:
        if key == 0:
            read_produce(bytearray(data), 0, version)
        else:
            codec(key, version).decode(data, 0)
    except MalformedRequest:
        pass


@pytest.mark.parametrize("key", KEYS)
@given(st.data())
def test_random_bytes_are_refused_or_read(key: int, data: st.DataObject) -> None:
    version = data.draw(st.integers(*TABLE[key].served))
    read_any(key, version, data.draw(st.binary(max_size=200)))


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
@given(st.data())
def test_damaged_requests_are_refused_or_read(key: int, data: st.DataObject) -> None:
    schema = schema_of(key, "request")
    version = data.draw(st.integers(*TABLE[key].served))
    fields = {
        field.name: data.draw(values(field, version))
        for field in schema.fields
        if field.exists_in(version)
    }
    out = bytearray()
    writer(key, "request", version)(fields, out)
    random = Random(data.draw(st.integers(0, 1 << 32)))
    for _ in range(20):
        damaged = bytearray(out)
        if damaged:
            for _ in range(random.randint(1, 4)):
                damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
        read_any(key, version, bytes(damaged[: random.randint(0, len(damaged))]))
        read_any(key, version, bytes(damaged))


@pytest.mark.parametrize("key", KEYS)
def test_a_length_that_is_only_claimed_takes_no_memory(key: int) -> None:
    first, last = TABLE[key].served
    claims = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x7f\xff")
    for version in range(first, last + 1):
        read_any(key, version, b"")  # The codec itself is made now.
        tracemalloc.start()
        for claim in claims:
            for before in range(40):
                read_any(key, version, bytes(before) + claim + bytes(20))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1 << 20, f"{peak} bytes for a request of a few"
