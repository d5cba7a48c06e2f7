"""The stream between two nodes as bytes: frames, each with a checksummed header and payload.

    byte  0  magic        u16
          2  version      u8    of this layout
          3  kind         u8    FrameKind
          4  flags        u32   none yet: a set bit is refused
          8  length       u32   of the payload
         12  payload crc  u32   CRC-32C of the payload
         16  header crc   u32   CRC-32C of bytes 0 to 16
         20  payload      MessagePack, by kind; PING and PONG have none

The header has a checksum of its own so that a damaged length is found before it is believed: with
one checksum behind the payload a reader would wait for gigabytes that never come. TCP's own sum is
16 bits wide and is made anew by every box on the way, so it is not enough for what is acknowledged.

Pure: bytes in, frames out. `FrameReader` owns the memory that the stream is read into and hands out
views of it, so a payload is copied once on its way in, by the decoder. Nothing that arrives is
trusted: a frame that is not sound in every way is an `InvalidFrame` and nothing else, and memory is
only taken for a length that is within its bound, twice as much as has come of it.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Annotated, NamedTuple, TypeVar

import msgspec

from penstock.core.checksum import crc32c
from penstock.core.decoders import msgpack_decoder
from penstock.core.errors import InvalidFrame
from penstock.core.limits import FRAME_BYTES_MAX, HELLO_BYTES_MAX
from penstock.core.types import NodeId, ShardId
from penstock.engine.peers.handshake import Challenge, ProvenHello, Response
from penstock.engine.replica.network import PeerMessage

FRAME_HEADER_BYTES = 20
FRAME_MAGIC = 0xB57E
FRAME_VERSION = 1

FORMAT_OLDEST = 1
FORMAT_NEWEST = 1
"""What may be said in frames, and how; two nodes use the newest that both know."""

READ_BYTES = 256 * 1024
"""How much is read at a time when no frame is known to need more."""
KEPT_BYTES = 2 * 1024 * 1024
"""A buffer that grew beyond this for one frame is given back after it."""
_EXACT_BYTES = 64 * 1024
"""From here on exactly the rest of a frame is read: its end needs no moving to another place."""

_HEADER = struct.Struct("<HBBIIII")
_CHECKED_BYTES = 16
_EMPTY_CRC = crc32c(b"")


class FrameKind(IntEnum):
    """What a frame is. The number is on the wire: never renumber."""

    HELLO = 1
    REFUSED = 2
    PING = 3
    PONG = 4
    MESSAGES = 5
    REQUEST = 6
    ANSWER = 7
    FAILURE = 8
    NOTICE = 9
    WITHDRAWAL = 10
    CHALLENGE = 11
    RESPONSE = 12
    PROOF = 13
    CONFIRM = 14


_KINDS = {int(kind): kind for kind in FrameKind}

NAME_CHARACTERS_MAX = 256
_Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS_MAX)]
_Sentence = Annotated[str, msgspec.Meta(max_length=8192)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class LinkIdentity(msgspec.Struct, frozen=True, array_like=True):
    """The identity that a node claims."""

    cluster_id: _Name
    """Empty: this node has not founded or joined a cluster yet."""
    node: NodeId
    incarnation: _Name
    """Drawn when the data directory was made."""
    version: _Name


KNOWS_KEYS = "cluster key"
HAS_KEY = "cluster key held"
REQUIRES_KEY = "cluster key required"
"""Capabilities of a hello: the node can prove itself by a cluster key; it has one; it
requires one. Nodes of release 0.1 say none of these."""
QUEUES_2 = "queues 2"
"""The node knows version 2 of the queues (`machines.queues`)."""


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """The identity of a node: the first frame in both directions, or what a PROOF and a CONFIRM
    carry; again when a node has become part of a cluster."""

    format_oldest: int
    format_newest: int
    identity: LinkIdentity
    target: NodeId
    """Whom the sender believes to talk to."""
    life: int
    """Drawn when the process started: a connection of an earlier life is dead for certain."""
    attempt: int
    """The last dial of the sender's life so far: what it dialled before is out of date."""
    capabilities: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=256)] = ()
    """What a node can do beyond its format; unknown ones mean nothing."""

    def says(self, capability: str) -> bool:
        """Whether it is among the capabilities."""
        return capability in self.capabilities


class Refused(msgspec.Struct, frozen=True, array_like=True):
    """The other side will not talk on this connection; the connection ends behind this."""

    reason: _Sentence
    passing: bool = False
    """No fault: two connections met, and the other one stays."""
    wants_proof: bool = False
    """A hello alone is not enough: dial again and prove that you hold the cluster key."""


class Request(msgspec.Struct, frozen=True, array_like=True):
    """One node asks another; answers come in any order."""

    id: _Count
    method: _Name
    timeout_ms: _Count
    """The caller does not wait longer than this."""
    body: bytes


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What a request asked for."""

    id: _Count
    body: bytes


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """Why a request has no answer: see `remote_errors`."""

    id: _Count
    kinds: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=32)]
    message: _Sentence
    details: dict[str, bool | int | str] = {}


class Withdrawal(msgspec.Struct, frozen=True, array_like=True):
    """The caller of a request has given up."""

    id: _Count


class Notice(msgspec.Struct, frozen=True, array_like=True):
    """Something worth knowing that needs no answer."""

    method: _Name
    body: bytes


Parcel = tuple[ShardId, PeerMessage]
"""A message of a shard, as a MESSAGES frame carries it."""

MESSAGES_DECODER: msgspec.msgpack.Decoder[list[Parcel]] = msgpack_decoder(list[Parcel])
HELLO_DECODER: msgspec.msgpack.Decoder[Hello] = msgpack_decoder(Hello)
REFUSED_DECODER: msgspec.msgpack.Decoder[Refused] = msgpack_decoder(Refused)
REQUEST_DECODER: msgspec.msgpack.Decoder[Request] = msgpack_decoder(Request)
ANSWER_DECODER: msgspec.msgpack.Decoder[Answer] = msgpack_decoder(Answer)
FAILURE_DECODER: msgspec.msgpack.Decoder[Failure] = msgpack_decoder(Failure)
NOTICE_DECODER: msgspec.msgpack.Decoder[Notice] = msgpack_decoder(Notice)
WITHDRAWAL_DECODER: msgspec.msgpack.Decoder[Withdrawal] = msgpack_decoder(Withdrawal)
CHALLENGE_DECODER: msgspec.msgpack.Decoder[Challenge] = msgpack_decoder(Challenge)
RESPONSE_DECODER: msgspec.msgpack.Decoder[Response] = msgpack_decoder(Response)
PROVEN_HELLO_DECODER: msgspec.msgpack.Decoder[ProvenHello] = msgpack_decoder(ProvenHello)
_ENCODER = msgspec.msgpack.Encoder()

T = TypeVar("T")


class Frame(NamedTuple):
    """A frame that arrived whole. The payload is a view that lives until more is read."""

    kind: FrameKind
    payload: memoryview


def encode_frame(kind: FrameKind, content: object) -> bytearray:
    """A whole frame. The content is encoded in place behind its header, and copied only there."""
    frame = bytearray(FRAME_HEADER_BYTES)
    _ENCODER.encode_into(content, frame, FRAME_HEADER_BYTES)
    length = len(frame) - FRAME_HEADER_BYTES
    with memoryview(frame) as view:
        checksum = crc32c(view[FRAME_HEADER_BYTES:])
    _write_header(frame, kind, length, checksum)
    return frame


def _write_header(frame: bytearray, kind: FrameKind, length: int, checksum: int) -> None:
    _HEADER.pack_into(frame, 0, FRAME_MAGIC, FRAME_VERSION, kind, 0, length, checksum, 0)
    with memoryview(frame) as view:
        header_checksum = crc32c(view[:_CHECKED_BYTES])
    frame[_CHECKED_BYTES:FRAME_HEADER_BYTES] = header_checksum.to_bytes(4, "little")


def _bare_frame(kind: FrameKind) -> bytes:
    frame = bytearray(FRAME_HEADER_BYTES)
    _write_header(frame, kind, 0, _EMPTY_CRC)
    return bytes(frame)


PING_FRAME = _bare_frame(FrameKind.PING)
PONG_FRAME = _bare_frame(FrameKind.PONG)


def decode_hello(payload: bytes) -> Hello:
    """The hello that a PROOF or a CONFIRM carries."""
    return decode_payload(HELLO_DECODER, Frame(FrameKind.HELLO, memoryview(payload)))


def encode_hello(hello: Hello) -> bytes:
    """A hello as a PROOF or a CONFIRM carries it."""
    return _ENCODER.encode(hello)


def decode_payload(decoder: msgspec.msgpack.Decoder[T], frame: Frame) -> T:
    """What the frame says; `InvalidFrame` if it is not what its kind promises."""
    try:
        return decoder.decode(frame.payload)
    except (ValueError, RecursionError) as error:
        # ValueError: msgspec's own errors, and UnicodeDecodeError from strings that are none.
        # RecursionError: arrays in arrays in arrays, in fields of a later version, to be skipped.
        raise InvalidFrame(f"a frame {frame.kind.name} that cannot be read: {error}") from None


class FrameReader:
    """Finds the frames in a stream that arrives in pieces of any size.

    Fill `space()`, then call `take(count)` and use up the frames before the next `space()`. Once
    it has raised `InvalidFrame` the stream has no meaning any more: end it."""

    __slots__ = ("_buffer", "_bytes_max", "_end", "_header", "_start", "_view")

    def __init__(self, bytes_max: int = HELLO_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._start = self._end = 0
        self._header: tuple[FrameKind, int, int] | None = None
        """Kind, length and checksum of the frame at `_start`, once its header has arrived."""
        self._renew(self._read_bytes)

    def accept_up_to(self, bytes_max: int) -> None:
        """Change the bound; a stranger's frames must be smaller than a known node's."""
        assert bytes_max <= FRAME_BYTES_MAX, f"no frame may have {bytes_max} bytes"
        self._bytes_max = bytes_max

    @property
    def capacity(self) -> int:
        """The memory in use."""
        return len(self._buffer)

    def space(self) -> memoryview:
        """Where to put what arrives next; never empty."""
        if self._start == self._end:
            self._start = self._end = 0
            if not self._read_bytes <= len(self._buffer) <= KEPT_BYTES:
                self._renew(self._read_bytes)
        wanted = FRAME_HEADER_BYTES + (self._header[1] if self._header is not None else 0)
        held = self._end - self._start
        # A header may promise much and bring nothing: memory grows with what has really come.
        wanted = min(wanted, max(2 * held, self._read_bytes))
        cramped = len(self._buffer) - self._end < _EXACT_BYTES and held < _EXACT_BYTES
        if self._start + wanted > len(self._buffer) or (cramped and self._start > 0):
            self._move_to_front(wanted)
        missing = wanted - held
        if missing >= _EXACT_BYTES:
            return self._view[self._end : self._end + missing]
        return self._view[self._end :]

    def take(self, count: int) -> Iterator[Frame]:
        """`count` bytes have arrived in `space()`: the frames that are whole now."""
        self._end += count
        assert self._end <= len(self._buffer), f"{count} bytes do not fit"
        while True:
            if self._header is None:
                if self._end - self._start < FRAME_HEADER_BYTES:
                    return
                self._header = self._read_header()
            kind, length, checksum = self._header
            start = self._start + FRAME_HEADER_BYTES
            if self._end < start + length:
                return
            payload = self._view[start : start + length]
            if crc32c(payload) != checksum:
                raise InvalidFrame(
                    f"a frame {kind.name} of {length} bytes does not match its CRC-32C"
                )
            self._start = start + length
            self._header = None
            yield Frame(kind, payload)

    @property
    def _read_bytes(self) -> int:
        return min(READ_BYTES, self._bytes_max + FRAME_HEADER_BYTES)

    def _read_header(self) -> tuple[FrameKind, int, int]:
        magic, version, kind, flags, length, checksum, header_checksum = _HEADER.unpack_from(
            self._buffer, self._start
        )
        if magic != FRAME_MAGIC:
            begin = bytes(self._view[self._start : self._start + 8])
            raise InvalidFrame(f"no frame begins with {begin!r}")
        if crc32c(self._view[self._start : self._start + _CHECKED_BYTES]) != header_checksum:
            raise InvalidFrame("the header of a frame does not match its CRC-32C")
        if version != FRAME_VERSION:
            raise InvalidFrame(f"a frame of version {version}; this node knows {FRAME_VERSION}")
        known = _KINDS.get(kind)
        if known is None:
            raise InvalidFrame(f"a frame of the unknown kind {kind}")
        if flags != 0:
            raise InvalidFrame(f"a frame {known.name} with the unknown flags {flags:#x}")
        if length > self._bytes_max:
            raise InvalidFrame(
                f"a frame {known.name} of {length} bytes; at most {self._bytes_max} are allowed"
            )
        return known, length, checksum

    def _move_to_front(self, wanted: int) -> None:
        """Make room for a frame of `wanted` bytes, of which some are here."""
        held = self._end - self._start
        old = self._view
        if wanted > len(self._buffer):
            # A new buffer, not a resized one: someone may still hold a view of the old. Rounded
            # up, so that frames of about one size do not each ask for a little more.
            self._renew(-(-wanted // READ_BYTES) * READ_BYTES)
        self._view[:held] = old[self._start : self._end]
        self._start, self._end = 0, held

    def _renew(self, size: int) -> None:
        self._buffer = bytearray(size)
        self._view = memoryview(self._buffer)
