"""Hostile values for structs: native requests, frames and messages of peers.

The grammar is the types themselves, as msgspec describes them: each field gets a value of its type,
mostly one at an edge, and now and then one of another type, one too few or one too many.
"""

import random
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, get_args

import msgspec
from msgspec import inspect

from penstock.core.types import NodeId
from penstock.engine.cluster import call_table
from penstock.engine.cluster.founding import INTRODUCE
from penstock.engine.peers import frames
from penstock.engine.peers.calls import RemoteCall
from penstock.engine.peers.frames import FrameKind
from penstock.engine.peers.handshake import Challenge, ProvenHello, Response
from penstock.engine.replica.network import PeerMessage
from penstock.wire import codec
from penstock.wire.requests import Request

EDGES = (
    0, 1, 2, -1, -2, 127, 128, 255, 32_767, -32_768, (1 << 31) - 1, 1 << 31, -(1 << 31),
    (1 << 32) - 1, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63), (1 << 63), (1 << 64) - 1,
)  # fmt: skip
NAMES = ("fuzz-a", "fuzz-b", "fuzz-c", "default", "range", "__audit", "__staging")
_TEXTS = ("", "a", "\0", "ä" * 20, "../..", "\n00:00 forged", "x" * 300, "ready", "1", "-1")
_DEPTH_MAX = 5
COUNTED = {"partitions", "total"}
"""Numbers that cost as much as they say: they are small here, and have cases of their own."""


class Values:
    """Draws values; `known` are topic ids that exist."""

    def __init__(self, rng: random.Random, known: Sequence[bytes] = ()) -> None:
        self.rng = rng
        self.known = tuple(known)

    def number(self) -> int:
        if self.rng.random() < 0.5:
            return self.rng.randrange(4)
        return self.rng.choice(EDGES)

    def text(self) -> str:
        return self.rng.choice(NAMES if self.rng.random() < 0.5 else _TEXTS)

    def data(self) -> bytes:
        if self.known and self.rng.random() < 0.7:
            return self.rng.choice(self.known)
        return self.rng.randbytes(self.rng.choice((0, 1, 15, 16, 17, 200)))

    def anything(self) -> object:
        """A value of no matter which type."""
        return self.rng.choice((None, True, self.number(), self.text(), self.data(), [], {}, 1.5))

    def of(self, kind: inspect.Type, depth: int = 0) -> object:
        """A value of a type, nearly always."""
        if self.rng.random() < 0.02:
            return self.anything()
        match kind:
            case inspect.IntType():
                return self.number()
            case inspect.StrType():
                return self.text()
            case inspect.BytesType() | inspect.ByteArrayType() | inspect.MemoryViewType():
                return self.data()
            case inspect.BoolType():
                return self.rng.random() < 0.5
            case inspect.FloatType():
                return self.rng.choice((0.0, -1.0, 1e308, float("inf"), float("nan")))
            case inspect.NoneType():
                return None
            case inspect.EnumType(cls=cls):
                members = list(cls)
                return self.rng.choice([*(one.value for one in members), 99])
            case inspect.LiteralType(values=values):
                return self.rng.choice(values)
            case inspect.UnionType(types=types):
                return self.of(self.rng.choice(types), depth)
            case inspect.TupleType(item_types=types):
                return [self.of(one, depth + 1) for one in types]
            case (
                inspect.VarTupleType(item_type=item)
                | inspect.ListType(item_type=item)
                | inspect.SetType(item_type=item)
            ):
                many = 0 if depth > _DEPTH_MAX else self.rng.choice((0, 1, 1, 2, 3, 20))
                return [self.of(item, depth + 1) for _ in range(many)]
            case inspect.DictType(key_type=key, value_type=value):
                return {
                    str(self.of(key, depth + 1)): self.of(value, depth + 1)
                    for _ in range(self.rng.choice((0, 1, 3)))
                }
            case inspect.StructType(cls=cls):
                return self.struct(cls, depth)
        return self.anything()

    def _field(self, field: inspect.Field, depth: int) -> object:
        if field.name in COUNTED:
            return self.rng.choice((1, 2, 3, 0, -1, (1 << 31) - 1))
        return self.of(field.type, depth + 1)

    def struct(self, cls: type[msgspec.Struct], depth: int = 0) -> object:
        """The fields of a struct, with its tag, as they are encoded."""
        info = _described(cls)
        if not info.array_like:
            row: dict[str, object] = {
                field.encode_name: self._field(field, depth)
                for field in info.fields
                if field.required or self.rng.random() < 0.7
            }
            if info.tag is not None:
                row[str(info.tag_field)] = info.tag
            return row
        values = [self._field(field, depth) for field in info.fields]
        chance = self.rng.random()
        if chance < 0.03 and values:
            values.pop()
        elif chance < 0.06:
            values.append(self.anything())
        elif chance < 0.2:
            required = sum(field.required for field in info.fields)
            values = values[: self.rng.randrange(required, len(values) + 1)]
        return values if info.tag is None else [info.tag, *values]


@cache
def _described(cls: type[msgspec.Struct]) -> inspect.StructType:
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    return info


@cache
def native_requests() -> tuple[type[Request], ...]:
    """Every request of the native protocol."""
    assert codec.MODULES
    return tuple(sorted(Request.__subclasses__(), key=_name))


def _name(cls: type) -> str:
    return cls.__name__


def native_head(rng: random.Random, known: Sequence[bytes] = ()) -> bytes:
    """A request of the native protocol, or nearly."""
    return encode(Values(rng, known).struct(rng.choice(native_requests())))


_FRAMES: tuple[tuple[FrameKind, Any], ...] = (
    (FrameKind.HELLO, frames.Hello),
    (FrameKind.REFUSED, frames.Refused),
    (FrameKind.REQUEST, frames.Request),
    (FrameKind.ANSWER, frames.Answer),
    (FrameKind.FAILURE, frames.Failure),
    (FrameKind.NOTICE, frames.Notice),
    (FrameKind.WITHDRAWAL, frames.Withdrawal),
)
_HANDSHAKE: tuple[tuple[FrameKind, Any], ...] = (
    (FrameKind.CHALLENGE, Challenge),
    (FrameKind.RESPONSE, Response),
    (FrameKind.PROOF, ProvenHello),
    (FrameKind.CONFIRM, ProvenHello),
)
CALLS: Final[tuple[RemoteCall[Any, Any], ...]] = tuple(
    sorted(
        {one for one in (*vars(call_table).values(), INTRODUCE) if isinstance(one, RemoteCall)},
        key=lambda call: call.name,
    )
)
"""All that one node may ask of another."""


def handshake_frame(rng: random.Random) -> tuple[FrameKind, bytes]:
    """A frame of something that has not proven itself: mostly of the handshake, and then with
    nonces and codes that have the right length."""
    values = Values(rng)
    kind, cls = rng.choice((*_HANDSHAKE, *_HANDSHAKE, *_FRAMES))
    row = values.struct(cls)
    if isinstance(row, list) and rng.random() < 0.7:
        row = [rng.randbytes(32) if isinstance(one, bytes) else one for one in row]
    return kind, encode(row)


def peer_frame(rng: random.Random, source: int = 2, target: int = 1) -> tuple[FrameKind, bytes]:
    """A frame between two nodes: its kind and its payload."""
    values = Values(rng)
    if rng.random() < 0.4:
        call = rng.choice(CALLS)
        request = [values.number(), call.name, 1_000, _body(values, call)]
        return FrameKind.REQUEST, encode(request)
    if rng.random() < 0.5:
        parcels = [
            [rng.choice((0, 1, 2, 9)), _message(values, source, target)]
            for _ in range(rng.choice((1, 1, 3)))
        ]
        return FrameKind.MESSAGES, encode(parcels)
    kind, cls = rng.choice(_FRAMES)
    return kind, encode(values.struct(cls))


def _body(values: Values, call: RemoteCall[Any, Any]) -> bytes:
    """The request of a call as it travels, or nearly."""
    if values.rng.random() < 0.1:
        return values.data()
    request = values.of(inspect.type_info(call.request))
    if call.request is bytes and isinstance(request, bytes):
        return request
    if call.request is str and isinstance(request, str):
        return request.encode("utf-8", "surrogatepass")
    return encode(request)


def _message(values: Values, source: int, target: int) -> object:
    row = values.struct(values.rng.choice(_messages()))
    if isinstance(row, list) and len(row) > 2 and values.rng.random() < 0.9:
        row[1:3] = [source, target]
    return row


@cache
def _messages() -> tuple[type[Any], ...]:
    """Raft's messages, and those that carry a snapshot."""
    return tuple(sorted(get_args(PeerMessage), key=_name))


def hostile_message(rng: random.Random, source: int, target: int) -> Any:
    """A message of Raft between two nodes, with any values in its other fields."""
    values = Values(rng)
    while True:
        cls = rng.choice(_messages())
        row = values.struct(cls)
        assert isinstance(row, list)
        row[1:3] = [NodeId(source), NodeId(target)]
        try:
            return msgspec.convert(row, cls)
        except (msgspec.ValidationError, OverflowError):
            continue


def encode(value: object) -> bytes:
    """MessagePack, also of numbers that it cannot hold: they wrap."""
    try:
        return msgspec.msgpack.encode(value)
    except (OverflowError, UnicodeEncodeError):
        return b"\xc0"
