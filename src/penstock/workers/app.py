"""An application: worker functions, where their broker is, and running them.

    app = penstock.App("penstock://127.0.0.1:9092")

    @app.worker("orders", concurrency=20, retry=Retry(on={ValueError: dead}))
    async def charge(order: Order) -> None: ...

    @app.cron("0 3 * * *", zone="Europe/Berlin")
    def clean_up() -> None: ...

`penstock work module:app` runs it; so does `await app.run()` inside a program of yours, until
`app.stop()`. As a context manager (`async with app:`) it works in the background, which is what
tests want.

Every task has a crew (see `crew`), every schedule a ticker (see `ticker`), and all of them share
one client per event loop. If one crew cannot go on, the others finish what they have in hand, and
`run` raises.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from types import TracebackType
from typing import Self, TypeVar, cast
from weakref import WeakKeyDictionary

from penstock.client.blocking.loop_thread import LoopThread
from penstock.client.call_options import SendManyOptions, SendOptions
from penstock.client.client import Client
from penstock.client.connection.timer import fresh_time
from penstock.client.database import Connection
from penstock.client.default_url import default_url
from penstock.client.guarantees import Guarantee
from penstock.client.processed_ids import ProcessedStore
from penstock.client.queue import Queue
from penstock.client.queue_admin import QueueOptions
from penstock.client.seconds import Seconds, to_milliseconds
from penstock.client.sent_message import Sent, SentMany
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import InvalidRequest, Unavailable
from penstock.core.retries import Retrier
from penstock.embedded.connector import connect
from penstock.workers.breaker import CircuitBreaker
from penstock.workers.cron import Cron
from penstock.workers.options import (
    CONCURRENCY,
    POISON_AFTER,
    TIMEOUT_SECONDS,
    WorkerOptions,
)
from penstock.workers.pools import Pool
from penstock.workers.retry import Retry
from penstock.workers.runner import AnyTask, AppStatistics, Running, Scheduled, tick_queue
from penstock.workers.scale import Scaling
from penstock.workers.schedules import Every, Missed, Schedule
from penstock.workers.signature import signature_of
from penstock.workers.task import Task

_log = logging.getLogger("penstock.workers")

GRACE_SECONDS = 30.0
EMPTY_SECONDS = 30.0
EMPTY_LOOK_SECONDS = 0.01

F = TypeVar("F", bound=Callable[..., object])
R = TypeVar("R")


class App:
    """An application: worker functions, periodic tasks and the queues they use.

    It is declared in a module and run by `penstock work MODULE:app`, or in a program by `run()` or
    `async with app`. Without a URL it finds the broker as the commands do. A function stays a
    function: call it in tests, send to it elsewhere.

        app = App()

        @app.worker("pictures")
        async def resize(name: str) -> None: ...

        await resize.send("cat.png")
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        name: str = "app",
        processed: ProcessedStore[Connection] | None = None,
        retry: Retry | None = None,
        grace: Seconds = GRACE_SECONDS,
        clock: Clock | None = None,
        seed: int | None = None,
    ) -> None:
        """Without a URL the broker is where `penstock.connect()` finds it: see there.
        `processed` and `retry` are for workers that have none of their own. The name begins
        the names of periodic tasks' queues. A seed makes the jitter of retries predictable."""
        self._url = url
        self.name = name
        self.grace = to_milliseconds(grace, "grace") / 1_000
        self.tasks: list[AnyTask] = []
        """In the order in which they were declared."""
        self._schedules: list[Scheduled] = []
        self._processed = processed
        self._retry = retry
        self._given_clock = clock
        self._clock: Clock = clock or SystemClock()
        self._chance = Random(seed)  # noqa: S311 - nobody guesses jitter for profit.
        self._retrier = Retrier(now=fresh_time, random=self._chance, sleep=asyncio.sleep)
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Future[Client]]
        self._clients = WeakKeyDictionary()
        self._thread: LoopThread | None = None
        self._running: Running | None = None
        self._started = asyncio.Event()
        self._stopped_early = False
        self._last = AppStatistics()
        self.abandoned = 0
        """Threads that were still at work when the last run ended: no process that wants to end
        can wait for them."""
        self._background: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"App({self._url!r}, {len(self.tasks)} tasks)"

    @property
    def url(self) -> str:
        """The address of the broker. Assign another one before the application is run or used."""
        if self._url is None:
            self._url = default_url()
        return self._url

    @url.setter
    def url(self, url: str) -> None:
        self._url = url

    @property
    def has_url(self) -> bool:
        """An address was given, or has been looked up."""
        return self._url is not None

    # Declaring.

    def worker(
        self,
        queue: str | Sequence[str],
        *,
        concurrency: int = CONCURRENCY,
        codec: object | None = None,
        lease: Seconds | None = None,
        timeout: Seconds | None = None,
        retry: Retry | None = None,
        breaker: CircuitBreaker | None = None,
        guarantee: Guarantee | None = None,
        processed: ProcessedStore[Connection] | None = None,
        pools: Mapping[str, Pool] | None = None,
        scaling: Scaling | None = None,
        poison_after: int | None = POISON_AFTER,
        prefetch: int | None = None,
        group: str = "queue",
        create: QueueOptions | None = None,
    ) -> Callable[[F], Task[F]]:
        """Declare a function that processes a queue, or several of decreasing priority.

        concurrency   messages worked on at once: tasks of an async function, threads of another
        codec         what a body is; as the function's parameter is annotated, if not said
        lease         seconds a message is this process's at a time; extended while work lasts, so
                      it may be short: it is how long others wait if the process dies
        timeout       seconds one message may take (12 hours). An async function is cancelled then,
                      and the retry policy decides; a thread cannot be cancelled and is reported
        retry         what becomes of failures, by the error; if not said, as the application says,
                      else as the queue is set, else exponential waits with jitter
        breaker       stop taking messages while a dependency fails
        guarantee     at least once, or exactly once if there is a store of processed ids
        processed     that store; the application's, if the function takes a `transaction`
        pools         workers reserved for priorities or queues, instead of `concurrency`
        scaling       let the number of workers follow the lag, instead of `concurrency`
        poison_after  reject a message after so many deliveries that ended without a word
        prefetch      messages that wait in this process for its workers
        group         the work group: each group gets every message
        create        make the queues with these options, if they are not there
        """

        def declare(function: F) -> Task[F]:
            function = _function(function)
            signature = signature_of(function, reads_annotations=codec is None)
            store = processed
            if store is None and (signature.transaction or guarantee is Guarantee.EXACTLY_ONCE):
                store = self._processed
            options = WorkerOptions(
                queues=(queue,) if isinstance(queue, str) else tuple(queue),
                concurrency=concurrency, codec=codec, lease=_seconds(lease, "lease"),
                timeout=_seconds(timeout, "timeout") or TIMEOUT_SECONDS,
                retry=retry or self._retry, breaker=breaker, guarantee=guarantee or _usual(store),
                processed=store, pools=pools or {}, scaling=scaling, poison_after=poison_after,
                prefetch=prefetch, group=group, create=create,
                takes_transaction=signature.transaction,
            )  # fmt: skip
            return self._declare(Task(self, function, options, signature))

        return declare

    def every(
        self,
        seconds: Seconds,
        *,
        offset: Seconds = 0.0,
        missed: Missed = Missed.SKIP,
        timeout: Seconds | None = None,
        retry: Retry | None = None,
        queue: str | None = None,
    ) -> Callable[[F], Task[F]]:
        """Declare a function that is called every `seconds`, by one process at a time.

        Ticks are at multiples of the period since 1970, in every process the same. The function
        takes nothing, or the tick's time as a `datetime`."""
        period = to_milliseconds(seconds, "seconds") / 1_000
        schedule = Every(period, to_milliseconds(offset, "offset") / 1_000)
        return self.scheduled(schedule, missed=missed, timeout=timeout, retry=retry, queue=queue)

    def cron(
        self,
        expression: str,
        *,
        zone: str = "UTC",
        missed: Missed = Missed.SKIP,
        timeout: Seconds | None = None,
        retry: Retry | None = None,
        queue: str | None = None,
    ) -> Callable[[F], Task[F]]:
        """Declare a function that is called at these times, by one process: see `workers.cron`."""
        schedule = Cron(expression, zone)
        return self.scheduled(schedule, missed=missed, timeout=timeout, retry=retry, queue=queue)

    def scheduled(
        self,
        schedule: Schedule,
        *,
        missed: Missed = Missed.SKIP,
        timeout: Seconds | None = None,
        retry: Retry | None = None,
        queue: str | None = None,
    ) -> Callable[[F], Task[F]]:
        """Declare a function that is called by a schedule of your own.

        Its ticks are messages of a queue that is made for it, `<application>.<function>` if no
        other name is given: see `workers.ticker`."""

        def declare(function: F) -> Task[F]:
            function = _function(function)
            signature = signature_of(function, may_take_nothing=True)
            if signature.body_type not in (None, datetime):
                raise InvalidRequest(
                    f"{function.__name__} is called by a schedule, so its parameter is the time of"
                    f" the tick, a datetime, and not {signature.body_type}"
                )
            options = WorkerOptions(
                queues=(queue or f"{self.name}.{function.__name__}",),
                concurrency=1,
                codec=datetime,
                timeout=_seconds(timeout, "timeout") or TIMEOUT_SECONDS,
                retry=retry or self._retry,
                guarantee=_usual(self._processed if signature.transaction else None),
                processed=self._processed if signature.transaction else None,
                create=tick_queue(schedule, self.now()),
                takes_transaction=signature.transaction,
            )
            task = self._declare(Task(self, function, options, signature))
            self._schedules.append(Scheduled(cast("AnyTask", task), schedule, missed))
            return task

        return declare

    def _declare(self, task: Task[F]) -> Task[F]:
        for other in self.tasks:
            shared = set(other.options.queues).intersection(task.options.queues)
            if shared and other.options.group == task.options.group:
                raise InvalidRequest(
                    f"{other.name} and {task.name} would share queue {shared.pop()}, each getting"
                    " some of its messages; give one of them another queue, or another group"
                )
        self.tasks.append(task)
        return task

    def now(self) -> datetime:
        """The time, by the application's clock."""
        return datetime.fromtimestamp(self._clock.wall_ms() / 1_000, UTC)

    # Sending.

    async def client(self) -> Client:
        """The client of this event loop; connected when it is first asked for."""
        loop = asyncio.get_running_loop()
        connecting = self._clients.get(loop)
        if connecting is None or (connecting.done() and connecting.exception() is not None):
            connecting = asyncio.ensure_future(self._connect())
            self._clients[loop] = connecting
        return await asyncio.shield(connecting)

    async def _connect(self) -> Client:
        return await connect(self.url, clock=self._given_clock)

    async def send(self, task: AnyTask, body: object, options: SendOptions) -> Sent:
        """Send a task a message; `Task.send` is this with the right types."""
        return await (await self._queue_of(task)).send(body, **options)

    async def send_many(
        self, task: AnyTask, bodies: Sequence[object], options: SendManyOptions
    ) -> SentMany:
        """Send a task many messages; `Task.send_many` is this with the right types."""
        return await (await self._queue_of(task)).send_many(bodies, **options)

    async def _queue_of(self, task: AnyTask) -> Queue[object]:
        client = await self.client()
        return client.queue(task.queue, codec=cast("type[object]", task.codec))

    def call(self, make: Callable[[], Coroutine[object, None, R]]) -> R:
        """Carry something out on the application's loop, and wait for it, from another thread."""
        if _on_a_loop():
            raise InvalidRequest("this would block the event loop: await send(…) instead of delay")
        if self._running is not None:
            return asyncio.run_coroutine_threadsafe(make(), self._running.loop).result()
        if self._thread is None or self._thread.is_closed():
            self._thread = LoopThread()
        return self._thread.run(make())

    # Running.

    async def run(
        self,
        *,
        only: Iterable[str] | None = None,
        concurrency: int | None = None,
        waits_for_broker: bool = False,
    ) -> None:
        """Run the workers until `stop`, then finish the messages in hand. `only` selects queues;
        `concurrency` applies to tasks that have neither pools nor scaling. If no broker answers at
        the start, raise an error, or wait for one."""
        if self._running is not None:
            raise InvalidRequest("the application is running already")
        self._stopped_early = False
        chosen = self._chosen(None if only is None else set(only), concurrency)
        queues = {task.queue for task in chosen}
        client = await (self._reach() if waits_for_broker else self.client())
        running = self._running = Running(client, clock=self._clock, chance=self._chance)
        running.on_started = self._started.set
        if self._stopped_early:
            running.stop(self.grace)
        try:
            await running.run(chosen, [one for one in self._schedules if one.task.queue in queues])
        finally:
            self.abandoned = running.abandoned
            self._last = running.statistics()
            self._running = None
            await self.close()

    async def run_until_empty(self, timeout: Seconds = EMPTY_SECONDS) -> None:
        """Work until no queue of a worker has a message that is ready or leased, then stop: for
        tests and one-off jobs. What is delayed, as a message that waits for its retry is, stays.

            await resize.send("cat.png")
            await app.run_until_empty()

        timeout   `TimeoutError` is raised after so many seconds, with what was left
        """
        seconds = to_milliseconds(timeout, "timeout") / 1_000
        async with self:
            left: dict[str, int] = {}
            rounds_empty = 0
            try:
                async with asyncio.timeout(seconds):
                    # Twice: a worker may send to a queue that was looked at before its own.
                    while rounds_empty < 2 and not self._has_ended():
                        left = await self._unfinished()
                        rounds_empty = 0 if left else rounds_empty + 1
                        await asyncio.sleep(EMPTY_LOOK_SECONDS if left else 0)
            except TimeoutError:
                told = ", ".join(f"{name} holds {count:,}" for name, count in left.items())
                raise TimeoutError(f"after {seconds:g} s there is work left: {told}") from None

    def _has_ended(self) -> bool:
        return self._background is None or self._background.done()

    async def _unfinished(self) -> dict[str, int]:
        """The number of messages that are ready or leased, by queue; only queues with some."""
        client, found = await self.client(), {}
        for task in self.tasks:
            for name in task.options.queues:
                stats = await client.queue(name, group=task.options.group).stats()
                if stats.ready + stats.leased:
                    found[name] = stats.ready + stats.leased
        return found

    async def _reach(self) -> Client:
        """The client, once a broker answers. A service may be started before its broker, and must
        not give up because of it; one that is to stop meanwhile does."""
        retries = self._retrier.endless()
        while True:
            try:
                return await self.client()
            except Unavailable as problem:
                if self._stopped_early:
                    raise
                _log.warning("%s; trying again", problem)
                await retries.pause(problem)

    def _chosen(self, only: set[str] | None, concurrency: int | None) -> list[AnyTask]:
        if not self.tasks:
            raise InvalidRequest(
                "the application has no workers: declare one with @app.worker(...), in a module"
                " that is imported"
            )
        chosen = list(self.tasks)
        if only is not None:
            unknown = only.difference(*(task.options.queues for task in chosen))
            if unknown:
                known = sorted(queue for task in chosen for queue in task.options.queues)
                raise InvalidRequest(
                    f"no worker takes from queue {unknown.pop()}; there are workers for"
                    f" {', '.join(known)}"
                )
            chosen = [task for task in chosen if only.intersection(task.options.queues)]
        if concurrency is not None:
            chosen = [task.with_concurrency(concurrency) for task in chosen]
        return chosen

    def stop(self, grace: Seconds | None = None) -> None:
        """End `run`: receive no more, finish the messages in hand within `grace`, and release the
        rest. A second call with a smaller value shortens the time."""
        if self._running is None:
            self._stopped_early = True
            return
        seconds = self.grace if grace is None else to_milliseconds(grace, "grace") / 1_000
        self._running.stop(seconds)

    async def __aenter__(self) -> Self:
        """Work in the background; returns when all workers are there, or raises why not."""
        assert self._background is None, "the application is running already"
        self._started = asyncio.Event()
        self._background = asyncio.create_task(self.run())
        started = asyncio.create_task(self._started.wait())
        await asyncio.wait([self._background, started], return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if self._background.done():
            background, self._background = self._background, None
            await background
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        background, self._background = self._background, None
        assert background is not None, "the application is running"
        self.stop()
        await background

    async def close(self) -> None:
        """Close the client of this event loop, and of `delay`."""
        if self._thread is not None:
            thread, self._thread = self._thread, None
            await asyncio.to_thread(thread.close, self._close_client)
        await self._close_client()

    async def _close_client(self) -> None:
        connecting = self._clients.pop(asyncio.get_running_loop(), None)
        if connecting is not None and connecting.done() and connecting.exception() is None:
            await connecting.result().close()

    def statistics(self) -> AppStatistics:
        """Return the statistics of the workers since `run` was called, also after it has ended."""
        return self._last if self._running is None else self._running.statistics()


def _seconds(duration: Seconds | None, name: str) -> float | None:
    return None if duration is None else to_milliseconds(duration, name) / 1_000


def _usual(store: ProcessedStore[Connection] | None) -> Guarantee:
    return Guarantee.AT_LEAST_ONCE if store is None else Guarantee.EXACTLY_ONCE


def _function(function: F) -> F:
    """Unwrap a task, so that a declared function can be declared again for another queue or
    group."""
    return cast("F", function.__call__) if isinstance(function, Task) else function


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
