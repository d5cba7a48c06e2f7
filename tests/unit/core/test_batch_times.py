"""Finding messages by time inside batches, whatever they are packed in."""

import struct

import cramjam
import pytest

from penstock.core import batch_times
from penstock.core.batch_times import first_message_from, latest_message
from penstock.core.limits import (
    BATCH_UNPACKED_PARTS_MAX,
    BATCH_UNPACKED_RECORDS_MAX,
    KAFKA_BATCH_OPENED_BYTES_MAX,
)
from tests.batches import build_batch, with_bytes

CODECS = {"plain": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_the_first_message_from_a_time_on(codec: int) -> None:
    batch = bytes(build_batch(10, timestamp=1_000, compression=codec, value=b"x" * 100))
    assert first_message_from(batch, 0) == (0, 1_000)
    assert first_message_from(batch, 1_004) == (4, 1_004)
    assert first_message_from(batch, 1_009) == (9, 1_009)
    assert first_message_from(batch, 1_010) is None
    assert latest_message(batch) == (9, 1_009)


def test_only_the_first_batch_counts() -> None:
    batches = bytes(build_batch(2, timestamp=10)) + bytes(build_batch(2, timestamp=20))
    assert first_message_from(batches, 15) is None
    assert latest_message(batches) == (1, 11)


def test_the_time_of_the_log_is_everybodys() -> None:
    batch = with_bytes(build_batch(3, timestamp=10), 21, b"\x00\x08")
    assert first_message_from(bytes(batch), 12) == (0, 12)
    assert latest_message(bytes(batch)) == (0, 12)


def test_nothing_is_found_in_nothing() -> None:
    assert first_message_from(b"", 0) is None
    assert latest_message(b"") is None


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_what_is_no_records_has_no_times(codec: int) -> None:
    batch = build_batch(3)
    for garbage in (b"", b"\xff" * 40, b"\x00" * 40, bytes(range(40)), b"\x82SNAPPY\x00" * 4):
        made = with_bytes(batch[:61] + garbage, 21, bytes([0, codec]))
        made = with_bytes(made, 8, (len(made) - 12).to_bytes(4, "big"))
        first_message_from(bytes(made), 1 << 60)
        latest_message(bytes(made))


@pytest.mark.slow
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_that_opens_to_too_much_is_left_closed(codec: int) -> None:
    huge = bytes(4 * KAFKA_BATCH_OPENED_BYTES_MAX)
    compressed = {
        1: lambda: bytes(cramjam.gzip.compress(huge)),
        2: lambda: bytes(cramjam.snappy.compress_raw(huge)),
        3: lambda: bytes(cramjam.lz4.compress(huge)),
        4: lambda: bytes(cramjam.zstd.compress(huge)),
    }[codec]()
    made = build_batch(3)[:61] + compressed
    made = with_bytes(made, 21, bytes([0, codec]))
    made = with_bytes(made, 8, (len(made) - 12).to_bytes(4, "big"))
    assert first_message_from(bytes(made), 0) is None


def packed_batch(records: bytes, codec: int, count: int = 3) -> bytes:
    """A batch with these bytes in the place of its records."""
    made = with_bytes(build_batch(3, timestamp=1_000)[:61] + records, 21, bytes([0, codec]))
    made = with_bytes(made, 57, count.to_bytes(4, "big"))
    return bytes(with_bytes(made, 8, (len(made) - 12).to_bytes(4, "big")))


def snappy_blocks(records: bytes, empty: int) -> bytes:
    """The blocks of snappy-java: empty ones before that of the records."""
    block = bytes(cramjam.snappy.compress_raw(records))
    head = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    return head + empty * (struct.pack(">i", 1) + b"\0") + struct.pack(">i", len(block)) + block


def test_a_batch_in_too_many_blocks_is_left_closed() -> None:
    records = bytes(build_batch(3, timestamp=1_000)[61:])
    batch = packed_batch(snappy_blocks(records, BATCH_UNPACKED_PARTS_MAX - 1), 2)
    assert first_message_from(batch, 1_002) == (2, 1_002)
    batch = packed_batch(snappy_blocks(records, BATCH_UNPACKED_PARTS_MAX), 2)
    assert first_message_from(batch, 1_002) is None
    assert latest_message(batch) is None


def test_a_batch_of_too_many_records_is_left_closed() -> None:
    records = bytes(build_batch(3, timestamp=1_000)[61:])
    batch = packed_batch(records, 0, BATCH_UNPACKED_RECORDS_MAX + 1)
    assert first_message_from(batch, 0) is None
    assert latest_message(batch) is None


def test_a_long_walk_lets_the_loop_run_and_ends_with_its_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(batch_times, "pause_thread", pauses.append)
    batch = bytes(build_batch(1_000, timestamp=1_000))
    assert first_message_from(batch, 1_999) == (999, 1_999)
    assert len(pauses) == 3
    monkeypatch.setattr(batch_times, "CHECK_MS_MAX", -1)
    assert first_message_from(batch, 1_999) is None
    assert latest_message(batch) is None
    assert first_message_from(batch, 1_100) == (100, 1_100)
