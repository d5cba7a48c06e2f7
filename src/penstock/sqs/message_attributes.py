"""The attributes of a message: checked, digested, and converted to record headers and back.

A message attribute is a header of the same name; its value is the string in UTF-8, or the bytes.
The types, of those that are not plainly `String`, are in one header more:

    sqs-types    {"age": "Number", "photo": "Binary.png"}

Any header of a message that came through Kafka is an attribute here, without a type: a String if it
is text that SQS can carry, Binary otherwise. There may be more than the ten that a sender through
SQS may give. Headers that begin with `penstock-` are instructions to the queue (see
`core.delivery_headers`) and not shown; a sender may give those that SQS has no parameter for, as
attributes of that name.

Digest. An SDK compares the MD5 that it is answered with its own, of the attributes sorted by name:

    name length, name, type length, type, 1 (text) or 2 (bytes), value length, value

Lengths have four bytes, the highest first. A receive's digest covers the attributes it returns.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import md5

import msgspec

from penstock.core import delivery_headers
from penstock.core.decoders import json_decoder
from penstock.core.message import Header
from penstock.sqs.errors import FORBIDDEN_CHARACTERS, InvalidParameterValue, UnsupportedOperation
from penstock.sqs.requests import MessageAttributeValue
from penstock.sqs.text import decode_text, encode_text

ATTRIBUTES_MAX = 10
NAME_CHARACTERS_MAX = 256
TYPE_CHARACTERS_MAX = 256
NAMES_KEPT = 4_096
TYPES_HEADER = "sqs-types"
TRACE_HEADER = "AWSTraceHeader"

_TYPES = ("String", "Number", "Binary")
_GIVEN_AS_ATTRIBUTES = frozenset({
    delivery_headers.PRIORITY,
    delivery_headers.TTL,
    delivery_headers.DELIVER_AT,
    delivery_headers.EXPIRE_AT,
})  # fmt: skip
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NUMBER_MAX = 1e126
_NUMBER_MIN = -1e128
_TYPES_ENCODER = msgspec.json.Encoder()
_TYPES_DECODER: msgspec.json.Decoder[dict[str, str]] = json_decoder(dict[str, str])


# Checking.


def check_attributes(attributes: Mapping[str, MessageAttributeValue]) -> int:
    """Refuse attributes that a message cannot have; returns how many bytes they count for."""
    if len(attributes) > ATTRIBUTES_MAX:
        raise InvalidParameterValue(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum"
            f" [{ATTRIBUTES_MAX}]."
        )
    size = 0
    for name, attribute in attributes.items():
        check_name(name)
        kind = attribute.data_type or ""
        _check_type(name, kind)
        if attribute.string_list_values or attribute.binary_list_values:
            raise UnsupportedOperation(
                "Message attribute list values in SendMessage operation are not supported."
            )
        # What is counted is what the sender wrote: names are of ASCII, types are checked to be.
        size += len(name) + len(kind) + len(_check_value(name, kind, attribute))
    return size


def check_trace_header(attributes: Mapping[str, MessageAttributeValue]) -> bytes:
    """Refuse system attributes but the one that may be sent; returns its value."""
    for name, attribute in attributes.items():
        if name != TRACE_HEADER:
            raise InvalidParameterValue(f"Message system attribute name '{name}' is invalid.")
        if attribute.data_type != "String":
            raise InvalidParameterValue(
                f"The type of message (system) attribute '{name}' is invalid. You must use only"
                " the following supported type prefixes: String."
            )
        value = attribute.string_value
        if not value:
            raise InvalidParameterValue(
                f"Message (system) attribute '{name}' must contain a non-empty value of type"
                " 'String'."
            )
        return _encode(value)
    return b""


@lru_cache(NAMES_KEPT)
def check_name(name: str) -> None:
    """Refuse a name that no attribute may have. Programs use the same few again and again."""
    if not name:
        raise InvalidParameterValue(
            "The request must contain non-empty message (user) attribute names."
        )
    if len(name) > NAME_CHARACTERS_MAX:
        raise InvalidParameterValue("Message (user) attribute names must be shorter than 256 Bytes")
    plain = name.replace("_", "a").replace("-", "a").replace(".", "a")
    if not (plain.isascii() and plain.isalnum()):
        raise InvalidParameterValue(
            "Message (user) attributes name can only contain upper and lower score characters,"
            " digits, periods, hyphens and underscores. "
        )
    lower = name.lower()
    if lower.startswith(("aws.", "amazon.", ".")) or lower.endswith("."):
        raise InvalidParameterValue(
            "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. These"
            " strings are reserved for internal use. Additionally, they cannot start or end with"
            " '.'."
        )
    if ".." in name:
        raise InvalidParameterValue(
            "You can't use message attribute names with successive '.' characters."
        )
    if lower == TYPES_HEADER or (
        lower.startswith(delivery_headers.PREFIX) and name not in _GIVEN_AS_ATTRIBUTES
    ):
        raise InvalidParameterValue(
            f"You can't use the message attribute name '{name}': it is reserved for internal use."
        )


def _check_type(name: str, kind: str) -> None:
    if not kind:
        raise InvalidParameterValue(
            f"The message (user) attribute '{name}' must contain a non-empty message attribute"
            " type."
        )
    base, dot, label = kind.partition(".")
    if base not in _TYPES or (dot and not label) or not kind.isascii():
        raise InvalidParameterValue(
            f"The type of message (user) attribute '{name}' is invalid. You must use only the"
            " following supported type prefixes: Binary, Number, String."
        )
    if len(kind) > TYPE_CHARACTERS_MAX:
        raise InvalidParameterValue("Message (user) attribute types must be shorter than 256 Bytes")


def _check_value(name: str, kind: str, attribute: MessageAttributeValue) -> bytes:
    """Return the value as bytes."""
    base = kind.partition(".")[0]
    value: str | bytes | None
    value = attribute.binary_value if base == "Binary" else attribute.string_value
    if not value:
        raise InvalidParameterValue(
            f"Message (user) attribute '{name}' must contain a non-empty value of type '{base}'."
        )
    if isinstance(value, bytes):
        return value
    if base == "Number":
        _check_number(name, value)
    return _encode(value)


def _check_number(name: str, value: str) -> None:
    if not _NUMBER.fullmatch(value):
        raise InvalidParameterValue(
            f"Can't cast the value of message (user) attribute '{name}' to a number."
        )
    if not _NUMBER_MIN <= float(value) <= _NUMBER_MAX:
        raise InvalidParameterValue(
            f"Number attribute value {value} should be in range (-10**128..10**126)"
        )


def _encode(value: str) -> bytes:
    encoded = encode_text(value)
    if encoded is None:
        raise InvalidParameterValue(FORBIDDEN_CHARACTERS)
    return encoded


# Digest.


def digest_attributes(attributes: Mapping[str, MessageAttributeValue]) -> str | None:
    """The MD5 of attributes; None if there are none."""
    if not attributes:
        return None
    parts: list[bytes] = []
    for name in sorted(attributes):
        attribute = attributes[name]
        kind = attribute.data_type or ""
        if kind.startswith("Binary"):
            transport, value = b"\x02", attribute.binary_value or b""
        else:
            transport, value = b"\x01", (attribute.string_value or "").encode()
        name_bytes, kind_bytes = name.encode(), kind.encode()
        parts += (
            len(name_bytes).to_bytes(4, "big"),
            name_bytes,
            len(kind_bytes).to_bytes(4, "big"),
            kind_bytes,
            transport,
            len(value).to_bytes(4, "big"),
            value,
        )
    return md5(b"".join(parts), usedforsecurity=False).hexdigest()


# Headers.


def attribute_headers(attributes: Mapping[str, MessageAttributeValue]) -> list[Header]:
    """The record headers of attributes that have been checked."""
    headers: list[Header] = []
    types: dict[str, str] = {}
    for name, attribute in attributes.items():
        kind = attribute.data_type or ""
        if kind.startswith("Binary"):
            headers.append((name, attribute.binary_value))
        else:
            headers.append((name, (attribute.string_value or "").encode()))
        if kind != "String" or name == TRACE_HEADER:
            types[name] = kind
    if types:
        headers.append((TYPES_HEADER, _TYPES_ENCODER.encode(types)))
    return headers


def header_attributes(
    headers: Iterable[Header], wanted: "WantedAttributes"
) -> dict[str, MessageAttributeValue]:
    """The attributes that are wanted of a message with these headers. Of several headers of one
    name the last one counts."""
    chosen: dict[str, bytes] = {}
    types: dict[str, str] = {}
    for name, value in headers:
        if name == TYPES_HEADER:
            types = _read_types(value)
        elif not name.startswith(delivery_headers.PREFIX) and wanted.includes(name):
            chosen[name] = value or b""
    if TRACE_HEADER in chosen and TRACE_HEADER not in types:
        del chosen[TRACE_HEADER]  # It is the system attribute of this name.
    return {name: attribute_value(value, types.get(name)) for name, value in chosen.items()}


def attribute_value(value: bytes, kind: str | None = None) -> MessageAttributeValue:
    """Bytes as an attribute; without a type, as what they look like."""
    if kind is None or not kind.startswith("Binary"):
        text = decode_text(value)
        if text is not None:
            return MessageAttributeValue(data_type=kind or "String", string_value=text)
    binary = kind if kind is not None and kind.startswith("Binary") else "Binary"
    return MessageAttributeValue(data_type=binary, binary_value=value)


def _read_types(value: bytes | None) -> dict[str, str]:
    try:
        return _TYPES_DECODER.decode(value or b"")
    except (msgspec.DecodeError, RecursionError):
        return {}


class WantedAttributes(msgspec.Struct, frozen=True):
    """The attributes that a receive requests."""

    all: bool = False
    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """True if it requests any attribute."""
        return self.all or bool(self.names) or bool(self.prefixes)

    def includes(self, name: str) -> bool:
        """True if it requests this attribute."""
        return self.all or name in self.names or name.startswith(self.prefixes)


NO_ATTRIBUTES = WantedAttributes()


@lru_cache(NAMES_KEPT)
def wanted_attributes(names: tuple[str, ...]) -> WantedAttributes:
    """Parse `MessageAttributeNames`: names, `prefix.*`, and `All`, `*` or `.*` for all.

    As on Amazon, the dot does not belong to the prefix: `col.*` is for `color`, too."""
    prefixes = tuple(name[:-2] for name in names if name.endswith(".*"))
    if "All" in names or "*" in names or "" in prefixes:
        return WantedAttributes(all=True)
    return WantedAttributes(names=frozenset(names), prefixes=prefixes)
