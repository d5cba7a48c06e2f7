"""Finding messages by time inside batches, whatever they are packed in."""

import cramjam
import pytest

from penstock.core.limits import KAFKA_BATCH_OPENED_BYTES_MAX
from penstock.kafka.batch_times import first_message_from, latest_message
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
