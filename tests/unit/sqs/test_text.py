"""Which characters a message may have."""

import pytest

from penstock.sqs.text import decode_text, encode_text


@pytest.mark.parametrize(
    "text",
    ["", "plain", "two\nlines\r\n\tand a tab", "ä € 😀", "\u0020\ud7ff\ue000\ufffd", "\U0010ffff"],
)
def test_texts_that_sqs_carries(text: str) -> None:
    assert encode_text(text) == text.encode()
    assert decode_text(text.encode()) == text


@pytest.mark.parametrize(
    "text",
    ["\0", "a\x08b", "\x0b", "\x0c", "\x1f", "\ud800", "\ufffe", "line\n\uffff"],
)
def test_texts_that_it_does_not(text: str) -> None:
    assert encode_text(text) is None


def test_delete_and_what_follows_it_are_allowed() -> None:
    # They are not printable, and still in the list.
    assert encode_text("\x7f\x80\x9f\u200b\u2028\ue123") is not None


@pytest.mark.parametrize("value", [b"\xff\xfe", b"\xed\xa0\x80", b"ok\0", b"\xef\xbf\xbf"])
def test_bytes_that_are_no_such_text(value: bytes) -> None:
    assert decode_text(value) is None
