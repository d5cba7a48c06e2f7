"""A cache of search results. An entry lives longer the longer its search took.

A page that is open asks for itself every two seconds. What is found at once is found anew each
time; what took long to find is shown again for a while: as with the watch (`watch/watch.py`), at
most a hundredth of the time goes into it, however many people have the page open.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from penstock.core.clock import Clock

SHARE_MAX = 0.01
KEPT_MAX = 32
KEPT_MS_MAX = 60_000

T = TypeVar("T")


class _Found(NamedTuple, Generic[T]):
    until_ms: int
    what: T


class SearchCache(Generic[T]):
    """Searches by what they were for; those used last are kept."""

    def __init__(self, clock: Clock, kept_max: int = KEPT_MAX) -> None:
        self._clock = clock
        self._kept_max = kept_max
        self._found: OrderedDict[Hashable, _Found[T]] = OrderedDict()

    async def get(self, key: Hashable, search: Callable[[], Awaitable[T]]) -> T:
        """Return the cached result if it is recent enough for what it cost; otherwise search."""
        began_ms = self._clock.monotonic_ms()
        found = self._found.get(key)
        if found is not None and began_ms < found.until_ms:
            self._found.move_to_end(key)
            return found.what
        what = await search()
        now_ms = self._clock.monotonic_ms()
        kept_ms = min(int((now_ms - began_ms) / SHARE_MAX), KEPT_MS_MAX)
        self._found[key] = _Found(now_ms + kept_ms, what)
        self._found.move_to_end(key)
        while len(self._found) > self._kept_max:
            self._found.popitem(last=False)
        return what
