"""How values are written, read and written back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.durations import format_duration_ms
from penstock.core.limits import GIB, KIB, MIB
from penstock.core.types import NodeId
from penstock.server import notation
from penstock.server.notation import ADDRESS, MEMBERS, Address, Member, Notation

SOUND: list[tuple[Notation[Any], object, object, str]] = [
    (ADDRESS, "127.0.0.1:9092", Address("127.0.0.1", 9092), "127.0.0.1:9092"),
    (ADDRESS, " host_1.example:0 ", Address("host_1.example", 0), "host_1.example:0"),
    (ADDRESS, "[::1]:80", Address("::1", 80), "[::1]:80"),
    (ADDRESS, "[0:0::1]:80", Address("::1", 80), "[::1]:80"),
    (
        MEMBERS,
        "2@b:2,1@a:1",
        (Member(NodeId(1), Address("a", 1)), Member(NodeId(2), Address("b", 2))),
        "1@a:1,2@b:2",
    ),
    (MEMBERS, ["7@[::1]:9"], (Member(NodeId(7), Address("::1", 9)),), "7@[::1]:9"),
    (notation.size(0, GIB), "64MiB", 64 * MIB, "64MiB"),
    (notation.size(0, GIB), "1024 KiB", 1 * MIB, "1MiB"),
    (notation.size(0, GIB), 1000, 1000, "1000B"),
    (notation.size(0, GIB), "0", 0, "0B"),
    (notation.duration(0, 10**12), "250ms", 250, "250ms"),
    (notation.duration(0, 10**12), "60s", 60_000, "1m"),
    (notation.duration(0, 10**12), "7 d", 7 * 86_400_000, "7d"),
    (notation.duration(0, 10**12), "0s", 0, "0s"),
    (notation.integer(1, 5), "3", 3, "3"),
    (notation.integer(1, 5), 5, 5, "5"),
    (notation.BOOLEAN, "Yes", True, "true"),
    (notation.BOOLEAN, False, False, "false"),
    (notation.choice("text", "json"), "JSON", "json", "json"),
    (notation.NAMES, "a, b", ("a", "b"), "a,b"),
    (notation.TEXT, " eu-1 ", "eu-1", "eu-1"),
]


@pytest.mark.parametrize(("kind", "written", "value", "back"), SOUND)
def test_what_is_understood(kind: Notation[Any], written: object, value: object, back: str) -> None:
    assert kind.parse(written) == value
    assert kind.format(value) == back
    assert kind.parse(back) == value


BAD: list[tuple[Notation[Any], object]] = [
    *((ADDRESS, text) for text in ("", "9092", "host", "host:", ":9092", "host:65536", "host:-1")),
    *((ADDRESS, text) for text in ("::1:80", "[::1]", "a b:1", "1.2.3.4.5:1", "1.2.3.400:1", 9092)),
    *((ADDRESS, text) for text in ("-a:1", "x" * 254 + ":1", "host:1\n2")),
    *((MEMBERS, text) for text in ("", "a:1", "0@a:1", "1@a:1,1@b:1", "1@a:1,2@a:1", "1@a:1,")),
    *((MEMBERS, text) for text in ("1@a:0", "1@0.0.0.0:1", "2147483648@a:1", [3], {"1": "a:1"})),
    *((notation.size(KIB, MIB), text) for text in ("1B", "2MiB", "64MB", "-1", "1.5KiB", -5, True)),
    *((notation.duration(10, 99), text) for text in ("50", 50, "9ms", "1s", "50 parsecs", "")),
    *((notation.integer(1, 5), text) for text in ("0", 6, "x", 2.5, True, "9" * 30, None)),
    *((notation.BOOLEAN, text) for text in ("maybe", "", 1, None)),
    *((notation.choice("a", "b"), text) for text in ("c", "", None)),
]


@pytest.mark.parametrize(("kind", "written"), BAD)
def test_what_is_refused(kind: Notation[Any], written: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- the sentence is made by whoever knows the key
        kind.parse(written)


@given(st.integers(0, 10**15))
def test_sizes_and_durations_survive_being_written(amount: int) -> None:
    assert notation.parse_size(notation.format_size(amount)) == amount
    assert notation.parse_duration_ms(format_duration_ms(amount)) == amount


@given(st.text(max_size=30))
def test_nothing_but_a_value_error_comes_of_a_text(text: str) -> None:
    for kind in (
        ADDRESS,
        MEMBERS,
        notation.size(0, GIB),
        notation.duration(0, 1),
        notation.BOOLEAN,
    ):
        try:
            kind.parse(text)
        except ValueError:
            continue


@pytest.mark.parametrize(
    ("host", "loopback", "wildcard"),
    [
        ("127.0.0.1", True, False),
        ("127.9.9.9", True, False),
        ("::1", True, False),
        ("localhost", True, False),
        ("0.0.0.0", False, True),
        ("::", False, True),
        ("192.0.2.1", False, False),
        ("localhost.example", False, False),
    ],
)
def test_who_can_reach_an_address(host: str, loopback: bool, wildcard: bool) -> None:
    address = Address(host, 1)
    assert (address.is_loopback, address.is_wildcard) == (loopback, wildcard)
