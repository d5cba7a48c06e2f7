"""The address that `connect` takes, read into one of the three places a broker can be.

    penstock://one:9092,two:9092    nodes of a cluster; one that answers is enough
    file:./data                     a directory: the whole engine inside this process
    memory:    memory:name          the same without a disk; a name is shared within the process

What is wrong with an address is said in words that help, since it is the first thing a user types:
a scheme of another system is answered with what Penstock offers in its place.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import unquote

from penstock.core.errors import InvalidUrl

DEFAULT_PORT = 9092
HOSTS_MAX = 64
"""More addresses than this are a mistake: a few nodes are enough to learn of all others."""
_HOST_CHARACTERS_MAX = 253

_SCHEMES = ("penstock", "file", "memory")
_INSTEAD = {
    "kafka": "Kafka clients connect to the same port by themselves; this client says penstock://",
    "sqs": "SQS clients connect to the SQS port by themselves; this client says penstock://",
    "http": "the HTTP port is for browsers and SQS; this client says penstock://host:9092",
    "https": "the HTTP port is for browsers and SQS; this client says penstock://host:9092",
    "tcp": "the scheme is penstock://",
    "amqp": 'RabbitMQ is not spoken; the guide "Coming from RabbitMQ" shows what replaces it',
    "redis": "Redis is not spoken; use penstock://, file: or memory:",
    "sqlite": "a directory on this machine is file:./data",
}


@dataclass(frozen=True, slots=True)
class Remote:
    """Nodes of a cluster, to be reached over TCP."""

    hosts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class File:
    """A directory that this process opens itself."""

    path: str


@dataclass(frozen=True, slots=True)
class Memory:
    """An engine without a disk. The nameless one is the caller's own; others are shared by name."""

    name: str


def parse_url(text: str) -> Remote | File | Memory:
    """Parse a URL; raise `InvalidUrl`, which says what to write instead, if it is wrong."""
    scheme, colon, rest = text.strip().partition(":")
    scheme = scheme.lower()
    if scheme == "penstock" and rest.startswith("//"):
        return Remote(_read_hosts(rest[2:].removesuffix("/"), text))
    if scheme == "file" and colon:
        return File(_read_path(rest, text))
    if scheme == "memory" and colon:
        return Memory(unquote(rest.removeprefix("//")))
    raise InvalidUrl(f"{text!r} is no address of a broker: {_suggest(scheme, rest, text)}.")


def _suggest(scheme: str, rest: str, text: str) -> str:
    if not text.strip():
        return "write penstock://host:9092, file:./data or memory:"
    if scheme == "penstock":
        return f"write penstock://{rest.lstrip('/')}"
    if scheme in ("file", "memory"):
        return f"a colon is missing: {scheme}:"
    if scheme in _INSTEAD:
        return _INSTEAD[scheme]
    if close := get_close_matches(scheme, _SCHEMES, n=1):
        return f"perhaps {close[0]}:{'//' if close[0] == 'penstock' else ''} was meant"
    if text.startswith((".", "/", "~")):
        return f"a directory is file:{text}"
    if "://" not in text:
        return f"a broker at that address is penstock://{text}"
    return "the schemes are penstock://, file: and memory:"


def _read_path(rest: str, text: str) -> str:
    """The path after `file:`; `file:///var/data` is absolute, as it is everywhere."""
    path = rest
    if rest.startswith("//"):
        host, slash, below = rest[2:].partition("/")
        if host not in ("", "localhost") or not slash:
            raise InvalidUrl(
                f"{text!r} names a host, and a directory is always on this machine:"
                f" write file:./{host}{slash}{below} or file:/{host}{slash}{below}."
            )
        path = slash + below
    if not path:
        raise InvalidUrl(f"{text!r} names no directory: write file:./data.")
    return unquote(path)


def _read_hosts(rest: str, text: str) -> tuple[tuple[str, int], ...]:
    if "@" in rest:
        raise InvalidUrl(f"{_without_secret(text)!r} holds a name or a password: leave it out.")
    for mark, name in (("/", "a path"), ("?", "settings"), ("#", "a fragment")):
        if mark in rest:
            raise InvalidUrl(
                f"{text!r} has {name} after the hosts, which an address cannot have:"
                f" write penstock://{rest.partition(mark)[0]}."
            )
    hosts: dict[tuple[str, int], None] = {}
    for one in rest.split(","):
        hosts[_read_host(one.strip(), text)] = None
    if len(hosts) > HOSTS_MAX:
        raise InvalidUrl(f"An address has {len(hosts)} hosts, {HOSTS_MAX} at most: a few suffice.")
    return tuple(hosts)


def _without_secret(text: str) -> str:
    scheme, slashes, rest = text.partition("//")
    return f"{scheme}{slashes}…@{rest.rpartition('@')[2]}"


def _read_host(one: str, text: str) -> tuple[str, int]:
    """One `host`, `host:port`, `[v6]` or `[v6]:port`."""
    if one.startswith("["):
        host, bracket, after = one[1:].partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise InvalidUrl(f"{text!r}: {one!r} should read [address]:port.")
        try:
            IPv6Address(host)
        except AddressValueError as problem:
            raise InvalidUrl(f"{text!r}: {host!r} is no IPv6 address.") from problem
        return host, _read_port(after[1:] if after else None, one, text)
    host, colon, port = one.partition(":")
    if ":" in port:
        raise InvalidUrl(f"{text!r}: an IPv6 address stands in brackets: [{one}]:{DEFAULT_PORT}.")
    if not host:
        raise InvalidUrl(f"{text!r} lacks a host: write penstock://host:{port or DEFAULT_PORT}.")
    if len(host) > _HOST_CHARACTERS_MAX or any(letter.isspace() for letter in host):
        raise InvalidUrl(f"{text!r}: {host[:_HOST_CHARACTERS_MAX]!r} is no name of a host.")
    return host, _read_port(port if colon else None, one, text)


def _read_port(port: str | None, one: str, text: str) -> int:
    if port is None:
        return DEFAULT_PORT
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65_536):
        raise InvalidUrl(f"{text!r}: {one!r} has no port from 1 to 65535 after the colon.")
    return int(port)
