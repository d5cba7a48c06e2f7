"""Measure Penstock, beside whatever else is found on this machine:  make bench ARGS="--quick"

    --quick          a few minutes instead of fifteen; fewer rounds, less data
    --only NAME      one benchmark, or a group of them; may be repeated
    --record         renew docs/benchmarks: tables, numbers and pictures
    --json PATH      where the numbers go; tables and pictures go beside them
    --data DIR       where the files to be measured are made, and removed again

    broker           Kafka's protocol, beside Apache Kafka: throughput, latency, requests, memory,
                     start
    native           queues by the Python client, beside Redis Streams, RabbitMQ and others
    sqs              the SQS API, beside moto's server and others
    scaling          as the backlog grows, partitions, consumers, and with three replicas
    observing        what it costs to be looked at
    only on demand:
    partitions       ten thousand of them: made, used, idle, found again after a kill
    backlog          full queues of every kind: waiting, delayed, FIFO; stalls and restarts
    log              inside: append, start, read, simulator, stages
    spark            source and sink, beside Spark's own connector, Parquet and plain Python

Tables go to stdout as they come, progress to stderr. Nothing is asserted: a number is no verdict.
Benchmarks run one after the other, and what is to be compared is interleaved within each. After
each one the files are written; one that breaks is told of at the end, and the exit code is 1, but
the others are measured all the same. The time each may take is in `benchmarks.suite`.
"""

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import uvloop
from rich.console import Console

from benchmarks import aims
from benchmarks.machine import describe_machine
from benchmarks.pictures.figures import draw
from benchmarks.record import TABLE_COLUMNS, Record, show_end
from benchmarks.report import Progress, show
from benchmarks.suite import QUICK_SHARE, Benchmark, chosen, names, record_name
from benchmarks.turns import ENDLESS

DEFAULT_JSON = Path("benchmarks/results/local/results.json")
RECORDS = Path("docs/benchmarks")
DEFAULT_DATA = "data"
TERMINATED = 128 + signal.SIGTERM
"""As a shell has it; to end by an exception is to clean up."""


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; 0 unless something broke."""
    options = _options(arguments)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    home = Path(options.data or DEFAULT_DATA).resolve()
    home.mkdir(parents=True, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="bench-", dir=home)
    console = Console(width=None if sys.stdout.isatty() else TABLE_COLUMNS)
    try:
        record = Record(
            options.json,
            describe_machine(directory),
            quick=options.quick,
            # Measured again is a part of what is on record; all of it is a new record.
            keep=options.record and bool(options.only),
        )
        run = Run(
            chosen(options.only),
            record,
            console,
            directory,
            quick=options.quick,
            boxed=not options.only,
        )
        run.all()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if (reached := aims.finding(record.document.findings)) is not None:
        show(console, reached)
        record.add([reached])
        record.save()
    show_end(console, record.document)
    pictures = draw(record.document, record.path.parent)
    run.say(f"the numbers are in {record.path}, with {len(pictures)} pictures beside them")
    return 1 if record.document.broken else 0


class Run:
    """One benchmark after the other, whatever becomes of each."""

    def __init__(
        self,
        benchmarks: Sequence[Benchmark],
        record: Record,
        console: Console,
        directory: str,
        *,
        quick: bool,
        boxed: bool,
    ) -> None:
        self._benchmarks = benchmarks
        self._boxed = boxed
        self._record = record
        self._console = console
        self._directory = directory
        self._quick = quick
        self._began = self._began_one = time.monotonic()
        self._ahead: list[Benchmark] = list(benchmarks)

    def say(self, line: str) -> None:
        """What is being done, after how long, and how long it will go on."""
        now = time.monotonic()
        left = estimate(
            [one.seconds for one in self._ahead],
            spent=now - self._began_one,
            share=QUICK_SHARE if self._quick else 1.0,
        )
        sys.stderr.write(f"{minutes(now - self._began)}, {minutes(left)} left  {line}\n")
        sys.stderr.flush()

    def all(self) -> None:
        """Measure everything; the record is on disk after each."""
        earlier = self._record.document.seconds
        for benchmark in self._benchmarks:
            self._began_one = time.monotonic()
            try:
                self._one(benchmark)
            except Exception as error:  # noqa: BLE001 - one that breaks must not lose the others.
                self._record.broke(benchmark.name, f"{type(error).__name__}: {error}")
                traceback.print_exc()
                self.say(f"{benchmark.name} broke: {error}")
            finally:
                # However it ended, also by a signal: nothing of it is left behind.
                self._clear()
            took = time.monotonic() - self._began_one
            self._ahead = self._ahead[1:]
            self._record.document.seconds = earlier + time.monotonic() - self._began
            self._record.save()
            self.say(f"{benchmark.name} took {took:.0f} s, {benchmark.seconds} s were planned")

    def _one(self, benchmark: Benchmark) -> None:
        planned = sum(one.seconds for one in self._benchmarks) - sum(
            one.seconds for one in self._ahead
        )
        late = self._began_one - self._began - planned
        # What was asked for by its name takes all its rounds.
        seconds = box(benchmark.seconds, late=late) if self._boxed else ENDLESS
        progress = Progress(self.say, seconds=seconds)
        quick = self._quick or (self._boxed and benchmark.short)
        findings = benchmark.run(self._directory, quick, progress, self._record.path.parent)
        self._record.add(findings)
        self._record.mended(benchmark.name)
        for finding in findings:
            show(self._console, finding)

    def _clear(self) -> None:
        for path in Path(self._directory).iterdir():
            shutil.rmtree(path, ignore_errors=True)


def box(seconds: float, *, late: float) -> float:
    """The time a benchmark has: what those before it took too long is taken from it, up to half of
    its own, so that a slow machine gets fewer rounds rather than a longer run."""
    return max(seconds / 2, seconds - max(0.0, late))


def estimate(planned: Sequence[float], *, spent: float, share: float) -> float:
    """Seconds left: of the benchmark under way what it has not spent yet, and all others."""
    if not planned:
        return 0.0
    return max(0.0, planned[0] * share - spent) + sum(planned[1:]) * share


def minutes(seconds: float) -> str:
    """`12:05`."""
    return f"{int(seconds) // 60:2d}:{int(seconds) % 60:02d}"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure Penstock.")
    parser.add_argument("--quick", action="store_true", help="a few minutes, less exact")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        choices=names(),
        help=f"one of {', '.join(names())}",
    )
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--json", type=Path, metavar="PATH", help="where the numbers go")
    target.add_argument("--record", action="store_true", help=f"renew {RECORDS}")
    parser.add_argument("--data", metavar="DIR", help="a directory on the disk to be measured")
    options = parser.parse_args(arguments)
    if options.record:
        try:
            options.json = RECORDS / f"{record_name(chosen(options.only))}.json"
        except ValueError as error:
            parser.error(str(error))
    options.json = options.json or DEFAULT_JSON
    return options


if __name__ == "__main__":
    sys.exit(main())
