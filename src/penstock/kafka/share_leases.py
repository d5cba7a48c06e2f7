"""Which messages of one partition a member of a share group has, and by which lease.

Kafka's share consumers acknowledge offsets; a work group settles leases, by their epoch. Between
the two stands what a node remembers of what it has handed to a member: ranges of offsets, each with
the epoch of its lease. They are sorted and do not overlap: a member that gets a message again has
it by the newer lease only.

Leases end by themselves, and a member may never say a word about what it had. So what is over is
forgotten, some time after, when more comes in.
"""

from bisect import bisect_right
from typing import NamedTuple

from penstock.core.limits import SHARE_SESSION_RANGES_MAX
from penstock.core.types import Offset

LATE_MS = 60_000
"""For so long after its end a lease is remembered: the work group knows best whether it is over."""


class Lease(NamedTuple):
    """The messages from `first` up to, not including, `end`, leased by one acquire."""

    first: Offset
    end: Offset
    epoch: int
    until_ms: int


class Leases:
    """What a member has of one partition."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[Lease] = []

    def __len__(self) -> int:
        return len(self._ranges)

    def all(self) -> list[Lease]:
        """Everything, in the order of offsets."""
        return list(self._ranges)

    def add(self, lease: Lease, now_ms: int) -> None:
        """The member has got these messages. `now_ms` is for forgetting what is long over."""
        self.drop(lease.first, lease.end)
        if len(self._ranges) >= SHARE_SESSION_RANGES_MAX:
            self._ranges = [one for one in self._ranges if one.until_ms + LATE_MS > now_ms]
            del self._ranges[: max(0, len(self._ranges) - SHARE_SESSION_RANGES_MAX + 1)]
        self._ranges.insert(self._after(lease.first), lease)

    def find(self, first: Offset, end: Offset) -> list[Lease] | None:
        """The leases that make up exactly this range; None if some of it is not leased."""
        found: list[Lease] = []
        place = self._after(first) - 1
        while first < end:
            if not 0 <= place < len(self._ranges):
                return None
            lease = self._ranges[place]
            if not lease.first <= first < lease.end:
                return None
            found.append(lease._replace(first=first, end=min(end, lease.end)))
            first = found[-1].end
            place += 1
        return found

    def drop(self, first: Offset, end: Offset) -> None:
        """The member has none of these messages any more."""
        begin = self._after(first)
        if begin and self._ranges[begin - 1].end > first:
            begin -= 1
        stop = self._after(Offset(end - 1))
        kept: list[Lease] = []
        for lease in self._ranges[begin:stop]:
            if lease.first < first:
                kept.append(lease._replace(end=first))
            if lease.end > end:
                kept.append(lease._replace(first=end))
        self._ranges[begin:stop] = kept

    def _after(self, offset: Offset) -> int:
        """The place behind the last lease that begins at or before an offset."""
        return bisect_right(self._ranges, offset, key=lambda lease: lease.first)
