"""An HTTP answer, independent of the server that sends it."""

import os
import uuid

import msgspec


class Reply(msgspec.Struct, frozen=True, gc=False):
    """An answer whose headers are encoded already; only the length of the body is missing."""

    status: int
    headers: bytes
    body: bytes


class RequestIds:
    """Ids for requests: of the form of a UUID, and cheap.

    All begin with what was drawn at the start and end with a count, so that the ids of two
    processes differ, and one process's tell in which order its requests came."""

    def __init__(self) -> None:
        drawn = str(uuid.UUID(bytes=os.urandom(16), version=4))
        self._form = drawn[:24].encode() + b"%012x"
        self._count = 0

    def take(self) -> bytes:
        """Return a new id."""
        self._count += 1
        return self._form % (self._count & 0xFFFF_FFFF_FFFF)
