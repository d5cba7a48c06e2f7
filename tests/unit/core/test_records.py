"""`core.records`: what is believed of a batch that came from outside."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import BatchTooLarge, InvalidBatch, LocalError
from penstock.core.limits import BATCH_BYTES_MAX
from penstock.core.records import (
    BATCH_HEADER_BYTES,
    check_batch,
    read_header,
    read_outline,
    stamp_batch,
)
from penstock.core.types import Offset, ProducerId, Term
from tests.batches import build_batch, with_bytes

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=300, database=None)


def i8(value: int) -> bytes:
    return value.to_bytes(1, "big", signed=True)


def i16(value: int) -> bytes:
    return value.to_bytes(2, "big", signed=True)


def i32(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def test_reads_what_another_project_wrote() -> None:
    batch = build_batch(3, timestamp=5_000, producer_id=ProducerId(77), epoch=2, sequence=40)
    header = check_batch(batch)
    assert header.size == len(batch)
    assert header.magic == 2
    assert header.record_count == 3
    assert header.last_offset_delta == 2
    assert (header.base_timestamp, header.max_timestamp) == (5_000, 5_002)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 2, 40)
    assert header.last_sequence == 42


def test_a_batch_without_a_producer_says_so() -> None:
    header = check_batch(build_batch())
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


@pytest.mark.parametrize("compression", [0, 1])
def test_the_checksum_covers_compressed_batches_too(compression: int) -> None:
    assert check_batch(build_batch(50, compression=compression)).record_count == 50


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(kind: type[bytes] | type[bytearray] | type[memoryview]) -> None:
    assert check_batch(kind(bytes(build_batch(2)))).record_count == 2


def test_sequences_wrap() -> None:
    batch = build_batch(3, producer_id=ProducerId(1), epoch=0, sequence=2**31 - 2)
    assert check_batch(batch).last_sequence == 0


def test_stamping_leaves_the_checksum_right() -> None:
    batch = build_batch(3)
    before = bytes(batch)
    stamp_batch(batch, base_offset=Offset(123_456_789_012), epoch=Term(9))
    header = check_batch(batch)
    assert (header.base_offset, header.leader_epoch) == (123_456_789_012, 9)
    assert header.last_offset == 123_456_789_014
    assert batch[8:12] == before[8:12], "the length is as it was"
    assert batch[16:] == before[16:], "and everything from the magic on"


def test_stamping_works_in_a_larger_buffer() -> None:
    buffer = bytearray(7) + build_batch() + bytearray(7)
    stamp_batch(memoryview(buffer)[7:-7], base_offset=Offset(5), epoch=Term(1))
    assert buffer[:7] == buffer[-7:] == bytes(7)
    assert read_header(buffer, 7).base_offset == 5


def test_the_outline_is_what_the_header_says() -> None:
    batch = build_batch(3, timestamp=77, producer_id=ProducerId(9), epoch=1, sequence=4)
    stamp_batch(batch, base_offset=Offset(5), epoch=Term(1))
    header = read_header(batch)
    assert read_outline(bytes(7) + batch, 7) == (5, len(batch), 3, header.max_timestamp, 9)


LIES = {
    "magic 0": (16, i8(0), "magic 0"),
    "magic 1": (16, i8(1), "magic 1"),
    "magic 3": (16, i8(3), "magic 3"),
    "negative magic": (16, i8(-1), "magic -1"),
    "a negative length": (8, i32(-1), "says it has 11 bytes"),
    "the most negative length": (8, i32(-(2**31)), "bytes"),
    "a huge length": (8, i32(2**31 - 1), "says it has 2147483659 bytes"),
    "a length of nothing": (8, i32(0), "says it has 12 bytes"),
    "no records": (57, i32(0), "0 records"),
    "a negative count": (57, i32(-1), "-1 records"),
    "more records than offsets": (57, i32(4), "4 records cannot span 3 offsets"),
    "fewer records than offsets": (57, i32(2), "2 records cannot span 3 offsets"),
    "a negative offset delta": (23, i32(-1), "3 records cannot span 0 offsets"),
    "a negative epoch": (51, i16(-1), "needs a producer epoch"),
    "a negative sequence": (53, i32(-1), "needs a producer epoch and a sequence"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_well_made_lie_is_refused(lie: str) -> None:
    position, patch, problem = LIES[lie]
    honest = build_batch(3, producer_id=ProducerId(5), epoch=0, sequence=0)
    with pytest.raises(InvalidBatch, match=problem):
        check_batch(with_bytes(honest, position, patch))


def test_a_batch_one_byte_short_or_long_is_refused() -> None:
    batch = build_batch(2)
    for other in (batch[:-1], batch + b"\0", batch[:BATCH_HEADER_BYTES]):
        with pytest.raises(InvalidBatch, match="says it has"):
            check_batch(other)


@pytest.mark.parametrize("size", [0, 1, 12, BATCH_HEADER_BYTES - 1])
def test_less_than_a_header_is_refused(size: int) -> None:
    with pytest.raises(InvalidBatch, match=f"{size} came"):
        check_batch(build_batch()[:size])


def test_the_size_is_bounded_before_anything_is_read() -> None:
    with pytest.raises(BatchTooLarge, match="send less"):
        check_batch(bytes(BATCH_BYTES_MAX + 1))


def test_the_largest_batch_is_accepted() -> None:
    overhead = len(build_batch(value=bytes(1 << 22))) - (1 << 22)
    batch = build_batch(value=bytes(BATCH_BYTES_MAX - overhead))
    assert len(batch) == BATCH_BYTES_MAX
    assert check_batch(batch).record_count == 1


def test_every_flipped_bit_is_noticed_or_overwritten() -> None:
    honest = build_batch(2)
    for position in range(len(honest)):
        for bit in range(8):
            batch = bytearray(honest)
            batch[position] ^= 1 << bit
            if position in range(8) or position in range(12, 16):
                check_batch(batch)  # Base offset and leader epoch: the leader writes them anyway.
            else:
                with pytest.raises(InvalidBatch):
                    check_batch(batch)


@REPEATABLE
@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(LocalError):
        check_batch(noise)


@REPEATABLE
@given(st.integers(0, 100), st.binary(min_size=1, max_size=40))
def test_a_damaged_header_never_raises_anything_else(position: int, patch: bytes) -> None:
    batch = with_bytes(build_batch(2), position, patch)
    try:
        header = check_batch(batch)
    except LocalError:
        return
    assert header.size == len(batch)
    assert header.record_count == header.last_offset_delta + 1 >= 1
