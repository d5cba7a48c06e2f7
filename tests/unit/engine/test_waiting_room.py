"""A waiting room calls as many as there are messages, in the order in which they came."""

import asyncio
from collections.abc import Callable

from penstock.core.types import PartitionId
from penstock.engine.waiting import Waiting, Watch
from penstock.engine.waiting_room import WaitingRoom

PARTITION = PartitionId(1)


class Shop:
    """A waiting room with a number of messages that the test sets."""

    def __init__(self) -> None:
        self.ready = 0
        self.served: list[str] = []
        self.waiting = Waiting()
        self.room = WaitingRoom(lambda: self.ready, self._watch)

    def _watch(self, wake: Callable[[], None]) -> Watch:
        return self.waiting.watch([PARTITION], wake)

    async def come(self, name: str) -> None:
        await self.room.wait(60)
        self.served.append(name)

    async def come_in(self, *names: str) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self.come(name)) for name in names]
        await asyncio.sleep(0)
        return tasks

    async def wake(self, ready: int) -> None:
        self.ready = ready
        self.waiting.wake(PARTITION)
        for _ in range(5):
            await asyncio.sleep(0)


def test_as_many_are_called_as_there_are_messages() -> None:
    async def story() -> None:
        shop = Shop()
        tasks = await shop.come_in("a", "b", "c")
        await shop.wake(2)
        assert shop.served == ["a", "b"]
        await shop.wake(1)
        assert shop.served == ["a", "b", "c"]
        await asyncio.gather(*tasks)
        assert len(shop.waiting) == 0

    asyncio.run(story())


def test_nobody_is_called_for_nothing() -> None:
    async def story() -> None:
        shop = Shop()
        tasks = await shop.come_in("a")
        await shop.wake(0)
        assert shop.served == []
        assert len(shop.room) == 1
        await shop.wake(1)
        await asyncio.gather(*tasks)

    asyncio.run(story())


def test_the_turn_of_one_who_goes_away_is_the_next_ones() -> None:
    async def story() -> None:
        shop = Shop()
        first, second = await shop.come_in("a", "b")
        shop.ready = 1
        shop.waiting.wake(PARTITION)  # Calls the first, who has not looked yet…
        first.cancel()  # …and goes.
        await asyncio.gather(first, return_exceptions=True)
        await second
        assert shop.served == ["b"]

    asyncio.run(story())


def test_one_waits_no_longer_than_he_said() -> None:
    async def story() -> None:
        shop = Shop()
        await shop.room.wait(0)
        assert len(shop.room) == 0
        assert len(shop.waiting) == 0

    asyncio.run(story())


def test_when_the_clock_is_moved_everybody_looks() -> None:
    async def story() -> None:
        shop = Shop()
        tasks = await shop.come_in("a", "b")
        shop.waiting.move_on()
        await asyncio.gather(*tasks)
        assert shop.served == ["a", "b"]
        assert (len(shop.room), len(shop.waiting)) == (0, 0)

    asyncio.run(story())
