"""What `penstock consume -f` prints."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from penstock.cli.message.formats import DEFAULT_FORMAT, compile_format, unescape


@dataclass
class Shown:
    partition: int = 3
    offset: int = 17
    key: bytes | None = b"k\x00"
    raw: bytes = b"hello\xff"
    headers: Mapping[str, bytes | None] = field(default_factory=lambda: {"a": b"1", "b": None})
    timestamp_ms: int = 1_000
    id: str = "0000-1"
    is_tombstone: bool = False


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        (DEFAULT_FORMAT, b"hello\xff\n"),
        ("%t/%p/%o", b"orders/3/17"),
        (r"%k\t%v\n", b"k\x00\thello\xff\n"),
        ("%s", b"hello\xff"),
        ("%K %S %T %i %d", b"2 6 1000 0000-1 0"),
        ("%h", b"a=1,b="),
        ("100%%", b"100%"),
        (r"a\\b\x41\0\r", b"a\\bA\x00\r"),
        ("grün", "grün".encode()),
        ("", b""),
    ],
)
def test_formats(written: str, printed: bytes) -> None:
    assert compile_format(written, topic="orders", terminal=False)(Shown()) == printed


def test_nothing_there() -> None:
    render = compile_format("[%k %K %v %S]", topic="t", terminal=False)
    assert render(Shown(key=None, raw=b"", is_tombstone=True)) == b"[ -1  -1]"
    assert render(Shown(key=b"", raw=b"")) == b"[ 0  0]"


def test_a_body_does_not_talk_to_the_terminal() -> None:
    render = compile_format(r"%k %v\n", topic="t", terminal=True)
    shown = render(Shown(key=b"\x1b[31m", raw="grün\nred\x07\xff".encode("latin-1")))
    assert shown == b"\\x1b[31m gr\\xfcn\nred\\x07\\xff\n"


@pytest.mark.parametrize("written", ["%", "a%", "%z", "\\", "\\q", "\\x4"])
def test_what_is_no_format(written: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        compile_format(written, topic="t", terminal=False)


def test_unescape() -> None:
    assert unescape(r"\t") == b"\t"
    assert unescape("%k:") == b"%k:"
