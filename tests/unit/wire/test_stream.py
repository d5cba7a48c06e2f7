"""Frames out of a stream, however it is cut into pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import InvalidFrame
from penstock.core.limits import FRAME_BYTES_MIN, MIB
from penstock.wire.frames import Kind, greet, write_prefix
from penstock.wire.stream import Frame, FrameStream

LANDING = 64


def _frame(number: int, head: bytes, payload: bytes) -> bytes:
    return write_prefix(Kind.ANSWER, number, len(head), len(payload)) + head + payload


def _deliver(stream: FrameStream, data: bytes, pieces: list[int]) -> list[Frame]:
    """Let bytes arrive as a socket would bring them, in pieces of these sizes at most."""
    frames: list[Frame] = []
    position, turn = 0, 0
    while position < len(data):
        view = stream.buffer()
        count = min(len(view), len(data) - position, pieces[turn % len(pieces)])
        view[:count] = data[position : position + count]
        frames += stream.received(count)
        position += count
        turn += 1
    return frames


@given(
    contents=st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=300)), max_size=8),
    pieces=st.lists(st.integers(1, 200), min_size=1, max_size=8),
)
def test_the_same_frames_come_out_however_bytes_arrive(
    contents: list[tuple[bytes, bytes]], pieces: list[int]
) -> None:
    stream = FrameStream(memoryview(bytearray(LANDING)), 1 << 20)
    data = greet() + b"".join(_frame(number, *content) for number, content in enumerate(contents))

    frames = _deliver(stream, data, pieces)

    assert [(frame.id, bytes(frame.head), bytes(frame.payload)) for frame in frames] == [
        (number, *content) for number, content in enumerate(contents)
    ]
    assert stream.version == 1
    assert not stream.is_partial


def test_what_is_half_there_is_known_to_be() -> None:
    stream = FrameStream(memoryview(bytearray(LANDING)), 1 << 20)
    whole = greet() + _frame(7, b"head", b"x" * 500)

    assert _deliver(stream, whole[:-1], [LANDING]) == []
    assert stream.is_partial
    assert len(_deliver(stream, whole[-1:], [1])) == 1
    assert not stream.is_partial


def test_a_claimed_length_reserves_no_more_than_comes() -> None:
    """A frame that says it is large gets a small buffer first, and more as its bytes arrive."""
    stream = FrameStream(memoryview(bytearray(LANDING)), 1 << 30)
    _deliver(stream, greet() + write_prefix(Kind.ANSWER, 1, 0, 512 * MIB), [LANDING])

    assert stream.held_bytes == FRAME_BYTES_MIN
    assert not stream.frame_bytes
    _deliver(stream, bytes(FRAME_BYTES_MIN), [1 << 20])
    assert stream.held_bytes == 4 * FRAME_BYTES_MIN


def test_a_large_frame_arrives_whole() -> None:
    stream = FrameStream(memoryview(bytearray(LANDING)), 1 << 30)
    payload = bytes(range(256)) * (3 * MIB // 256)

    (frame,) = _deliver(stream, greet() + _frame(3, b"h", payload), [1 << 20])

    assert frame.payload == payload


@given(st.binary(min_size=12, max_size=400))
def test_garbage_is_refused_and_nothing_worse(data: bytes) -> None:
    stream = FrameStream(memoryview(bytearray(LANDING)), 1 << 16)
    try:
        _deliver(stream, greet() + data, [50])
    except InvalidFrame:
        return


def test_who_does_not_greet_is_refused() -> None:
    stream = FrameStream(memoryview(bytearray(LANDING)), 1 << 16)
    with pytest.raises(InvalidFrame):
        _deliver(stream, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", [LANDING])


def test_an_incomplete_frame_is_dropped_when_the_connection_is_lost() -> None:
    stream = FrameStream(memoryview(bytearray(LANDING)), 100 * MIB)
    _deliver(stream, greet() + write_prefix(Kind.REQUEST, 1, 8, MIB) + bytes(LANDING), [LANDING])
    assert stream.held_bytes
    stream.clear()
    assert not stream.held_bytes
    assert not stream.is_partial
