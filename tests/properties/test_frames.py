"""However a stream is cut up, damaged or made up, its reader keeps its promises.

- Any division into pieces gives the same frames.
- Any single flipped bit is noticed, and no frame behind it is believed.
- Bytes that are no frames raise `InvalidFrame` and nothing else.
- Memory is bounded by what was allowed, whatever the bytes claim.
"""

import contextlib
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.core.entries import Entry, EntryKind, Membership, SnapshotMark
from penstock.core.errors import InvalidFrame
from penstock.core.types import Index, NodeId, ShardId, Term
from penstock.engine.peers.frames import (
    ANSWER_DECODER,
    FAILURE_DECODER,
    FRAME_HEADER_BYTES,
    HELLO_DECODER,
    MESSAGES_DECODER,
    NOTICE_DECODER,
    PING_FRAME,
    READ_BYTES,
    REFUSED_DECODER,
    REQUEST_DECODER,
    WITHDRAWAL_DECODER,
    Frame,
    FrameKind,
    FrameReader,
    Request,
    decode_payload,
    encode_frame,
)
from penstock.engine.replica.network import PeerMessage, SnapshotPart, SnapshotRequest
from penstock.raft import messages as raft
from tests.unit.engine.linked import read_frames

DECODERS: dict[FrameKind, msgspec.msgpack.Decoder[Any]] = {
    FrameKind.HELLO: HELLO_DECODER,
    FrameKind.REFUSED: REFUSED_DECODER,
    FrameKind.MESSAGES: MESSAGES_DECODER,
    FrameKind.REQUEST: REQUEST_DECODER,
    FrameKind.ANSWER: ANSWER_DECODER,
    FrameKind.FAILURE: FAILURE_DECODER,
    FrameKind.NOTICE: NOTICE_DECODER,
    FrameKind.WITHDRAWAL: WITHDRAWAL_DECODER,
}
BOUND = 1 << 20

sizes = st.one_of(st.integers(0, 200), st.integers(0, 2 * READ_BYTES))
bodies = st.builds(lambda size, byte: bytes((byte,)) * size, sizes, st.integers(0, 255))
frames = st.one_of(
    st.just(PING_FRAME),
    st.builds(
        lambda body: bytes(encode_frame(FrameKind.REQUEST, Request(1, "m", 1, body))), bodies
    ),
)
streams = st.lists(frames, max_size=6).map(b"".join)

numbers = st.integers(0, 2**63 - 1)
entries = st.lists(
    st.builds(
        Entry,
        numbers.map(Index),
        numbers.map(Term),
        st.sampled_from(EntryKind),
        st.binary(max_size=100),
    ),
    max_size=3,
).map(tuple)
marks = st.builds(
    SnapshotMark,
    numbers.map(Index),
    numbers.map(Term),
    st.builds(Membership, st.lists(numbers.map(NodeId), max_size=3).map(tuple)),
)
MESSAGE_KINDS: tuple[type[PeerMessage], ...] = (
    raft.VoteRequest,
    raft.VoteResponse,
    raft.AppendRequest,
    raft.AppendResponse,
    raft.Heartbeat,
    raft.HeartbeatResponse,
    raft.SnapshotOffer,
    raft.TimeoutNow,
    SnapshotRequest,
    SnapshotPart,
)
FIELDS: dict[str, st.SearchStrategy[object]] = {
    "entries": entries,
    "mark": marks,
    "state": st.binary(max_size=100),
    **dict.fromkeys(
        ("pre", "granted", "forced", "damaged", "gone", "complete", "any_size"), st.booleans()
    ),
}


def messages_of(kind: type[PeerMessage]) -> st.SearchStrategy[PeerMessage]:
    fields = {name: FIELDS.get(name, numbers) for name in kind.__struct_fields__}
    return st.builds(kind, **fields)


@given(streams, st.lists(st.integers(0, 4 * READ_BYTES), max_size=12))
def test_any_division_gives_the_same_frames(stream: bytes, cuts: list[int]) -> None:
    whole = read_frames(FrameReader(BOUND), stream)
    reader = FrameReader(BOUND)
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(places)]
    assert [frame for piece in pieces for frame in read_frames(reader, piece)] == whole
    assert b"".join(pieces) == stream
    if stream:
        assert sum(FRAME_HEADER_BYTES + len(frame.payload) for frame in whole) == len(stream)


@given(st.lists(frames, max_size=3).map(b"".join).filter(lambda stream: len(stream) < 500))
def test_byte_by_byte_is_no_different(stream: bytes) -> None:
    reader = FrameReader(BOUND)
    slowly = [frame for byte in stream for frame in read_frames(reader, bytes((byte,)))]
    assert slowly == read_frames(FrameReader(BOUND), stream)


@pytest.mark.slow
@given(st.binary(max_size=20), st.integers(7, 100))
def test_any_flipped_bit_is_noticed(body: bytes, step: int) -> None:
    frame = bytes(encode_frame(FrameKind.REQUEST, Request(1, "m", 1, body)))
    stream = PING_FRAME + frame + PING_FRAME
    starts = (0, len(PING_FRAME), len(PING_FRAME) + len(frame))
    for bit in range(8 * len(stream)):
        flipped = bytearray(stream)
        flipped[bit // 8] ^= 1 << bit % 8
        reader = FrameReader(1000)
        seen: list[Frame] = []
        noticed = False
        for place in range(0, len(stream), step):
            try:
                seen += read_frames(reader, bytes(flipped[place : place + step]))
            except InvalidFrame:
                noticed = True
                break
        assert noticed, f"bit {bit}"
        assert len(seen) < sum(1 for start in starts if start <= bit // 8), "it was believed"


@given(st.binary(max_size=300), st.integers(0, 3))
def test_bytes_that_are_no_frames_are_refused_and_nothing_worse(data: bytes, sound: int) -> None:
    reader = FrameReader(BOUND)
    stream = PING_FRAME * sound + data
    try:
        seen = read_frames(reader, stream)
    except InvalidFrame:
        assert len(data) >= FRAME_HEADER_BYTES
    else:
        assert len(seen) >= sound
    assert reader.capacity <= BOUND + READ_BYTES + FRAME_HEADER_BYTES


@given(st.integers(0, 2**32 - 1), st.integers(1, BOUND))
@example(2**32 - 1, BOUND)
@example(BOUND, BOUND)
@example(BOUND + 1, BOUND)
def test_a_length_is_believed_only_within_its_bound(length: int, bound: int) -> None:
    words = bytes.fromhex("7eb50105") + bytes(4) + length.to_bytes(4, "little") + bytes(4)
    reader = FrameReader(bound)
    data = words + crc32c(words).to_bytes(4, "little")
    if length > bound:
        with pytest.raises(InvalidFrame):
            read_frames(reader, data)
    elif length > 0:
        assert read_frames(reader, data) == []
        reader.space()
    assert reader.capacity <= bound + READ_BYTES + FRAME_HEADER_BYTES


@given(st.sampled_from(sorted(DECODERS)), st.binary(max_size=200))
def test_any_payload_is_read_or_refused(kind: FrameKind, payload: bytes) -> None:
    with contextlib.suppress(InvalidFrame):
        decode_payload(DECODERS[kind], Frame(kind, memoryview(payload)))


@given(st.lists(st.tuples(numbers.map(ShardId), st.one_of(*map(messages_of, MESSAGE_KINDS)))))
def test_every_message_survives_the_journey(parcels: list[tuple[ShardId, PeerMessage]]) -> None:
    stream = bytes(encode_frame(FrameKind.MESSAGES, parcels))
    (frame,) = read_frames(FrameReader(BOUND), stream)
    assert decode_payload(MESSAGES_DECODER, frame) == parcels
