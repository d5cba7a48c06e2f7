"""Decoding into classes, from any number of threads.

A class that msgspec meets for the first time is looked at field by field, and while that goes on,
another thread that decodes into the same class finds it half known: the process dies of it (msgspec
0.22, classes within classes). Shards are opened on several threads at once, and a program may have
several loops. So classes are met under a lock, here and nowhere else, one at a time; the decoder
that comes of it is kept and shared.

What is kept is bounded by the classes of this package; those of users have decoders of their own
(`json_decoder`).
"""

import threading
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors that decoding can raise: a wrong type or form, text that is not UTF-8, and nesting
that is too deep."""

_meeting = threading.Lock()
_msgpack: dict[object, msgspec.msgpack.Decoder[Any]] = {}
_json: dict[object, msgspec.json.Decoder[Any]] = {}


def decode_msgpack(data: bytes | bytearray | memoryview | msgspec.Raw, kind: type[T]) -> T:
    """MessagePack as one of our own types; raises what msgspec raises."""
    decoder = _msgpack.get(kind)
    if decoder is None:
        decoder = _msgpack[kind] = msgpack_decoder(kind)
    found: T = decoder.decode(data)
    return found


def decode_json(data: bytes | str | memoryview, kind: type[T]) -> T:
    """JSON as one of our own types; raises what msgspec raises."""
    decoder = _json.get(kind)
    if decoder is None:
        decoder = _json[kind] = json_decoder(kind)
    found: T = decoder.decode(data)
    return found


def msgpack_decoder(kind: object) -> msgspec.msgpack.Decoder[Any]:
    """Return a new decoder."""
    with _meeting:
        return msgspec.msgpack.Decoder(kind)


def json_decoder(kind: object) -> msgspec.json.Decoder[Any]:
    """Return a new decoder."""
    with _meeting:
        return msgspec.json.Decoder(kind)
