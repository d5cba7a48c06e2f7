"""What took long to find is not looked for again at once."""

import asyncio

from penstock.testing.clock import ManualClock
from penstock.web.dashboard.live.search_cache import KEPT_MS_MAX, SearchCache


def test_a_search_is_repeated_as_often_as_it_is_cheap() -> None:
    clock = ManualClock()
    cache: SearchCache[int] = SearchCache(clock, kept_max=2)
    searched: list[str] = []

    async def ask(key: str, cost_ms: int) -> int:
        async def search() -> int:
            searched.append(key)
            clock.advance(cost_ms)
            return len(searched)

        return await cache.get(key, search)

    async def story() -> None:
        assert await ask("cheap", 0) == 1
        assert await ask("cheap", 0) == 2, "what costs nothing is found anew"
        assert await ask("dear", 100) == 3
        clock.advance(9_000)
        assert await ask("dear", 100) == 3, "a hundredth of the time"
        clock.advance(2_000)
        assert await ask("dear", 100_000) == 4
        clock.advance(KEPT_MS_MAX)
        assert await ask("dear", 1_000) == 5, "but not for ever"
        await ask("another", 1_000)
        await ask("third", 1_000)
        assert await ask("dear", 1_000) == 8, "only so many are kept"

    asyncio.run(story())
