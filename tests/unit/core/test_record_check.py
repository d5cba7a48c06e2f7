"""`core.record_check`: what passes is what a reader reads to the end, and costs little."""

import contextlib
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import InvalidBatch
from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages, read_messages
from penstock.core.record_check import STRETCH_MIN, check_few_records, check_records
from penstock.core.records import BATCH_HEADER_BYTES, read_header

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=500, database=None)
NOW = 1_700_000_000_000

SIZES = st.sampled_from([0, 1, 40, 63, 64, 100, 8_191, 8_192])
BODIES = st.one_of(st.none(), st.builds(bytes, SIZES), st.binary(max_size=40))
HEADERS = st.lists(st.tuples(st.text(max_size=4), BODIES), max_size=3).map(tuple)
MESSAGES = st.builds(
    NewMessage,
    value=BODIES,
    key=BODIES,
    headers=HEADERS,
    timestamp_ms=st.sampled_from([-1, NOW, NOW + 70, NOW + 10_000]),
)
STRETCHES = st.lists(st.tuples(MESSAGES, st.integers(1, 90)), min_size=1, max_size=4)


def body_of(messages: list[NewMessage]) -> bytes:
    return bytes(build_messages(messages, NOW)[BATCH_HEADER_BYTES:])


def walked(body: bytes, count: int) -> int:
    """How many records were walked to check them all."""
    total = 0

    def may_walk(more: int) -> bool:
        nonlocal total
        total += more
        return True

    assert check_records(body, count, may_walk)
    return total


def same(count: int, size: int = 100) -> list[NewMessage]:
    return [NewMessage(bytes(size))] * count


@REPEATABLE
@given(stretches=STRETCHES)
def test_what_is_built_passes(stretches: list[tuple[NewMessage, int]]) -> None:
    messages = [message for message, count in stretches for _ in range(count)]
    assert walked(body_of(messages), len(messages)) <= len(messages)


def reads(body: bytes, count: int) -> bool:
    """Whether the reader that takes every record apart finds as many, one after the other."""
    batch = build_messages([NewMessage(b"")], NOW)
    header = bytearray(batch[:BATCH_HEADER_BYTES])
    header[8:12] = (BATCH_HEADER_BYTES - 12 + len(body)).to_bytes(4, "big")
    header[23:27] = (count - 1).to_bytes(4, "big")
    header[57:61] = count.to_bytes(4, "big")
    assert read_header(header).record_count == count
    with contextlib.suppress(InvalidBatch):
        return [one.offset for one in read_messages(bytes(header) + body)] == list(range(count))
    return False


@REPEATABLE
@given(
    stretches=STRETCHES, place=st.floats(0, 1), value=st.integers(0, 255), wrong=st.integers(-1, 1)
)
def test_it_is_of_one_mind_with_a_reader(
    stretches: list[tuple[NewMessage, int]], place: float, value: int, wrong: int
) -> None:
    messages = [message for message, count in stretches for _ in range(count)]
    body = bytearray(body_of(messages))
    body[int(place * (len(body) - 1))] = value
    count = max(1, len(messages) + wrong)
    try:
        check_records(bytes(body), count, lambda _: True)
    except InvalidBatch:
        assert not reads(bytes(body), count)
    else:
        assert reads(bytes(body), count)


@REPEATABLE
@given(body=st.binary(max_size=60), count=st.integers(1, 8))
def test_random_bytes_are_refused_as_a_reader_refuses_them(body: bytes, count: int) -> None:
    try:
        check_records(body, count, lambda _: True)
    except InvalidBatch:
        assert not reads(body, count)
    else:
        assert reads(body, count)


def refusal(check: Callable[[], object]) -> str:
    """What is wrong, in words; empty if nothing is."""
    try:
        check()
    except InvalidBatch as error:
        return str(error)
    return ""


@REPEATABLE
@given(
    stretches=st.lists(st.tuples(MESSAGES, st.just(1)), min_size=1, max_size=STRETCH_MIN - 1),
    place=st.floats(0, 1),
    value=st.integers(0, 255),
    wrong=st.integers(-1, 1),
)
def test_a_few_records_are_checked_where_they_lie(
    stretches: list[tuple[NewMessage, int]], place: float, value: int, wrong: int
) -> None:
    body = bytearray(body_of([message for message, _ in stretches]))
    body[int(place * (len(body) - 1))] = value
    count = min(max(1, len(stretches) + wrong), STRETCH_MIN - 1)
    batch = memoryview(bytearray(BATCH_HEADER_BYTES) + body)
    found = refusal(lambda: check_few_records(batch, BATCH_HEADER_BYTES, count))
    assert found == refusal(lambda: check_records(bytes(body), count, lambda _: True))


@pytest.mark.parametrize("count", [6, 64, 65, 8_192, 8_193, 20_000])
def test_equal_records_are_not_walked(count: int) -> None:
    body = body_of(same(count))
    assert walked(body, count) <= 16
    for wrong in (body[:-1], body + b"\0", body[:-107] + body[-106:]):
        with pytest.raises(InvalidBatch):
            check_records(wrong, count, lambda _: True)
    with pytest.raises(InvalidBatch):
        check_records(body, count - 1, lambda _: True)
    with pytest.raises(InvalidBatch):
        check_records(body, count + 1, lambda _: True)


def test_an_offset_that_is_given_twice_is_found_in_a_stretch() -> None:
    records = [
        body_of(same(number + 1))[len(body_of(same(number))) if number else 0 :]
        for number in range(40)
    ]
    assert check_records(b"".join(records), 40, lambda _: True)
    records[20] = records[19]
    with pytest.raises(InvalidBatch, match="record 20 says it is at offset 19"):
        check_records(b"".join(records), 40, lambda _: True)


def test_keys_and_times_of_equal_length_are_a_stretch_too() -> None:
    random = Random(1)
    messages = [
        NewMessage(random.randbytes(80), key=b"%06d" % number, timestamp_ms=NOW + number // 100)
        for number in range(5_000)
    ]
    assert walked(body_of(messages), 5_000) <= 32


def test_a_walk_may_be_refused() -> None:
    random = Random(2)
    messages = [NewMessage(random.randbytes(random.randrange(200))) for _ in range(1_000)]
    body = body_of(messages)
    left = [300]

    def may_walk(count: int) -> bool:
        left[0] -= count
        return left[0] >= 0

    assert not check_records(body, 1_000, may_walk)
