"""Whether the broker's memory stays flat, what a million messages cost it, and what Kafka takes.

Millions of small messages go in, one million at a time, and the memory is read after each; then all
are read back. What grows with the number of messages would show as a slope. Apache Kafka, where it
is found, does the same work after us with the heap its own script gives it; of its steps only the
ends are shown.
"""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.broker import clients
from benchmarks.broker.apache import absence_of_kafka, apache_kafka
from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.orders import Consumption, Production
from benchmarks.broker.programs import Usage
from benchmarks.broker.systems import Kind, penstock
from benchmarks.broker.throughput import MILLION, PARTITIONS, prepare_topic
from benchmarks.peers.excuses import excused
from benchmarks.report import MIB, Finding, Measured, Progress, number

VALUE_BYTES = 100
STEPS = 6
STEP_MESSAGES = MILLION
STEP_MESSAGES_QUICK = 100_000
STEP_SECONDS_MAX = 20.0
CONSUME_SECONDS_MAX = 60.0


def measure_memory(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: memory and processor, step by step."""
    step = STEP_MESSAGES_QUICK if quick else STEP_MESSAGES
    others, absences = apache_kafka(1), absence_of_kafka()
    numbers: list[Measured] = []
    with ClientProcess() as client:
        for kind in (penstock(1), *others):
            with excused(kind, others, absences, progress):
                numbers += _measure(kind, Path(directory) / "memory", client, step, progress)
    _add_ratios(numbers)
    return [_finding(numbers, absences)]


def _measure(
    kind: Kind, home: Path, client: ClientProcess, step: int, progress: Progress
) -> list[Measured]:
    with kind.make(home) as system:
        target = prepare_topic(system, client, "memory")
        numbers = [_row(kind, "started", 0, 0.0, Usage(), system.usage())]
        order = Production(
            target=target,
            value_bytes=VALUE_BYTES,
            seconds=STEP_SECONDS_MAX,
            messages_max=step,
        )
        sent = 0
        for turn in range(1, STEPS + 1):
            progress(f"broker memory: {kind.name}, {step:,} messages, {turn} of {STEPS}")
            before = system.usage()
            moved = client.call(clients.produce, order)
            sent += moved.messages
            what = f"produced {sent / MILLION:.1f} M"
            row = _row(kind, what, moved.messages, moved.seconds, before, system.usage())
            numbers.append(row)
        progress(f"broker memory: {kind.name}, reading {sent:,} messages")
        before = system.usage()
        reading = Consumption(target=target, seconds=CONSUME_SECONDS_MAX)
        moved = client.call(clients.consume, reading)
        what = f"consumed {moved.messages / MILLION:.1f} M"
        row = _row(kind, what, moved.messages, moved.seconds, before, system.usage())
        return [*numbers, row]


def _row(
    kind: Kind, what: str, messages: int, seconds: float, before: Usage, after: Usage
) -> Measured:
    used = after.cpu_seconds - before.cpu_seconds
    return {
        "system": kind.name,
        "after": what,
        "messages": messages,
        "messages_per_second": messages / seconds if seconds else 0.0,
        "memory_bytes": after.memory_bytes,
        "anonymous_bytes": after.anonymous_bytes,
        "memory_peak_bytes": after.memory_peak_bytes,
        "cpu_seconds_per_million": used / (messages / MILLION) if messages else 0.0,
    }


def _add_ratios(numbers: list[Measured]) -> None:
    """Of another's memory, what ours took at the same point of the same work."""
    ours = [row for row in numbers if row["system"] == penstock(1).name]
    theirs = [row for row in numbers if row["system"] != penstock(1).name]
    for own, other in zip(ours, theirs, strict=False):
        ratio = number(own, "memory_bytes") / number(other, "memory_bytes")
        own["memory_ratio_to_kafka"] = ratio


def _finding(numbers: Sequence[Measured], absences: Sequence[str]) -> Finding:
    ours = [row for row in numbers if row["system"] == penstock(1).name]
    shown = [*ours, *_ends([row for row in numbers if row["system"] != penstock(1).name])]
    rows = [
        (
            str(row["system"]),
            str(row["after"]),
            f"{number(row, 'messages_per_second'):,.0f}" if row["messages_per_second"] else "",
            f"{number(row, 'memory_bytes') / MIB:.0f}",
            f"{number(row, 'anonymous_bytes') / MIB:.0f}",
            f"{number(row, 'memory_peak_bytes') / MIB:.0f}",
            _of_kafka(row),
            f"{number(row, 'cpu_seconds_per_million'):.2f}" if row["messages_per_second"] else "",
        )
        for row in shown
    ]
    sent = sum(number(row, "messages") for row in ours[1 : STEPS + 1])
    middle, last = ours[STEPS // 2], ours[STEPS]
    grown = number(last, "anonymous_bytes") - number(middle, "anonymous_bytes")
    millions = max(sent, 1) / 2 / MILLION
    return Finding(
        name="broker-memory",
        title=f"Broker memory, one node, {sent / MILLION:g} million messages of {VALUE_BYTES} B, "
        f"{PARTITIONS} partitions, acks=all",
        columns=(
            "system",
            "after",
            "messages/s",
            "MiB",
            "own MiB",
            "peak MiB",
            "of Kafka's",
            "CPU s/M",
        ),
        rows=rows,
        notes=[
            "MiB: resident; own: without mapped files; CPU s/M: seconds per million messages.",
            f"second half: {grown / MIB / millions:+.2f} MiB for each million messages.",
            "of Kafka's: our memory by Kafka's after the same work, which came after ours.",
            *absences,
        ],
        numbers=numbers,
    )


def _ends(rows: list[Measured]) -> list[Measured]:
    """Of many steps, the first and the last two."""
    return [rows[0], *rows[-2:]] if rows else []


def _of_kafka(row: Measured) -> str:
    ratio = "memory_ratio_to_kafka"
    return f"{number(row, ratio):.2f}" if ratio in row else ""
