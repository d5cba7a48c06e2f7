"""The set of partitions in a sealed segment, small enough to keep in memory for every segment.

A read must find its segment among hundreds without opening each. What is kept in memory for that is
only this set: a bitmap from the lowest to the highest id if that is smaller, else the sorted ids.
The catalog gives ids one after the other, so the bitmap is the rule: 100,000 partitions in each of
300 segments cost 300 × 12.5 KB, under 4 MB. The sorted form, 4 bytes an id, bounds the bad case.

Kept in memory were, and rejected: a list of (first offset, segment) for each partition, 12 bytes a
pair and an object a partition, 360 MB in the same example, all of it read at every start; Bloom
filters, which cannot tell the rank. The *rank* of a partition is its row in the segment's
directory, so the set also saves the search there.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence

from penstock.core.types import PartitionId

_BITMAP, _SORTED = b"b", b"s"


class PartitionSet:
    """An immutable sorted set of partition ids with rank."""

    __slots__ = ("_bitmap", "_ids", "_low")

    def __init__(self, partitions: Sequence[PartitionId]) -> None:
        """`partitions` are in ascending order."""
        self._low = partitions[0] if partitions else 0
        self._ids: array[int] | None = None
        self._bitmap = b""
        if not partitions:
            return
        span = (partitions[-1] - self._low) // 8 + 1
        if span > 4 * len(partitions):
            self._ids = array("I", partitions)
            return
        bitmap = bytearray(span)
        for partition in partitions:
            delta = partition - self._low
            bitmap[delta >> 3] |= 1 << (delta & 7)
        self._bitmap = bytes(bitmap)

    def encode(self) -> bytes:
        if self._ids is not None:
            return _SORTED + self._ids.tobytes()
        return _BITMAP + self._low.to_bytes(4, "little") + self._bitmap

    @classmethod
    def decode(cls, data: bytes) -> "PartitionSet":
        """Decode what `encode` wrote; the caller has verified the bytes."""
        made = cls(())
        if data[:1] == _SORTED:
            made._ids = array("I", data[1:])
        else:
            made._low = PartitionId(int.from_bytes(data[1:5], "little"))
            made._bitmap = data[5:]
        return made

    def __contains__(self, partition: object) -> bool:
        assert isinstance(partition, int)
        if self._ids is not None:
            rank = bisect_left(self._ids, partition)
            return rank < len(self._ids) and self._ids[rank] == partition
        delta = partition - self._low
        if not 0 <= delta < 8 * len(self._bitmap):
            return False
        return bool(self._bitmap[delta >> 3] >> (delta & 7) & 1)

    def rank(self, partition: int) -> int:
        """Return the number of lower members; only for a member."""
        if self._ids is not None:
            return bisect_left(self._ids, partition)
        delta = partition - self._low
        below = int.from_bytes(self._bitmap[: delta >> 3], "little").bit_count()
        return below + (self._bitmap[delta >> 3] & ((1 << (delta & 7)) - 1)).bit_count()

    @property
    def size_bytes(self) -> int:
        return len(self._bitmap) + (len(self._ids) * 4 if self._ids is not None else 0)
