"""Payloads on a page: JSON with its lines, text as it is, everything else as bytes.

Whatever a payload holds is text on a page, never part of it: templates escape it. Here the other
half is done: what a browser would not show, or would show as something else than it is, is written
out. A control character becomes `\\x07`, one that turns the direction of writing `\\u202e`, so that
nothing can pretend to be another text.

JSON is set out without being understood: numbers keep their digits and names that stand twice stay
twice. Only characters that were written as `\\u00eb` are shown as what they are.

Bytes are shown as `hexdump -C` does:

    00000000  89 50 4e 47 0d 0a 1a 0a  00 00 00 0d 49 48 44 52  |.PNG........IHDR|
"""

import re
import unicodedata

import msgspec

from penstock.core.limits import KIB

SHOWN_BYTES_MAX = 256 * KIB
"""Of a text; what is longer is cut, and says so."""
HEX_BYTES_MAX = 8 * KIB
PREVIEW_CHARACTERS = 160
_LINE = 16
_PLAIN = frozenset("\n\t")
_TURNING = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

_WRITTEN_OUT = re.compile(r"\\\\|(?:\\u[0-9a-fA-F]{4})+")

AUTO, JSON, TEXT, HEX = "auto", "json", "text", "hex"
FORMS = (JSON, TEXT, HEX)


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """A payload as it is shown."""

    form: str
    """json, text, hex; empty if there is none."""
    text: str
    size_bytes: int
    is_cut: bool
    """True if a part is not shown."""


def show_payload(data: bytes | None, wanted: str = AUTO, *, size_bytes: int = -1) -> Payload:
    """A payload in the form that is wanted, if it has it; `size_bytes` is how long it was before it
    was cut, if it was."""
    if data is None:
        return Payload(form="", text="", size_bytes=0, is_cut=False)
    whole = max(len(data), size_bytes)
    if wanted != HEX:
        cut = data[:SHOWN_BYTES_MAX]
        text = read_text(cut, is_cut=whole > len(cut))
        if text is not None:
            tidy = _set_out(data) if wanted in (AUTO, JSON) and whole <= SHOWN_BYTES_MAX else None
            return Payload(
                form=TEXT if tidy is None else JSON,
                text=plain(text if tidy is None else tidy),
                size_bytes=whole,
                is_cut=whole > len(cut),
            )
    return Payload(
        form=HEX,
        text=hex_dump(data[:HEX_BYTES_MAX]),
        size_bytes=whole,
        is_cut=whole > HEX_BYTES_MAX,
    )


def preview(data: bytes | None, characters: int = PREVIEW_CHARACTERS) -> str:
    """Return the beginning of a payload on one line; binary data as hexadecimal digits."""
    if data is None:
        return ""
    head = data[: 4 * characters]
    text = read_text(head, is_cut=len(head) < len(data))
    if text is None:
        return f"{data[:12].hex(' ')} …" if len(data) > 12 else data.hex(" ")
    line = " ".join(plain(text).split())
    return line if len(line) <= characters else line[: characters - 1] + "…"


def plain(text: str) -> str:
    """A text in which everything can be seen."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if _is_seen(one) else _escaped(one) for one in text)


def read_text(data: bytes, *, is_cut: bool = False) -> str | None:
    """Bytes as text, if they are one; what is cut may end in the middle of a character."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if not is_cut or error.end < len(data) or len(data) - error.start > 3:
            return None
        text = data[: error.start].decode()
    # Some bytes happen to be text; a text has hardly any control characters.
    strange = sum(1 for one in text[:1_000] if one < " " and one not in "\n\r\t")
    return None if strange * 10 > max(10, len(text[:1_000])) else text


def hex_dump(data: bytes) -> str:
    """Format bytes as a hex dump."""
    lines = []
    for at in range(0, len(data), _LINE):
        part = data[at : at + _LINE]
        left, right = part[:8].hex(" "), part[8:].hex(" ")
        seen = "".join(chr(one) if 32 <= one < 127 else "." for one in part)
        lines.append(f"{at:08x}  {left:<23}  {right:<23}  |{seen}|")
    return "\n".join(lines)


def _set_out(data: bytes) -> str | None:
    """JSON on several lines; None if it is none, or a mere word or number."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return _WRITTEN_OUT.sub(_as_seen, msgspec.json.format(data, indent=2).decode())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _as_seen(found: re.Match[str]) -> str:
    """Characters that JSON has written out; those that cannot be seen, or mean something to JSON,
    stay as they are."""
    written = found[0]
    if not written.startswith("\\u"):
        return written
    text = bytes.fromhex(written.replace("\\u", "")).decode("utf-16-be", "surrogatepass")
    if any(one in '"\\\n\t' or not _is_seen(one) for one in text):
        return written
    return text


def _is_seen(one: str) -> bool:
    if one in _PLAIN:
        return True
    return one not in _TURNING and unicodedata.category(one) not in ("Cc", "Cs", "Co", "Cn")


def _escaped(one: str) -> str:
    if one == "\r":
        return "\\r"
    return f"\\x{ord(one):02x}" if ord(one) < 256 else f"\\u{ord(one):04x}"
