"""All workers of one task in this process (a worker pool), and what keeps them busy.

    queue ──► feeder ──► steal queues ──► workers ──► verdicts
                ▲                            │
                └──── capacity ──────────────┘

One feeder per queue leases messages for all workers together and puts them into the workers' queues
(see `steal_queues`), as long as there is capacity. A worker takes the next one, works on it (see
`attempt`) and settles it. Every message of the crew is in a steal queue or with a worker, so none
can be forgotten: those in a queue are released uncounted when the crew pauses or ends.

Order. In a FIFO queue the messages of a message group are worked on by one worker at a time, in
order. If one of them fails, those behind it are released too, uncounted, and wait behind it.

Pauses. While the task's circuit is open no message is received, and those in the steal queues are
released; a half-open circuit gets as many messages as it lets through.

Ending. `stop` ends feeding and releases what is in the steal queues; workers finish the message
they have. Workers that have not finished when the grace is over are cancelled, and their messages
are released uncounted, but for threads, which cannot be stopped: their messages are delivered again
when the lease ends.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from random import Random
from typing import Any

from penstock.client.client import Client
from penstock.client.connection.timer import fresh_time
from penstock.client.message import Message
from penstock.core.clock import Clock
from penstock.core.errors import PenstockError
from penstock.core.limits import CALL_PAUSE_SECONDS
from penstock.core.retries import PauseBounds, Retrier
from penstock.workers.attempt import Attempt, AttemptResult, Outcome
from penstock.workers.breaker import State
from penstock.workers.exclusive_slot import ExclusiveSlot
from penstock.workers.options import POOL, PREFETCH_PER_WORKER
from penstock.workers.pauses import Item, Pauses
from penstock.workers.poison import PoisonVerdict
from penstock.workers.pools import SUSPECTS, level_of
from penstock.workers.retry import Retry, broker
from penstock.workers.scale import Gauge, Scaler
from penstock.workers.source import Source
from penstock.workers.statistics import Tally, WorkerStatistics, add_up
from penstock.workers.steal_queues import StealQueues, Stolen
from penstock.workers.task import Task

_log = logging.getLogger(__name__)

FULL_POOL = PauseBounds(CALL_PAUSE_SECONDS, 1.0)
"""The pause between receives for a pool that has capacity while another one is full."""
HALF_OPEN_SECONDS = 0.1
"""The pause before a crew checks a half-open circuit again whose probes are taken."""


class _Worker:
    def __init__(self, number: int, pool: str, tally: Tally) -> None:
        self.number = number
        self.pool = pool
        self.tally = tally
        self.wake = asyncio.Event()
        self.retires = False
        self.held: Item | None = None
        """The message it is processing."""
        self.task: asyncio.Task[None] | None = None


class Crew:
    def __init__(
        self,
        task: Task[Callable[..., object]],
        client: Client,
        *,
        exclusive_slot: ExclusiveSlot,
        clock: Clock,
        chance: Random,
    ) -> None:
        self.task = task
        self._options = task.options
        self._clock = clock
        self._exclusive_slot = exclusive_slot
        self._chance = chance
        self._layout = self._options.layout()
        self._retrier = Retrier(now=fresh_time, random=chance, sleep=asyncio.sleep)
        self._sources = [
            Source(client, queue, task, self._retrier) for queue in self._options.queues
        ]
        self._threads = None
        if not task.is_async:
            self._threads = ThreadPoolExecutor(self._options.workers_max, f"penstock-{task.name}")
        self._attempts: Attempt | None = None
        self._steal_queues: StealQueues[Item] = StealQueues()
        self._workers: dict[int, _Worker] = {}
        self._retired: list[WorkerStatistics] = []
        self._numbers = count(1)
        self.ready = asyncio.Event()
        """Set once all workers have started."""
        self._room = asyncio.Event()
        self._stopping = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._grace = 0.0
        self._pauses = Pauses(self._sources, self._steal_queues, self._wake_all)
        self._failure: BaseException | None = None
        self.abandoned = 0
        """Threads that were still at work when the grace was over."""

    # Running.

    async def run(self) -> None:
        """Work until `stop`; raises what makes work impossible."""
        try:
            for source in self._sources:
                await source.open()
            self._exclusive_slot.join(self._pauses.clear, self._pauses.end_clearing)
            await self._work_until_stopped()
        finally:
            for source in self._sources:
                await source.close()
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)

    async def _work_until_stopped(self) -> None:
        self._attempts = Attempt(
            self.task,
            threads=self._threads,
            exclusive_slot=self._exclusive_slot,
            retry=self._retry(),
            chance=self._chance,
            clock=self._clock,
        )
        for name, pool in self._layout.pools.items():
            for _ in range(pool.workers):
                self._hire(name)
        duties = [self._feed(index, source) for index, source in enumerate(self._sources)]
        if self._options.scaling is not None:
            duties.append(self._scale(Scaler(self._options.scaling, self._clock)))
        tasks = [asyncio.create_task(duty) for duty in duties]
        self.ready.set()
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stopping.set()
            await self._pauses.end()
            await _end([*tasks, stopping])
            await self._finish()
        for task in tasks:
            if not task.cancelled():
                task.result()  # A duty ends by itself only with an error of our own.
        if self._failure is not None:
            raise self._failure

    def stop(self, grace: float) -> None:
        """Receive no more, and finish the messages in hand within `grace`. A second call with a
        smaller value shortens the time."""
        if self._stopping.is_set():
            self._stop_now.set()
        self._grace = grace
        self._stopping.set()

    async def _finish(self) -> None:
        self._wake_all()
        tasks = [worker.task for worker in self._workers.values() if worker.task is not None]
        stop_now = asyncio.create_task(self._stop_now.wait())
        all_ended = asyncio.create_task(_all_done(tasks))
        await asyncio.wait(
            [all_ended, stop_now], timeout=self._grace, return_when=asyncio.FIRST_COMPLETED
        )
        await _end([stop_now, all_ended, *tasks])
        for worker in self._workers.values():
            if worker.held is None or worker.held.message.settled:
                continue
            if self._threads is None:
                worker.tally.returned += await self._pauses.give_back([worker.held])
            else:
                self.abandoned += 1
                _log.error(
                    "%s is still at work on message %s of %s, and a thread cannot be cancelled; the"
                    " message is delivered again when its lease has run out",
                    self.task.name, worker.held.message.id, worker.held.message.queue,
                )  # fmt: skip

    def _retry(self) -> Retry:
        """The retry rules: as declared; else as the queues are configured; else with jitter."""
        if self._options.retry is not None:
            return self._options.retry
        if all(source.retries for source in self._sources):
            return Retry(default=broker)
        return Retry()

    # Workers.

    def _hire(self, pool: str) -> None:
        number = next(self._numbers)
        worker = _Worker(number, pool, Tally(self.task.queue, f"{self.task.name}-{number}"))
        self._workers[number] = worker
        self._steal_queues.join(number, lambda level: self._layout.accepts(pool, level))
        worker.task = asyncio.create_task(self._work(worker))
        worker.task.add_done_callback(self._ended)
        self._room.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A worker ends only on request; any other end is an error of our own."""
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
            self._stopping.set()

    def _retire(self, worker: _Worker) -> None:
        for heir in self._steal_queues.leave(worker.number):
            self._workers[heir].wake.set()
        del self._workers[worker.number]
        self._retired = [add_up([*self._retired, worker.tally.statistics()], "retired")]

    def _wake_all(self) -> None:
        self._room.set()
        for worker in self._workers.values():
            worker.wake.set()

    async def _work(self, worker: _Worker) -> None:
        while not self._stopping.is_set():
            if worker.retires:
                self._retire(worker)
                return
            taken = None if self._pauses.holds else self._steal_queues.take(worker.number)
            if taken is None:
                await worker.wake.wait()
                worker.wake.clear()
                continue
            self._room.set()
            worker.tally.stolen += taken.stolen
            worker.held = taken.item
            await self._perform(worker, taken)

    async def _perform(self, worker: _Worker, taken: Stolen[Item]) -> None:
        assert self._attempts is not None, "the crew is at work"
        message, source = taken.item
        breaker = self._options.breaker
        permit = None if breaker is None else breaker.permit()
        if breaker is not None and permit is None:
            worker.tally.returned += await self._pauses.give_back([taken.item])
            seconds = breaker.retry_after() or HALF_OPEN_SECONDS
            ended = AttemptResult(Outcome.CIRCUIT_OPEN, seconds)
        else:
            ended = await self._attempts.perform(message, source, worker.tally, permit)
        worker.held = None
        if taken.message_group is not None and ended.outcome is not Outcome.SETTLED:
            # What is behind it in the group goes back too, and waits behind it in the queue.
            rest = self._steal_queues.take_message_group(taken.message_group)
            worker.tally.returned += await self._pauses.give_back(rest)
            self._room.set()
        self._steal_queues.finish(worker.number)
        if breaker is not None and breaker.state is State.OPEN:
            ended = AttemptResult(Outcome.CIRCUIT_OPEN, breaker.retry_after())
        if ended.outcome is Outcome.CIRCUIT_OPEN:
            await self._pauses.pause(ended.retry_after)

    # Feeding.

    async def _feed(self, index: int, source: Source) -> None:
        refusals, looks = self._retrier.endless(), self._retrier.endless(FULL_POOL)
        while True:
            self._room.clear()
            most, full = await self._wanted(index)
            if not most:
                await self._room.wait()
                continue
            try:
                messages = await source.take(most)
            except PenstockError as problem:
                _log.warning("nothing can be received from %s: %s", source.name, problem)
                await refusals.pause(problem)
                continue
            refusals.reset()
            surplus = self._place(index, source, messages, full)
            if not surplus:
                looks.reset()
                continue
            await self._pauses.give_back(surplus)
            await looks.pause()

    async def _wanted(self, index: int) -> tuple[int, list[str]]:
        """The number of messages of a queue that fit, and the pools without capacity."""
        breaker = self._options.breaker
        if breaker is not None and breaker.state is State.OPEN:
            await self._pauses.pause(breaker.retry_after())
        if self._pauses.holds:
            return 0, []
        rooms = {pool: self._room_in(pool) for pool in self._layout.homes_of(index)}
        most = min((room for room in rooms.values() if room > 0), default=0)
        if breaker is not None and breaker.state is State.HALF_OPEN:
            most = min(most, breaker.probes)
        return most, [pool for pool, room in rooms.items() if room <= 0]

    def _room_in(self, pool: str) -> int:
        """The number of messages that fit a pool; 0 unless it is half empty, so that one request
        brings many."""
        count = sum(worker.pool == pool for worker in self._workers.values())
        most = count * PREFETCH_PER_WORKER
        if self._options.prefetch is not None:
            most = max(1, self._options.prefetch * count // max(1, len(self._workers)))
        room = most - self._steal_queues.waiting(lambda level: self._layout.home_of(level) == pool)
        return room if room * 2 >= most else 0

    def _place(
        self, index: int, source: Source, messages: list[Message[Any]], full: list[str]
    ) -> list[Item]:
        """Put messages into shares; return those whose pool is full."""
        surplus: list[Item] = []
        barred: set[object] = set()
        for message in messages:
            level = self._level(index, source, message)
            message_group = source.message_group_of(message)
            item = Item(message, source)
            # A message that follows a released one of its group is released too, to keep the order.
            if self._pauses.holds or self._layout.home_of(level) in full or message_group in barred:
                surplus.append(item)
                if message_group is not None:
                    barred.add(message_group)
                continue
            woken = self._steal_queues.put(item, level=level, message_group=message_group)
            if woken is not None:
                self._workers[woken].wake.set()
        return surplus

    def _level(self, index: int, source: Source, message: Message[Any]) -> int:
        """By queue and priority; suspected poison goes first, so that it does not linger."""
        assert self._attempts is not None, "the crew is at work"
        if message.deliveries > 1:
            if self._attempts.poison_verdict(message, source) is not PoisonVerdict.NONE:
                return SUSPECTS
        return level_of(index, message.priority)

    # Scaling and numbers.

    async def _scale(self, scaler: Scaler) -> None:
        loop, gauge = asyncio.get_running_loop(), Gauge()
        while True:
            try:
                stats = [await source.stats() for source in self._sources]
            except PenstockError as problem:
                _log.warning("the load of %s is not known: %s", self.task.queue, problem)
            else:
                load = gauge.read(
                    loop.time(),
                    sent=sum(one.sent for one in stats),
                    service_seconds=add_up(self.statistics()).mean_seconds,
                    backlog=sum(one.ready for one in stats) + self._steal_queues.waiting(),
                    oldest_seconds=max((one.oldest_age or 0.0 for one in stats), default=None),
                )
                if load is not None:
                    self._resize(scaler.next_count(load, self._active))
            await asyncio.sleep(scaler.scaling.interval)

    @property
    def _active(self) -> int:
        return sum(not worker.retires for worker in self._workers.values())

    def _resize(self, wanted: int) -> None:
        if wanted != self._active:
            _log.info("%s goes from %d workers to %d", self.task.name, self._active, wanted)
        for _ in range(wanted - self._active):
            self._hire(POOL)
        surplus = self._active - wanted
        for worker in list(self._workers.values()) if surplus > 0 else ():
            if surplus and not worker.retires:
                worker.retires = True
                worker.wake.set()
                surplus -= 1

    def statistics(self) -> list[WorkerStatistics]:
        """Return the statistics of each worker, and the sum of those that have retired."""
        return [*(one.tally.statistics() for one in self._workers.values()), *self._retired]


async def _all_done(tasks: Sequence[asyncio.Task[None]]) -> None:
    if tasks:
        await asyncio.wait(tasks)


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
