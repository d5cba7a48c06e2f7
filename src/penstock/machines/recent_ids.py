"""Ids that were seen lately, with the offset of the message that had them first.

An id counts for a fixed while of log time after it was first seen, whatever has become of its
message and however often it came again. Stamps never decrease along a log, so the oldest is always
at the front. Ids that do not count any more are forgotten some at a time: there may be millions.
Until then one that comes again is new, and is remembered twice. Beyond `DEDUPLICATION_IDS_MAX` the
oldest go before their time: a bound has no other way to be one.

There may be millions, so each is kept small: 16 bytes of a hash, and one number for where and when
it was seen. In a snapshot they are columns, not rows: a million objects more would be many. The
columns are kept ready in blocks that only grow at their end, so a snapshot copies none of them at
its moment: it remembers which blocks there were, and how long the last one was.
"""

from collections import deque
from collections.abc import Iterator
from hashlib import blake2b

import msgspec

from penstock.core.limits import DEDUPLICATION_IDS_MAX
from penstock.core.types import Offset
from penstock.machines.state_bytes import ByteCount
from penstock.machines.state_pieces import array_header, bin_header

ID_BYTES = 16
_PLACE_BYTES = 14
REMEMBERED_BYTES = ID_BYTES + _PLACE_BYTES
"""What an id counts for."""
_BLOCK_IDS = 4_096
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


class _Block:
    """Both columns of some ids, as they were seen; ends are added and nothing else changes."""

    __slots__ = ("ids", "places")

    def __init__(self, ids: bytes = b"", places: bytes = b"") -> None:
        self.ids = bytearray(ids)
        self.places = bytearray(places)

    def __len__(self) -> int:
        return len(self.ids) // ID_BYTES


class IdsView:
    """The ids of one moment, whatever comes and goes afterwards."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[tuple[_Block, int, int]]) -> None:
        self._parts = parts
        """Blocks, and from which id to which they count."""

    def pieces(self) -> Iterator[bytes]:
        """`IdColumns`, encoded."""
        count = sum(end - start for _, start, end in self._parts)
        yield array_header(2) + bin_header(count * ID_BYTES)
        for block, start, end in self._parts:
            yield bytes(block.ids[start * ID_BYTES : end * ID_BYTES])
        yield bin_header(count * _PLACE_BYTES)
        for block, start, end in self._parts:
            yield bytes(block.places[start * _PLACE_BYTES : end * _PLACE_BYTES])


class RecentIds:
    """`total` counts the bytes of all ids of a machine."""

    __slots__ = ("_blocks", "_count", "_forgotten", "_seen", "_total")

    def __init__(self, columns: IdColumns = NO_IDS, total: ByteCount | None = None) -> None:
        ids, places = columns.ids, columns.places
        self._total = ByteCount() if total is None else total
        count = len(ids) // ID_BYTES
        self._blocks = deque(
            _Block(
                ids[start * ID_BYTES : (start + _BLOCK_IDS) * ID_BYTES],
                places[start * _PLACE_BYTES : (start + _BLOCK_IDS) * _PLACE_BYTES],
            )
            for start in range(0, count, _BLOCK_IDS)
        )
        """The oldest first."""
        self._forgotten = 0
        """How many of the first block."""
        numbers = (
            int.from_bytes(places[start : start + _PLACE_BYTES], "little")
            for start in range(0, len(places), _PLACE_BYTES)
        )
        each = (ids[start : start + ID_BYTES] for start in range(0, len(ids), ID_BYTES))
        self._seen: dict[bytes, int] = dict(zip(each, numbers, strict=True))
        """Where each was first seen, and when."""
        self._count = count
        self._total.bytes += count * REMEMBERED_BYTES

    def __len__(self) -> int:
        """How many are remembered, also if they do not count any more."""
        return self._count

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest was first seen."""
        return _place_at(self._blocks[0], self._forgotten) & _STAMP_MASK if self._blocks else None

    def find(self, one: bytes, after_ms: int = -1) -> Offset | None:
        """The offset of the message that had this id first, if that was after a time."""
        found = self._seen.get(one)
        if found is None or found & _STAMP_MASK <= after_ms:
            return None
        return Offset(found >> _STAMP_BITS)

    def note(self, one: bytes, offset: Offset, stamp_ms: int, after_ms: int = -1) -> bool:
        """A message came with this id; False if it was seen after a time: the message is a
        duplicate."""
        seen = self._seen
        found = seen.get(one)
        if found is not None and found & _STAMP_MASK > after_ms:
            return False
        place = seen[one] = offset << _STAMP_BITS | stamp_ms
        blocks = self._blocks
        if not blocks or len(blocks[-1]) == _BLOCK_IDS:
            blocks.append(_Block())
        block = blocks[-1]
        block.ids += one
        block.places += place.to_bytes(_PLACE_BYTES, "little")
        self._count += 1
        self._total.bytes += REMEMBERED_BYTES
        if self._count > DEDUPLICATION_IDS_MAX:
            self._forget_oldest()
        return True

    def forget(self, before_ms: int, ids_max: int) -> int:
        """Forget what was first seen at this time or earlier, so many ids at most; how many that
        were."""
        blocks, count = self._blocks, 0
        while count < ids_max and blocks:
            if _place_at(blocks[0], self._forgotten) & _STAMP_MASK > before_ms:
                break
            self._forget_oldest()
            count += 1
        return count

    def _forget_oldest(self) -> None:
        block = self._blocks[0]
        one = _id_at(block, self._forgotten)
        if self._seen[one] == _place_at(block, self._forgotten):
            del self._seen[one]  # Otherwise it has come again since.
        self._count -= 1
        self._total.bytes -= REMEMBERED_BYTES
        self._forgotten += 1
        if self._forgotten == len(block):
            self._blocks.popleft()
            self._forgotten = 0

    def clear(self) -> None:
        """Forget everything."""
        self._total.bytes -= self._count * REMEMBERED_BYTES
        self._count = 0
        self._seen.clear()
        self._blocks.clear()
        self._forgotten = 0

    def view(self) -> IdsView:
        """The ids of this moment, for a snapshot."""
        parts = [(block, 0, len(block)) for block in self._blocks]
        if parts:
            parts[0] = (parts[0][0], self._forgotten, parts[0][2])
        return IdsView(parts)


def _id_at(block: _Block, at: int) -> bytes:
    return bytes(block.ids[at * ID_BYTES : (at + 1) * ID_BYTES])


def _place_at(block: _Block, at: int) -> int:
    return int.from_bytes(block.places[at * _PLACE_BYTES : (at + 1) * _PLACE_BYTES], "little")
