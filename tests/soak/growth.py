"""Whether a cluster that works for long stays as it was: memory, file handles and latency by the
minute, and what has grown.

A row has the highest figures of any node within a minute, and the latency that a well-behaved
client saw (`tests.abuse.good_client`). The first third of the rows is warming up: caches fill, and
the first clients come. The median of the last third is compared with that of the middle one.
"""

import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.abuse.good_client import address_of
from tests.abuse.target import MIB, GoodClientProcess, Sample, rss_of
from tests.cluster.processes import Cluster

SAMPLE_SECONDS = 1.0
ROWS_MIN = 9
TIMED = ("kafka", "native", "sqs")
"""The conversations whose answers count as latency."""


@dataclass(frozen=True)
class Minute:
    """One row of the table."""

    memory_mib: float
    """The most that a process had."""
    handles: int
    """The most files and sockets that a process had open."""
    calm_ms: float
    """What a quarter of the answers were faster than: hardly any of them met a fault."""
    median_ms: float
    slowest_ms: float
    """The 99th percentile: only for the table, since it says how long the faults were."""
    answers: int


@dataclass(frozen=True)
class Allowance:
    """How much a figure may grow between the middle third and the last one."""

    figure: Callable[[Minute], float]
    what: str
    share: float
    slack: float


ALLOWANCES = (
    Allowance(lambda row: row.memory_mib, "MiB of memory", 0.10, 32),
    Allowance(lambda row: row.handles, "file handles", 0.10, 64),
    Allowance(lambda row: row.calm_ms, "ms of latency (25 %)", 0.50, 50),
    Allowance(lambda row: row.median_ms, "ms of latency (median)", 1.00, 500),
)


def table(rows: Sequence[Minute]) -> str:
    """The rows, for people."""
    lines = ["minute  memory MiB  handles  25 % ms  median ms  99 % ms  answers"]
    lines += [
        f"{number:6}  {row.memory_mib:10.1f}  {row.handles:7}  {row.calm_ms:7.1f}"
        f"  {row.median_ms:9.1f}  {row.slowest_ms:7.0f}  {row.answers:7}"
        for number, row in enumerate(rows, 1)
    ]
    return "\n".join(lines)


def growth(rows: Sequence[Minute]) -> list[str]:
    """What has grown beyond its allowance. Nothing can be said of a few rows, each of which is
    mostly the one fault that fell into it."""
    if len(rows) < ROWS_MIN:
        return []
    third = len(rows) // 3
    middle, last = rows[-2 * third : -third], rows[-third:]
    found = []
    for one in ALLOWANCES:
        before = statistics.median(map(one.figure, middle))
        after = statistics.median(map(one.figure, last))
        if after > before * (1 + one.share) + one.slack:
            found.append(f"{one.what}: {before:.1f} in the middle third, {after:.1f} in the last")
    return found


def row_of(samples: Sequence[Sample], memory_bytes: int, handles: int) -> Minute:
    """A minute's figures; one without an answer has the worst latency there is."""
    times = sorted(1_000 * one.seconds for one in samples if one.what in TIMED)
    return Minute(
        memory_mib=memory_bytes / MIB,
        handles=handles,
        calm_ms=_quantile(times, 0.25),
        median_ms=_quantile(times, 0.50),
        slowest_ms=_quantile(times, 0.99),
        answers=len(times),
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[int(share * (len(ordered) - 1))] if ordered else float("inf")


def open_handles(pid: int) -> int:
    """How many files and sockets a process has open; 0 if it is gone."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


@dataclass(eq=False)
class Meter(threading.Thread):
    """Looks at every node once a second, and closes a row every minute."""

    cluster: Cluster
    row_seconds: float = 60.0
    rows: list[Minute] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(name="meter", daemon=True)
        nodes = list(self.cluster.nodes.values())
        kafka = [address_of(node.kafka) for node in nodes]
        self._client = GoodClientProcess(
            kafka, address_of(nodes[0].http), Path(self.cluster.directory) / "good-client.txt"
        )
        self._over = threading.Event()

    def run(self) -> None:
        began, memory, handles = time.monotonic(), 0, 0
        while not self._over.wait(SAMPLE_SECONDS):
            for node in list(self.cluster.nodes.values()):
                if (pid := node.pid) is not None and node.running:
                    memory = max(memory, rss_of(pid))
                    handles = max(handles, open_handles(pid))
            if time.monotonic() - began >= self.row_seconds:
                self.rows.append(row_of(self._client.since(began), memory, handles))
                began, memory, handles = time.monotonic(), 0, 0

    def finish(self) -> None:
        """Look no longer; a minute that has only begun gets no row."""
        self._over.set()
        self.join()
        self._client.close()
