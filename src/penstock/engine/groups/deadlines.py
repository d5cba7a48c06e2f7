"""Many deadlines of which most are moved again before they come: sessions kept by heartbeats.

Moving a deadline further away is one write into a dictionary. The heap that finds what is due holds
one entry per key, as of the time it was put there; when that time comes and the deadline has been
moved since, the entry goes back into the heap. So a heartbeat costs the same with ten members as
with a hundred thousand.
"""

import heapq
from typing import Generic, TypeVar

Key = TypeVar("Key", str, tuple[str, str])


class Deadlines(Generic[Key]):
    """A time for each key, in milliseconds of a monotonic clock."""

    def __init__(self) -> None:
        self._times: dict[Key, int] = {}
        self._queued: dict[Key, int] = {}
        self._heap: list[tuple[int, Key]] = []

    def __contains__(self, key: Key) -> bool:
        return key in self._times

    def __len__(self) -> int:
        return len(self._times)

    def set(self, key: Key, time_ms: int) -> None:
        """Give the key this time, in place of any it had."""
        self._times[key] = time_ms
        queued = self._queued.get(key)
        if queued is None or queued > time_ms:
            self._queue(key, time_ms)

    def cancel(self, key: Key) -> bool:
        """Forget the key; False if it had no time."""
        return self._times.pop(key, None) is not None

    def clear(self) -> None:
        """Remove all deadlines."""
        self._times.clear()
        self._queued.clear()
        self._heap.clear()

    def due(self, now_ms: int) -> list[Key]:
        """Remove and return the keys whose deadline has passed, earliest first."""
        found: list[Key] = []
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, key = heapq.heappop(self._heap)
            if self._queued.get(key) != queued_ms:
                continue  # An entry before this one took its place.
            del self._queued[key]
            time_ms = self._times.get(key)
            if time_ms is None:
                continue
            if time_ms > now_ms:
                self._queue(key, time_ms)
            else:
                del self._times[key]
                found.append(key)
        return found

    def _queue(self, key: Key, time_ms: int) -> None:
        self._queued[key] = time_ms
        heapq.heappush(self._heap, (time_ms, key))
