"""The processor time of a process, to the microsecond.

What `/proc/PID/stat` says is counted in hundredths of a second, which is as much as an idle broker
takes in one. The scheduler's own account of each thread is exact; where a kernel keeps none, the
coarse one has to do.
"""

import time
from pathlib import Path

from benchmarks.broker.programs import usage_of
from benchmarks.observing.stretches import Mark

_NANOSECONDS = 1_000_000_000


def processor_mark(pid: int) -> Mark:
    """The seconds that all its threads have taken so far; one that has ended since is missing."""
    at, total = time.monotonic(), 0
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            total += int((thread / "schedstat").read_text("ascii").split()[0])
    except FileNotFoundError:
        return Mark(at, usage_of(pid).cpu_seconds)
    return Mark(at, total / _NANOSECONDS)
