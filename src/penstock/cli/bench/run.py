"""Run a load and return its outcome: make the queue, start the processes, watch them, clean up.

A queue that is made for a load is deleted afterwards, whatever happens. The first Ctrl-C ends a
load early and its outcome so far is reported, the second ends everything at once. What goes
wrong on the way ends it early, too.
"""

import asyncio
import secrets
import signal
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace

from penstock.cli.bench.load import MAIN, Load
from penstock.cli.bench.probe import Probe
from penstock.cli.bench.processes import ChildShare
from penstock.cli.bench.progress import progress
from penstock.cli.bench.share import LoadResult, LocalShare, clients_of
from penstock.cli.bench.verdict import Verdict, judge
from penstock.cli.bench.watch import Share, Watch
from penstock.client.client import Client
from penstock.client.descriptions import QueueStats
from penstock.core.errors import LocalError, PenstockError, Unavailable

TIDY_SECONDS_MAX = 10.0
"""For deleting a queue when the broker may be gone."""
FILL_BATCH = 10_000
TITLES = {
    "produce": "sending",
    "consume": "receiving",
    "latency": "sending and receiving",
    "queue": "sending, receiving, acknowledging",
}


@dataclass(slots=True)
class Outcome:
    """The result of a load, ready to be reported."""

    load: Load
    found: LoadResult
    verdict: Verdict | None
    """None if the load failed, or did nothing: then the numbers are those of a wait."""
    processes: int = 1
    interrupted: bool = False
    stats: QueueStats | None = None
    """The statistics of the queue at the end, if the load needs them."""
    stats_before: QueueStats = field(default_factory=QueueStats)
    remarks: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Messages per second."""
        seconds = self.found.seconds
        return self.found.counted / seconds if seconds > 0 else 0.0

    @property
    def main(self) -> str:
        """The name of the operation that is reported as the latency."""
        return MAIN[self.load.kind]

    @property
    def lost(self) -> int | None:
        """Messages that were acknowledged, were not received and are not there any more; None if
        that is not known, since the broker cannot be asked."""
        if self.stats is None:
            return None
        accounted = self.stats.depth + _ended(self.stats) - _ended(self.stats_before)
        return max(0, self.found.book.undone - accounted)


def _ended(stats: QueueStats) -> int:
    """Messages that the queue has dealt with otherwise; it says so, so they are not lost."""
    here = stats.dead - stats.dead_lettered
    return here + stats.moved + stats.expired + stats.purged + stats.dropped


async def run_load(
    client: Client, wanted: Load, *, partitions: int, processes: int, http: str | None, hidden: bool
) -> Outcome:
    nodes = (await client.cluster()).nodes
    named = ",".join(one.http for one in nodes if one.alive and one.http)
    probe = Probe(wanted.url, http or named)
    stopping = asyncio.Event()
    remarks: list[str] = []
    async with _queue(client, wanted, partitions, remarks) as load:
        with _interruptible(stopping):
            before = await client.queue(load.queue).stats()
            if load.kind == "consume" and load.is_made:
                await _fill(client, load, stopping, hidden=hidden)
            async with _shares(client, load, processes) as shares:
                with progress(load, TITLES[load.kind], hidden=hidden) as show:
                    watch = Watch(client, load, shares, show, stopping, probe)
                    found = await watch.run()
            stats = await _final_stats(client, load)
    return Outcome(
        load=load,
        found=found,
        verdict=None if found.problem or not found.counted else judge(watch.evidence(found)),
        processes=processes,
        interrupted=stopping.is_set(),
        stats=stats,
        stats_before=before,
        remarks=remarks,
    )


@asynccontextmanager
async def _queue(
    client: Client, load: Load, partitions: int, remarks: list[str]
) -> AsyncIterator[Load]:
    """The queue that was named, if it is there, or one for as long as this lasts."""
    load = replace(load, token=secrets.randbits(32))
    if load.queue:
        await _check_queue(client, load)
        yield load
        return
    name = f"penstock-bench-{secrets.token_hex(4)}"
    await client.create_queue(name, partitions=partitions, dead_letter="")
    try:
        yield replace(load, queue=name, is_made=True)
    finally:
        try:
            async with asyncio.timeout(TIDY_SECONDS_MAX):
                await client.delete_queue(name)
        except (PenstockError, TimeoutError):
            remarks.append(
                f"the queue {name}, made for this, could not be deleted; when the broker is back:"
                f" penstock queue delete {name} --yes"
            )


async def _check_queue(client: Client, load: Load) -> None:
    """Check that the queue exists and, if the load recognises its messages, that it is empty."""
    stats = await client.queue(load.queue).stats()
    if load.kind in ("latency", "queue") and stats.depth:
        raise LocalError(
            f"{load.queue} holds {stats.depth:,} messages, and this load must see its own only;"
            " give another --queue, or none, for one that is made for it"
        )
    if load.kind == "consume" and not stats.depth and load.seconds is None:
        raise LocalError(f"{load.queue} holds no messages to consume; send some, or give --seconds")


async def _fill(client: Client, load: Load, stopping: asyncio.Event, *, hidden: bool) -> None:
    """Before messages can be consumed they must be there."""
    assert load.messages is not None, "a queue that is made is filled"
    batch = min(load.messages, FILL_BATCH)
    filling = replace(load, kind="produce", batch=batch, clients=1, rate=None, seconds=None)
    share = LocalShare(filling, [client])
    with progress(filling, "filling", hidden=hidden) as show:
        found = await Watch(client, filling, [share], show, stopping, None).run()
    if found.problem:
        raise Unavailable(found.problem)


@asynccontextmanager
async def _shares(client: Client, load: Load, processes: int) -> AsyncIterator[Sequence[Share]]:
    """Start and connect the client processes."""
    if processes == 1:
        async with clients_of(load, client) as clients:
            yield [LocalShare(load, clients)]
        return
    children = [ChildShare(one) for one in load.split(processes)]
    try:
        await asyncio.gather(*(one.ready() for one in children))
        yield children
    finally:
        for child in children:
            child.close()


@contextmanager
def _interruptible(stopping: asyncio.Event) -> Iterator[None]:
    """The first Ctrl-C says so; the next one is the usual one."""
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupted() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        stopping.set()

    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _final_stats(client: Client, load: Load) -> QueueStats | None:
    """Return the statistics of the queue at the end; None if they are unknown."""
    if load.kind != "queue":
        return None
    try:
        async with asyncio.timeout(TIDY_SECONDS_MAX):
            return await client.queue(load.queue).stats()
    except (PenstockError, TimeoutError):
        return None
