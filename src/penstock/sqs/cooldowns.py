"""What was done a moment ago and must not be done again so soon.

Bounded: when more is remembered than `COOLDOWNS_MAX`, the oldest is forgotten before its time.
"""

from typing import Generic, TypeVar

from penstock.core.clock import Clock

COOLDOWNS_MAX = 10_000

Key = TypeVar("Key", str, bytes)


class Cooldowns(Generic[Key]):
    """Things, by key, each for the same time."""

    def __init__(self, clock: Clock, cooldown_ms: int) -> None:
        self.seconds = cooldown_ms // 1_000
        """How long that is, for people."""
        self._clock = clock
        self._cooldown_ms = cooldown_ms
        self._ends: dict[Key, int] = {}

    def begin(self, key: Key) -> None:
        """It is being done now."""
        self._forget()
        self._ends.pop(key, None)
        self._ends[key] = self._clock.monotonic_ms() + self._cooldown_ms

    def is_on(self, key: Key) -> bool:
        """Whether it was done a moment ago."""
        return self._ends.get(key, 0) > self._clock.monotonic_ms()

    def _forget(self) -> None:
        """All have the same time to live, so the first that were put in are the first to go."""
        now_ms = self._clock.monotonic_ms()
        while self._ends:
            oldest = next(iter(self._ends))
            if self._ends[oldest] > now_ms and len(self._ends) < COOLDOWNS_MAX:
                break
            del self._ends[oldest]
