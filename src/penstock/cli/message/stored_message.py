"""A message as it lies in a log, with all its headers: also those that are Penstock's own."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.client.codecs import Encoded
from penstock.core.message import Header


class Stored(NamedTuple):
    """A body and everything that was written beside it."""

    data: bytes
    headers: tuple[Header, ...]

    def text(self, name: str) -> str | None:
        """Return the value of a header as text; None if it is missing."""
        for known, value in self.headers:
            if known == name:
                return None if value is None else value.decode(errors="replace")
        return None

    def number(self, name: str) -> int | None:
        """Return the value of a header as a number; None if it is missing or not a number."""
        found = self.text(name)
        return int(found) if found is not None and found.isdecimal() else None


class StoredCodec:
    """Hands out what is stored; a command that looks at messages has nothing to send."""

    def encode(self, value: Stored) -> Encoded:
        """Return the stored body and headers unchanged."""
        return value.data, value.headers

    def decode(self, data: bytes, headers: Sequence[Header]) -> Stored:
        return Stored(data, tuple(headers))
