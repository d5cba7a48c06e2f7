"""What goes back over HTTP, whichever server carries it."""

import os
import uuid

import msgspec


class Reply(msgspec.Struct, frozen=True, gc=False):
    """An answer whose headers are lines already, each with its end: nothing is left to be done but
    to say how long the body is."""

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
        """A new one."""
        self._count += 1
        return self._form % (self._count & 0xFFFF_FFFF_FFFF)
