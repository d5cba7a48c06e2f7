"""Counters become rates: how much a total has grown over the last seconds.

A meter keeps what a few totals were, over the last minute. Readings come when they come, so what a
total was ten seconds ago lies between two of them and is worked out. While nothing happens two
entries are enough, however long that takes.

A total belongs to a leader, or to a set of partitions. When that changes, or a total falls, the
meter begins anew: the values before cannot be compared with those after.
"""

from collections import deque
from collections.abc import Sequence

RATE_MS = 10_000
"""Over how long a rate is taken."""
MINUTE_MS = 60_000


class Meter:
    __slots__ = ("_entries", "_owner", "_width")

    def __init__(self, width: int) -> None:
        """`width` is how many totals it has."""
        self._width = width
        self._owner: object = None
        self._entries: deque[tuple[int, Sequence[int]]] = deque()

    def note(self, at_ms: int, totals: Sequence[int], owner: object = None) -> None:
        """Record the current totals, by monotonic time."""
        entries = self._entries
        if owner != self._owner:
            self._owner = owner
            entries.clear()
        if entries:
            last_ms, last = entries[-1]
            if at_ms <= last_ms:
                return
            if totals == last:
                if len(entries) > 1 and entries[-2][1] == last:
                    entries[-1] = (at_ms, last)
                    self._prune(at_ms)
                    return
            elif any(now < before for now, before in zip(totals, last, strict=True)):
                entries.clear()
        entries.append((at_ms, totals))
        self._prune(at_ms)

    @property
    def is_flat(self) -> bool:
        """True if nothing changed during the time that is known."""
        entries = self._entries
        return not entries or entries[0][1] == entries[-1][1]

    @property
    def has_just_grown(self) -> bool:
        """True if the last two entries differ."""
        entries = self._entries
        return len(entries) > 1 and entries[-1][1] != entries[-2][1]

    def growth(self, window_ms: int) -> tuple[Sequence[float], int]:
        """Return the growth of each total over this time, or over the time that is known, and its
        length."""
        entries = self._entries
        if len(entries) < 2:
            return [0.0] * self._width, 0
        now_ms, now = entries[-1]
        if now == entries[0][1]:
            return [0.0] * self._width, min(window_ms, now_ms - entries[0][0])
        from_ms = max(entries[0][0], now_ms - window_ms)
        before = self._at(from_ms)
        return [after - former for after, former in zip(now, before, strict=True)], now_ms - from_ms

    def rates(self, window_ms: int = RATE_MS) -> list[float]:
        """Each total's growth in a second."""
        grown, took_ms = self.growth(window_ms)
        return [1_000 * more / took_ms for more in grown] if took_ms else [0.0] * self._width

    def _at(self, at_ms: int) -> Sequence[float]:
        """Return the totals at a time between the first entry and the last."""
        later_ms, later = self._entries[-1]
        for earlier_ms, earlier in reversed(self._entries):
            if earlier_ms <= at_ms:
                if later_ms == earlier_ms or later == earlier:
                    return earlier
                share = (at_ms - earlier_ms) / (later_ms - earlier_ms)
                return [
                    before + share * (after - before)
                    for before, after in zip(earlier, later, strict=True)
                ]
            later_ms, later = earlier_ms, earlier
        return later

    def _prune(self, now_ms: int) -> None:
        """Remove old entries. One from before the minute stays, so that the totals at its beginning
        are known."""
        entries = self._entries
        while len(entries) > 2 and entries[1][0] <= now_ms - MINUTE_MS:
            entries.popleft()
