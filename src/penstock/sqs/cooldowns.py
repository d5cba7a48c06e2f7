"""Cooldowns: actions that must not be repeated for some time.

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
        """The duration in seconds."""
        self._clock = clock
        self._cooldown_ms = cooldown_ms
        self._ends: dict[Key, int] = {}

    def begin(self, key: Key) -> None:
        """Start the cooldown of a key."""
        self._forget()
        self._ends.pop(key, None)
        self._ends[key] = self._clock.monotonic_ms() + self._cooldown_ms

    def is_on(self, key: Key) -> bool:
        """True during the cooldown of a key."""
        return self._ends.get(key, 0) > self._clock.monotonic_ms()

    def _forget(self) -> None:
        """All have the same time to live, so the first that were put in are the first to go."""
        now_ms = self._clock.monotonic_ms()
        while self._ends:
            oldest = next(iter(self._ends))
            if self._ends[oldest] > now_ms and len(self._ends) < COOLDOWNS_MAX:
                break
            del self._ends[oldest]
