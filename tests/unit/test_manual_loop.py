"""A loop whose time is moved: what waits for timers neither sleeps nor hurries."""

import asyncio

from tests.manual_loop import manual_loop, run_manually

HOUR = 3_600.0


def test_time_stands_still_while_there_is_work() -> None:
    async def story() -> list[float]:
        loop, fired = manual_loop(), list[float]()
        timer = loop.call_later(HOUR, lambda: fired.append(loop.time()))
        for _ in range(100):
            await asyncio.sleep(0)
        assert (loop.time(), fired) == (0, [])
        loop.advance(HOUR)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        timer.cancel()
        return fired

    assert run_manually(story()) == [HOUR]


def test_an_idle_loop_jumps_to_the_next_timer() -> None:
    async def wait(seconds: float) -> float:
        await asyncio.wait([asyncio.create_task(asyncio.Event().wait())], timeout=seconds)
        return manual_loop().time()

    async def story() -> list[float]:
        found = [asyncio.create_task(wait(seconds)) for seconds in (2 * HOUR, HOUR)]
        ended = [await one for one in found]
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        return ended

    assert run_manually(story()) == [2 * HOUR, HOUR]
