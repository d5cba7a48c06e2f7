"""Measure Penstock:  make bench ARGS="--quick"

    --quick          under a minute instead of under five; fewer rounds, smaller logs
    --only NAME      one benchmark: append, start, read, simulator, stages; may be repeated
    --json PATH      where the numbers go; the tables and the profile go beside them
    --data DIR       where the logs to be measured are made, and removed again

The tables go to stdout, progress to stderr. Nothing is asserted: a number is no verdict.
Benchmarks run one after the other, and what is to be compared is interleaved within each.
"""

import argparse
import asyncio
import datetime as dt
import io
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console

from benchmarks.append import measure_append
from benchmarks.machine import describe_machine
from benchmarks.read import measure_read
from benchmarks.report import Finding, Progress, show
from benchmarks.simulator import measure_simulator
from benchmarks.stages import measure_stages
from benchmarks.start import measure_start

DEFAULT_JSON = Path("benchmarks/results/local/results.json")
DEFAULT_DATA = "data"
TABLE_COLUMNS = 120
PROFILE_NAME = "profile.txt"


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; 0 unless something broke."""
    parser = argparse.ArgumentParser(prog="make bench", description="Measure Penstock.")
    parser.add_argument("--quick", action="store_true", help="under a minute, less exact")
    parser.add_argument("--only", action="append", metavar="NAME", choices=sorted(BENCHMARKS))
    parser.add_argument("--json", type=Path, default=DEFAULT_JSON, metavar="PATH")
    parser.add_argument("--data", metavar="DIR", help="a directory on the disk to be measured")
    options = parser.parse_args(arguments)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    began = time.monotonic()

    def progress(line: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began:6.1f} s  {line}\n")
        sys.stderr.flush()

    options.json.parent.mkdir(parents=True, exist_ok=True)
    home = Path(options.data or DEFAULT_DATA)
    home.mkdir(parents=True, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="bench-", dir=home)
    try:
        machine = describe_machine(directory)
        findings: list[Finding] = []
        for name, measure in BENCHMARKS.items():
            if not options.only or name in options.only:
                findings += measure(directory, options.quick, progress, options.json.parent)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    took = time.monotonic() - began
    tables = Console(file=io.StringIO(), width=TABLE_COLUMNS)
    for console in (Console(width=None if sys.stdout.isatty() else TABLE_COLUMNS), tables):
        for finding in findings:
            show(console, finding)
        for name, value in machine.items():
            console.print(f"{name}: {value}", highlight=False)
        console.print(f"{took:.0f} s in all")
    _store(options.json, findings, machine, quick=options.quick, seconds=took)
    _store_tables(options.json.with_suffix(".txt"), tables)
    progress(f"the numbers are in {options.json}")
    return 0


def _append(directory: str, quick: bool, progress: Progress, _: Path) -> list[Finding]:
    return measure_append(directory, quick=quick, progress=progress)


def _start(directory: str, quick: bool, progress: Progress, _: Path) -> list[Finding]:
    return measure_start(directory, quick=quick, progress=progress)


def _read(directory: str, quick: bool, progress: Progress, _: Path) -> list[Finding]:
    return measure_read(directory, quick=quick, progress=progress)


def _simulator(_: str, quick: bool, progress: Progress, __: Path) -> list[Finding]:
    return measure_simulator(quick=quick, progress=progress)


def _stages(directory: str, quick: bool, progress: Progress, target: Path) -> list[Finding]:
    profile = target / PROFILE_NAME
    return measure_stages(directory, quick=quick, progress=progress, profile=profile)


BENCHMARKS: dict[str, Callable[[str, bool, Progress, Path], list[Finding]]] = {
    "append": _append,
    "start": _start,
    "read": _read,
    "simulator": _simulator,
    "stages": _stages,
}


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
