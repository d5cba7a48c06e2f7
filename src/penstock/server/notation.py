"""The notation of values: sizes, durations, addresses, and all other types of settings.

A `Notation` reads what a user wrote, in a flag, a variable or a TOML file, and writes it back the
way it should have been written, so that `penstock config show` prints what may be pasted into a
file. A bare number is no duration: whether "30" means seconds or milliseconds is the classic way
to be wrong by a factor of a thousand, so the unit is asked for.

A notation that is not met raises `ValueError`; who knows the setting's name makes a sentence of it.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

import msgspec

from penstock.core.durations import format_duration_ms, read_duration_ms
from penstock.core.limits import GIB, KIB, MIB
from penstock.core.types import NodeId

T = TypeVar("T")

PORT_MAX = 65_535
NODE_ID_MAX = 2**31 - 1
"""Kafka's protocol carries node ids in 32 bits, signed."""
HOST_CHARACTERS_MAX = 253
"""The longest name DNS can hold."""

_SIZE_UNITS = {"GiB": GIB, "MiB": MIB, "KiB": KIB, "B": 1}
_SIZE = re.compile(r"(\d{1,18})(GiB|MiB|KiB|B)?")
_HOST_NAME = re.compile(r"(?=.*[A-Za-z_])[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_YES = {"true", "yes", "on", "1"}
_NO = {"false", "no", "off", "0"}


class Address(NamedTuple):
    """A place to listen at or to connect to."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Only this machine can reach it. A name other than localhost may mean any address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_wildcard(self) -> bool:
        """True if it means every address of this machine: good to listen on, useless to connect
        to."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False


class Member(NamedTuple):
    """A node of a cluster and where its peers reach it."""

    node: NodeId
    address: Address


class Notation(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A notation of one type of values."""

    allowed: str
    """The allowed values, in words that follow "must be"."""
    placeholder: str
    """The placeholder of the value in a usage line."""
    parse: Callable[[object], T]
    """From a text, or from what TOML made of it; raises ValueError."""
    format: Callable[[T], str]
    """The way it should be written."""
    secret: bool = False
    """True if it may be given as `@FILE`, and is never shown in full, not even in an error."""


def _text_of(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("not a text")
    return value.strip()


def parse_address(value: object) -> Address:
    """Read `host:port`, `[IPv6]:port`; the port may be 0."""
    host, colon, digits = _text_of(value).rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", digits) or int(digits) > PORT_MAX:
        raise ValueError("no port")
    if host.startswith("[") and host.endswith("]"):
        return Address(str(ipaddress.IPv6Address(host[1:-1])), int(digits))
    if len(host) > HOST_CHARACTERS_MAX or not _HOST_NAME.fullmatch(host):
        host = str(ipaddress.IPv4Address(host))
    return Address(host, int(digits))


def _parse_member(value: object) -> Member:
    number, at, address = _text_of(value).partition("@")
    if not at or not re.fullmatch(r"[0-9]{1,10}", number):
        raise ValueError("no node id")
    if not 1 <= int(number) <= NODE_ID_MAX:
        raise ValueError("node id out of range")
    member = Member(NodeId(int(number)), parse_address(address))
    if member.address.port == 0 or member.address.is_wildcard:
        raise ValueError("others cannot connect there")
    return member


def _parts(value: object) -> Iterable[object]:
    """The items of a comma-separated text, or of a TOML array."""
    if isinstance(value, list):
        return value
    return _text_of(value).split(",")


def _parse_members(value: object) -> tuple[Member, ...]:
    members = tuple(sorted(_parse_member(part) for part in _parts(value)))
    if len({member.node for member in members}) < len(members):
        raise ValueError("a node id twice")
    if len({member.address for member in members}) < len(members):
        raise ValueError("an address twice")
    return members


def _parse_names(value: object) -> tuple[str, ...]:
    return tuple(_text_of(part) for part in _parts(value))


def _parse_networks(value: object) -> tuple[str, ...]:
    return tuple(str(ipaddress.ip_network(part)) for part in _parse_names(value))


def _parse_boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = _text_of(value).lower()
    if word not in _YES | _NO:
        raise ValueError("neither true nor false")
    return word in _YES


def parse_size(value: object) -> int:
    """Bytes from "64MiB", "512 KiB" or a number of bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise ValueError("negative")
        return value
    found = _SIZE.fullmatch(_text_of(value).replace(" ", ""))
    if found is None:
        raise ValueError("no size")
    return int(found[1]) * _SIZE_UNITS[found[2] or "B"]


def format_size(size_bytes: int) -> str:
    """In the largest unit that divides it: "64MiB"."""
    for unit, factor in _SIZE_UNITS.items():
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return "0B"


def parse_duration_ms(value: object) -> int:
    """Milliseconds from "250ms", "30s", "5m", "12h" or "7d"."""
    return read_duration_ms(_text_of(value))


def _parse_integer(value: object) -> int:
    if isinstance(value, bool):
        raise ValueError("a boolean is no number")
    if isinstance(value, int):
        return value
    text = _text_of(value)
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise ValueError("no number")
    return int(text)


def _within(parse: Callable[[object], int], low: int, high: int) -> Callable[[object], int]:
    def parse_within(value: object) -> int:
        number = parse(value)
        if not low <= number <= high:
            raise ValueError("out of range")
        return number

    return parse_within


def integer(low: int, high: int) -> Notation[int]:
    """A whole number between two others."""
    return Notation(
        allowed=f"a whole number from {low} to {high}",
        placeholder="N",
        parse=_within(_parse_integer, low, high),
        format=str,
    )


def size(low: int, high: int) -> Notation[int]:
    """A number of bytes between two others."""
    return Notation(
        allowed=f'a size from {format_size(low)} to {format_size(high)}, such as "64MiB"',
        placeholder="SIZE",
        parse=_within(parse_size, low, high),
        format=format_size,
    )


def duration(low_ms: int, high_ms: int) -> Notation[int]:
    """A time between two others, in milliseconds."""
    return Notation(
        allowed=(
            f"a duration with its unit (ms, s, m, h or d) from {format_duration_ms(low_ms)} "
            f'to {format_duration_ms(high_ms)}, such as "30s"'
        ),
        placeholder="DURATION",
        parse=_within(parse_duration_ms, low_ms, high_ms),
        format=format_duration_ms,
    )


def choice(*names: str) -> Notation[str]:
    """One of a few words."""

    def parse(value: object) -> str:
        word = _text_of(value).lower()
        if word not in names:
            raise ValueError("not one of them")
        return word

    return Notation(
        allowed=f"one of {', '.join(names)}", placeholder="|".join(names), parse=parse, format=str
    )


TEXT = Notation(allowed="a text", placeholder="TEXT", parse=_text_of, format=str)
PATH = Notation(allowed="a path", placeholder="PATH", parse=_text_of, format=str)
BOOLEAN = Notation(
    allowed="true or false",
    placeholder="",
    parse=_parse_boolean,
    format=lambda value: "true" if value else "false",
)
ADDRESS = Notation(
    allowed='HOST:PORT, such as "127.0.0.1:9092" or "[::1]:9092"; port 0 takes a free one',
    placeholder="HOST:PORT",
    parse=parse_address,
    format=str,
)
MEMBERS: Notation[tuple[Member, ...]] = Notation(
    allowed=(
        "ID@HOST:PORT for each node, parted by commas, each id and each address once, such as "
        '"1@a.example:9192,2@b.example:9192"'
    ),
    placeholder="1@HOST:PORT,...",
    parse=_parse_members,
    format=lambda members: ",".join(f"{node}@{address}" for node, address in members),
)
NETWORKS: Notation[tuple[str, ...]] = Notation(
    allowed='networks parted by commas, such as "203.0.113.0/24"',
    placeholder="NETWORK,...",
    parse=_parse_networks,
    format=",".join,
)
NAMES: Notation[tuple[str, ...]] = Notation(
    allowed="names parted by commas",
    placeholder="NAME,...",
    parse=_parse_names,
    format=",".join,
)
