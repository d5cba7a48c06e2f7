"""The observation of a load: its progress, its end, and its cost.

The processes of a load are started together, and watched ten times a second. They are stopped
when the user wants that, when one of them fails, and, where messages go through a whole life, when
every message that was sent is done and the queue is empty: no process knows that by itself.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Protocol

from penstock.cli.bench.load import Load, Pulse
from penstock.cli.bench.probe import BrokerWork, Probe
from penstock.cli.bench.progress import LOOK_SECONDS, Show
from penstock.cli.bench.share import LoadResult
from penstock.cli.bench.verdict import Evidence
from penstock.client.client import Client
from penstock.core.errors import PenstockError

WATCH_SECONDS = 0.1
STALLED_LOOKS = 3
START_SECONDS = 0.05
"""From telling the processes until they begin."""
SILENCE_SECONDS_MAX = 30.0
"""The time without a finished message after which the missing ones are given up."""
CURES = {
    "produce": "raise --batch, --clients or --processes",
    "consume": "raise --batch, --clients or --processes",
    "latency": "lower --rate",
    "queue": "raise --batch, --producers, --consumers or --processes",
}
"""The advice if all time went into waiting for answers."""
_PROCESSORS = "/proc/stat"


class Share(Protocol):
    """A process's share of a load, in this process or another."""

    async def run(self, start: float) -> LoadResult: ...
    def pulse(self) -> Pulse: ...
    def peek(self) -> Pulse: ...
    def stop(self) -> None: ...
    def finish(self) -> None: ...


class Watch:
    def __init__(
        self,
        client: Client,
        load: Load,
        shares: Sequence[Share],
        show: Show,
        stopping: asyncio.Event,
        probe: Probe | None,
    ) -> None:
        self._client = client
        self._load = load
        self._shares = shares
        self._show = show
        self._stopping = stopping
        """Called when the user ends the load early."""
        self._probe = probe
        self._machine: tuple[int, int] | None = None
        self._machine_share: float | None = None
        self._work: BrokerWork | None = None
        self._is_told = False
        self._done_all = 0
        self._done_last = 0.0
        self._stalled_looks = 0

    async def run(self) -> LoadResult:
        """Let it run; what all processes found together."""
        warm_up = self._load.warm_up_seconds
        cluster = (await self._client.cluster()).cluster_id
        measuring = asyncio.create_task(self._begin_measuring(cluster, warm_up))
        if not warm_up:
            await measuring
        start = time.perf_counter() + START_SECONDS
        runs = [asyncio.create_task(one.run(start)) for one in self._shares]
        try:
            await self._until_ended(runs, start)
        finally:
            measuring.cancel()
            for run in runs:
                run.cancel()
            await asyncio.gather(*runs, return_exceptions=True)
        await self._end_measuring()
        found, *others = (run.result() for run in runs)
        for other in others:
            found.merge(other)
        return found

    async def _until_ended(self, runs: "list[asyncio.Task[LoadResult]]", start: float) -> None:
        last = start
        self._done_last = time.perf_counter()
        waiting = set(runs)
        while waiting:
            ended, waiting = await asyncio.wait(waiting, timeout=WATCH_SECONDS)
            failed = any(run.result().problem for run in ended)
            now = time.perf_counter()
            if self._stopping.is_set() or failed:
                self._tell_to_stop()
            elif self._load.kind == "queue" and await self._is_finished():
                for share in self._shares:
                    share.finish()
            if now - last >= LOOK_SECONDS:
                self._look(now - last, now - start)
                last = now

    def _tell_to_stop(self) -> None:
        if not self._is_told:
            self._is_told = True
            for share in self._shares:
                share.stop()

    def _look(self, seconds: float, passed: float) -> None:
        pulse = self._pulse()
        self._show.tell(pulse, seconds, passed)
        self._stalled_looks = 0 if pulse.done else self._stalled_looks + 1
        if self._stalled_looks == STALLED_LOOKS and not self._is_told:
            limit = self._client.settings.timeout
            self._show.say(
                f"nothing was done for {STALLED_LOOKS} seconds; a call that gets no answer is tried"
                f" again for {limit:g} s"
            )

    def _pulse(self) -> Pulse:
        total = Pulse()
        for share in self._shares:
            one = share.pulse()
            total.done += one.done
            total.latencies.merge(one.latencies)
        return total

    async def _is_finished(self) -> bool:
        """Everything that was sent is done, or nothing happens any more."""
        states = [share.peek() for share in self._shares]
        now = time.perf_counter()
        done = sum(one.done_all for one in states)
        if done > self._done_all or any(one.sending for one in states):
            self._done_all, self._done_last = done, now
        if any(one.sending for one in states):
            return False
        if now - self._done_last > max(SILENCE_SECONDS_MAX, 3 * self._load.work_seconds):
            return True
        if done < sum(one.sent_all for one in states):
            return False  # The broker need not be asked.
        try:
            return (await self._client.queue(self._load.queue).stats()).depth == 0
        except PenstockError:
            return False

    # What it costs.

    async def _begin_measuring(self, cluster: str, wait_seconds: float) -> None:
        await asyncio.sleep(wait_seconds)
        if self._probe is not None:
            await self._probe.begin(cluster)
        self._machine = read_processors()

    async def _end_measuring(self) -> None:
        after = read_processors()
        if self._machine is not None and after is not None:
            busy, total = after[0] - self._machine[0], after[1] - self._machine[1]
            self._machine_share = busy / total if total else None
        if self._probe is not None:
            self._work = await self._probe.end()

    def evidence(self, found: LoadResult) -> Evidence:
        """Return the measurements for a verdict."""
        load, work, probe = self._load, self._work, self._probe
        wall = found.wall_seconds
        receivers_time = load.consumers * wall
        return Evidence(
            seconds=found.seconds,
            client_share=found.cpu_seconds / wall if wall else 0.0,
            processes=len(self._shares),
            loop_lag_seconds=found.lags.quantile(0.99),
            embedded=probe is not None and probe.embedded,
            broker_share=None if work is None else work.cpu_share,
            disk_share=None if work is None else work.sync_share,
            nodes=1 if work is None else work.nodes,
            syncs=0 if work is None else work.syncs,
            sync_seconds=0.0 if work is None else work.sync_seconds,
            commit_seconds=0.0 if work is None else work.commit_seconds,
            unasked="" if probe is None else probe.problem,
            machine_share=self._machine_share,
            cure=CURES[load.kind],
            rate_asked=load.rate,
            rate_reached=found.counted / found.seconds if found.seconds else 0.0,
            work_share=found.worked_seconds / receivers_time if receivers_time else 0.0,
        )


def read_processors(path: str = _PROCESSORS) -> tuple[int, int] | None:
    """Return the busy time and the total time of this machine's processors, in ticks; None if the
    file does not exist."""
    if not os.path.exists(path):
        return None
    with open(path, encoding="ascii", errors="replace") as file:
        _, *ticks = file.readline().split()
    user, nice, system, idle, waiting, *rest = map(int, ticks)
    busy = user + nice + system + sum(rest[:3])
    return busy, busy + idle + waiting
