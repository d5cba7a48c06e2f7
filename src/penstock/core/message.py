"""One message of a batch: the type that queues deliver to workers and accept from senders.

NewMessage   to be sent
Message      stored: it has an offset
"""

import msgspec

from penstock.core.types import Offset

Header = tuple[str, bytes | None]


class NewMessage(msgspec.Struct, frozen=True, gc=False):
    """A message to be appended. `timestamp_ms` of -1 is the time of sending."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = -1


class Message(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A message of a partition."""

    offset: Offset
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

    def header(self, name: str) -> bytes | None:
        """The first header of this name."""
        return next((value for known, value in self.headers if known == name), None)
