"""An application at work on one event loop: its crews and tickers, from the start to the end."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random

from penstock.client.client import Client
from penstock.client.queue_admin import QueueOptions
from penstock.core.clock import Clock
from penstock.core.errors import SettingsDiffer
from penstock.workers.crew import Crew
from penstock.workers.exclusive_slot import ExclusiveSlot
from penstock.workers.schedules import Missed, Schedule
from penstock.workers.statistics import WorkerStatistics, add_up
from penstock.workers.task import Task
from penstock.workers.ticker import Tick, Ticker, window_seconds

_log = logging.getLogger(__name__)

AnyTask = Task[Callable[..., object]]


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A task that is sent its messages by a schedule."""

    task: AnyTask
    schedule: Schedule
    missed: Missed


@dataclass(frozen=True, slots=True)
class AppStatistics:
    """The statistics of an application's workers at one moment."""

    workers: tuple[WorkerStatistics, ...] = ()
    """A row for each worker."""
    tasks: tuple[WorkerStatistics, ...] = ()
    """A row for each task: the sum of its workers, under the task's name."""


class Running:
    """See the top of this module; made by `App.run`, for one run."""

    def __init__(self, client: Client, *, clock: Clock, chance: Random) -> None:
        self.loop = asyncio.get_running_loop()
        self._client = client
        self._clock = clock
        self._chance = chance
        self._crews: list[Crew] = []
        self._stopping = asyncio.Event()
        self._grace = 0.0
        self.on_started: Callable[[], None] = lambda: None
        """Called when all crews are at work."""

    async def run(self, tasks: Sequence[AnyTask], schedules: Sequence[Scheduled]) -> None:
        """Work until `stop`. If one crew ends with an error the others are stopped, too."""
        periodic = [one.task for one in schedules]
        for task in tasks:
            if task.options.create is not None:
                try:
                    await self._create(task, task.options.create)
                except SettingsDiffer:
                    if task not in periodic:
                        raise
                    # Its schedule has changed since the queue of its ticks was made.
        exclusive_slot = ExclusiveSlot()
        self._crews = [
            Crew(
                task,
                self._client,
                exclusive_slot=exclusive_slot,
                clock=self._clock,
                chance=self._chance,
            )
            for task in tasks
        ]
        crews = [asyncio.create_task(crew.run(), name=str(crew.task)) for crew in self._crews]
        tickers = [asyncio.create_task(self._tick(one), name=str(one.task)) for one in schedules]
        stopping = asyncio.create_task(self._stopping.wait())
        starting = asyncio.create_task(self._note_started())
        try:
            await asyncio.wait([*crews, *tickers, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for other in (*tickers, stopping, starting):
                other.cancel()
            self._stopping.set()
            for crew in self._crews:
                crew.stop(self._grace)
            await asyncio.wait([*crews, *tickers, stopping, starting])
        problems = [one.exception() for one in (*crews, *tickers) if not one.cancelled()]
        for problem in problems:
            if problem is not None:
                raise problem

    async def _note_started(self) -> None:
        for crew in self._crews:
            await crew.ready.wait()
        self.on_started()

    async def _create(self, task: AnyTask, options: QueueOptions) -> None:
        for queue in task.options.queues:
            made = options.copy()
            made["exist_ok"] = True
            await self._client.create_queue(queue, **made)

    async def _tick(self, one: Scheduled) -> None:
        queue = self._client.queue(one.task.queue, codec=datetime)

        async def send(tick: Tick) -> None:
            sent = await queue.send(tick.at, dedup_id=tick.id, expire_at=tick.expires)
            if not sent.duplicate:
                _log.info("the tick %s is sent", tick.id)

        ticker = Ticker(one.task.queue, one.schedule, one.missed, self._clock, send)
        await ticker.run()

    def stop(self, grace: float) -> None:
        """Stop, and finish the messages in hand within `grace`."""
        self._grace = grace
        if self._stopping.is_set():
            for crew in self._crews:
                crew.stop(grace)
        self._stopping.set()

    @property
    def abandoned(self) -> int:
        """Threads that were still at work when the grace was over."""
        return sum(crew.abandoned for crew in self._crews)

    def statistics(self) -> AppStatistics:
        """Return the statistics of each worker, and of each task."""
        rows = [(crew.task.name, crew.statistics()) for crew in self._crews]
        return AppStatistics(
            tuple(row for _, workers in rows for row in workers),
            tuple(add_up(workers, name) for name, workers in rows if workers),
        )


def tick_queue(schedule: Schedule, now: datetime) -> QueueOptions:
    """The options of a periodic task's queue: one partition, with deduplication by id."""
    window_ms = int(window_seconds(schedule, now) * 1_000)
    return QueueOptions(
        partitions=1,
        deduplication="id",
        settings={"queue.deduplication.window.ms": str(window_ms)},
    )
