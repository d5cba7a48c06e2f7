"""The native protocol on a stream of bytes: a greeting, then frames in both directions.

    greeting   "PENSTOCK" | version u32                    the client's first, then the server's
    frame      length u32 | kind u8 | 3 × 0 | id u32 | head length u32 | head | payload

The length counts everything after itself. The head is one MessagePack value: a request, an answer
or a failure. The payload is record batches as they are stored, which are opened only by the
sender's builder and the reader's decoder; most requests have none.

Requests are multiplexed: a client may have many under way; each has an id, and answers come in any
order. A request whose caller has gone away is withdrawn: a long poll ends, and messages that it
would have leased are released.

It shares the port of the Kafka protocol. No Kafka request begins with these eight bytes: as a
length they would stand for 1.3 GB.

Every length is checked before it is trusted. The reader sets how long a frame may be.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from penstock.core.errors import InvalidFrame

MAGIC: Final = b"PENSTOCK"
VERSION: Final = 1
GREETING: Final = struct.Struct(">8sI")
PREFIX: Final = struct.Struct(">IB3xII")
LENGTH: Final = struct.Struct(">I")
_COUNTED_FROM: Final = LENGTH.size
_REST_BYTES: Final = PREFIX.size - LENGTH.size


class Kind(IntEnum):
    REQUEST = 1
    ANSWER = 2
    FAILURE = 3
    WITHDRAWAL = 4
    """Withdraws the request with this id: no answer is wanted any more."""


class FrameHead(NamedTuple):
    """The fixed part of a frame, checked."""

    kind: Kind
    id: int
    head_bytes: int
    payload_bytes: int

    @property
    def size(self) -> int:
        """The size of the whole frame in bytes."""
        return PREFIX.size + self.head_bytes + self.payload_bytes


_KINDS: Final = {int(kind): kind for kind in Kind}


def greet(version: int = VERSION) -> bytes:
    """The greeting that each side sends first."""
    return GREETING.pack(MAGIC, version)


def read_greeting(data: bytes | bytearray | memoryview) -> int:
    """The version the other side speaks, or `InvalidFrame`."""
    magic, version = GREETING.unpack_from(data)
    if magic != MAGIC:
        raise InvalidFrame(f"{bytes(data[:8])!r} is not the greeting of Penstock's native protocol")
    if not 1 <= version <= VERSION:
        raise InvalidFrame(
            f"version {version} of the native protocol is not supported; 1 to {VERSION} are"
        )
    return int(version)


def read_prefix(data: bytes | bytearray | memoryview, position: int, bytes_max: int) -> FrameHead:
    """Read the fixed part of a frame; the caller has checked that it is complete."""
    length, number, frame_id, head_bytes = PREFIX.unpack_from(data, position)
    kind = _KINDS.get(number)
    if kind is None:
        raise InvalidFrame(f"a frame of kind {number}")
    if not _REST_BYTES + head_bytes <= length <= bytes_max:
        raise InvalidFrame(
            f"a frame of {length} bytes with a head of {head_bytes}; at most {bytes_max} may be"
        )
    return FrameHead(kind, frame_id, head_bytes, length - _REST_BYTES - head_bytes)


def write_prefix(kind: Kind, frame_id: int, head_bytes: int, payload_bytes: int) -> bytes:
    """Return the fixed part of a frame."""
    length = _REST_BYTES + head_bytes + payload_bytes
    return PREFIX.pack(length, kind, frame_id, head_bytes)
