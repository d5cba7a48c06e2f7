"""How long a start takes, and how much memory, for a large log: after a clean stop, after a kill.

Each start is a process of its own (`benchmarks.start_once`) on files that were dropped from the
page cache. "Ready" is when the shard leads and has replayed everything, so that it would answer a
client. A process that is killed at once leaves the log as it found it, so a start after a kill
can be repeated; the last one stops in good order, and then starts after a clean stop are
measured.
"""

import os
import shutil
import subprocess
import sys

import msgspec

from benchmarks.logs import LARGE, SMALL, Shape, forget_pages
from benchmarks.report import GIB, MIB, Finding, Measured, Progress, medians, number, size
from benchmarks.start_once import Started

ROUNDS = 3
SIZES = ((LARGE, 2 * GIB), (SMALL, 512 * MIB))
SIZES_QUICK = ((LARGE, 256 * MIB), (SMALL, 64 * MIB))


def measure_start(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: both shapes of log, after a kill and after a clean stop."""
    numbers: list[Measured] = []
    rounds = 1 if quick else ROUNDS
    for shape, total_bytes in SIZES_QUICK if quick else SIZES:
        home = os.path.join(directory, "start")
        try:
            progress(f"start: making {size(total_bytes)} of {shape.name}")
            _child("build", home, "large" if shape is LARGE else "small", str(total_bytes))
            for after, how in (("kill", "kill"), ("clean stop", "close")):
                if how == "close":
                    _child("close", home)
                measured = []
                for turn in range(1, rounds + 1):
                    progress(f"start: {shape.name}, after a {after}, {turn} of {rounds}")
                    measured.append(_measure_once(home, shape, after, how))
                numbers.append(medians(measured))
        finally:
            shutil.rmtree(home, ignore_errors=True)
    return [_finding(numbers, rounds)]


def _measure_once(home: str, shape: Shape, after: str, how: str) -> Measured:
    forget_pages(home)
    started = msgspec.json.decode(_child(how, home), type=Started)
    return {
        "log": shape.name,
        "partitions": shape.partitions,
        "log_bytes": started.log_bytes,
        "segments": started.segments,
        "after": after,
        "open_seconds": started.open_seconds,
        "ready_seconds": started.ready_seconds,
        "memory_before_bytes": started.memory_before_bytes,
        "memory_bytes": started.memory_bytes,
        "memory_peak_bytes": started.memory_peak_bytes,
    }


def _child(*arguments: str) -> bytes:
    """Run one process to its end, which may be a kill by its own hand; what it printed."""
    command = [sys.executable, "-m", "benchmarks.start_once", *arguments]
    ended = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if ended.returncode not in (0, -9):
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}")
    return ended.stdout


def _finding(numbers: list[Measured], rounds: int) -> Finding:
    rows = [
        (
            f"{size(number(row, 'log_bytes'))}, {row['log']} in {row['partitions']:,} partitions",
            str(row["after"]),
            f"{number(row, 'open_seconds'):.2f}",
            f"{number(row, 'ready_seconds'):.2f}",
            f"{number(row, 'memory_bytes') / MIB:.0f}",
            f"{number(row, 'memory_peak_bytes') / MIB:.0f}",
            f"{number(row, 'memory_before_bytes') / MIB:.0f}",
        )
        for row in numbers
    ]
    return Finding(
        name="start",
        title=f"Start, from a cold page cache: medians of {rounds}",
        columns=(
            "log",
            "after",
            "opened s",
            "ready s",
            "memory MiB",
            "peak MiB",
            "before MiB",
        ),
        rows=rows,
        notes=[
            "ready: leads, everything replayed; before: the process with its modules, no log yet.",
            "aim for 2 GiB after a clean stop: under 5 s and 200 MiB.",
        ],
        numbers=numbers,
    )
