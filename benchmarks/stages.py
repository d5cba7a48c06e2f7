"""Where the processor's time goes on the way of a 1-message batch, stage by stage.

Each stage is a few methods that are wrapped, for this benchmark alone, in two readings of the
thread's own processor time; what the readings cost is measured and taken off. Whatever is spent
in no stage is the loop, the futures and the clients. Then the same load runs under cProfile,
without the wrappers, and its first lines go to a file.
"""

import asyncio
import cProfile
import io
import os
import pstats
import re
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from benchmarks.append import IN_FLIGHT
from benchmarks.bare import lend_memory
from benchmarks.report import MIB, Finding, Measured, Progress, medians, number
from benchmarks.shards import Driven, Load, drive, make_batch, running_shard
from penstock.engine.replica.batcher import Batcher, GatheredEntry
from penstock.engine.replica.proposals import Proposals
from penstock.machines.partitions import Partitions
from penstock.raft import RaftNode
from penstock.storage import ShardLog
from penstock.storage.log_writer import LogWriter

P = ParamSpec("P")
T = TypeVar("T")

ROUNDS = 5
ROUNDS_QUICK = 3
BATCHES = 20_000
PROFILE_LINES = 25


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the way, and the methods that are it."""

    name: str
    what: str
    methods: tuple[tuple[type, str], ...]


STAGES = (
    Stage("plan", "check the batch, reserve offsets, stamp it", ((Partitions, "plan"),)),
    Stage("gather", "keep the plan and who waits for it", ((Batcher, "add"),)),
    Stage("join", "one payload of many batches", ((GatheredEntry, "encode"),)),
    Stage("propose", "Raft takes the entry", ((RaftNode, "propose"),)),
    Stage(
        "ready",
        "Raft says what to do, and is told what was done",
        ((RaftNode, "ready"), (RaftNode, "persisted"), (RaftNode, "applied")),
    ),
    Stage(
        "stage",
        "checksum, header, place in the file",
        ((ShardLog, "stage"), (ShardLog, "take_job")),
    ),
    Stage(
        "write",
        "pwritev, fdatasync, marker; on the writer's thread",
        ((LogWriter, "write"), (LogWriter, "sync"), (LogWriter, "note")),
    ),
    Stage("complete", "index what is durable", ((ShardLog, "complete"),)),
    Stage("apply", "the machine takes the entry", ((Partitions, "apply"),)),
    Stage("answer", "everyone who waits gets a reply", ((Proposals, "applied"),)),
)
REST = "loop"


class _Stopwatch:
    """Adds up the processor time spent in wrapped calls."""

    def __init__(self) -> None:
        self._spent_ns = {stage.name: 0 for stage in STAGES}
        self._calls = {stage.name: 0 for stage in STAGES}
        self._reading_ns = _cost_of_reading()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Every method of every stage is wrapped, and is itself again afterwards."""
        originals = [
            (kind, method, getattr(kind, method))
            for stage in STAGES
            for kind, method in stage.methods
        ]
        try:
            for stage in STAGES:
                for kind, method in stage.methods:
                    setattr(kind, method, self._timed(getattr(kind, method), stage.name))
            yield
        finally:
            for kind, method, original in originals:
                setattr(kind, method, original)

    def _timed(self, call: Callable[P, T], stage: str) -> Callable[P, T]:
        spent, calls, clock = self._spent_ns, self._calls, time.thread_time_ns

        @wraps(call)
        def timed_call(*arguments: P.args, **named: P.kwargs) -> T:
            began = clock()
            try:
                return call(*arguments, **named)
            finally:
                spent[stage] += clock() - began
                calls[stage] += 1

        return timed_call

    def microseconds(self, stage: str) -> float:
        """Without what the readings themselves cost."""
        return max(0.0, self._spent_ns[stage] - self._calls[stage] * self._reading_ns) / 1e3


def _cost_of_reading() -> float:
    """What a pair of readings adds to the time between them, in nanoseconds."""
    clock = time.thread_time_ns
    differences = []
    for _ in range(20_000):
        began = clock()
        differences.append(clock() - began)
    return statistics.median(differences)


def measure_stages(
    directory: str, *, quick: bool, progress: Progress, profile: Path
) -> list[Finding]:
    """One finding, and a profile in a file."""
    load = Load(
        name="1 message",
        batch=make_batch(1, 24),
        messages=1,
        batches=BATCHES // 2 if quick else BATCHES,
        clients=IN_FLIGHT,
    )
    rounds = ROUNDS_QUICK if quick else ROUNDS
    measured = []
    for turn in range(1, rounds + 1):
        progress(f"stages: round {turn} of {rounds}")
        measured.append(_measure_once(directory, load))
    progress("stages: profiling")
    profile.write_text(_profile(directory, load), "utf-8")
    return [_finding(medians(measured), rounds, profile)]


def _measure_once(directory: str, load: Load) -> Measured:
    plain = _run(directory, load, nullcontext())
    watch = _Stopwatch()
    _run(directory, load, watch.running())
    row: Measured = {"load": load.name}
    for stage in STAGES:
        row[stage.name] = watch.microseconds(stage.name) / load.batches
    in_stages = sum(number(row, stage.name) for stage in STAGES)
    row["total"] = plain.cpu_seconds / load.batches * 1e6
    row[REST] = max(0.0, number(row, "total") - in_stages)
    row["batches_per_second"] = load.batches / plain.seconds
    return row


def _run(directory: str, load: Load, watching: AbstractContextManager[object]) -> Driven:
    """One replica under load; `watching` is in force only while the load runs."""
    home = os.path.join(directory, "stages")

    async def measure() -> Driven:
        async with running_shard(home, replicas=1) as shard:
            lend_memory(directory, 16 * MIB)
            with watching:
                return await drive(shard, load)

    try:
        return asyncio.run(measure())
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _profile(directory: str, load: Load) -> str:
    """The lines of cProfile that took most, of the loop's thread, without paths of this machine."""
    profile = cProfile.Profile()
    _run(directory, load, profile)
    output = io.StringIO()
    stats = pstats.Stats(profile, stream=output)
    stats.sort_stats("tottime").print_stats(PROFILE_LINES)
    text = re.sub(r"\S*/(?=(?:src/penstock|benchmarks|lib/python[\d.]+)/)", "", output.getvalue())
    head = (
        f"{load.batches:,} appends of a 1-message batch, {load.clients} in flight, one replica.\n"
        "The loop's thread only; times are inflated by the profiler, their order is what counts.\n"
    )
    lines = [line.rstrip() for line in (head + text).splitlines()]
    return "\n".join(lines).rstrip() + "\n"


def _finding(row: Measured, rounds: int, profile: Path) -> Finding:
    total = number(row, "total")
    parts = [(stage.name, stage.what) for stage in STAGES]
    parts.append((REST, "the event loop, futures, tasks and the clients"))
    rows = [
        (
            f"{name}: {what}",
            f"{number(row, name):.2f}",
            f"{number(row, name) / total:.0%}",
        )
        for name, what in parts
    ]
    rows.append(("all, measured without the stopwatch", f"{total:.2f}", "100%"))
    return Finding(
        name="stages",
        title=f"Processor time of a 1-message batch: medians of {rounds} rounds",
        columns=("stage", "µs/batch", "share"),
        rows=rows,
        notes=[f"the profile of the loop's thread is in {profile.name}."],
        numbers=[row],
    )
