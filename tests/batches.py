"""Real record batches for tests, built by another project's code: aiokafka's."""

import time

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from crc32c import crc32c

from penstock.core.records import BATCH_HEADER_BYTES
from penstock.core.types import NO_PRODUCER, ProducerId

TODAY_MS = time.time_ns() // 1_000_000
"""When the tests began: no retention takes away what is from here, however long a test runs, and it
is not further ahead of any clock than a topic allows."""


def build_batch(
    count: int = 1,
    *,
    key: bytes | None = None,
    value: bytes = b"a message",
    timestamp: int = TODAY_MS,
    producer_id: ProducerId = NO_PRODUCER,
    epoch: int = -1,
    sequence: int = -1,
    compression: int = 0,
    transactional: bool = False,
) -> bytearray:
    """A batch of `count` equal messages, a millisecond apart, as a client would send it."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=transactional,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        batch_size=1 << 24,
    )
    for number in range(count):
        builder.append(number, timestamp=timestamp + number, key=key, value=value, headers=[])
    return bytearray(builder.build())


def with_bytes(batch: bytearray, position: int, patch: bytes) -> bytearray:
    """The batch with some bytes replaced and the checksum made right again: a well-made lie."""
    patched = bytearray(batch)
    patched[position : position + len(patch)] = patch
    if len(patched) >= BATCH_HEADER_BYTES:
        patched[17:21] = crc32c(memoryview(patched)[21:]).to_bytes(4, "big")
    return patched
