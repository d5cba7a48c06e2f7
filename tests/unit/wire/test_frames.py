"""The fixed part of frames: what is written is read, and nothing else is believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import InvalidFrame
from penstock.wire.frames import (
    GREETING,
    MAGIC,
    PREFIX,
    VERSION,
    Kind,
    greet,
    read_greeting,
    read_prefix,
    write_prefix,
)


def test_a_greeting_tells_the_version() -> None:
    assert read_greeting(greet()) == VERSION


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (GREETING.pack(b"GET / HT", 1), "not the greeting"),
        (GREETING.pack(MAGIC, 0), "version 0"),
        (GREETING.pack(MAGIC, VERSION + 1), f"version {VERSION + 1}"),
    ],
)
def test_another_greeting_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(InvalidFrame, match=words):
        read_greeting(data)


def test_no_kafka_request_begins_like_a_greeting() -> None:
    assert int.from_bytes(MAGIC[:4], "big") > 1 << 30


@given(
    kind=st.sampled_from(Kind),
    frame_id=st.integers(0, 2**32 - 1),
    head=st.integers(0, 1_000),
    payload=st.integers(0, 1_000),
)
def test_a_prefix_is_read_as_it_was_written(
    kind: Kind, frame_id: int, head: int, payload: int
) -> None:
    read = read_prefix(write_prefix(kind, frame_id, head, payload), 0, 1 << 20)

    assert read == (kind, frame_id, head, payload)
    assert read.size == PREFIX.size + head + payload


@pytest.mark.parametrize(
    "data",
    [
        PREFIX.pack(12, 9, 1, 0),  # A kind nobody knows.
        PREFIX.pack(3, Kind.ANSWER, 1, 0),  # Shorter than its own fixed part.
        PREFIX.pack(20, Kind.ANSWER, 1, 100),  # The head is longer than the frame.
        PREFIX.pack(5_000, Kind.ANSWER, 1, 0),  # Longer than it may be.
        PREFIX.pack(2**32 - 1, Kind.REQUEST, 1, 2**32 - 1),
    ],
)
def test_a_length_that_cannot_be_is_not_believed(data: bytes) -> None:
    with pytest.raises(InvalidFrame):
        read_prefix(data, 0, 1_000)
