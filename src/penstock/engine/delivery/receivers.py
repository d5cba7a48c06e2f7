"""Who asks for messages of a queue, and when somebody did last: kept by the node that is asked.

A worker counts as there for a minute after it has asked: the longest wait for messages is shorter.
It is known by what it calls itself, and those that say nothing count as one; programs of one name
that ask over HTTP from one machine count as one, whatever connections they open. Nothing of this is
replicated: after a change of leaders the new one learns it anew, from the next request on.
"""

from penstock.core.clock import Clock
from penstock.core.limits import ASKERS_PER_QUEUE_MAX
from penstock.core.receiver import worker_name
from penstock.core.types import TopicId

PRESENT_MS = 60_000
NAMES_MAX = 100
"""How many workers are named; the rest is only counted."""

Key = tuple[TopicId, str]


class Receivers:
    """Of all work groups that this node leads partitions of."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[Key, dict[str, int]] = {}
        self._last_ms: dict[Key, int] = {}

    def note(self, topic_id: TopicId, group: str, receiver: str) -> None:
        """Somebody asks."""
        key = (topic_id, group)
        now_ms = self._clock.monotonic_ms()
        self._last_ms[key] = now_ms
        receiver = worker_name(receiver)
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = {}
        elif receiver not in seen and len(seen) >= ASKERS_PER_QUEUE_MAX:
            self._prune(seen, now_ms)
            if len(seen) >= ASKERS_PER_QUEUE_MAX:
                return
        seen[receiver] = now_ms

    def present(self, key: Key) -> tuple[str, ...]:
        """Those that asked within the last minute."""
        seen = self._seen.get(key)
        if not seen:
            return ()
        self._prune(seen, self._clock.monotonic_ms())
        if len(seen) <= NAMES_MAX:
            return tuple(seen)
        return tuple(sorted(seen))[:NAMES_MAX]

    def silent_ms(self, key: Key) -> int:
        """Since when nobody asked; -1 if nobody ever did, as far as this node knows."""
        last_ms = self._last_ms.get(key)
        return -1 if last_ms is None else max(0, self._clock.monotonic_ms() - last_ms)

    def forget_others(self, keys: set[Key]) -> None:
        """Only these are left."""
        for key in self._last_ms.keys() - keys:
            del self._last_ms[key]
            self._seen.pop(key, None)

    def _prune(self, seen: dict[str, int], now_ms: int) -> None:
        for receiver in [one for one, at_ms in seen.items() if now_ms - at_ms > PRESENT_MS]:
            del seen[receiver]
