"""Ten thousand partitions on one node: what they cost when they are made, used, and found again.

Once through, not in rounds: each step changes what the next one finds. The idle node is watched
too, since work done for each partition all the time is what ends most brokers first.
"""

import time
from pathlib import Path

from benchmarks.broker import clients
from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.metadata_request import ask_metadata
from benchmarks.broker.orders import Moved
from benchmarks.broker.starts import forget_tree
from benchmarks.broker.systems import System, penstock
from benchmarks.report import KIB, MIB, Finding, Measured, Progress, number, quantile

TOPICS = 10
PARTITIONS_PER_TOPIC = 1_000
PARTITIONS_PER_TOPIC_QUICK = 50
VALUE_BYTES = 100
METADATA_REQUESTS = 15
IDLE_SECONDS = 2.0


def measure_many_partitions(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding, a row for each step."""
    per_topic = PARTITIONS_PER_TOPIC_QUICK if quick else PARTITIONS_PER_TOPIC
    topics = {f"many-{number}": per_topic for number in range(TOPICS)}
    count = sum(topics.values())
    home = Path(directory) / "partitions"
    with penstock(1).make(home) as system, ClientProcess() as client:
        steps = _Steps(system)
        steps.note("an empty node", 0.0)
        progress(f"broker partitions: creating {count:,}")
        # Topic after topic: one request for all of them would be a large one.
        took = sum(
            client.call(clients.create_topics, system.bootstrap, {topic: per_topic})
            for topic in topics
        )
        steps.note(f"create {TOPICS} topics of {per_topic:,} partitions", took)
        answered = ask_metadata(system.bootstrap, METADATA_REQUESTS)
        size = f"{answered.answer_bytes / KIB:,.0f} KiB"
        steps.note("metadata of all, first time", answered.seconds[0], size)
        again = answered.seconds[1:]
        what = f"median of {len(again)}; max {max(again) * 1e3:.1f} ms"
        steps.note("metadata of all, again", quantile(again, 0.5), what)
        for turn in ("first", "second"):
            progress(f"broker partitions: a message to each, {turn} time")
            moved = client.call(clients.produce_to_all, system.bootstrap, topics, VALUE_BYTES)
            steps.note_moved(f"a message to each, {turn} time", moved)
        progress("broker partitions: idle")
        steps.note("idle", IDLE_SECONDS, f"{_idle_share(system):.1%} of a core")
        progress("broker partitions: restart")
        system.kill()
        forget_tree(home)
        began = time.perf_counter()
        system.start()
        steps.restarted()
        steps.note("restart after kill -9, until ready", time.perf_counter() - began)
        moved = client.call(clients.produce_to_all, system.bootstrap, topics, VALUE_BYTES)
        steps.note_moved("a message to each, after the restart", moved)
    return [_finding(steps.numbers, count)]


class _Steps:
    """What each step took of time and of the node's processor, and its memory afterwards."""

    def __init__(self, system: System) -> None:
        self.numbers: list[Measured] = []
        self._system = system
        self._cpu_seconds = 0.0

    def restarted(self) -> None:
        """A new process counts its processor time from nothing."""
        self._cpu_seconds = 0.0

    def note(self, step: str, seconds: float, what: str = "") -> None:
        used = self._system.usage()
        self.numbers.append(
            {
                "step": step,
                "seconds": seconds,
                "cpu_seconds": used.cpu_seconds - self._cpu_seconds,
                "note": what,
                "memory_bytes": used.memory_bytes,
                "memory_peak_bytes": used.memory_peak_bytes,
            }
        )
        self._cpu_seconds = used.cpu_seconds

    def note_moved(self, step: str, moved: Moved) -> None:
        what = f"{moved.per_second:,.0f}/s, client CPU {moved.cpu_seconds:.2f} s"
        self.note(step, moved.seconds, what)


def _idle_share(system: System) -> float:
    before = system.usage().cpu_seconds
    time.sleep(IDLE_SECONDS)
    return (system.usage().cpu_seconds - before) / IDLE_SECONDS


def _time(seconds: float) -> str:
    if not seconds:
        return ""
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1e3:.1f} ms"


def _finding(numbers: list[Measured], count: int) -> Finding:
    rows = [
        (
            str(row["step"]),
            _time(number(row, "seconds")),
            f"{number(row, 'cpu_seconds'):.2f}",
            str(row["note"]),
            f"{number(row, 'memory_bytes') / MIB:.0f}",
            f"{number(row, 'memory_peak_bytes') / MIB:.0f}",
        )
        for row in numbers
    ]
    return Finding(
        name="broker-partitions",
        title=f"Broker, {count:,} partitions on one node, acks=all, fdatasync: once through",
        columns=("step", "time", "broker CPU s", "", "memory MiB", "peak MiB"),
        rows=rows,
        notes=[
            "a message to each: each is a request of its own; connecting and finding included.",
            "metadata: one request for all topics, from sending it to the last byte of the answer.",
        ],
        numbers=numbers,
    )
