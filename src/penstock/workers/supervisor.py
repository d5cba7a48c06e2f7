"""Several processes of one application: started, watched, restarted, and as many as are needed.

Python runs one thread at a time, so an application that computes needs processes. The supervisor
runs no work itself. It starts the same command a number of times, and

- restarts a process that ended unexpectedly, at once the first time, later each time
  after that (`Restarts`), so that a crash at the start does not burn the machine;
- adds and ends processes by the lag of the queues, if it may (`Scaling`, where one process counts
  for as many workers as it says it has);
- passes on SIGTERM, waits for all of them, and at a second signal kills.

Processes tell how they are: one line of JSON with their statistics every second, on stdout. What
they log goes to stderr, which is the supervisor's own. Their stdin is a pipe that says nothing;
when it ends, the supervisor has, and they end in good order too (`on_orphaned`).
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from penstock.core.clock import Clock, SystemClock
from penstock.core.decoders import decode_json
from penstock.core.errors import PenstockError
from penstock.workers.scale import Gauge, Scaler, Scaling
from penstock.workers.signals import NUMBER_VARIABLE
from penstock.workers.statistics import WorkerStatistics, add_up

_log = logging.getLogger(__name__)

RESTART_SECONDS_MAX = 30.0
RESTART_SECONDS = 0.5
HEALTHY_SECONDS = 60.0
"""A process that lived so long was no failed start."""
LINE_BYTES_MAX = 4 << 20


class Report(msgspec.Struct, frozen=True):
    """A report of one process: its workers, summed up by task."""

    tasks: tuple[WorkerStatistics, ...]
    pid: int = 0


@dataclass(frozen=True, slots=True)
class Depth:
    """The load of a task's queues."""

    sent: int
    backlog: int
    oldest_seconds: float | None


DepthProbe = Callable[[], Awaitable[Mapping[str, Depth]]]
"""Asks the broker; by the name of the task."""


@dataclass(slots=True)
class Restarts:
    """The pauses before a process is restarted."""

    failures: int = 0

    def next_seconds(self, lived_ms: int) -> float:
        """After one that lived so long."""
        if lived_ms >= HEALTHY_SECONDS * 1_000:
            self.failures = 0
        self.failures += 1
        if self.failures == 1:
            return 0.0
        return min(RESTART_SECONDS_MAX, RESTART_SECONDS * 2.0 ** (self.failures - 2))


@dataclass(slots=True)
class _Place:
    """A process's place: it outlives the process."""

    number: int
    restarts: Restarts
    process: asyncio.subprocess.Process | None = None
    task: asyncio.Task[None] | None = None
    wanted: bool = True
    report: Report | None = None
    before: dict[str, WorkerStatistics] = field(default_factory=dict)
    """The counters of its earlier processes, by task."""

    def is_wanted(self) -> bool:
        """True if the place is still wanted; this may change during a wait."""
        return self.wanted

    def close_books(self) -> None:
        """Add the counters of a process that has ended to those of its predecessors."""
        for row in self.report.tasks if self.report is not None else ():
            known = self.before.get(row.worker)
            done = replace(row, workers=0)
            self.before[row.worker] = done if known is None else add_up([known, done], row.worker)
        self.report = None


class Supervisor:
    def __init__(
        self,
        command: Sequence[str],
        scaling: Scaling,
        *,
        look: DepthProbe | None = None,
        on_line: Callable[[int, bytes], None] = lambda _number, _line: None,
        clock: Clock | None = None,
    ) -> None:
        """`look` is needed if the number of processes is not fixed. `on_line` is called with
        every line of a process."""
        self._command = tuple(command)
        self._scaling = scaling
        self._look = look
        self._on_line = on_line
        self._clock = clock or SystemClock()
        self._places: dict[int, _Place] = {}
        self._stopping = asyncio.Event()
        self._gauges: dict[str, Gauge] = {}
        self._scalers: dict[str, Scaler] = {}
        self.restarted = 0
        """The number of restarts."""

    async def run(self) -> None:
        """Run processes until `stop`, and return when all have ended."""
        self._resize(self._scaling.minimum)
        scaled = self._look is not None and self._scaling.minimum < self._scaling.maximum
        scaler = asyncio.create_task(self._scale()) if scaled else None
        try:
            await self._stopping.wait()
        finally:
            if scaler is not None:
                scaler.cancel()
            self._resize(0)
            tasks = [place.task for place in self._places.values() if place.task is not None]
            await asyncio.gather(*tasks, *([scaler] if scaler else []), return_exceptions=True)

    def stop(self) -> None:
        """Let all processes end in good order."""
        self._stopping.set()

    def kill(self) -> None:
        """Kill the processes at once."""
        self._stopping.set()
        for place in self._places.values():
            place.wanted = False
            _signal(place, signal.SIGKILL)

    @property
    def running(self) -> int:
        """The number of processes that should run."""
        return sum(place.wanted for place in self._places.values())

    def statistics(self) -> list[WorkerStatistics]:
        """By task, over all processes that there are and were."""
        rows: dict[str, list[WorkerStatistics]] = {}
        for place in self._places.values():
            for row in (*place.before.values(), *(place.report.tasks if place.report else ())):
                rows.setdefault(row.worker, []).append(row)
        return [add_up(found, worker) for worker, found in rows.items()]

    def pids(self) -> list[int]:
        """The process ids of running processes."""
        return [
            place.process.pid
            for place in self._places.values()
            if place.process is not None and place.process.returncode is None
        ]

    def _resize(self, wanted: int) -> None:
        numbers = sorted(number for number, place in self._places.items() if place.wanted)
        for number in reversed(numbers[wanted:]):
            self._places[number].wanted = False
            _signal(self._places[number], signal.SIGTERM)
        for _ in range(wanted - len(numbers)):
            taken = {number for number, place in self._places.items() if place.task is not None}
            number = next(n for n in range(1, len(taken) + 2) if n not in taken)
            place = self._places.get(number)
            if place is None:
                place = self._places[number] = _Place(number, Restarts())
            place.wanted = True
            place.task = asyncio.create_task(self._keep(place))

    async def _keep(self, place: _Place) -> None:
        """Run a process at this place, again and again, while it is wanted."""
        try:
            while place.is_wanted():
                began_ms = self._clock.monotonic_ms()
                code = await self._run_once(place)
                if not place.is_wanted():
                    return
                seconds = place.restarts.next_seconds(self._clock.monotonic_ms() - began_ms)
                _log.warning(
                    "worker process %d ended by itself (%s) and is started again in %.1f s",
                    place.number, _told(code), seconds,
                )  # fmt: skip
                self.restarted += 1
                await self._pause(seconds)
        finally:
            place.task = None

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def _run_once(self, place: _Place) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            # It ends when this pipe does: nothing else would end it if we were killed.
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, NUMBER_VARIABLE: str(place.number)},
            limit=LINE_BYTES_MAX,
            # Ctrl-C reaches the whole group of a terminal; we signal them, once.
            start_new_session=True,
        )
        place.process = process
        assert process.stdout is not None, "its output is a pipe"
        try:
            if not place.is_wanted():
                _signal(place, signal.SIGTERM)  # It was wanted when we began.
            while line := await _read_line(process.stdout):
                self._on_line(place.number, line)
                self._note(place, line)
            return await process.wait()
        except asyncio.CancelledError:
            _signal(place, signal.SIGKILL)
            await process.wait()
            raise
        finally:
            place.close_books()

    def _note(self, place: _Place, line: bytes) -> None:
        with contextlib.suppress(msgspec.DecodeError):  # The application prints, too.
            place.report = decode_json(line, Report)

    async def _scale(self) -> None:
        assert self._look is not None, "a variable number of processes needs `look`"
        while True:
            await asyncio.sleep(self._scaling.interval)
            try:
                depths = await self._look()
            except PenstockError as problem:
                _log.warning("the load of the queues is not known: %s", problem)
                continue
            wanted = self._wanted(depths, self._clock.monotonic_ms() / 1_000)
            if wanted != self.running:
                _log.info("from %d worker processes to %d", self.running, wanted)
                self._resize(wanted)

    def _wanted(self, depths: Mapping[str, Depth], at: float) -> int:
        """The number that the busiest task needs."""
        counts = [self._scaling.minimum]
        reports = [place.report for place in self._places.values() if place.report is not None]
        for name, depth in depths.items():
            rows = [row for report in reports for row in report.tasks if row.worker == name]
            each = max(1, sum(row.workers for row in rows) // max(1, len(reports)))
            mean = add_up(rows).mean_seconds if rows else 0.0
            load = self._gauges.setdefault(name, Gauge()).read(
                at,
                sent=depth.sent,
                service_seconds=mean / each,
                backlog=depth.backlog,
                oldest_seconds=depth.oldest_seconds,
            )
            scaler = self._scalers.setdefault(name, Scaler(self._scaling, self._clock))
            if load is None:
                counts.append(self.running)
            else:
                counts.append(scaler.next_count(load, self.running))
        return max(counts)


async def _read_line(stream: asyncio.StreamReader) -> bytes:
    while True:
        try:
            return await stream.readline()
        except ValueError:
            continue  # A line too long to keep; the next one may be shorter.


def _signal(place: _Place, number: signal.Signals) -> None:
    if place.process is not None and place.process.returncode is None:
        place.process.send_signal(number)


def _told(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
