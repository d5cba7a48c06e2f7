"""kafka-python. Its codecs come from packages that are not among ours, except gzip, so the others
are lent to it from cramjam, in the same framing.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any

import cramjam
import kafka.codec
import kafka.record.default_records as record_format
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.interop_full.kinds import (
    HEARTBEAT_MS,
    POLL_MS,
    POLL_RECORDS_MAX,
    SESSION_TIMEOUT_MS,
    Record,
)

_RECONNECT_MAX_MS = 500
_FLUSH_SECONDS = 120
_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 << 10


def send_all(bootstrap: str, topic: str, codec: str, messages: Iterable[tuple[int, bytes]]) -> int:
    lend_codecs()
    producer: Any = KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        enable_idempotence=True,
        acks="all",
        compression_type=None if codec == "none" else codec,
        linger_ms=5,
        reconnect_backoff_max_ms=_RECONNECT_MAX_MS,
    )
    acked = 0
    failures: list[str] = []

    def succeeded(_: object) -> None:
        nonlocal acked
        acked += 1

    def failed(error: BaseException) -> None:
        failures.append(repr(error))

    try:
        for partition, value in messages:
            sent = producer.send(topic, value, partition=partition)
            sent.add_callback(succeeded).add_errback(failed)
        producer.flush(_FLUSH_SECONDS)
    finally:
        producer.close(10)
    assert not failures, f"{len(failures)} messages failed, the first with: {failures[0]}"
    return acked


class PurePythonMember:
    """A member by `KafkaConsumer`."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        lend_codecs()
        self._topic = topic
        self._consumer: Any = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap.split(","),
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            reconnect_backoff_max_ms=_RECONNECT_MAX_MS,
        )

    def poll(self) -> list[Record]:
        try:
            got = self._consumer.poll(timeout_ms=POLL_MS, max_records=POLL_RECORDS_MAX)
        except KafkaError as error:
            if not error.retriable:
                raise
            return []  # With nobody to connect to, it leaves the next try to its user.
        return [
            Record(message.partition, message.offset, message.value)
            for messages in got.values()
            for message in messages
        ]

    def commit(self, positions: Mapping[int, int]) -> bool:
        wanted = {
            TopicPartition(self._topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in positions.items()
        }
        try:
            self._consumer.commit(wanted)
        except KafkaError:
            return False
        return True

    def close(self) -> None:
        self._consumer.close()


def lend_codecs() -> None:
    """Give kafka-python snappy, lz4 and zstd, if it has none of its own."""
    for name, encode, decode in (
        ("snappy", _snappy_encode, _snappy_decode),
        ("lz4", _plain(cramjam.lz4.compress), _plain(cramjam.lz4.decompress)),
        ("zstd", _plain(cramjam.zstd.compress), _plain(cramjam.zstd.decompress)),
    ):
        if getattr(kafka.codec, name) is None:
            setattr(kafka.codec, name, cramjam)
            setattr(record_format, f"{name}_encode", encode)
            setattr(record_format, f"{name}_decode", decode)


def _plain(convert: Any) -> Any:
    return lambda payload: bytes(convert(bytes(payload)))


def _snappy_encode(payload: bytes) -> bytes:
    """Blocks of raw snappy behind the header of xerial's Java library, as Kafka has it."""
    parts = [_XERIAL_HEADER]
    for start in range(0, len(payload), _XERIAL_BLOCK_BYTES):
        block = bytes(payload[start : start + _XERIAL_BLOCK_BYTES])
        packed = bytes(cramjam.snappy.compress_raw(block))
        parts += [struct.pack(">i", len(packed)), packed]
    return b"".join(parts)


def _snappy_decode(payload: bytes) -> bytes:
    data = bytes(payload)
    if not data.startswith(_XERIAL_HEADER):
        return bytes(cramjam.snappy.decompress_raw(data))
    parts = []
    position = len(_XERIAL_HEADER)
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        parts.append(bytes(cramjam.snappy.decompress_raw(data[position : position + length])))
        position += length
    return b"".join(parts)
