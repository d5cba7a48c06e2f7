"""`core.record_bodies`: what another project packed is read, thinned out and packed again."""

from collections.abc import Callable
from functools import partial

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import record_bodies
from penstock.core.compression import decompress
from penstock.core.errors import InvalidBatch
from penstock.core.record_bodies import pack_body, read_records, rebuild_batch
from penstock.core.records import BATCH_HEADER_BYTES, read_header, stamp_append_time, stamp_batch
from penstock.core.types import Offset, Term
from tests.batches import with_bytes

CODECS = range(5)
REPEATABLE = settings(derandomize=True, deadline=None, max_examples=300, database=None)
TIME = 1_700_000_000_000

Shape = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
SHAPES: list[Shape] = [
    (TIME, b"a", b"1", []),
    (TIME + 5, None, b"no key", []),
    (TIME - 900, b"b", None, [("why", b"deleted"), ("nothing", None)]),
    (TIME + 70_000, b"a" * 300, b"x" * 5_000, []),
    (TIME + 1, b"", b"", []),
]


def pack(shapes: list[Shape], codec: int = 0) -> bytearray:
    """A batch as aiokafka would send it, at offset 1,000."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=7, producer_epoch=3,
        base_sequence=40, batch_size=1 << 24,
    )  # fmt: skip
    for number, (timestamp, key, value, headers) in enumerate(shapes):
        builder.append(number, timestamp=timestamp, key=key, value=value, headers=headers)
    batch = bytearray(builder.build())
    stamp_batch(batch, base_offset=Offset(1_000), epoch=Term(9))
    return batch


def unpack(batch: bytes | bytearray) -> list[tuple[int, Shape]]:
    """What a client reads: offsets and records."""
    opened = DefaultRecordBatch(batch)
    assert opened.validate_crc()
    return [(r.offset, (r.timestamp, r.key, r.value, r.headers)) for r in opened]


@pytest.mark.parametrize("codec", CODECS)
def test_reads_what_another_project_packed(codec: int) -> None:
    opened = read_records(pack(SHAPES, codec))
    assert [record.offset_delta for record in opened.records] == [0, 1, 2, 3, 4]
    assert [record.key for record in opened.records] == [key for _, key, _, _ in SHAPES]
    assert [record.tombstone for record in opened.records] == [False, False, True, False, False]
    base = opened.header.base_timestamp
    assert [base + r.timestamp_delta for r in opened.records] == [time for time, *_ in SHAPES]
    assert opened.horizon_ms is None


@pytest.mark.parametrize("codec", CODECS)
def test_another_project_reads_what_is_left(codec: int) -> None:
    batch = pack(SHAPES, codec)
    before = unpack(batch)
    opened = read_records(batch)
    made = rebuild_batch(opened, [opened.records[2], opened.records[4]])
    assert unpack(made) == [before[2], before[4]]
    old, new = read_header(batch), read_header(made)
    assert new.size == len(made)
    assert new.max_timestamp == TIME + 1
    assert new.record_count == 2
    same = new._replace(
        length=old.length, crc=old.crc, max_timestamp=old.max_timestamp, record_count=5
    )
    assert same == old, "offsets, producer, sequence and attributes stay"


@pytest.mark.parametrize("codec", CODECS)
def test_a_horizon_takes_the_place_of_the_base_and_changes_no_time(codec: int) -> None:
    batch = pack(SHAPES, codec)
    opened = read_records(batch)
    horizon = TIME + 86_400_000
    marked = rebuild_batch(opened, opened.records, horizon_ms=horizon)
    assert unpack(marked) == unpack(batch)
    again = read_records(marked)
    assert again.horizon_ms == horizon
    assert read_header(marked).max_timestamp == read_header(batch).max_timestamp
    thinner = rebuild_batch(again, again.records[1:3], horizon_ms=horizon)
    assert read_records(thinner).horizon_ms == horizon
    assert unpack(thinner) == unpack(batch)[1:3]
    later = rebuild_batch(again, again.records, horizon_ms=horizon + 1)
    assert read_records(later).horizon_ms == horizon + 1
    assert unpack(later) == unpack(batch)


def test_times_given_by_the_log_stay_the_log_s() -> None:
    batch = pack(SHAPES)
    stamp_append_time(batch, TIME + 1_000_000)
    opened = read_records(batch)
    made = rebuild_batch(opened, opened.records[:1])
    assert read_header(made).max_timestamp == TIME + 1_000_000
    assert unpack(made)[0][1][0] == TIME + 1_000_000


def test_bare_snappy_is_read_too() -> None:
    batch = pack(SHAPES)
    packed = bytes(cramjam.snappy.compress_raw(bytes(batch[BATCH_HEADER_BYTES:])))
    bare = batch[:BATCH_HEADER_BYTES] + packed
    bare = with_bytes(bare, 8, (len(bare) - 12).to_bytes(4, "big"))
    bare = with_bytes(bare, 21, (2).to_bytes(2, "big"))
    assert read_records(bare).records == read_records(batch).records


def test_blocks_of_lz4_stand_alone() -> None:
    """Java's client refuses a frame whose blocks refer to each other; a bit of its head says so."""
    records = b"".join(b"%d" % number for number in range(100_000))
    packed = pack_body(records, 3)
    assert packed[:4] == bytes.fromhex("04224d18")
    assert packed[4] & 0x20, "the blocks depend on each other"
    assert len(packed) < len(records)


def test_many_blocks_of_snappy() -> None:
    shapes: list[Shape] = [(TIME, b"key %d" % n, bytes([n]) * 9_000, []) for n in range(30)]
    batch = pack(shapes, 2)
    opened = read_records(batch)
    assert unpack(rebuild_batch(opened, opened.records)) == unpack(batch)


# Lies.


def with_body(body: bytes, *, count: int, codec: int = 0, deltas: int | None = None) -> bytearray:
    """A batch whose records are these bytes."""
    batch = pack(SHAPES)[:BATCH_HEADER_BYTES] + body
    batch = with_bytes(batch, 8, (len(batch) - 12).to_bytes(4, "big"))
    batch = with_bytes(batch, 21, codec.to_bytes(2, "big"))
    batch = with_bytes(batch, 23, (count - 1 if deltas is None else deltas).to_bytes(4, "big"))
    return with_bytes(batch, 57, count.to_bytes(4, "big"))


ONE = bytes([16, 0, 0, 0, 2, 65, 2, 66, 0])
"""A record of 8 bytes: attributes, two deltas, key A, value B, no headers."""


@pytest.mark.parametrize(
    ("batch", "complaint"),
    [
        (with_body(b"", count=1), "in the middle"),
        (with_body(ONE, count=2, deltas=1), "in the middle"),
        (with_body(ONE + b"\0", count=1), "1 bytes follow"),
        (with_body(bytes([60, *ONE[1:]]), count=1), "says it has 30 bytes"),
        (with_body(bytes([3, *ONE[1:]]), count=1), "says it has -2 bytes"),
        (with_body(bytes([*ONE[:3], 2, *ONE[4:]]), count=1), "at offset 1 of 0"),
        (with_body(ONE + ONE, count=2), "at offset 0 of 1"),
        (with_body(bytes([*ONE[:6], 90, *ONE[7:]]), count=1), "has a value of 45"),
        (with_body(bytes([*ONE[:4], 90, *ONE[5:]]), count=1), "in the middle"),
        (with_body(bytes([*ONE[:4], 8, *ONE[5:]]), count=1), "in the middle|has a value"),
        (with_body(b"\xff" * 30, count=1), "longer than 10"),
        (with_body(ONE, count=1, codec=7), "codec 7 is not known"),
        (with_body(ONE, count=600_000), "too many to look at"),
        (with_body(b"not gzip", count=1, codec=1), "cannot be decompressed"),
        (with_body(b"\x1f\x8b\x08\0\0\0", count=1, codec=1), "cut short|cannot be"),
        (with_body(b"not snappy", count=1, codec=2), "cannot be decompressed|more than"),
        (with_body(b"\x82SNAPPY\0" + b"\0" * 8 + b"\x7f\0\0\0", count=1, codec=2), "says it has"),
        (with_body(b"\x82SNAPPY\0" + b"\0" * 8 + b"\x7f", count=1, codec=2), "cannot be"),
        (with_body(b"not lz4", count=1, codec=3), "cannot be decompressed"),
        (with_body(b"not zstd", count=1, codec=4), "cannot be decompressed"),
    ],
)
def test_what_is_wrong_is_refused(batch: bytearray, complaint: str) -> None:
    with pytest.raises(InvalidBatch, match=complaint):
        read_records(batch)


@pytest.mark.parametrize(
    ("codec", "compress"),
    [
        (1, cramjam.gzip.compress),
        (2, cramjam.snappy.compress_raw),
        (3, cramjam.lz4.compress),
        (4, cramjam.zstd.compress),
    ],
)
def test_what_unpacks_to_very_much_is_not_unpacked(
    codec: int, compress: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    bounded = partial(decompress, bytes_max=1 << 20)
    monkeypatch.setattr(record_bodies, "decompress", bounded)
    fits = with_body(bytes(compress(bytes(1 << 20))), count=1, codec=codec)
    with pytest.raises(InvalidBatch, match="a record of 0 bytes"):
        read_records(fits)
    bomb = with_body(bytes(compress(bytes((1 << 20) + 1))), count=1, codec=codec)
    with pytest.raises(InvalidBatch, match="unpack to more than 1048576"):
        read_records(bomb)


@REPEATABLE
@given(data=st.binary(max_size=80), codec=st.integers(0, 4), count=st.integers(1, 5))
def test_random_bytes_are_refused_or_read(data: bytes, codec: int, count: int) -> None:
    try:
        opened = read_records(with_body(data, count=count, codec=codec))
    except InvalidBatch:
        return
    assert len(opened.records) == count


@REPEATABLE
@given(
    position=st.integers(BATCH_HEADER_BYTES, 5_000), bit=st.integers(0, 7), codec=st.integers(0, 4)
)
def test_a_flipped_bit_never_crashes(position: int, bit: int, codec: int) -> None:
    batch = pack(SHAPES, codec)
    position = min(position, len(batch) - 1)
    batch[position] ^= 1 << bit
    try:
        opened = read_records(batch)
    except InvalidBatch:
        return
    rebuild_batch(opened, opened.records, horizon_ms=5)
