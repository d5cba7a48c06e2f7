"""Whether the broker's memory stays flat, and what a million messages cost it.

Ten million small messages go in, a million at a time, and the memory is read after each million;
then all are read back. What grows with the number of messages would show as a slope.
"""

from pathlib import Path

from benchmarks.broker import clients
from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.orders import Consumption, Production
from benchmarks.broker.programs import Usage
from benchmarks.broker.systems import penstock
from benchmarks.broker.throughput import MILLION, PARTITIONS, prepare_topic
from benchmarks.report import MIB, Finding, Measured, Progress, number

VALUE_BYTES = 100
STEPS = 10
STEP_MESSAGES = MILLION
STEP_MESSAGES_QUICK = 100_000
STEP_SECONDS_MAX = 20.0
CONSUME_SECONDS_MAX = 60.0


def measure_memory(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: memory and processor, step by step."""
    step = STEP_MESSAGES_QUICK if quick else STEP_MESSAGES
    with penstock(1).make(Path(directory) / "memory") as system, ClientProcess() as client:
        target = prepare_topic(system, client, "memory")
        numbers = [_row("started", 0, 0.0, Usage(), system.usage())]
        order = Production(
            target=target,
            value_bytes=VALUE_BYTES,
            seconds=STEP_SECONDS_MAX,
            messages_max=step,
        )
        sent = 0
        for turn in range(1, STEPS + 1):
            progress(f"broker memory: {step:,} messages, {turn} of {STEPS}")
            before = system.usage()
            moved = client.call(clients.produce, order)
            sent += moved.messages
            what = f"produced {sent / MILLION:.1f} M"
            numbers.append(_row(what, moved.messages, moved.seconds, before, system.usage()))
        progress(f"broker memory: reading {sent:,} messages")
        before = system.usage()
        reading = Consumption(target=target, seconds=CONSUME_SECONDS_MAX)
        moved = client.call(clients.consume, reading)
        what = f"consumed {moved.messages / MILLION:.1f} M"
        numbers.append(_row(what, moved.messages, moved.seconds, before, system.usage()))
    return [_finding(numbers, sent)]


def _row(what: str, messages: int, seconds: float, before: Usage, after: Usage) -> Measured:
    used = after.cpu_seconds - before.cpu_seconds
    return {
        "after": what,
        "messages_per_second": messages / seconds if seconds else 0.0,
        "memory_bytes": after.memory_bytes,
        "anonymous_bytes": after.anonymous_bytes,
        "memory_peak_bytes": after.memory_peak_bytes,
        "cpu_seconds_per_million": used / (messages / MILLION) if messages else 0.0,
    }


def _finding(numbers: list[Measured], sent: int) -> Finding:
    rows = [
        (
            str(row["after"]),
            f"{number(row, 'messages_per_second'):,.0f}" if row["messages_per_second"] else "",
            f"{number(row, 'memory_bytes') / MIB:.0f}",
            f"{number(row, 'anonymous_bytes') / MIB:.0f}",
            f"{number(row, 'memory_peak_bytes') / MIB:.0f}",
            f"{number(row, 'cpu_seconds_per_million'):.2f}" if row["messages_per_second"] else "",
        )
        for row in numbers
    ]
    middle, last = numbers[STEPS // 2], numbers[STEPS]
    grown = number(last, "anonymous_bytes") - number(middle, "anonymous_bytes")
    millions = sent / 2 / MILLION
    return Finding(
        name="broker-memory",
        title=f"Broker memory, one node, {sent / MILLION:g} million messages of {VALUE_BYTES} B, "
        f"{PARTITIONS} partitions, acks=all, fdatasync",
        columns=(
            "after",
            "messages/s",
            "memory MiB",
            "of its own MiB",
            "peak MiB",
            "broker CPU s/M",
        ),
        rows=rows,
        notes=[
            "memory: resident; of its own: without mapped files; CPU s/M: per million messages.",
            f"second half: {grown / MIB / millions:+.2f} MiB for each million messages.",
        ],
        numbers=numbers,
    )
