"""What a message holds: a name that is unique in the history, and padding that follows from it.

A reader takes the name out and builds the message again: one that was altered on its way has no
name that anybody sent.
"""

from crc32c import crc32c

_PADDING_BYTES_MAX = 200


def payload_of(name: str) -> bytes:
    """The message that carries a name."""
    chance = crc32c(name.encode())
    return f"{name}|{chance:08x}".encode().ljust(len(name) + 9 + chance % _PADDING_BYTES_MAX, b".")


def name_in(payload: bytes | None) -> str:
    """The name in a message; of what nobody can have sent, a name that nobody has."""
    if payload is None:
        return "nothing"
    name = payload.split(b"|", 1)[0].decode(errors="replace")
    return name if payload_of(name) == payload else f"altered {payload[:40]!r}"
