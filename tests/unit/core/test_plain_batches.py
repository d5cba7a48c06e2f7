"""The fast way in and out of a batch gives exactly what the slow one does."""

from itertools import pairwise

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.message import NewMessage
from penstock.core.message_batches import (
    build_messages,
    cut_batch,
    new_marks,
    pack_messages,
    read_messages,
)
from penstock.core.plain_batches import RECORDS_MAX, pack_plain, unpack_plain
from penstock.core.records import read_header


def _bodies(size: int, count: int) -> list[bytes]:
    return [(b"%d-" % number * (size + 1))[:size] for number in range(count)]


@given(
    size=st.sampled_from([0, 1, 55, 56, 57, 63, 64, 100, 8_191, 8_192]),
    count=st.sampled_from([2, 3, 63, 64, 65, 66, 200]),
)
def test_packing_is_what_packing_one_by_one_is(size: int, count: int) -> None:
    bodies = _bodies(size, count)

    packed = pack_plain(bodies)

    assert packed == pack_messages([NewMessage(body) for body in bodies], 5)[0]
    assert packed is not None
    assert unpack_plain(packed, count) == bodies


def test_numbers_of_three_bytes_are_right_as_well() -> None:
    bodies = _bodies(10, 8_200)

    packed = pack_plain(bodies)

    assert packed == pack_messages([NewMessage(body) for body in bodies], 5)[0]
    assert packed is not None
    assert unpack_plain(packed, len(bodies)) == bodies


def test_bodies_of_different_length_go_the_other_way() -> None:
    assert pack_plain([b"a", b"bb"]) is None
    assert pack_plain([b""] * (RECORDS_MAX + 1)) is None


@given(
    messages=st.lists(
        st.builds(
            NewMessage,
            value=st.none() | st.binary(min_size=3, max_size=3),
            key=st.none() | st.binary(max_size=2),
            headers=st.just(()) | st.just((("a", b"b"),)),
            timestamp_ms=st.sampled_from([5, 5, 6]),
        ),
        min_size=1,
        max_size=70,
    )
)
def test_what_is_more_than_bodies_is_never_taken_for_bodies(messages: list[NewMessage]) -> None:
    records, _, _ = pack_messages(messages, 5)
    plain = all(
        one.value is not None
        and one.key is None
        and not one.headers
        and one.timestamp_ms == messages[0].timestamp_ms
        for one in messages
    )

    bodies = unpack_plain(records, len(messages))

    if not plain:
        assert bodies is None
    elif bodies is not None:
        assert bodies == [one.value for one in messages]


@given(data=st.binary(min_size=7, max_size=300), count=st.integers(1, 40))
def test_garbage_is_no_batch_of_bodies(data: bytes, count: int) -> None:
    bodies = unpack_plain(data, count)

    assert bodies is None or pack_plain(bodies) == data


@given(
    size=st.sampled_from([0, 1, 57, 64, 100]),
    total=st.sampled_from([2, 66, 130, 8_250]),
    data=st.data(),
)
def test_records_from_the_middle_are_read_by_their_numbers(
    size: int, total: int, data: st.DataObject
) -> None:
    bodies = _bodies(size, total)
    first = data.draw(st.integers(0, total - 1))
    end = data.draw(st.integers(first + 1, total))
    batch = build_messages([NewMessage(body) for body in bodies], 5)

    cut = cut_batch(batch, [(first, end)], new_marks())

    assert cut is not None
    assert [one.value for one in read_messages(cut)] == bodies[first:end]
    assert [one.offset for one in read_messages(cut)] == list(range(first, end))
    records = bytes(cut[61:])
    assert pack_plain(bodies[first:end], first) == records
    if end - first > 1:
        assert unpack_plain(records, end - first, first) == bodies[first:end]


@given(spans=st.lists(st.integers(0, 300), min_size=2, max_size=12, unique=True))
def test_several_rows_are_cut_out_as_one_batch(spans: list[int]) -> None:
    places = sorted(spans)
    rows = [(one, other) for one, other in pairwise(places) if places.index(one) % 2 == 0]
    messages = [NewMessage(b"%d" % number, key=b"k" * (number % 3)) for number in range(300)]
    batch = build_messages(messages, 5)

    cut = cut_batch(batch, rows, new_marks())

    assert cut is not None
    wanted = [offset for first, end in rows for offset in range(first, end)]
    read = read_messages(cut)
    assert [one.offset for one in read] == wanted
    assert [one.value for one in read] == [b"%d" % offset for offset in wanted]
    check_batch_but_gaps(cut)


def check_batch_but_gaps(batch: bytearray) -> None:
    """Its checksum is right, and it says how long it is."""
    header = read_header(batch)
    assert header.size == len(batch)
    assert crc32c(memoryview(batch)[21:]) == header.crc
