"""One process's share of a load: its clients, its tally, and the processor time it used.

The processor time is that of the whole process, from the end of the warm-up to the last message. A
loop that is kept busy comes late to everything; how late is measured by a timer that goes off
twenty times a second and looks at the clock.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from penstock.cli.bench import loads as bench_loads
from penstock.cli.bench.histogram import LatencyHistogram
from penstock.cli.bench.life import Book, live
from penstock.cli.bench.load import Load, Pulse, Tally, wait_until
from penstock.client.client import Client
from penstock.client.queue import Queue
from penstock.client.settings import ClientSettings
from penstock.core.errors import PenstockError

LAG_LOOK_SECONDS = 0.05


@dataclass(slots=True)
class LoadResult:
    """The result of one process. The results of several processes can be merged."""

    counted: int = 0
    counts_from: float = 0.0
    ended: float = 0.0
    histograms: dict[str, LatencyHistogram] = field(default_factory=dict)
    book: Book = field(default_factory=Book)
    foreign: int = 0
    worked_seconds: float = 0.0
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    """The duration in all processes together, as is the processor time."""
    lags: LatencyHistogram = field(default_factory=LatencyHistogram)
    problem: str = ""
    """Why it ended early, in a sentence."""

    @property
    def seconds(self) -> float:
        """From the end of the warm-up to the last thing that counts."""
        return max(0.0, self.ended - self.counts_from)

    def merge(self, other: "LoadResult") -> None:
        """Add the numbers of another process."""
        self.counted += other.counted
        self.counts_from = min(self.counts_from, other.counts_from)
        self.ended = max(self.ended, other.ended)
        for name, histogram in other.histograms.items():
            self.histograms.setdefault(name, LatencyHistogram()).merge(histogram)
        self.book.merge(other.book)
        self.foreign += other.foreign
        self.worked_seconds += other.worked_seconds
        self.cpu_seconds += other.cpu_seconds
        self.wall_seconds += other.wall_seconds
        self.lags.merge(other.lags)
        self.problem = self.problem or other.problem


@asynccontextmanager
async def clients_of(load: Load, first: Client | None = None) -> AsyncIterator[list[Client]]:
    """Open the clients of a load, each with its own connection. With an engine in this process
    there are no connections, so all tasks share one client."""
    from penstock import connect

    count = 2 if load.kind == "latency" else load.clients + load.consumers
    async with AsyncExitStack() as stack:
        clients = [] if first is None else [first]
        while len(clients) < count:
            if clients and not load.url.startswith("penstock:"):
                clients.append(clients[0])
            else:
                settings = ClientSettings(auto_create=False)
                client = connect(load.url, settings=settings)
                clients.append(await stack.enter_async_context(client))
        yield clients


async def run_share(load: Load, clients: list[Client], tally: Tally) -> LoadResult:
    """Run the load. If it fails, the result has what was done before, and the problem."""
    queues: list[Queue[bytes]] = [one.queue(load.queue, codec=bytes) for one in clients]
    book = Book()
    meter = _Meter(tally)
    problem = ""
    await wait_until(tally.start, tally.now)
    try:
        async with meter:
            if load.kind == "queue":
                await live(queues[: load.clients], queues[load.clients :], load, tally, book)
            elif load.kind == "latency":
                await bench_loads.latency(queues, load, tally)
            elif load.kind == "consume":
                await bench_loads.consume(queues, load, tally)
            else:
                await bench_loads.produce(queues, load, tally)
    except PenstockError as error:
        problem = " ".join(str(error).split())
    return LoadResult(
        counted=tally.counted,
        counts_from=tally.counts_from,
        ended=tally.ended,
        histograms=tally.histograms,
        book=book,
        foreign=tally.foreign,
        worked_seconds=tally.worked_seconds,
        cpu_seconds=meter.cpu_seconds,
        wall_seconds=meter.wall_seconds,
        lags=meter.lags,
        problem=problem,
    )


class LocalShare:
    """A share that is done on this loop."""

    def __init__(self, load: Load, clients: list[Client]) -> None:
        self._load = load
        self._clients = clients
        self._tally: Tally | None = None

    async def run(self, start: float) -> LoadResult:
        """Start at this time, and return the result."""
        self._tally = Tally(self._load, start=start)
        return await run_share(self._load, self._clients, self._tally)

    def pulse(self) -> Pulse:
        """Return the progress since the previous call."""
        return self._tally.pulse() if self._tally is not None else Pulse()

    def peek(self) -> Pulse:
        """Return the progress without resetting it."""
        tally = self._tally
        if tally is None:
            return Pulse(sending=True)
        return Pulse(sent_all=tally.sent_all, done_all=tally.done_all, sending=tally.sending)

    def stop(self) -> None:
        """End the load early."""
        if self._tally is not None:
            self._tally.stopping.set()

    def finish(self) -> None:
        """End the load: all messages are done."""
        if self._tally is not None:
            self._tally.finish()


class _Meter:
    """Looks at this process's clock and at its own lateness, from the end of the warm-up on."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._task: asyncio.Task[None] | None = None
        self._cpu = time.process_time()
        self._wall = time.perf_counter()
        self.lags = LatencyHistogram()
        self.cpu_seconds = 0.0
        self.wall_seconds = 0.0

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._look())

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self.cpu_seconds = time.process_time() - self._cpu
        self.wall_seconds = time.perf_counter() - self._wall

    async def _look(self) -> None:
        warm = self._tally.counts_from - self._tally.now()
        if warm > 0:
            await asyncio.sleep(warm)
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        while True:
            before = time.perf_counter()
            await asyncio.sleep(LAG_LOOK_SECONDS)
            # A loop's own timers count in milliseconds: so that much is not the load's.
            self.lags.add(time.perf_counter() - before - LAG_LOOK_SECONDS - 0.001)
