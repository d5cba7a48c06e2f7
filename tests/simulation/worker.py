"""Workers whose steps are events: the disk takes its time, and a crash may come in between."""

from collections import deque
from collections.abc import Callable
from random import Random

from penstock.core.errors import StorageError
from penstock.engine.replica.worker import Done
from penstock.storage import Job
from tests.simulation.timeline import MILLISECOND

Schedule = Callable[[int, Callable[[], None]], None]
"""Run an action after a delay, unless the node has crashed by then."""


class DiskPace:
    """How long a disk step takes on one node: a usual time, and now and then a very long one."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._usual_us = random.choice([100, 300, 1_000, 5_000])
        self._slow_chance = random.choice([0.0, 0.0, 0.01, 0.05])
        self._slow_ms_max = random.choice([50, 500, 5_000])

    def calm(self) -> None:
        self._usual_us, self._slow_chance = 200, 0.0

    def draw(self) -> tuple[int, bool]:
        """The next step's microseconds, and whether it is one of the very long ones."""
        if self._slow_chance and self._random.random() < self._slow_chance:
            return self._random.randrange(1, self._slow_ms_max) * MILLISECOND, True
        return self._random.randrange(self._usual_us // 2, self._usual_us * 2), False


class SimulatedWorker:
    """Runs the steps of its jobs one by one, each as an event of its own."""

    def __init__(self, pace: DiskPace, schedule: Schedule, on_slow: Callable[[], None]) -> None:
        self._pace = pace
        self._schedule = schedule
        self._on_slow = on_slow
        self._jobs: deque[tuple[Job, Done]] = deque()

    def submit(self, job: Job, done: Done) -> None:
        self._jobs.append((job, done))
        if len(self._jobs) == 1:
            self._start()

    def _start(self) -> None:
        job, done = self._jobs[0]
        self._later(lambda: self._step(job, done, 0))

    def _later(self, action: Callable[[], None]) -> None:
        delay, slow = self._pace.draw()
        if slow:
            self._on_slow()
        self._schedule(delay, action)

    def _step(self, job: Job, done: Done, number: int) -> None:
        try:
            job.steps[number]()
        except StorageError as error:
            self._finish(done, error)
            return
        if number + 1 < len(job.steps):
            self._later(lambda: self._step(job, done, number + 1))
        else:
            self._finish(done, None)

    def _finish(self, done: Done, error: Exception | None) -> None:
        self._jobs.popleft()
        if self._jobs:
            self._start()
        done(error)
