"""A wait queue wakes as many receivers as there are messages, in order of arrival."""

import asyncio
from collections.abc import Callable

from penstock.core.types import PartitionId
from penstock.engine.delivery.wait_queue import BACKOFF_APPENDS, WaitQueue
from penstock.engine.topics.long_polls import Batch, LongPolls, Watch
from tests.batches import build_batch

PARTITION = PartitionId(1)


class Shop:
    """A wait queue with a number of ready messages that the test sets."""

    def __init__(self) -> None:
        self.ready = 0
        self.served: list[str] = []
        self.waiting = LongPolls()
        self.queue: WaitQueue[None] = WaitQueue(lambda _: self.ready, self._watch)

    def _watch(self, wake: Callable[[], None]) -> Watch:
        return self.waiting.watch([PARTITION], wake)

    async def come(self, name: str) -> None:
        await self.queue.wait(60)
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


def test_as_many_are_woken_as_there_are_messages() -> None:
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


def test_no_waiter_is_woken_for_nothing() -> None:
    async def story() -> None:
        shop = Shop()
        tasks = await shop.come_in("a")
        await shop.wake(0)
        assert shop.served == []
        assert len(shop.queue) == 1
        await shop.wake(1)
        await asyncio.gather(*tasks)

    asyncio.run(story())


def test_the_turn_of_a_waiter_that_goes_away_is_the_next_ones() -> None:
    async def story() -> None:
        shop = Shop()
        first, second = await shop.come_in("a", "b")
        shop.ready = 1
        shop.waiting.wake(PARTITION)  # Wakes the first, which has not run yet…
        first.cancel()  # …and goes.
        await asyncio.gather(first, return_exceptions=True)
        await second
        assert shop.served == ["b"]

    asyncio.run(story())


def test_a_waiter_waits_no_longer_than_it_said() -> None:
    async def story() -> None:
        shop = Shop()
        await shop.queue.wait(0)
        assert len(shop.queue) == 0
        assert len(shop.waiting) == 0

    asyncio.run(story())


def test_when_the_clock_is_moved_every_waiter_looks() -> None:
    async def story() -> None:
        shop = Shop()
        tasks = await shop.come_in("a", "b")
        shop.waiting.clock_moved()
        await asyncio.gather(*tasks)
        assert shop.served == ["a", "b"]
        assert (len(shop.queue), len(shop.waiting)) == (0, 0)

    asyncio.run(story())


class Order:
    """A pre-acquire."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.abandoned = False

    def abandon(self) -> None:
        self.abandoned = True


class Counter:
    """A wait queue of receivers that pre-acquire."""

    def __init__(self) -> None:
        self.ready = 0
        self.woken: list[str] = []
        self.orders: list[Order] = []
        self.waiting = LongPolls()
        self.idle = 0
        self.queue: WaitQueue[Order] = WaitQueue(
            lambda _: self.ready, lambda wake: self.waiting.watch([PARTITION], wake), self._be_idle
        )

    def _be_idle(self, _queue: WaitQueue[Order]) -> None:
        self.idle += 1

    async def come(self, name: str) -> Order | None:
        def pre_acquire(_partition: PartitionId, messages: int, _batch: Batch) -> Order | None:
            if not messages:
                return None
            self.orders.append(Order(name))
            return self.orders[-1]

        order = await self.queue.wait(60, pre_acquire, Order.abandon)
        if order is None:
            self.woken.append(name)
        return order

    async def come_in(self, *names: str) -> list["asyncio.Task[Order | None]"]:
        tasks = [asyncio.create_task(self.come(name)) for name in names]
        await asyncio.sleep(0)
        return tasks


async def turn_around() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_first_waiter_pre_acquires_what_is_being_written() -> None:
    async def story() -> None:
        counter = Counter()
        first, second = await counter.come_in("a", "b")
        counter.waiting.pre_acquire(PARTITION, build_batch(1))
        assert [order.name for order in counter.orders] == ["a"]
        assert await first is counter.orders[0]
        on_outcome = counter.queue.reserve(PARTITION, 1)
        counter.ready = 1  # It is ready, and reserved.
        counter.waiting.wake(PARTITION)
        await turn_around()
        assert counter.woken == []
        counter.ready = 0
        on_outcome(True)
        assert not counter.idle  # The second still waits.
        counter.ready = 1
        counter.waiting.wake(PARTITION)
        assert await second is None
        assert counter.woken == ["b"]
        assert counter.idle

    asyncio.run(story())


def test_what_is_left_behind_a_reservation_wakes_the_next() -> None:
    async def story() -> None:
        counter = Counter()
        first, second = await counter.come_in("a", "b")
        counter.waiting.pre_acquire(PARTITION, build_batch(5))
        await first
        on_outcome = counter.queue.reserve(PARTITION, 5)
        counter.ready = 5
        counter.waiting.wake(PARTITION)
        await turn_around()
        assert not second.done()
        counter.ready = 2  # It took three.
        on_outcome(True)
        assert await second is None

    asyncio.run(story())


def test_after_one_in_vain_there_is_no_pre_acquire_for_a_while() -> None:
    async def story() -> None:
        counter = Counter()
        (first,) = await counter.come_in("a")
        counter.waiting.pre_acquire(PARTITION, build_batch(1))
        await first
        counter.queue.reserve(PARTITION, 1)(False)
        await counter.come_in("b")
        for _ in range(BACKOFF_APPENDS):
            counter.waiting.pre_acquire(PARTITION, build_batch(1))
        assert [order.name for order in counter.orders] == ["a"]
        counter.waiting.pre_acquire(PARTITION, build_batch(1))
        assert [order.name for order in counter.orders] == ["a", "b"]

    asyncio.run(story())


def test_a_pre_acquire_for_a_waiter_that_leaves_at_that_moment_is_abandoned() -> None:
    async def story() -> None:
        counter = Counter()
        (first,) = await counter.come_in("a")
        counter.waiting.pre_acquire(PARTITION, build_batch(1))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert counter.orders[0].abandoned

    asyncio.run(story())


class CountingFuture(asyncio.Future[None]):
    """Counts how often one is compared with another, as a search does."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountingFuture.compared += 1
        return self is other

    __hash__ = asyncio.Future.__hash__


def test_a_waiter_that_goes_away_is_found_without_a_search() -> None:
    """Thousands of receives of a client that is lost are cancelled in one turn of the loop."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.create_future = lambda: CountingFuture(loop=loop)  # type: ignore[method-assign]
        shop = Shop()
        tasks = await shop.come_in(*map(str, range(100)))
        CountingFuture.compared = 0
        for task in tasks[50:99]:
            task.cancel()
        await asyncio.gather(*tasks[50:99], return_exceptions=True)
        assert CountingFuture.compared == 0
        assert len(shop.queue) == 51
        await shop.wake(51)
        assert shop.served == [*map(str, range(50)), "99"], "the others keep their order"
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(story())
