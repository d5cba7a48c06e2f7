"""What a full queue costs: ten million messages waiting, a million delayed, a million in lines.

Each backlog is filled through the Kafka protocol and worked off for some seconds through SQS, ten
messages a receive and ten a delete, in turn with a queue of the same kind that is almost empty, in
the same broker. Of the delayed ones, some are due at one moment and are worked off first; after
that, it is messages without a delay that come in between. Then the broker is killed and started,
stopped and started. All the while somebody asks whether it is alive: the longest time without an
answer is how long its loop was busy with one thing.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.backlog.broker import Broker
from benchmarks.backlog.fillings import DUE_TOGETHER_OF, Filling, fill
from benchmarks.backlog.pulse import Pulse
from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.orders import Moved
from benchmarks.report import MIB, Finding, Measured, Progress, number, size
from benchmarks.sqs import load

VALUE_BYTES = 100
CONNECTIONS = 16
SECONDS = 5.0
SECONDS_QUICK = 1.0
TURNS = 3
"""Measurements of each queue, in turn."""
FEW_MESSAGES = 60_000
"""In the queue that is almost empty: as many as are worked off meanwhile."""
QUICK_SHARE = 20
FILL_WITHIN_SECONDS = 1_800.0
DUE_WITHIN_SECONDS = 600.0
DUE_WORK_SECONDS = 60.0
"""Less if they are all worked off before."""
MEMORY_AIM_BYTES = 500 * MIB
START_AIM_SECONDS = 10.0
RATE_AIM = 0.8


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """One kind of full queue."""

    name: str
    kind: str
    messages: int
    fifo: bool = False
    attributes: dict[str, str] = field(default_factory=dict)

    def queue(self, what: str) -> str:
        """A queue of this kind."""
        return f"{what}.fifo" if self.fifo else what


BACKLOGS = (
    Backlog(name="waiting", kind="plain", messages=10_000_000),
    Backlog(name="delayed", kind="delayed", messages=1_000_000),
    Backlog(
        name="FIFO, 10,000 groups",
        kind="fifo",
        messages=1_000_000,
        fifo=True,
        attributes={"FifoQueue": "true"},
    ),
)


def measure_backlog(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: each kind of backlog."""
    numbers: list[Measured] = []
    for backlog in BACKLOGS:
        broker = Broker(Path(directory) / "backlog")
        with broker, ClientProcess() as client:
            messages = backlog.messages // (QUICK_SHARE if quick else 1)
            run = _Run(backlog, messages, broker, client, quick, progress)
            numbers.append(run.measure())
    return [_work_finding(numbers), _start_finding(numbers)]


class _Run:
    """One backlog, from its filling to its last restart."""

    def __init__(
        self,
        backlog: Backlog,
        messages: int,
        broker: Broker,
        client: ClientProcess,
        quick: bool,
        progress: Progress,
    ) -> None:
        self._backlog = backlog
        self._messages = messages
        self._broker = broker
        self._client = client
        self._seconds = SECONDS_QUICK if quick else SECONDS
        self._few = FEW_MESSAGES // (QUICK_SHARE // 4 if quick else 1)
        self._progress = progress
        self._row: Measured = {"backlog": backlog.name, "messages": messages}

    def measure(self) -> Measured:
        backlog, row = self._backlog, self._row
        full, few = backlog.queue("full"), backlog.queue("few")
        for name in (full, few):
            self._broker.make_queue(name, **backlog.attributes)
        row["memory_before_bytes"] = self._broker.usage().memory_bytes
        due_ms = self._fill_up(full)
        if backlog.kind == "delayed":
            self._wait_due(full, due_ms)
        self._work_off(full, few)
        row["memory_peak_bytes"] = self._broker.usage().memory_peak_bytes
        self._stop_and_start(full)
        row["memory_peak_bytes_of_start"] = self._broker.usage().memory_peak_bytes
        return row

    def _say(self, what: str) -> None:
        self._progress(f"backlog, {self._backlog.name}: {what}")

    def _fill(self, queue: str, kind: str, messages: int, *, due_ms: int = 0) -> Moved:
        order = Filling(
            target=self._broker.target(queue),
            kind=kind,
            messages=messages,
            value_bytes=VALUE_BYTES,
            due_ms=due_ms,
            seed=time.monotonic_ns(),
        )
        return self._client.begin(fill, order).result(FILL_WITHIN_SECONDS)

    def _fill_up(self, full: str) -> int:
        """Returns when those that are due together are due."""
        row = self._row
        self._say(f"filling in {self._messages:,} messages")
        # Long enough to have them all in before; a guess that is checked.
        due_ms = int(time.time() * 1_000) + 20_000 + self._messages // 10
        with Pulse(self._broker.web) as pulse:
            moved = self._fill(full, self._backlog.kind, self._messages, due_ms=due_ms)
        usage = self._broker.usage()
        row["fill_per_second"] = moved.per_second
        row["fill_stall_seconds"] = pulse.worst_seconds
        row["memory_bytes"] = usage.memory_bytes
        row["memory_anonymous_bytes"] = usage.anonymous_bytes
        return due_ms

    def _wait_due(self, full: str, due_ms: int) -> None:
        """The moment at which many messages are due at once, and working them off."""
        if self._broker.counts(full)["delayed"] < self._messages:
            raise ClientFailed("messages were due before all were there; this machine is too slow")
        together = -(-self._messages // DUE_TOGETHER_OF)
        self._say(f"waiting until {together:,} messages are due at once")
        with Pulse(self._broker.web) as pulse:
            deadline = time.monotonic() + DUE_WITHIN_SECONDS
            while self._broker.counts(full)["ready"] < together:
                if time.monotonic() > deadline:
                    raise ClientFailed(f"not due in time: {self._broker.counts(full)}")
                time.sleep(0.2)
        self._row["due_lag_seconds"] = time.time() - due_ms / 1_000
        self._row["due_stall_seconds"] = pulse.worst_seconds
        self._say("working off what is due")
        moved = self._client.call(load.receive_and_delete, self._order(full, DUE_WORK_SECONDS))
        self._row["due_work_per_second"] = moved.per_second

    def _work_off(self, full: str, few: str) -> None:
        """Both queues in turn, with the same clients."""
        kind = "fifo" if self._backlog.fifo else "plain"
        rates: dict[str, list[float]] = {full: [], few: []}
        stalls: dict[str, float] = {full: 0.0, few: 0.0}
        for turn in range(1, TURNS + 1):
            for queue in (few, full):
                self._say(f"working off, {turn} of {TURNS}")
                if queue is few or self._backlog.kind == "delayed":
                    self._fill(queue, kind, self._few)
                order = self._order(queue, self._seconds)
                with Pulse(self._broker.web) as pulse:
                    moved = self._client.call(load.receive_and_delete, order)
                rates[queue].append(moved.per_second)
                stalls[queue] = max(stalls[queue], pulse.worst_seconds)
        row = self._row
        row["work_per_second"] = statistics.median(rates[full])
        row["work_per_second_almost_empty"] = statistics.median(rates[few])
        row["ratio_to_almost_empty"] = statistics.median(rates[full]) / max(
            statistics.median(rates[few]), 1.0
        )
        row["work_stall_seconds"] = stalls[full]
        row["work_stall_seconds_almost_empty"] = stalls[few]

    def _order(self, queue: str, seconds: float) -> load.Order:
        return load.Order(
            host=self._broker.web,
            queue_url=f"http://{self._broker.web}/000000000000/{queue}",
            connections=CONNECTIONS,
            seconds=seconds,
        )

    def _stop_and_start(self, full: str) -> None:
        row = self._row
        if self._backlog.kind == "delayed":
            self._fill(full, "plain", load.BATCH * CONNECTIONS)
        left = self._living(full)
        for kill in (True, False):
            how = "kill" if kill else "clean_stop"
            self._say("starting after a kill" if kill else "starting after a clean stop")
            stopped, started = self._broker.restart(kill=kill)
            row[f"start_seconds_after_{how}"] = started
            row["first_receive_seconds"] = self._first_receive(full)
            if not kill:
                row["stop_seconds"] = stopped
            if self._living(full) != left:
                raise ClientFailed(f"{left} messages before a restart, {self._living(full)} after")
        row["memory_bytes_after_start"] = self._broker.usage().memory_bytes
        files = (path for path in self._broker.directory.rglob("*") if path.is_file())
        row["data_bytes"] = sum(path.stat().st_size for path in files)

    def _living(self, queue: str) -> int:
        counts = self._broker.counts(queue)
        return sum(counts[state] for state in ("ready", "leased", "delayed"))

    def _first_receive(self, queue: str) -> float:
        url = f"http://{self._broker.web}/000000000000/{queue}"
        began = time.perf_counter()
        answer = self._broker.sqs("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)
        took = time.perf_counter() - began
        if not answer.get("Messages"):
            raise ClientFailed(f"nothing in {queue}: {self._broker.counts(queue)}")
        return took


Show = Callable[[Measured], str]


def _milliseconds(name: str) -> Show:
    return lambda row: f"{number(row, name) * 1e3:,.0f}" if name in row else ""


def _seconds(name: str) -> Show:
    return lambda row: f"{number(row, name):.1f}"


def _memory(name: str) -> Show:
    return lambda row: f"{number(row, name) / MIB:.0f}"


def _whole(name: str) -> Show:
    return lambda row: f"{number(row, name):,.0f}" if name in row else ""


def _table(columns: Mapping[str, Show], numbers: list[Measured]) -> list[list[str]]:
    return [[show(row) for show in columns.values()] for row in numbers]


def _backlog(row: Measured) -> str:
    return str(row["backlog"])


WORK: Mapping[str, Show] = {
    "backlog": _backlog,
    "messages": _whole("messages"),
    "filled/s": _whole("fill_per_second"),
    "due/s": _whole("due_work_per_second"),
    "worked off/s": _whole("work_per_second"),
    "almost empty/s": _whole("work_per_second_almost_empty"),
    "ratio": lambda row: f"{number(row, 'ratio_to_almost_empty'):.2f}",
    "memory MiB": _memory("memory_bytes"),
    "peak MiB": _memory("memory_peak_bytes"),
}
START: Mapping[str, Show] = {
    "backlog": _backlog,
    "stall ms: filling": _milliseconds("fill_stall_seconds"),
    "due": _milliseconds("due_stall_seconds"),
    "working": _milliseconds("work_stall_seconds"),
    "start s: after a kill": _seconds("start_seconds_after_kill"),
    "after a stop": _seconds("start_seconds_after_clean_stop"),
    "stop s": _seconds("stop_seconds"),
    "memory then MiB": _memory("memory_bytes_after_start"),
    "peak MiB": _memory("memory_peak_bytes_of_start"),
}


def _work_finding(numbers: list[Measured]) -> Finding:
    return Finding(
        name="backlog",
        title=f"Full queues, one node, messages of {VALUE_BYTES} B, one client process",
        columns=tuple(WORK),
        rows=_table(WORK, numbers),
        notes=[
            f"worked off: received and deleted by tens through SQS, {CONNECTIONS} connections.",
            "almost empty: the same in another queue of the same broker, in turn; ratio: to that.",
            "due/s: of delayed messages that were due at one moment; the others come in between.",
            f"aims: a ratio of at least {RATE_AIM}, memory below {size(MEMORY_AIM_BYTES)}.",
        ],
        numbers=numbers,
    )


def _start_finding(numbers: list[Measured]) -> Finding:
    largest = max(number(row, "data_bytes") for row in numbers)
    return Finding(
        name="backlog-start",
        title="Full queues: how long the loop is busy with one thing, and how long a start takes",
        columns=tuple(START),
        rows=_table(START, numbers),
        notes=[
            "stall: the longest time without an answer to /livez.",
            f"start: until ready; files, up to {size(largest)}, were dropped from the page cache.",
            f"aim: {START_AIM_SECONDS:.0f} s.",
        ],
        numbers=[{"backlog": row["backlog"]} for row in numbers],
    )
