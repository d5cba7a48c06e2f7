"""How many processes, and how soon again. Real ones are in tests/crash."""

import asyncio
import sys

from penstock.testing.clock import ManualClock
from penstock.workers.scale import Scaling
from penstock.workers.statistics import WorkerStatistics
from penstock.workers.supervisor import Depth, Report, Restarts, Supervisor, _Place


def test_a_process_that_crashes_at_once_is_started_later_and_later() -> None:
    restarts = Restarts()
    waits = [restarts.next_seconds(100) for _ in range(10)]
    assert waits == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert restarts.next_seconds(61_000) == 0.0, "it had been well for a while"


async def supervise(code: str, *, count: int, until_lines: int) -> tuple[list[bytes], Supervisor]:
    """Run small programs under a supervisor until they have said so many lines."""
    lines: list[bytes] = []
    enough = asyncio.Event()

    def note(_number: int, line: bytes) -> None:
        lines.append(line)
        if len(lines) == until_lines:
            enough.set()

    scaling = Scaling(minimum=count, maximum=count)
    supervisor = Supervisor([sys.executable, "-c", code], scaling, on_line=note)
    running = asyncio.create_task(supervisor.run())
    async with asyncio.timeout(60):
        await enough.wait()
    supervisor.stop()
    await running
    return lines, supervisor


TELLER = """
import json, os, signal, sys
row = {"queue": "q", "worker": "job", "processed": 3, "workers": 2}
print(json.dumps({"pid": os.getpid(), "tasks": [row]}), flush=True)
signal.sigwait([signal.SIGTERM])
"""


def test_what_processes_tell_is_added_up() -> None:
    blocked = f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n{TELLER}"
    lines, supervisor = asyncio.run(supervise(blocked, count=2, until_lines=2))
    assert len(lines) == 2
    (row,) = supervisor.statistics()
    assert (row.worker, row.processed) == ("job", 6)
    assert supervisor.restarted == 0


def test_what_ends_is_started_again() -> None:
    _, supervisor = asyncio.run(supervise("print('gone')", count=1, until_lines=2))
    assert supervisor.restarted >= 1


def test_how_many_processes() -> None:
    row = WorkerStatistics(
        queue="q", worker="job", processed=9, busy_seconds=1.0, mean_seconds=0.5, workers=5
    )

    async def ask() -> list[int]:
        supervisor = Supervisor(["true"], Scaling(minimum=1, maximum=4), clock=ManualClock())
        supervisor._places[1] = _Place(1, Restarts(), report=Report((row,)))
        looks = [
            Depth(sent=0, backlog=0, oldest_seconds=None),
            # Twenty a second, half a second each, five at a time in each process: two. And
            # another one, to work off the backlog in ten seconds.
            Depth(sent=200, backlog=100, oldest_seconds=1.0),
            Depth(sent=2_000, backlog=9_000, oldest_seconds=90.0),
        ]
        return [supervisor._wanted({"job": depth}, 10.0 * at) for at, depth in enumerate(looks)]

    assert asyncio.run(ask()) == [1, 3, 4]
