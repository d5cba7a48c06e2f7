"""Requests, answers and failures as bytes.

What is not exactly one of the known words is `InvalidFrame`: nothing of it is used.
"""

from typing import Final

import msgspec

from penstock.core.decoders import UNREADABLE, msgpack_decoder
from penstock.core.errors import InvalidFrame
from penstock.wire import (
    cumulative_ack_requests,
    group_requests,
    publish_requests,
    read_requests,
    trace_requests,
)
from penstock.wire import requests as words
from penstock.wire.failures import Described

_ENCODER: Final = msgspec.msgpack.Encoder()
_DESCRIBED: Final[msgspec.msgpack.Decoder[Described]] = msgpack_decoder(Described)


MODULES: Final = (
    words,
    cumulative_ack_requests,
    group_requests,
    publish_requests,
    read_requests,
    trace_requests,
)
"""Where the words are; a family has those that have been imported."""


def _all_of(family: type[msgspec.Struct]) -> object:
    """The union of a family's words, as the decoder wants it."""
    union: object = None
    for kind in family.__subclasses__():
        union = kind if union is None else union | kind
    return union


_REQUESTS: Final = msgpack_decoder(_all_of(words.Request))
_ANSWERS: Final = msgpack_decoder(_all_of(words.Answer))

encode = _ENCODER.encode


def decode_request(data: bytes | bytearray | memoryview) -> words.Request:
    """A request, or `InvalidFrame`."""
    try:
        return _REQUESTS.decode(data)  # type: ignore[no-any-return]
    except UNREADABLE as error:
        raise InvalidFrame(f"what came is no request: {error}") from error


def decode_answer(data: bytes | bytearray | memoryview) -> words.Answer:
    """An answer, or `InvalidFrame`."""
    try:
        return _ANSWERS.decode(data)  # type: ignore[no-any-return]
    except UNREADABLE as error:
        raise InvalidFrame(f"what came is no answer: {error}") from error


def decode_failure(data: bytes | bytearray | memoryview) -> Described:
    """An error in parts, or `InvalidFrame`."""
    try:
        return _DESCRIBED.decode(data)
    except UNREADABLE as error:
        raise InvalidFrame(f"what came is no failure: {error}") from error
