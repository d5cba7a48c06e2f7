"""The format of the stream between nodes."""

import msgspec
import pytest
from crc32c import crc32c

from penstock.core.errors import InvalidFrame
from penstock.core.limits import ENTRY_PAYLOAD_BYTES_MAX, FRAME_BYTES_MAX, HELLO_BYTES_MAX
from penstock.core.types import ShardId
from penstock.engine.peers.frames import (
    FRAME_HEADER_BYTES,
    HELLO_DECODER,
    KEPT_BYTES,
    MESSAGES_DECODER,
    PING_FRAME,
    PONG_FRAME,
    READ_BYTES,
    REQUEST_DECODER,
    Frame,
    FrameKind,
    FrameReader,
    Request,
    decode_payload,
    encode_frame,
)
from tests.unit.engine.linked import append, heartbeat, hello, read_frames


def header(
    *, magic: int = 0xB57E, version: int = 1, kind: int = 3, flags: int = 0, length: int = 0
) -> bytes:
    """A header that says what it should not, with a checksum that says so too."""
    words = magic.to_bytes(2, "little") + bytes((version, kind))
    words += flags.to_bytes(4, "little") + length.to_bytes(4, "little") + bytes(4)
    return words + crc32c(words).to_bytes(4, "little")


def test_the_bytes_of_a_frame_are_these() -> None:
    # On the wire between nodes of different versions: if this fails, nodes cannot be upgraded.
    assert PING_FRAME.hex() == "7eb50103000000000000000000000000f24d37f0"
    frame = encode_frame(FrameKind.REQUEST, Request(1, "m", 50, b"body"))
    assert frame[:12].hex() == "7eb50106000000000b000000"
    assert bytes(frame[FRAME_HEADER_BYTES:]) == b"\x94\x01\xa1m\x32\xc4\x04body"


def test_what_goes_in_comes_out() -> None:
    parcels = [
        (ShardId(0), heartbeat(1, 2, 5)),
        (ShardId(3), append(1, 2, b"x" * 1000)),
    ]
    reader = FrameReader(FRAME_BYTES_MAX)
    data = PING_FRAME + bytes(encode_frame(FrameKind.MESSAGES, parcels)) + PONG_FRAME
    first, second, third = read_frames(reader, data)
    assert (first.kind, bytes(first.payload)) == (FrameKind.PING, b"")
    assert decode_payload(MESSAGES_DECODER, second) == parcels
    assert third.kind is FrameKind.PONG


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "no frame begins with b'GET / HT'"),
        (header(magic=1), "no frame begins with"),
        (header(version=2), "a frame of version 2; this node knows 1"),
        (header(kind=77), "a frame of the unknown kind 77"),
        (header(flags=4), "a frame PING with the unknown flags 0x4"),
        (header(kind=5, length=HELLO_BYTES_MAX + 1), "at most 4096 are allowed"),
        (header(kind=5, length=0xFFFF_FFFF), "at most 4096 are allowed"),
        (header(kind=5, length=1) + b"x", "does not match its CRC-32C"),
        (header()[:-1] + b"\0", "the header of a frame does not match its CRC-32C"),
    ],
)
def test_what_is_no_frame_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(InvalidFrame, match=problem):
        read_frames(FrameReader(), data)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x90",
        b"\xc1",
        b"\x94\x01\xa1\xff\x01\xc4\x00",  # A name that is not UTF-8.
        b"\x94\x01\xa1m\x01\xa1x",  # A string for a body.
        b"\x94\xff\xa1m\x01\xc4\x00",  # A negative id.
        b"\x94\x01\xda\x01\x01" + b"m" * 257 + b"\x01\xc4\x00",  # A name that is too long.
        b"\x95\x01\xa1m\x01\xc4\x00" + b"\x91" * 100_000,  # Depth, where a later field may be.
        b"\xdd\xff\xff\xff\xff",  # Four billion fields.
        b"\x94\x01\xa1m\x01\xc6\xff\xff\xff\xff",  # Four billion bytes.
    ],
)
def test_a_payload_that_is_not_what_its_kind_promises_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidFrame, match="a frame REQUEST that cannot be read"):
        decode_payload(REQUEST_DECODER, Frame(FrameKind.REQUEST, memoryview(payload)))


def test_fields_of_a_later_version_are_skipped() -> None:
    plain = msgspec.to_builtins(hello(3))
    later = msgspec.msgpack.encode([*plain, {"more": [1, 2]}])
    frame = Frame(FrameKind.HELLO, memoryview(later))
    assert decode_payload(HELLO_DECODER, frame) == hello(3)


def test_a_stranger_gets_little_memory_and_a_large_frame_gives_its_back() -> None:
    reader = FrameReader()
    assert len(reader.space()) <= HELLO_BYTES_MAX + FRAME_HEADER_BYTES
    reader.accept_up_to(FRAME_BYTES_MAX)
    assert len(reader.space()) == READ_BYTES
    body = bytes(3 * KEPT_BYTES)
    data = bytes(encode_frame(FrameKind.REQUEST, Request(1, "m", 0, body)))
    (frame,) = read_frames(reader, data)
    assert len(frame.payload) == len(data) - FRAME_HEADER_BYTES
    assert len(data) <= reader.capacity <= len(data) + READ_BYTES
    assert len(reader.space()) == READ_BYTES
    assert reader.capacity == READ_BYTES


def test_the_largest_entry_fits_into_a_frame() -> None:
    # The message around it is a hundred bytes; there is room for a thousand times as much.
    assert FRAME_BYTES_MAX >= ENTRY_PAYLOAD_BYTES_MAX + 100_000
