"""A waiting room calls as many as there are messages, in the order in which they came."""

import asyncio
from collections.abc import Callable

from penstock.core.types import PartitionId
from penstock.engine.delivery.wait_queue import VAIN_SKIPS, WaitQueue
from penstock.engine.topics.long_polls import Batch, LongPolls, Watch
from tests.batches import build_batch

PARTITION = PartitionId(1)


class Shop:
    """A waiting room with a number of messages that the test sets."""

    def __init__(self) -> None:
        self.ready = 0
        self.served: list[str] = []
        self.waiting = LongPolls()
        self.room: WaitQueue[None] = WaitQueue(lambda: self.ready, self._watch)

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
        shop.waiting.clock_moved()
        await asyncio.gather(*tasks)
        assert shop.served == ["a", "b"]
        assert (len(shop.room), len(shop.waiting)) == (0, 0)

    asyncio.run(story())


class Order:
    """A request of somebody who left word."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.abandoned = False

    def abandon(self) -> None:
        self.abandoned = True


class Counter:
    """A waiting room in which people leave word how they would ask."""

    def __init__(self) -> None:
        self.ready = 0
        self.called: list[str] = []
        self.orders: list[Order] = []
        self.waiting = LongPolls()
        self.idle = 0
        self.room: WaitQueue[Order] = WaitQueue(
            lambda: self.ready, lambda wake: self.waiting.watch([PARTITION], wake), self._be_idle
        )

    def _be_idle(self) -> None:
        self.idle += 1

    async def come(self, name: str) -> Order | None:
        def ahead(_partition: PartitionId, messages: int, _batch: Batch) -> Order | None:
            if not messages:
                return None
            self.orders.append(Order(name))
            return self.orders[-1]

        order = await self.room.wait(60, ahead, Order.abandon)
        if order is None:
            self.called.append(name)
        return order

    async def come_in(self, *names: str) -> list["asyncio.Task[Order | None]"]:
        tasks = [asyncio.create_task(self.come(name)) for name in names]
        await asyncio.sleep(0)
        return tasks


async def turn_around() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_who_left_word_asks_while_messages_are_being_written() -> None:
    async def story() -> None:
        counter = Counter()
        first, second = await counter.come_in("a", "b")
        counter.waiting.pre_acquire(PARTITION, build_batch(1))
        assert [order.name for order in counter.orders] == ["a"]
        assert await first is counter.orders[0]
        answered = counter.room.reserve(PARTITION, 1)
        counter.ready = 1  # It is there, and it is his.
        counter.waiting.wake(PARTITION)
        await turn_around()
        assert counter.called == []
        counter.ready = 0
        answered(True)
        assert not counter.idle  # The second still waits.
        counter.ready = 1
        counter.waiting.wake(PARTITION)
        assert await second is None
        assert counter.called == ["b"]
        assert counter.idle

    asyncio.run(story())


def test_what_is_left_behind_a_claim_calls_the_next() -> None:
    async def story() -> None:
        counter = Counter()
        first, second = await counter.come_in("a", "b")
        counter.waiting.pre_acquire(PARTITION, build_batch(5))
        await first
        answered = counter.room.reserve(PARTITION, 5)
        counter.ready = 5
        counter.waiting.wake(PARTITION)
        await turn_around()
        assert not second.done()
        counter.ready = 2  # He took three.
        answered(True)
        assert await second is None

    asyncio.run(story())


def test_after_asking_in_vain_nobody_asks_ahead_for_a_while() -> None:
    async def story() -> None:
        counter = Counter()
        (first,) = await counter.come_in("a")
        counter.waiting.pre_acquire(PARTITION, build_batch(1))
        await first
        counter.room.reserve(PARTITION, 1)(False)
        await counter.come_in("b")
        for _ in range(VAIN_SKIPS):
            counter.waiting.pre_acquire(PARTITION, build_batch(1))
        assert [order.name for order in counter.orders] == ["a"]
        counter.waiting.pre_acquire(PARTITION, build_batch(1))
        assert [order.name for order in counter.orders] == ["a", "b"]

    asyncio.run(story())


def test_a_request_made_for_one_who_leaves_at_that_moment_is_abandoned() -> None:
    async def story() -> None:
        counter = Counter()
        (first,) = await counter.come_in("a")
        counter.waiting.pre_acquire(PARTITION, build_batch(1))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert counter.orders[0].abandoned

    asyncio.run(story())
