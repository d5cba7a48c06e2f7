"""`core.message_batches`: messages go into a batch byte for byte as another project packs them."""

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from penstock.core.errors import InvalidBatch, InvalidTimestamp
from penstock.core.limits import BATCH_UNPACKED_RECORDS_MAX
from penstock.core.message import Header, Message, NewMessage
from penstock.core.message_batches import (
    OpenBatch,
    build_messages,
    frame_records,
    has_delivery_headers,
    iter_batches,
    new_marks,
    open_messages,
    pack_messages,
    read_messages,
)
from penstock.core.record_bodies import read_records, rebuild_batch
from penstock.core.records import BATCH_HEADER_BYTES, check_batch, stamp_append_time, stamp_batch
from penstock.core.types import Offset, Term
from tests.batches import with_bytes

CODECS = range(5)
NOW = 1_700_000_000_000
SHAPES = [
    NewMessage(b"plain"),
    NewMessage(b"keyed", b"a key", (), NOW - 5_000_000),
    NewMessage(None, b"", (("why", b"deleted"), ("nothing", None), ("", b""))),
    NewMessage(b"", None, (("größe", b"\xff" * 200),), NOW + 70),
    NewMessage(b"x" * 5_000, b"k" * 70, tuple((f"name {n}" * 20, b"v") for n in range(100))),
]


def pack(messages: list[NewMessage], codec: int = 0) -> bytearray:
    """The batch as aiokafka would send it."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=1 << 24,
    )  # fmt: skip
    for number, message in enumerate(messages):
        time_ms = NOW if message.timestamp_ms == -1 else message.timestamp_ms
        headers = list(message.headers)
        builder.append(
            number, timestamp=time_ms, key=message.key, value=message.value, headers=headers
        )
    return bytearray(builder.build())


def stored(messages: list[NewMessage], base_offset: int = 0) -> list[Message]:
    """What should be read after these were appended."""
    return [
        Message(
            Offset(base_offset + number),
            NOW if message.timestamp_ms == -1 else message.timestamp_ms,
            message.key,
            message.value,
            message.headers,
        )
        for number, message in enumerate(messages)
    ]


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_one_message_is_packed_as_elsewhere(number: int) -> None:
    made = build_messages([SHAPES[number]], NOW)
    assert made == pack([SHAPES[number]])
    check_batch(made)


def test_many_messages_are_packed_as_elsewhere() -> None:
    made = build_messages(SHAPES * 500, NOW)
    assert made == pack(SHAPES * 500)
    assert check_batch(made).record_count == 2_500


@pytest.mark.parametrize("codec", CODECS)
def test_what_another_project_packed_is_read(codec: int) -> None:
    batch = pack(SHAPES * 60, codec)
    stamp_batch(batch, base_offset=Offset(1_000), epoch=Term(9))
    assert read_messages(batch) == stored(SHAPES * 60, 1_000)
    assert read_messages(memoryview(batch)) == read_messages(bytes(batch))


@pytest.mark.parametrize("codec", CODECS)
def test_times_given_by_the_log_count_for_all(codec: int) -> None:
    batch = pack(SHAPES, codec)
    stamp_append_time(batch, NOW + 1_000_000)
    assert [message.timestamp_ms for message in read_messages(batch)] == [NOW + 1_000_000] * 5


def test_what_compaction_left_keeps_its_offsets() -> None:
    opened = read_records(build_messages(SHAPES, NOW))
    thinned = rebuild_batch(opened, [opened.records[1], opened.records[4]])
    assert read_messages(thinned) == [stored(SHAPES)[1], stored(SHAPES)[4]]


def test_a_scan_reads_no_further_than_it_is_asked_to() -> None:
    batch = build_messages(SHAPES[:2], NOW)
    damaged = with_bytes(batch, len(batch) - 1, b"\x03")
    size, scan = open_messages(damaged)
    assert size == len(batch) - BATCH_HEADER_BYTES
    assert next(scan) == stored(SHAPES)[0]
    with pytest.raises(InvalidBatch, match="-2 headers"):
        next(scan)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_can_be_read_from_anywhere(codec: int) -> None:
    batch = pack(SHAPES * 60, codec)
    stamp_batch(batch, base_offset=Offset(1_000), epoch=Term(9))
    expected = stored(SHAPES * 60, 1_000)
    marks = new_marks()
    for number in (299, 0, 64, 65, 1, 128, 63, 200, 298):
        opened = OpenBatch(batch, marks)
        assert opened.complete
        assert opened.last == 1_299
        assert list(opened.messages_from(Offset(1_000 + number))) == expected[number:]
    assert list(marks) == sorted(set(marks))
    assert len(marks) == 1 + 299 // 32


def test_records_of_any_length_are_stepped_over() -> None:
    sizes = [0, 1, 50, 51, 52, 53, 8_100, 8_180, 8_185, 8_190, 8_200, 2_000_000]
    made = [NewMessage(b"x" * size) for size in [*sizes, 7]]
    opened = OpenBatch(build_messages(made, NOW))
    for number in range(len(made)):
        message = next(opened.messages_from(Offset(number)))
        assert (message.offset, message.value) == (number, made[number].value)


@pytest.mark.parametrize("count", [1, 2, 3, 64, 65, 200])
@pytest.mark.parametrize("size", [0, 1, 100, 9_000])
def test_plain_messages_make_the_same_batch_as_all_others(count: int, size: int) -> None:
    made = [NewMessage(bytes([number % 251]) * size) for number in range(count)]
    records, base_ms, max_ms = pack_messages(made, NOW)
    expected = frame_records(records, count, base_ms=base_ms, max_ms=max_ms)
    assert build_messages(made, NOW) == expected
    for other in (
        NewMessage(b"x" * size, key=b"k"),
        NewMessage(b"x" * size, headers=(("h", b"v"),)),
        NewMessage(b"x" * size, timestamp_ms=NOW - 5),
        NewMessage(None),
        NewMessage(b"x" * (size + 1)),
    ):
        mixed = [*made, other]
        records, base_ms, max_ms = pack_messages(mixed, NOW)
        expected = frame_records(records, count + 1, base_ms=base_ms, max_ms=max_ms)
        assert build_messages(mixed, NOW) == expected


def test_what_compaction_left_cannot_be_stepped_over() -> None:
    opened = read_records(build_messages(SHAPES, NOW))
    thinned = rebuild_batch(opened, [opened.records[1], opened.records[4]])
    assert not OpenBatch(thinned).complete


@pytest.mark.parametrize("lengths", [b"\xff\xff\xff\xff\x0f", b"\x7f", b"\x03", b"\xfe\x7f"])
def test_a_record_with_a_wrong_length_is_not_stepped_over(lengths: bytes) -> None:
    batch = build_messages([NewMessage(b"v" * 20)] * 100, NOW)
    damaged = with_bytes(batch, BATCH_HEADER_BYTES, lengths)
    with pytest.raises(InvalidBatch):
        list(OpenBatch(damaged).messages_from(Offset(70)))


def test_the_name_of_a_header_need_not_be_text() -> None:
    headers: tuple[Header, ...] = (("AAAA", b"1"), ("BB", b"2"))
    batch = bytes(build_messages([NewMessage(b"v", None, headers)], NOW))
    read = read_messages(batch.replace(b"AAAA", b"A\xff\xc3("))
    assert read[0].headers == (("A\ufffd\ufffd(", b"1"), ("BB", b"2"))


def test_half_a_character_is_no_name() -> None:
    with pytest.raises(InvalidBatch, match="no text"):
        build_messages([NewMessage(b"v", None, (("\ud800", b"1"),))], NOW)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_may_have_cards_is_told_from_one_that_has_none(codec: int) -> None:
    assert has_delivery_headers(pack([NewMessage(b"v", None, (("penstock-ttl-ms", b"9"),))], codec))
    assert has_delivery_headers(pack(SHAPES, codec)) == (codec != 0)
    assert has_delivery_headers(memoryview(pack(SHAPES, codec))) == (codec != 0)


def test_the_batches_of_a_read_are_told_apart() -> None:
    batches = [build_messages(SHAPES[:n], NOW) for n in range(1, 6)]
    data = b"".join(batches)
    assert list(iter_batches(data)) == batches
    assert list(iter_batches(b"")) == []
    for wrong in (data[:-1], data + b"\0", with_bytes(batches[0], 8, b"\0\0\0\0")):
        with pytest.raises(InvalidBatch):
            list(iter_batches(wrong))


# Lies.


def with_body(body: bytes, *, count: int = 1, codec: int = 0) -> bytearray:
    """A batch whose records are these bytes."""
    batch = build_messages(SHAPES[:1], NOW)[:BATCH_HEADER_BYTES] + body
    batch = with_bytes(batch, 8, (len(batch) - 12).to_bytes(4, "big"))
    batch = with_bytes(batch, 21, codec.to_bytes(2, "big"))
    batch = with_bytes(batch, 23, (count - 1).to_bytes(4, "big"))
    return with_bytes(batch, 57, count.to_bytes(4, "big"))


ONE = bytes([24, 0, 0, 0, 2, 65, 2, 66, 2, 2, 67, 2, 68])
"""A record of 12 bytes: attributes, two deltas, key A, value B, one header: C is D."""


def changed(**places: int) -> bytes:
    record = bytearray(ONE)
    for place, byte in places.items():
        record[int(place.removeprefix("at"))] = byte
    return bytes(record)


@pytest.mark.parametrize(
    ("batch", "complaint"),
    [
        (b"short", "needs 61 bytes"),
        (with_body(b""), "in the middle"),
        (with_body(ONE, count=2), "in the middle"),
        (with_body(ONE + b"\0"), "1 bytes follow"),
        (with_body(changed(at0=26)), "a record of 13 bytes has 12"),
        (with_body(changed(at0=3)), "a record of -2 bytes has 12"),
        (with_body(ONE + ONE, count=2), "at offset 0 of 1"),
        (with_body(changed(at3=2)), "at offset 1 of 0"),
        (with_body(changed(at4=90)), "in the middle"),
        (with_body(changed(at6=90)), "in the middle"),
        (with_body(changed(at8=1)), "-1 headers"),
        (with_body(changed(at8=4)), "in the middle"),
        (with_body(changed(at9=1)), "no name"),
        (with_body(changed(at11=4)), "a record of 12 bytes has 13"),
        (with_body(bytes([42, 0]) + b"\xff" * 10 + ONE[2:]), "longer than 10 bytes"),
        (with_body(bytes([42, 0]) + b"\xfe" * 9 + b"\x03" + ONE[3:]), "has the time"),
        (with_body(ONE, codec=5), "codec 5"),
        (with_body(ONE, codec=4), "cannot be decompressed"),
        (with_bytes(with_body(ONE), 57, (BATCH_UNPACKED_RECORDS_MAX + 1).to_bytes(4)), "too many"),
    ],
)
def test_a_wrong_record_is_refused(batch: bytes, complaint: str) -> None:
    with pytest.raises(InvalidBatch, match=complaint):
        read_messages(batch)


def test_the_record_the_lies_are_made_from_is_right() -> None:
    assert read_messages(with_body(ONE)) == [Message(Offset(0), NOW, b"A", b"B", (("C", b"D"),))]


@pytest.mark.parametrize("time_ms", [1 << 63, 1 << 64, -(1 << 63) - 1])
def test_a_time_that_has_no_room_is_refused(time_ms: int) -> None:
    wrong = NewMessage(b"", timestamp_ms=time_ms)
    for messages in ([wrong], [NewMessage(b""), wrong]):
        with pytest.raises(InvalidTimestamp, match=f"the time {time_ms}"):
            build_messages(messages, 5)
