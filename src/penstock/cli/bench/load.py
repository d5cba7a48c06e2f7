"""A load: what `penstock bench` is to do with a queue, and the tally that is kept of it.

A load begins at a moment that all its processes agree on (`perf_counter` is one clock for all
processes of a machine). What is due, or begun, before the warm-up is over is done like everything
else and does not count.
"""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from penstock.cli.bench.histogram import LatencyHistogram

MAIN = {"produce": "call", "consume": "call", "latency": "receive", "queue": "done"}
"""For each kind of load, the timed operation that is reported as its latency; other operations are
reported separately."""
FINE_SECONDS = 0.002
"""The last part of a wait, which a thread sleeps, because a loop's timers count in milliseconds."""

Now = Callable[[], float]
"""Seconds, by a clock that is finer than a loop's, which may count in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A load to run. `split` divides it between processes."""

    kind: str
    """`produce`, `consume`, `latency` or `queue`."""
    url: str = ""
    queue: str = ""
    is_made: bool = False
    """True if the queue was created for this load."""
    messages: int | None = None
    """The number of messages that count; None if only the time limits the load."""
    seconds: float | None = None
    """The duration that counts; None if only the number of messages limits the load."""
    size_bytes: int = 100
    batch: int = 1_000
    clients: int = 1
    """The number of clients of each process; in a load with receivers, the number of senders."""
    consumers: int = 0
    rate: float | None = None
    """Messages a second, of all clients together."""
    warm_up_seconds: float = 0.0
    work_seconds: float = 0.0
    fail_share: float = 0.0
    offset_seconds: float = 0.0
    """The delay from the start of the load to the first message."""
    first_sender: int = 0
    """The number of the first sender, among those of all processes."""
    token: int = 0
    """By which a load knows its own messages."""

    def split(self, processes: int) -> "list[Load]":
        """Return one load for each process. Messages and rate are divided; each process has the
        full number of clients."""
        total = self.messages
        shares = []
        for number in range(processes):
            lead = number * self.batch / self.rate if self.rate else 0.0
            messages = None
            if total is not None:
                messages = total // processes + (number < total % processes)
            shares.append(
                replace(
                    self,
                    messages=messages,
                    rate=self.rate / processes if self.rate else None,
                    offset_seconds=lead,
                    first_sender=number * self.clients,
                )
            )
        return shares


@dataclass(slots=True)
class Pulse:
    """Progress since the previous pulse, and the totals, for the display."""

    done: int = 0
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)
    sent_all: int = 0
    done_all: int = 0
    sending: bool = False


class Tally:
    """The counters and histograms of one process during a load."""

    def __init__(self, load: Load, *, start: float, now: Now = time.perf_counter) -> None:
        self.now = now
        self._main = MAIN[load.kind]
        self.start = start
        self.counts_from = start + load.warm_up_seconds
        self.deadline = math.inf if load.seconds is None else self.counts_from + load.seconds
        self.stopping = asyncio.Event()
        """Set when the load is to end early."""
        self.is_finished = False
        """All is done: who still waits for messages waits for nothing."""
        self.histograms: dict[str, LatencyHistogram] = {}
        self.counted = 0
        self.ended = self.counts_from
        """The time when the last operation that counts ended."""
        self.worked_seconds = 0.0
        self.foreign = 0
        """Messages that came and that this load has not sent."""
        self.sent_all = 0
        """Messages that the broker has acknowledged, where others receive them."""
        self.sending = False
        self.done_all = 0
        """Messages done, including those of the warm-up."""
        self._pulse = Pulse()

    @property
    def is_over(self) -> bool:
        """True if no further operation may begin."""
        return self.stopping.is_set() or self.now() >= self.deadline

    def finish(self) -> None:
        """End the load: all messages are done."""
        self.is_finished = True
        self.stopping.set()

    def counts(self, began: float) -> bool:
        """True if an operation that began, or was due, at this time is past the warm-up."""
        return began >= self.counts_from

    def time(self, name: str, began: float, ended: float, count: int = 1) -> None:
        """Record an operation on `count` messages, from when it began to when it ended."""
        if name == self._main:
            self._pulse.latencies.add(ended - began, count)
        if self.counts(began):
            if name not in self.histograms:
                self.histograms[name] = LatencyHistogram()
            self.histograms[name].add(ended - began, count)

    def done(self, began: float, ended: float, count: int) -> None:
        """Count messages as done."""
        self.done_all += count
        self._pulse.done += count
        if self.counts(began):
            self.counted += count
            self.ended = max(self.ended, ended)

    def pulse(self) -> Pulse:
        """Return the progress since the previous call."""
        pulse, self._pulse = self._pulse, Pulse()
        pulse.sent_all, pulse.done_all = self.sent_all, self.done_all
        pulse.sending = self.sending
        return pulse


class Schedule:
    """The times at which a client makes its calls, and from which their latency is measured.

    Without a rate a call follows the one before. With a rate every call has a time at which it is
    due, fixed beforehand: the clients take turns, and one who is late counts the delay, since a
    client that waits for a slow answer and only then looks at its watch would hide the wait of all
    the messages it should have sent meanwhile (coordinated omission)."""

    def __init__(self, load: Load, tally: Tally, *, number: int) -> None:
        self._tally = tally
        self._turn = number
        self._clients = load.clients
        self._first = tally.start + load.offset_seconds
        self._spacing = load.batch / load.rate if load.rate else 0.0

    async def next(self) -> float | None:
        """Wait until the next call is due and return the time from which its latency is measured;
        None when the load is over."""
        tally = self._tally
        if tally.is_over:
            return None
        if not self._spacing:
            return tally.now()
        due = self._first + self._turn * self._spacing
        if due >= tally.deadline:
            return None
        self._turn += self._clients
        await wait_until(due, tally.now)
        return None if tally.stopping.is_set() else due


async def wait_until(due: float, now: Now) -> None:
    """Come back at that moment, never before it: a timer of uvloop may be a quarter of a
    millisecond early. A thread comes about 0.2 ms late (measured on a busy machine)."""
    ahead = due - now()
    if ahead > FINE_SECONDS:
        await asyncio.sleep(ahead - FINE_SECONDS)
        ahead = due - now()
    if ahead > 0:
        await asyncio.to_thread(time.sleep, ahead)
    else:
        await asyncio.sleep(0)  # Who is late lets the others have their turn, too.
