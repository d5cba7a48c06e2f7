"""The receivers of each work group, and when the last request came: kept by the node that is asked.

A receiver counts as present for a minute after its last request: the longest wait for messages is
shorter. It is known by the name it gives itself; receivers without a name count as one, and so do
programs of one name that use HTTP from one machine, whatever connections they open. Nothing of this
is replicated: a new leader learns it from the next requests.
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
        """A receiver has sent a request."""
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
        """The receivers of the last minute."""
        seen = self._seen.get(key)
        if not seen:
            return ()
        self._prune(seen, self._clock.monotonic_ms())
        if len(seen) <= NAMES_MAX:
            return tuple(seen)
        return tuple(sorted(seen))[:NAMES_MAX]

    def silent_ms(self, key: Key) -> int:
        """Time since the last request; -1 if there was none, as far as this node knows."""
        last_ms = self._last_ms.get(key)
        return -1 if last_ms is None else max(0, self._clock.monotonic_ms() - last_ms)

    def forget_others(self, keys: set[Key], *, before_ms: int) -> None:
        """Only these were left at a time; a group with a request since then may be new."""
        for key in self._last_ms.keys() - keys:
            if self._last_ms[key] < before_ms:
                del self._last_ms[key]
                self._seen.pop(key, None)

    def _prune(self, seen: dict[str, int], now_ms: int) -> None:
        for receiver in [one for one, at_ms in seen.items() if now_ms - at_ms > PRESENT_MS]:
            del seen[receiver]
