"""`core.append_payload`: the directory in front of an APPEND entry's batches."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.append_payload import Batch, Slice, decode_append, encode_append
from penstock.core.limits import ENTRY_SLICES_MAX
from penstock.core.types import Offset, PartitionId


def slice_of(partition: int, batches: list[bytes], base_offset: int = 0) -> Slice:
    length = sum(map(len, batches))
    return Slice(PartitionId(partition), length, Offset(base_offset), 9, len(batches), 1_000)


def test_layout() -> None:
    payload = encode_append(7, [(Slice(PartitionId(2), 3, Offset(5), 4, 1, -1), [b"abc"])])
    stamp, slice_count = "0700000000000000", "01000000"
    partition, length, base_offset = "02000000", "03000000", "0500000000000000"
    record_count, batch_count, max_timestamp = "04000000", "01000000", "ffffffffffffffff"
    directory = partition + length + base_offset + record_count + batch_count + max_timestamp
    assert payload.hex() == stamp + slice_count + directory + b"abc".hex()


def test_end_offset() -> None:
    assert slice_of(1, [b"x"], base_offset=100).end_offset == 109


@settings(derandomize=True, deadline=None, database=None)
@given(
    stamp_ms=st.integers(0, 2**62),
    contents=st.lists(
        st.tuples(
            st.integers(0, 2**32 - 1),
            st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=3),
            st.integers(0, 2**62),
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_what_goes_in_comes_out(
    stamp_ms: int, contents: list[tuple[int, list[bytes], int]]
) -> None:
    parts = [(slice_of(number, batches, base), batches) for number, batches, base in contents]
    payload = encode_append(stamp_ms, parts)
    decoded = decode_append(payload)
    assert decoded.stamp_ms == stamp_ms
    assert decoded.slices == [part for part, _ in parts]
    position = decoded.start
    for part, batches in parts:
        assert payload[position : position + part.length] == b"".join(batches)
        position += part.length
    assert position == len(payload)
    assert decode_append(memoryview(payload)) == decoded


def test_batches_may_be_any_buffer() -> None:
    batches: list[Batch] = [b"a", bytearray(b"b"), memoryview(b"c")]
    payload = encode_append(0, [(slice_of(1, [b"a", b"b", b"c"]), batches)])
    assert payload.endswith(b"abc")


@pytest.mark.parametrize("count", [0, ENTRY_SLICES_MAX + 1, 2**32 - 1])
def test_an_impossible_slice_count_is_a_broken_promise(count: int) -> None:
    with pytest.raises(AssertionError, match=f"{count} slices"):
        decode_append(struct.pack("<qI", 0, count))
