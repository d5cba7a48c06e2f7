"""Codecs: values into the bytes of a body, and back.

    codec=             a body is            and carries the headers
    nothing            bytes                none
                       a text               content-type: text/plain
                       anything else        content-type: application/json (and its schema, if any)
    bytes              bytes                none
    str                a text               content-type: text/plain
    penstock.JSON      what JSON can say    content-type: application/json
    a class            JSON                 content-type: application/json, schema: Order/2
    another type       JSON                 content-type: application/json

A class is a `msgspec.Struct`, a dataclass, an attrs class or a pydantic model; another type is all
that msgspec reads: `list[int]`, `dict[str, float]`, a `TypedDict`. Bodies are checked against it
when they are read. Without a codec a body is read by its headers, and is bytes if it has none.

`None` is no body at all, whatever the codec: on a compacted topic it deletes its key.

JSON has no way to say NaN or infinity, which become null; bytes within JSON become base64. What a
codec cannot write or read is `InvalidBody`, and nothing else.

Pydantic is not among Penstock's requirements and is not imported: its models are known by their
methods.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar, cast, overload, runtime_checkable

import msgspec

from penstock.client.schemas import SCHEMA, schema_of, written_version
from penstock.core.decoders import decode_json, json_decoder
from penstock.core.errors import InvalidBody, InvalidRequest
from penstock.core.message import Header

T = TypeVar("T")
Encoded = tuple[bytes | None, tuple[Header, ...]]
"""A body and the headers that say how to read it."""

CONTENT_TYPE = "content-type"
TEXT = b"text/plain"
JSON_TYPE = b"application/json"
CLASSES_REMEMBERED = 256
_TEXT_HEADERS: tuple[Header, ...] = ((CONTENT_TYPE, TEXT),)
_JSON_HEADERS: tuple[Header, ...] = ((CONTENT_TYPE, JSON_TYPE),)
_UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError)
_UNREADABLE = (ValueError, RecursionError)


@runtime_checkable
class Codec(Protocol[T]):
    """Encodes and decodes bodies. An implementation raises `InvalidBody` for a body that it cannot
    encode or decode."""

    def encode(self, value: T) -> Encoded:
        """The bytes of a body, or None for no body, and headers to send along."""
        ...

    def decode(self, data: bytes, headers: Sequence[Header]) -> T:
        """The value that a body's bytes stand for."""
        ...


class BytesCodec:
    """Leaves bodies alone, for programs that serialize by themselves."""

    def encode(self, value: bytes) -> Encoded:
        if type(value) is bytes or value is None:
            return value, ()
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value), ()
        raise InvalidBody(_not_a("bytes", value))

    def decode(self, data: bytes, headers: Sequence[Header]) -> bytes:  # noqa: ARG002
        return data


class TextCodec:
    """Encodes text as UTF-8."""

    def encode(self, value: str | None) -> Encoded:
        if isinstance(value, str):
            return _encode_text(value), _TEXT_HEADERS
        if value is None:
            return None, ()
        raise InvalidBody(_not_a("str", value))

    def decode(self, data: bytes, headers: Sequence[Header]) -> str:  # noqa: ARG002
        return _decode_text(data)


class JsonCodec(Generic[T]):
    """Encodes JSON. Bodies are decoded as one type; with `Any`, as plain JSON values."""

    def __init__(self, kind: object = Any) -> None:
        try:
            if isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType):
                raise TypeError("make it a dataclass or a msgspec.Struct")
            self._decode = json_decoder(kind).decode
        except (TypeError, ValueError) as problem:
            raise InvalidRequest(
                f"{kind!r} is no codec and no type that JSON can be read as: {problem}."
            ) from problem
        self._wanted = "JSON" if kind is Any else f"JSON of {_name(kind)}"

    def encode(self, value: T) -> Encoded:
        if value is None:
            return None, ()
        return _encode_json(value), _JSON_HEADERS

    def decode(self, data: bytes, headers: Sequence[Header]) -> T:
        _check_is_json(headers, self._wanted)
        try:
            return cast(T, self._decode(data))
        except _UNREADABLE as problem:
            raise InvalidBody(f"The body is no {self._wanted}: {problem}.") from problem


class ClassCodec(Generic[T]):
    """JSON of one class, with the version of its schema."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._schema = schema_of(kind)
        self._headers = (*_JSON_HEADERS, self._schema.header)
        self._decode: Callable[[bytes], object]
        self._convert: Callable[[object], object]
        if is_pydantic(kind):
            self._decode = _method(kind, "model_validate_json")
            self._convert = _method(kind, "model_validate")
        else:
            try:
                self._decode = json_decoder(kind).decode
            except (TypeError, ValueError, NameError) as problem:
                raise InvalidRequest(
                    f"Bodies cannot be read as {kind.__name__}: {problem}."
                ) from problem
            self._convert = lambda data: msgspec.convert(data, kind, strict=True)

    def encode(self, value: T) -> Encoded:
        if isinstance(value, self._kind):
            return _encode_json(value), self._headers
        if value is None:
            return None, ()
        raise InvalidBody(_not_a(self._kind.__name__, value))

    def decode(self, data: bytes, headers: Sequence[Header]) -> T:
        _check_is_json(headers, str(self._schema))
        version = self._schema.version
        if (written := _header(headers, SCHEMA)) is not None:
            version = written_version(written, self._schema)
        try:
            if version < self._schema.version and hasattr(self._kind, "upgrade"):
                return cast(T, self._convert(self._upgraded(data, version)))
            return cast(T, self._decode(data))
        except InvalidBody:
            raise
        except _UNREADABLE as problem:
            raise InvalidBody(f"The body is no {self._schema}: {problem}.") from problem

    def _upgraded(self, data: bytes, version: int) -> object:
        fields = decode_json(data, dict[str, object])
        upgrade = _method(self._kind, "upgrade")
        try:
            return upgrade(fields, version)
        except Exception as problem:
            # Whatever a user's function meets in old data, to the reader it is a bad body.
            raise InvalidBody(
                f"{self._schema.name}.upgrade failed on a body of version {version}:"
                f" {type(problem).__name__}: {problem}."
            ) from problem


class AutomaticCodec:
    """Bytes, text or JSON, by the value when it is written and by the headers when it is read."""

    def encode(self, value: Any) -> Encoded:
        if type(value) is bytes or value is None:
            return value, ()
        if isinstance(value, str):
            return _encode_text(value), _TEXT_HEADERS
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value), ()
        kind: type = type(value)
        if kind is dict or kind is list or not _has_schema(kind):
            return _encode_json(value), _JSON_HEADERS
        return _remembered_class_codec(kind).encode(value)

    def decode(self, data: bytes, headers: Sequence[Header]) -> Any:
        content = _header(headers, CONTENT_TYPE)
        if content is None:
            return data
        if _is_json(content):
            return JSON.decode(data, ())
        if content[: len(TEXT)].lower() == TEXT:
            return _decode_text(data)
        return data


AUTO: Codec[Any] = AutomaticCodec()
BYTES: Codec[bytes] = BytesCodec()
STR: Codec[str] = TextCodec()
JSON: Codec[Any] = JsonCodec()
"""The codec for JSON bodies of any type."""


@overload
def codec_for(choice: None) -> Codec[Any]: ...
@overload
def codec_for(choice: type[T]) -> Codec[T]: ...
@overload
def codec_for(choice: Codec[T]) -> Codec[T]: ...


def codec_for(choice: object) -> Codec[Any]:
    """Return the codec that the argument `codec=` selects: see the table above."""
    if choice is None:
        return AUTO
    if choice is bytes:
        return BYTES
    if choice is str:
        return STR
    if isinstance(choice, type):
        if _has_schema(choice):
            return _remembered_class_codec(choice)
        if isinstance(choice, Codec):
            raise InvalidRequest(f"{choice.__name__} is a class: make one, {choice.__name__}(…).")
        return JsonCodec(choice)
    if isinstance(choice, Codec):
        return choice
    return JsonCodec(choice)


def is_pydantic(kind: type) -> bool:
    """True if this is a pydantic model; pydantic is not imported for the check."""
    return hasattr(kind, "model_validate_json") and hasattr(kind, "model_dump_json")


def _method(of: object, name: str) -> Callable[..., object]:
    """A method that the type checker cannot know of."""
    found: Callable[..., object] = getattr(of, name)
    return found


def _has_schema(kind: type) -> bool:
    return (
        issubclass(kind, msgspec.Struct)
        or dataclasses.is_dataclass(kind)
        or hasattr(kind, "__attrs_attrs__")
        or is_pydantic(kind)
    )


@lru_cache(maxsize=CLASSES_REMEMBERED)
def _remembered_class_codec(kind: type[T]) -> ClassCodec[T]:
    return ClassCodec(kind)


def _dump_foreign(value: object) -> object:
    """Convert a pydantic model, also one inside another value, for msgspec; raise TypeError for
    other types."""
    if is_pydantic(type(value)):
        return _method(value, "model_dump")(mode="json")
    raise TypeError(f"{type(value).__name__} has no form in JSON")


_json_encoder = msgspec.json.Encoder(enc_hook=_dump_foreign)


def _encode_json(value: object) -> bytes:
    try:
        return _json_encoder.encode(value)
    except _UNWRITABLE as problem:
        raise InvalidBody(
            f"A body of type {_name(type(value))} cannot be written as JSON: {problem}."
        ) from problem


def _encode_text(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as problem:
        raise InvalidBody(f"A text cannot be written as UTF-8: {problem}.") from problem


def _decode_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        raise InvalidBody(f"The body is no text in UTF-8: {problem}.") from problem


def _check_is_json(headers: Sequence[Header], wanted: str) -> None:
    content = _header(headers, CONTENT_TYPE)
    if content is not None and not _is_json(content):
        raise InvalidBody(
            f"The body is {content[:80].decode(errors='replace')} and was read as {wanted}: read"
            " the queue without a codec, or with the right one."
        )


def _is_json(content: bytes) -> bool:
    """`application/json`, also with a character set, and `application/cloudevents+json`."""
    if content == JSON_TYPE:
        return True
    media = content.partition(b";")[0].strip().lower()
    return media == JSON_TYPE or media.endswith(b"+json")


def _header(headers: Sequence[Header], name: str) -> bytes | None:
    for known, value in headers:
        if known == name:
            return value
    return None


def _name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _not_a(wanted: str, value: object) -> str:
    return (
        f"The codec takes {wanted}, and the body is of type {type(value).__name__}: convert it, or"
        " leave the codec out."
    )
