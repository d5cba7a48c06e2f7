"""Measure Penstock:  make bench ARGS="--quick"

    --quick          a minute instead of eight; fewer rounds, smaller logs
    --only NAME      one benchmark, or all of "log", "broker", "native" or "spark"; may be repeated
    --record         renew docs/benchmarks
    --json PATH      where the numbers go; the tables and the profile go beside them
    --data DIR       where the logs to be measured are made, and removed again

    log              append, start, read, simulator, stages
    broker           broker-throughput, broker-requests, broker-latency, broker-memory,
                     broker-start, broker-partitions
    sqs              the SQS API, beside moto's server
    backlog          queues that are full: ten million messages waiting, a million delayed or FIFO
    native           native-throughput, native-latency: the client's queues, over the wire and
                     embedded, beside Redis Streams, RabbitMQ and PostgreSQL where they are found
    observing        what it costs to be looked at: sending with and without somebody who reads
                     the metrics every second and has the dashboard open
    spark            spark-throughput, spark-latency: source and sink, beside Spark's own Kafka
                     connector where Maven's packages can be had, Parquet files, and plain Python

The tables go to stdout, progress to stderr. Nothing is asserted: a number is no verdict.
Benchmarks run one after the other, and what is to be compared is interleaved within each. One that
breaks is told of at the end, and the exit code is 1; the others are measured all the same.
"""

import argparse
import asyncio
import datetime as dt
import io
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec
import uvloop
from rich.console import Console

from benchmarks.append import measure_append
from benchmarks.backlog.measure import measure_backlog
from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.latency import measure_latency
from benchmarks.broker.many_partitions import measure_many_partitions
from benchmarks.broker.memory import measure_memory
from benchmarks.broker.programs import ProgramFailed
from benchmarks.broker.small_requests import measure_small_requests
from benchmarks.broker.starts import measure_starts
from benchmarks.broker.throughput import measure_throughput
from benchmarks.machine import describe_machine
from benchmarks.native.latency import measure_native_latency
from benchmarks.native.throughput import measure_native_throughput
from benchmarks.observing.measure import measure_observing
from benchmarks.read import measure_read
from benchmarks.report import Finding, Progress, show
from benchmarks.simulator import measure_simulator
from benchmarks.spark.latency import measure_spark_latency
from benchmarks.spark.throughput import measure_spark_throughput
from benchmarks.sqs.throughput import measure_sqs
from benchmarks.stages import measure_stages
from benchmarks.start import measure_start

DEFAULT_JSON = Path("benchmarks/results/local/results.json")
RECORDED_JSON = Path("docs/benchmarks/results.json")
DEFAULT_DATA = "data"
TABLE_COLUMNS = 120
PROFILE_NAME = "profile.txt"
TERMINATED = 128 + signal.SIGTERM
"""As a shell has it; to end by an exception is to clean up."""


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; 0 unless something broke."""
    options = _options(arguments)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    began = time.monotonic()

    def progress(line: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began:6.1f} s  {line}\n")
        sys.stderr.flush()

    options.json.parent.mkdir(parents=True, exist_ok=True)
    home = Path(options.data or DEFAULT_DATA).resolve()
    home.mkdir(parents=True, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="bench-", dir=home)
    findings: list[Finding] = []
    broken: dict[str, str] = {}
    try:
        machine = describe_machine(directory)
        for name, measure in _chosen(options.only or []).items():
            try:
                findings += measure(directory, options.quick, progress, options.json.parent)
            except (ClientFailed, ProgramFailed) as error:
                broken[name] = str(error)
                progress(f"{name} broke: {error}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    took = time.monotonic() - began
    tables = Console(file=io.StringIO(), width=TABLE_COLUMNS)
    for console in (Console(width=None if sys.stdout.isatty() else TABLE_COLUMNS), tables):
        for finding in findings:
            show(console, finding)
        for name, value in machine.items():
            console.print(f"{name}: {value}", highlight=False)
        for name in broken:
            console.print(f"{name} could not be measured")
        console.print(f"{took:.0f} s in all")
    _store(options.json, findings, machine, quick=options.quick, seconds=took)
    _store_tables(options.json.with_suffix(".txt"), tables)
    progress(f"the numbers are in {options.json}")
    return 1 if broken else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure Penstock.")
    parser.add_argument("--quick", action="store_true", help="about a minute, less exact")
    names = [*GROUPS, *BENCHMARKS]
    parser.add_argument("--only", action="append", metavar="NAME", choices=names, help=_list(names))
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--json", type=Path, default=DEFAULT_JSON, metavar="PATH")
    target.add_argument(
        "--record", dest="json", action="store_const", const=RECORDED_JSON, help=str(RECORDED_JSON)
    )
    parser.add_argument("--data", metavar="DIR", help="a directory on the disk to be measured")
    return parser.parse_args(arguments)


def _list(names: list[str]) -> str:
    return f"one of {', '.join(names)}"


def _simulator(_: str, quick: bool, progress: Progress, __: Path) -> list[Finding]:
    return measure_simulator(quick=quick, progress=progress)


def _stages(directory: str, quick: bool, progress: Progress, target: Path) -> list[Finding]:
    profile = target / PROFILE_NAME
    return measure_stages(directory, quick=quick, progress=progress, profile=profile)


class _Measure(Protocol):
    """A benchmark that needs only a directory."""

    def __call__(self, directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
        """Measure."""


Benchmark = Callable[[str, bool, Progress, Path], list[Finding]]


def _plain(measure: _Measure) -> Benchmark:
    return lambda directory, quick, progress, _: measure(directory, quick=quick, progress=progress)


LOG: dict[str, Benchmark] = {
    "append": _plain(measure_append),
    "start": _plain(measure_start),
    "read": _plain(measure_read),
    "simulator": _simulator,
    "stages": _stages,
}
BROKER: dict[str, Benchmark] = {
    "broker-throughput": _plain(measure_throughput),
    "broker-requests": _plain(measure_small_requests),
    "broker-latency": _plain(measure_latency),
    "broker-memory": _plain(measure_memory),
    "broker-start": _plain(measure_starts),
    "broker-partitions": _plain(measure_many_partitions),
}
SQS: dict[str, Benchmark] = {
    "sqs": _plain(measure_sqs),
    "backlog": _plain(measure_backlog),
}
NATIVE: dict[str, Benchmark] = {
    "native-throughput": _plain(measure_native_throughput),
    "native-latency": _plain(measure_native_latency),
}
OBSERVING: dict[str, Benchmark] = {"observing": _plain(measure_observing)}
SPARK: dict[str, Benchmark] = {
    "spark-throughput": _plain(measure_spark_throughput),
    "spark-latency": _plain(measure_spark_latency),
}
GROUPS = {"log": LOG, "broker": BROKER, "native": NATIVE, "spark": SPARK}
BENCHMARKS = {**BROKER, **SQS, **NATIVE, **OBSERVING, **SPARK, **LOG}


def _chosen(only: list[str]) -> dict[str, Benchmark]:
    """All, or those named by themselves or by their group."""
    names = {name for one in only for name in GROUPS.get(one, (one,))}
    return {name: one for name, one in BENCHMARKS.items() if not only or name in names}


def _store(
    path: Path, findings: list[Finding], machine: dict[str, str], *, quick: bool, seconds: float
) -> None:
    document = {
        "when": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "seconds": round(seconds),
        "machine": machine,
        "findings": {finding.name: finding.numbers for finding in findings},
    }
    rounded = msgspec.json.format(msgspec.json.encode(_rounded(document)), indent=2)
    path.write_bytes(rounded + b"\n")


def _store_tables(path: Path, console: Console) -> None:
    assert isinstance(console.file, io.StringIO), f"the tables went to {console.file}"
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _rounded(value: object) -> object:
    """Four digits are more than such numbers are worth."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return value


if __name__ == "__main__":
    sys.exit(main())
