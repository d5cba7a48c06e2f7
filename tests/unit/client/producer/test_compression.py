"""Batches are compressed if it is worth it, and what is compressed can be read by everybody."""

import struct
from random import Random

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from penstock.client.producer.compression import (
    CODES,
    OFF,
    SKIPS_MAX,
    UNCOMPRESSED,
    Compression,
    CompressionCodec,
    Compressor,
    compress_body,
)
from penstock.core.errors import InvalidRequest
from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages, read_messages
from penstock.core.record_bodies import unpack_body
from penstock.core.records import BATCH_HEADER_BYTES

TEXT = b"all work and no play makes a dull batch " * 2_500
NOISE = Random(5).randbytes(100_000)


@pytest.mark.parametrize("codec", CODES)
@pytest.mark.parametrize("body", [TEXT, NOISE, b"x"], ids=["text", "noise", "one byte"])
def test_a_body_comes_back(codec: CompressionCodec, body: bytes) -> None:
    packed = compress_body(body, codec)
    assert unpack_body(bytes(BATCH_HEADER_BYTES) + packed, CODES[codec], 1) == body


def compressed_batch(codec: CompressionCodec) -> tuple[bytes, list[bytes]]:
    values = [b"value %d " % number * 300 for number in range(20)]
    plain = build_messages([NewMessage(value, b"key") for value in values], now_ms=1_000)
    code, body = Compression(codec=codec).compress(bytes(plain[BATCH_HEADER_BYTES:]), len(values))
    assert code == CODES[codec]
    batch = bytearray(plain[:BATCH_HEADER_BYTES]) + body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, code)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return bytes(batch), values


@pytest.mark.parametrize("codec", CODES)
def test_the_clients_of_kafka_read_what_is_compressed(codec: CompressionCodec) -> None:
    batch, values = compressed_batch(codec)
    assert [message.value for message in read_messages(batch)] == values
    readers = [AiokafkaBatch(batch)]
    if codec == "gzip":  # The only one that kafka-python has without further libraries.
        readers.append(KafkaPythonBatch(batch))
    for reader in readers:
        assert reader.validate_crc()
        assert [bytes(record.value) for record in reader] == values


def test_only_large_messages_are_compressed() -> None:
    by_default = Compression()
    assert by_default.compress(TEXT, records=1_000) == (UNCOMPRESSED, TEXT)
    code, body = by_default.compress(TEXT, records=90)
    assert code == CODES["lz4"]
    assert len(body) < len(TEXT) / 10
    assert Compression(threshold_bytes=0).compress(TEXT, records=10_000)[0] == CODES["lz4"]
    assert OFF.compress(TEXT, records=1) == (UNCOMPRESSED, TEXT)
    assert by_default.compress(b"", records=0) == (UNCOMPRESSED, b"")


@pytest.mark.parametrize("codec", CODES)
def test_what_does_not_shrink_goes_as_it_is(codec: CompressionCodec) -> None:
    assert Compression(codec=codec).compress(NOISE, records=1) == (UNCOMPRESSED, NOISE)
    mostly_noise = NOISE + TEXT[:5_000]
    assert Compression(codec=codec).compress(mostly_noise, records=1) == (
        UNCOMPRESSED,
        mostly_noise,
    )


def test_after_what_did_not_shrink_it_is_tried_again_now_and_then() -> None:
    compressor = Compressor(Compression())
    assert compressor.compress(TEXT, records=1)[0] == CODES["lz4"]
    assert compressor.compress(NOISE, records=1) == (UNCOMPRESSED, NOISE)
    for _ in range(SKIPS_MAX):
        assert compressor.compress(TEXT, records=1) == (UNCOMPRESSED, TEXT)
    assert compressor.compress(TEXT, records=1)[0] == CODES["lz4"]
    assert compressor.compress(TEXT, records=1)[0] == CODES["lz4"]


def test_small_messages_say_nothing_about_large_ones() -> None:
    compressor = Compressor(Compression())
    assert compressor.compress(TEXT, records=1_000) == (UNCOMPRESSED, TEXT)
    assert compressor.compress(TEXT, records=1)[0] == CODES["lz4"]


def test_a_choice_that_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="one of gzip, snappy, lz4, zstd"):
        Compression(codec="rar")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="at least 0"):
        Compression(threshold_bytes=-1)
