"""Requests, answers and failures as bytes.

What is not exactly one of the known words is `InvalidFrame`: nothing of it is used.
"""

from typing import Final

import msgspec

from penstock.core.decoders import UNREADABLE, msgpack_decoder
from penstock.core.errors import InvalidFrame
from penstock.core.limits import NATIVE_HEAD_BYTES_MAX, NATIVE_LARGE_HEAD_BYTES_MAX
from penstock.wire import (
    cumulative_ack_requests,
    group_requests,
    publish_requests,
    queue_control_requests,
    read_requests,
    trace_requests,
)
from penstock.wire import requests as words
from penstock.wire.failures import Described

_ENCODER: Final = msgspec.msgpack.Encoder()
_NAME_BYTES_MAX: Final = 32
_LARGE: Final = tuple(
    _ENCODER.encode(name)
    for name in (
        "send", "settle", "publish", "sync_group", "join_group", "commit_offsets", "committed",
    )
)  # fmt: skip
"""The names of requests that may be large, as they are written in MessagePack."""
_DESCRIBED: Final[msgspec.msgpack.Decoder[Described]] = msgpack_decoder(Described)


MODULES: Final = (
    words,
    cumulative_ack_requests,
    group_requests,
    publish_requests,
    queue_control_requests,
    read_requests,
    trace_requests,
)
"""The modules that define requests and answers; a family contains those that have been imported."""


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
    if len(data) > NATIVE_HEAD_BYTES_MAX:
        bytes_max = NATIVE_LARGE_HEAD_BYTES_MAX if _may_be_large(data) else NATIVE_HEAD_BYTES_MAX
        if len(data) > bytes_max:
            raise InvalidFrame(f"a request's head of {len(data)} bytes; {bytes_max} at most")
    try:
        return _REQUESTS.decode(data)  # type: ignore[no-any-return]
    except UNREADABLE as error:
        raise InvalidFrame(f"the frame is not a request: {error}") from error


def _may_be_large(data: bytes | bytearray | memoryview) -> bool:
    """True if the head begins as one of the large kinds: an array, and its name, all short."""
    return bytes(data[1 : 1 + _NAME_BYTES_MAX]).startswith(_LARGE)


def decode_answer(data: bytes | bytearray | memoryview) -> words.Answer:
    """An answer, or `InvalidFrame`."""
    try:
        return _ANSWERS.decode(data)  # type: ignore[no-any-return]
    except UNREADABLE as error:
        raise InvalidFrame(f"the frame is not an answer: {error}") from error


def decode_failure(data: bytes | bytearray | memoryview) -> Described:
    """An error in parts, or `InvalidFrame`."""
    try:
        return _DESCRIBED.decode(data)
    except UNREADABLE as error:
        raise InvalidFrame(f"the frame is not a failure: {error}") from error
