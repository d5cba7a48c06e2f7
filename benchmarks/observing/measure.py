"""What metrics and dashboard cost: how fast one sends while somebody looks, and while nobody does.

One broker with as many queues as a busy place has, and messages in them, so that there is something
to see. One client sends all the time, so fast that the broker's loop is the limit. Seconds take
turns, quiet and observed; neighbours are compared, and what counts is the mean of the middle of
their ratios. How far that can be trusted is worked out from the ratios themselves: the same number
of them is drawn from them by chance, over and over.

The onlooker is a process on the same machine and takes processor time away from the client, which
no Prometheus elsewhere would. So two more numbers are shown: what the broker itself spends on each
message, and what being looked at costs an idle broker, which hardly depends on anything else.
"""

import math
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.systems import Penstock
from benchmarks.broker.throughput import MILLION, prepare_topic
from benchmarks.observing.onlooker import look_on, order
from benchmarks.observing.processor import processor_mark
from benchmarks.observing.sender import send_until
from benchmarks.observing.stretches import (
    OBSERVED,
    QUIET,
    Mark,
    Stretch,
    growth,
    in_turns,
    paired,
)
from benchmarks.observing.verdict import QUEUES, SECONDS, finding
from benchmarks.report import Finding, Measured, Progress

PAIRS = 26
PAIRS_QUICK = 8
IDLE_SECONDS = 3.0
IDLE_SECONDS_QUICK = 2.0
IDLE_PAIRS = 3
WARM_SECONDS = 2.0
MARK_SECONDS = 0.05
TOLD_SECONDS = 5.0


def measure_observing(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: with and without."""
    home = Path(directory) / "observing"
    pairs = PAIRS_QUICK if quick else PAIRS
    with Penstock(home, 1) as system, ClientProcess() as client, ClientProcess() as onlooker:
        pid, address = system.programs[0].pid, system.http[0]
        _make_queues(address)
        target = prepare_topic(system, client, "observed-messages")
        onlooker.call(look_on, address, [])  # Templates are compiled for the first page.
        progress(f"observing: an idle broker, {IDLE_PAIRS} pairs")
        idle = _measure_idle(pid, address, onlooker, IDLE_SECONDS_QUICK if quick else IDLE_SECONDS)
        stretches = in_turns(time.monotonic() + WARM_SECONDS, SECONDS, pairs)
        end = stretches[-1].end
        sending = client.begin(send_until, target, end + MARK_SECONDS)
        looking = onlooker.begin(look_on, address, stretches)
        marks = _mark_until(
            pid, end, lambda left: progress(f"observing: {pairs} pairs, {left} s left")
        )
        rows = _rows(stretches, sending.result(), marks)
        looked = looking.result()
    shutil.rmtree(home, ignore_errors=True)
    return [finding(rows, idle, looked)]


def _make_queues(address: str) -> None:
    """Queues with something in them."""
    for number in range(QUEUES):
        name = f"queue-{number}"
        order(address, "/v1/queues", {"name": name, "settings": {"dead_letter_topic": ""}})
        messages = [{"body": "an order that waits"}] * 10
        order(address, f"/v1/queues/{name}/messages", {"messages": messages})


def _measure_idle(
    pid: int, address: str, onlooker: ClientProcess, seconds: float
) -> list[dict[str, float]]:
    """What a broker without anything else to do takes of the processor, in seconds a second."""
    stretches = in_turns(time.monotonic() + WARM_SECONDS, seconds, IDLE_PAIRS)
    looking = onlooker.begin(look_on, address, stretches)
    marks = _mark_until(pid, stretches[-1].end)
    looking.result()
    return [
        {way: used / seconds for way, used in one.items()}
        for one in paired([(one, growth(marks, one)) for one in stretches])
    ]


def _mark_until(pid: int, end: float, told: Callable[[int], None] | None = None) -> list[Mark]:
    """The broker's processor time, again and again; `told` is called every few seconds."""
    marks = [processor_mark(pid)]
    last = math.inf
    while marks[-1].at <= end:
        left = end - marks[-1].at
        if told is not None and last - left >= TOLD_SECONDS:
            last = left
            told(int(left))
        time.sleep(MARK_SECONDS)
        marks.append(processor_mark(pid))
    return marks


def _rows(
    stretches: Sequence[Stretch], sent: Sequence[Mark], used: Sequence[Mark]
) -> list[Measured]:
    """A row for each pair."""
    rows: list[Measured] = []
    messages = paired([(one, max(growth(sent, one), 1.0)) for one in stretches])
    seconds = paired([(one, growth(used, one)) for one in stretches])
    for counts, cpu in zip(messages, seconds, strict=True):
        row: Measured = {}
        for way in (QUIET, OBSERVED):
            row[f"{way}_messages_per_second"] = counts[way] / SECONDS
            row[f"{way}_broker_cpu_seconds_per_million"] = cpu[way] * MILLION / counts[way]
            row[f"{way}_cpu_seconds_per_second"] = cpu[way] / SECONDS
        row["messages_per_second_ratio"] = counts[OBSERVED] / counts[QUIET]
        row["broker_cpu_seconds_per_million_ratio"] = (
            cpu[OBSERVED] / counts[OBSERVED] / (cpu[QUIET] / counts[QUIET])
        )
        rows.append(row)
    return rows
