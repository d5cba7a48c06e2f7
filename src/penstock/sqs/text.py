"""The characters that a message may contain: those of XML 1.0.

    #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF

All that is missing are control characters, halves of surrogate pairs, which UTF-8 cannot write, and
two code points that are not characters. They are looked for in the bytes, where that takes a few
microseconds for a kilobyte; a regular expression, or Python's `isprintable`, takes several times as
long.
"""

_CONTROLS = bytes(number for number in range(0x20) if number not in b"\t\n\r")
_FFFE, _FFFF = "\ufffe".encode(), "\uffff".encode()


def encode_text(text: str) -> bytes | None:
    """A text in UTF-8; None if no message may have it."""
    try:
        value = text.encode()
    except UnicodeEncodeError:
        return None
    if value.isascii() and len(value.translate(None, _CONTROLS)) == len(value):
        return value  # As nearly all are.
    return value if _is_text(value) else None


def decode_text(value: bytes) -> str | None:
    """The text that bytes stand for; None if they stand for none that a message may have."""
    if value.isascii() and len(value.translate(None, _CONTROLS)) == len(value):
        return value.decode()  # As nearly all are.
    if not _is_text(value):
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _is_text(value: bytes) -> bool:
    if len(value.translate(None, _CONTROLS)) != len(value):
        return False
    return value.isascii() or (_FFFE not in value and _FFFF not in value)
