"""Ids that were seen lately, with the offset of the message that had them first.

An id is forgotten by log time, a fixed while after it was first seen, whatever has become of its
message and however often it came again. Stamps never decrease along a log, so the oldest is always
at the front. Beyond `DEDUPLICATION_IDS_MAX` the oldest go before their time: a bound has no other
way to be one.

Ids are kept as 16 bytes of a hash.
"""

from collections import OrderedDict
from hashlib import blake2b

from penstock.core.limits import DEDUPLICATION_IDS_MAX
from penstock.core.types import Offset

ID_BYTES = 16
IdRow = tuple[bytes, Offset, int]


def make_id(*parts: bytes) -> bytes:
    """One id of several parts, none of which can be mistaken for another."""
    digest = blake2b(digest_size=ID_BYTES)
    for part in parts:
        digest.update(len(part).to_bytes(4, "big"))
        digest.update(part)
    return digest.digest()


class RecentIds:
    """See the top of this module."""

    __slots__ = ("_seen",)

    def __init__(self, rows: list[IdRow] | None = None) -> None:
        self._seen: OrderedDict[bytes, tuple[Offset, int]] = OrderedDict(
            (one, (offset, stamp_ms)) for one, offset, stamp_ms in rows or ()
        )

    def __len__(self) -> int:
        return len(self._seen)

    def find(self, one: bytes, after_ms: int = -1) -> Offset | None:
        """The offset of the message that had this id first, if that was after a time."""
        found = self._seen.get(one)
        return None if found is None or found[1] <= after_ms else found[0]

    def note(self, one: bytes, offset: Offset, stamp_ms: int) -> bool:
        """A message came with this id; False if it is remembered: the message is a duplicate."""
        if one in self._seen:
            return False
        self._seen[one] = (offset, stamp_ms)
        if len(self._seen) > DEDUPLICATION_IDS_MAX:
            self._seen.popitem(last=False)
        return True

    def forget(self, before_ms: int) -> None:
        """Forget what was first seen at this time or earlier."""
        seen = self._seen
        while seen:
            one, (_, stamp_ms) = next(iter(seen.items()))
            if stamp_ms > before_ms:
                return
            del seen[one]

    def clear(self) -> None:
        """Forget everything."""
        self._seen.clear()

    def rows(self) -> list[IdRow]:
        """For a snapshot, in order."""
        return [(one, offset, stamp_ms) for one, (offset, stamp_ms) in self._seen.items()]
