"""For how much of the time the cluster could be written to, as this node saw it.

The watch looks every quarter of a second, and after each survey. A moment is available if this
node knows a leader of every shard and none of its own shards has lost its majority: then every
partition can be read and written. The time between two looks is available if both were. If the
node did not look for longer than `GAP_MS_MAX`, because the process was stopped or its loop was
held, that time is not available. Time in which the process does not run is not counted here at all;
Prometheus' own `up` has it.
"""

from collections import deque
from typing import Final

BUCKET_MS: Final = 60_000
BUCKETS: Final = 60
"""The share is of the last hour, to the minute."""
GAP_MS_MAX: Final = 15_000


class Availability:
    """Of one node's watch; monotonic milliseconds go in."""

    def __init__(self) -> None:
        self.observed_ms = 0
        self.available_ms = 0
        """Of the time observed, both since the watch began."""
        self._last: tuple[int, bool] | None = None
        self._buckets: deque[list[int]] = deque(maxlen=BUCKETS)
        """Number of the minute, and the two sums in it."""

    def note(self, now_ms: int, available: bool) -> None:
        """How it is now."""
        if self._last is not None:
            then_ms, was = self._last
            passed_ms = now_ms - then_ms
            good_ms = passed_ms if was and available and passed_ms <= GAP_MS_MAX else 0
            self.observed_ms += passed_ms
            self.available_ms += good_ms
            minute = now_ms // BUCKET_MS
            if not self._buckets or self._buckets[-1][0] != minute:
                self._buckets.append([minute, 0, 0])
            self._buckets[-1][1] += passed_ms
            self._buckets[-1][2] += good_ms
        self._last = now_ms, available

    def share(self) -> float | None:
        """0 to 1, of the last hour or of what is known of it; None before anything is known."""
        if self._last is None:
            return None
        first = self._last[0] // BUCKET_MS - BUCKETS
        recent = [one for one in self._buckets if one[0] > first]
        observed_ms = sum(one[1] for one in recent)
        return sum(one[2] for one in recent) / observed_ms if observed_ms else None
