"""Ids that were seen lately, with the offset of the message that had them first.

An id is forgotten by log time, a fixed while after it was first seen, whatever has become of its
message and however often it came again. Stamps never decrease along a log, so the oldest is always
at the front. Beyond `DEDUPLICATION_IDS_MAX` the oldest go before their time: a bound has no other
way to be one.

There may be millions, so each is kept small: 16 bytes of a hash, and one number for where and when
it was seen. In a snapshot they are columns, not rows: a million objects more would be many.
"""

from collections import deque
from hashlib import blake2b

import msgspec

from penstock.core.limits import DEDUPLICATION_IDS_MAX
from penstock.core.types import Offset

ID_BYTES = 16
_PLACE_BYTES = 14
_STAMP_BITS = 48
_STAMP_MASK = (1 << _STAMP_BITS) - 1


class IdColumns(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Ids as they stand in a snapshot, the oldest first: 16 bytes each, and 14 for the place, which
    is the stamp, 6 bytes, and the offset, the least significant byte first."""

    ids: bytes = b""
    places: bytes = b""


NO_IDS = IdColumns()


def make_id(*parts: bytes) -> bytes:
    """One id of several parts, none of which can be mistaken for another."""
    digest = blake2b(digest_size=ID_BYTES)
    for part in parts:
        digest.update(len(part).to_bytes(4, "big"))
        digest.update(part)
    return digest.digest()


class RecentIds:
    __slots__ = ("_order", "_seen")

    def __init__(self, columns: IdColumns = NO_IDS) -> None:
        ids, places = columns.ids, columns.places
        self._order = deque(ids[start : start + ID_BYTES] for start in range(0, len(ids), ID_BYTES))
        """The oldest first."""
        numbers = (
            int.from_bytes(places[start : start + _PLACE_BYTES], "little")
            for start in range(0, len(places), _PLACE_BYTES)
        )
        self._seen: dict[bytes, int] = dict(zip(self._order, numbers, strict=True))
        """Where each was first seen, and when."""

    def __len__(self) -> int:
        return len(self._seen)

    def find(self, one: bytes, after_ms: int = -1) -> Offset | None:
        """The offset of the message that had this id first, if that was after a time."""
        found = self._seen.get(one)
        if found is None or found & _STAMP_MASK <= after_ms:
            return None
        return Offset(found >> _STAMP_BITS)

    def note(self, one: bytes, offset: Offset, stamp_ms: int) -> bool:
        """A message came with this id; False if it is remembered: the message is a duplicate."""
        seen = self._seen
        if one in seen:
            return False
        seen[one] = offset << _STAMP_BITS | stamp_ms
        self._order.append(one)
        if len(seen) > DEDUPLICATION_IDS_MAX:
            del seen[self._order.popleft()]
        return True

    def forget(self, before_ms: int) -> None:
        """Forget what was first seen at this time or earlier."""
        seen, order = self._seen, self._order
        while order and seen[order[0]] & _STAMP_MASK <= before_ms:
            del seen[order.popleft()]

    def clear(self) -> None:
        """Forget everything."""
        self._seen.clear()
        self._order.clear()

    def columns(self) -> IdColumns:
        """For a snapshot, in order."""
        numbers = self._seen.values()  # In the same order.
        places = b"".join([number.to_bytes(_PLACE_BYTES, "little") for number in numbers])
        return IdColumns(b"".join(self._order), places)
