"""Payloads on a page: seen as they are, and never taken for something else."""

import pytest

from penstock.web.dashboard.widgets.payloads import (
    HEX_BYTES_MAX,
    SHOWN_BYTES_MAX,
    hex_dump,
    plain,
    preview,
    show_payload,
)


def test_json_has_its_lines_and_loses_nothing() -> None:
    shown = show_payload(b'{"a":1.00000000000000000001,"a":[true,null],"n":123456789012345678901}')
    assert shown.form == "json"
    assert shown.text == (
        '{\n  "a": 1.00000000000000000001,\n  "a": [\n    true,\n    null\n  ],\n'
        '  "n": 123456789012345678901\n}'
    )


def test_characters_that_were_written_out_are_shown() -> None:
    shown = show_payload(rb'{"n":"Zo\u00eb \\u00eb \ud83d\ude00 \u202e\u0022\u000a"}')
    assert shown.text == '{\n  "n": "Zoë \\\\u00eb 😀 \\u202e\\u0022\\u000a"\n}'


@pytest.mark.parametrize("data", [b"plain", b'{"a":', b"[" * 100_000, b'"word"', b"17"])
def test_what_is_no_json_is_text(data: bytes) -> None:
    assert show_payload(data).form == "text"


def test_bytes_are_dumped() -> None:
    shown = show_payload(b"\x89PNG\r\n\x1a\n" + bytes(10))
    assert shown.form == "hex"
    assert shown.text.splitlines() == [
        "00000000  89 50 4e 47 0d 0a 1a 0a  00 00 00 00 00 00 00 00  |.PNG............|",
        "00000010  00 00                                             |..|",
    ]
    assert show_payload(b'{"a":1}', "hex").text == hex_dump(b'{"a":1}')
    assert show_payload(b'{"a":1}', "text").text == '{"a":1}'
    assert show_payload(None).form == ""


def test_much_is_cut_and_says_so() -> None:
    shown = show_payload("ä".encode() * SHOWN_BYTES_MAX)
    assert (shown.form, shown.is_cut, shown.size_bytes) == ("text", True, 2 * SHOWN_BYTES_MAX)
    assert len(shown.text.encode()) <= SHOWN_BYTES_MAX
    assert show_payload(bytes(2 * HEX_BYTES_MAX)).is_cut
    part = show_payload("ä".encode() * 3 + b"\xc3", size_bytes=100)
    assert (part.form, part.text, part.size_bytes) == ("text", "äää", 100)


def test_what_cannot_be_seen_is_written_out() -> None:
    assert plain("a\x07b\u202ec\x7f\r\n\td\u200f") == "a\\x07b\\u202ec\\x7f\\r\n\td\\u200f"
    assert plain("Łódź 😀 日本") == "Łódź 😀 日本"
    assert preview(b"a\n  b\x00 ") == "a b\\x00"
    assert preview(b"\xff" * 20).startswith("ff ff")
    assert preview(b"x" * 1_000).endswith("…")
    assert preview(None) == ""
