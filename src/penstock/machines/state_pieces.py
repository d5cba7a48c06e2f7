"""Snapshots in pieces: msgpack that is encoded bit by bit while the machine goes on.

The bytes are those of one `msgspec.msgpack.encode` of the whole state, so that every release since
0.1.0 can read them, but they are not made in one go. Each machine offers

    snapshot_pieces()   called: the moment is fixed (copy-on-write; nothing large is encoded)
                        iterated: the state of that moment, in pieces of about `PIECE_BYTES`

Entries may be applied between two pieces. To want no more of them is to drop the iterator.

The one length that has to stand before its bytes and is not known by then, that of a whole
machine's state, is filled in later: a `Patch`.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple, TypeVar

import msgspec

PIECE_ROWS = 512
"""How many rows of a table are encoded at a time: well under a millisecond."""
PIECE_BYTES = 64 * 1024

_encode = msgspec.msgpack.Encoder().encode


class Patch(NamedTuple):
    """Bytes that belong at a position before the end, in place of those written there."""

    position: int
    data: bytes


Piece = bytes | Patch
Buffer = bytes | bytearray | memoryview
Restoring = Generator[None, None, Callable[[], None]]
"""A restoration under way: it pauses, and in the end returns what replaces the state."""
T = TypeVar("T")


def begun(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """A generator that has run up to its first piece: the moment of the snapshot is fixed."""
    return chain((next(pieces),), pieces)


def finished(work: Generator[None, None, T]) -> T:
    """What a generator returns in the end."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def joined(pieces: Iterator[Piece]) -> bytes:
    """The whole, in memory; for small states, tools and tests."""
    whole = bytearray()
    for piece in pieces:
        if isinstance(piece, Patch):
            whole[piece.position : piece.position + len(piece.data)] = piece.data
        else:
            whole += piece
    return bytes(whole)


def array_header(count: int) -> bytes:
    """What stands before the items of an array."""
    if count < 16:
        return bytes((0x90 | count,))
    if count < 1 << 16:
        return b"\xdc" + count.to_bytes(2, "big")
    return wide_array_header(count)


def wide_array_header(count: int) -> bytes:
    """The same, in five bytes whatever the count, so that it can be a `Patch`."""
    return b"\xdd" + count.to_bytes(4, "big")


def map_header(count: int) -> bytes:
    """What stands before the keys and values of a map."""
    if count < 16:
        return bytes((0x80 | count,))
    if count < 1 << 16:
        return b"\xde" + count.to_bytes(2, "big")
    return b"\xdf" + count.to_bytes(4, "big")


def bin_header(length: int) -> bytes:
    """What stands before binary data."""
    if length < 1 << 8:
        return bytes((0xC4, length))
    if length < 1 << 16:
        return b"\xc5" + length.to_bytes(2, "big")
    return wide_bin_header(length)


def wide_bin_header(length: int) -> bytes:
    """The same, in five bytes whatever the length, so that it can be a `Patch`."""
    return b"\xc6" + length.to_bytes(4, "big")


def array_items(rows: Sequence[object]) -> bytes:
    """The items of an array without its header."""
    return _encode(rows)[len(array_header(len(rows))) :]


def map_items(table: Mapping[object, object]) -> bytes:
    """The keys and values of a map without its header."""
    return _encode(table)[len(map_header(len(table))) :]


def array_pieces(rows: Sequence[object]) -> Iterator[bytes]:
    """An array of many rows, none of which changes meanwhile."""
    yield array_header(len(rows))
    for start in range(0, len(rows), PIECE_ROWS):
        yield array_items(rows[start : start + PIECE_ROWS])


def map_pieces(rows: Sequence[tuple[object, object]]) -> Iterator[bytes]:
    """A map of many rows (key, value), none of which changes meanwhile."""
    yield map_header(len(rows))
    pairs = iter(rows)
    while chunk := dict(islice(pairs, PIECE_ROWS)):
        yield map_items(chunk)


def encoded(*values: object) -> bytes:
    """Values one behind the other, as the items of an array are."""
    return b"".join([_encode(value) for value in values])
