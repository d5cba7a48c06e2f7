"""A batch of one body: the bytes that any other way makes, and read only if it is just that."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from penstock.core.lone_batches import frame_lone, read_lone
from penstock.core.message import NewMessage
from penstock.core.message_batches import frame_records, pack_messages

PRODUCER = (5, 0, 9)
LENGTHS = [0, 1, 57, 58, 59, 63, 64, 65, 100, 8_183, 8_184, 8_192, 70_000, 1 << 20]


def framed(*messages: NewMessage, attributes: int = 0) -> bytearray:
    records, base_ms, max_ms = pack_messages(list(messages), 77)
    return frame_records(
        records,
        len(messages),
        base_ms=base_ms,
        max_ms=max_ms,
        attributes=attributes,
        producer=PRODUCER,
    )


@pytest.mark.parametrize("length", LENGTHS)
def test_it_is_written_as_any_other_and_read_back(length: int) -> None:
    body = b"\x07" * length
    batch = frame_lone(body, 77, PRODUCER)
    assert batch == framed(NewMessage(body))
    assert read_lone(memoryview(batch)) == (0, 77, body)


@pytest.mark.parametrize(
    "batch",
    [
        framed(NewMessage(b"a", b"key")),
        framed(NewMessage(b"a", None, (("name", b"value"),))),
        framed(NewMessage(None)),
        framed(NewMessage(b"a"), NewMessage(b"b")),
        framed(NewMessage(b"a"), attributes=8),
        framed(NewMessage(b"a")) + framed(NewMessage(b"b")),
        framed(NewMessage(b"a"))[:-1],
        framed(NewMessage(b"a"))[:61],
        b"",
    ],
)
def test_anything_else_is_somebody_elses(batch: bytes) -> None:
    assert read_lone(memoryview(batch)) is None


@given(some.binary(max_size=300), some.data())
def test_whatever_is_read_was_written_so(body: bytes, data: some.DataObject) -> None:
    batch = bytearray(frame_lone(body, 77, PRODUCER))
    at = data.draw(some.integers(0, len(batch) - 1))
    batch[at] ^= data.draw(some.integers(1, 255))
    found = read_lone(memoryview(batch))
    if found is not None:
        offset, time_ms, seen = found
        again = bytearray(frame_lone(seen, time_ms, PRODUCER))
        assert again[61:] == batch[61:]
        assert (offset, time_ms, seen) == (0, 77, body) or at < 61 or len(seen) == len(body)
