"""Any messages survive the way into a batch and out of it, and no batch does more than be refused.

The model is another project's packing and reading, in all codecs.
"""

import contextlib
from random import Random

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import InvalidBatch
from penstock.core.message import Message, NewMessage
from penstock.core.message_batches import (
    build_messages,
    has_delivery_headers,
    iter_batches,
    read_messages,
)
from penstock.core.records import BATCH_HEADER_BYTES, check_batch
from penstock.core.types import Offset

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=400, database=None)
NOW = 1_700_000_000_000

BYTES = st.one_of(
    st.none(),
    st.binary(max_size=80),
    st.builds(bytes, st.sampled_from([63, 64, 2_047, 2_048, 8_191, 8_192, 20_000])),
)
NAMES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=70),
    st.sampled_from(["penstock-delay-ms", "penstock-", "trace"]),
)
MESSAGES = st.builds(
    NewMessage,
    value=BYTES,
    key=BYTES,
    headers=st.lists(st.tuples(NAMES, BYTES), max_size=4).map(tuple),
    timestamp_ms=st.one_of(st.just(-1), st.integers(0, NOW * 2)),
)


def pack(messages: list[NewMessage], codec: int) -> bytearray:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=1 << 24,
    )  # fmt: skip
    for number, (value, key, headers, time_ms) in enumerate(map(fields, messages)):
        builder.append(number, timestamp=time_ms, key=key, value=value, headers=list(headers))
    return bytearray(builder.build())


def fields(
    message: NewMessage,
) -> tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]:
    time_ms = NOW if message.timestamp_ms == -1 else message.timestamp_ms
    return message.value, message.key, message.headers, time_ms


@REPEATABLE
@given(messages=st.lists(MESSAGES, min_size=1, max_size=12))
def test_what_is_built_is_what_others_build_and_reads_the_same(messages: list[NewMessage]) -> None:
    batch = build_messages(messages, NOW)
    check_batch(batch)
    assert batch == pack(messages, 0)
    read = read_messages(batch)
    assert [(m.value, m.key, m.headers, m.timestamp_ms) for m in read] == [*map(fields, messages)]
    assert [m.offset for m in read] == list(range(len(messages)))
    assert list(iter_batches(batch + batch)) == [batch, batch]
    if any(name.startswith("penstock-") for m in messages for name, _ in m.headers):
        assert has_delivery_headers(batch)


@REPEATABLE
@given(messages=st.lists(MESSAGES, min_size=1, max_size=8), codec=st.integers(0, 4))
def test_a_batch_reads_as_it_does_elsewhere(messages: list[NewMessage], codec: int) -> None:
    batch = pack(messages, codec)
    elsewhere = [
        Message(Offset(r.offset), r.timestamp, r.key, r.value, tuple(r.headers))
        for r in DefaultRecordBatch(batch)
    ]
    assert read_messages(batch) == elsewhere


@REPEATABLE
@given(
    messages=st.lists(MESSAGES, min_size=1, max_size=6),
    codec=st.integers(0, 4),
    seed=st.integers(0, 1 << 32),
)
def test_damage_is_refused_and_does_nothing_else(
    messages: list[NewMessage], codec: int, seed: int
) -> None:
    random = Random(seed)
    whole = pack(messages, codec)
    for _ in range(20):
        batch = bytearray(whole)
        start = min(random.choice([0, BATCH_HEADER_BYTES]), len(batch))
        for _ in range(random.randint(1, 4)):
            place = random.randint(start, min(len(batch), BATCH_HEADER_BYTES + 120))
            match random.randrange(3):
                case 0:
                    byte = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
                    batch[place : place + 1] = bytes([byte])
                case 1:
                    batch[place:place] = random.randbytes(random.randint(1, 12))
                case _:
                    del batch[place : place + random.randint(1, 12)]
        with contextlib.suppress(InvalidBatch):
            read_messages(batch)
        with contextlib.suppress(InvalidBatch):
            list(iter_batches(batch))
