"""How long a message takes through a queue at 500 a second: to be acknowledged, to be received.

Sender and receiver are processes of their own, but for the embedded engine, which lives in one.
Both are as simple as can be: the sender waits for each acknowledgement, the receiver waits for
messages and acknowledges what it got. The first second of a round does not count.
"""

import time
from pathlib import Path

from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.orders import Schedule, Target
from benchmarks.broker.schedules import Arrivals, Sent
from benchmarks.native import loads
from benchmarks.native.systems import embedded, penstock
from benchmarks.peers.systems import QueueKind, excused, peers
from benchmarks.report import Finding, Measured, Progress, medians, number, quantile

PER_SECOND = 500
BODY_BYTES = 100
SECONDS = 4
SECONDS_QUICK = 2
WARM_UP_SECONDS = 1
ROUNDS = 3
ROUNDS_QUICK = 1
_HEAD_START_SECONDS = 1.0
"""From the order to the first message: time to connect."""


def measure_native_latency(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: every system."""
    others, absences = peers()
    for line in absences:
        progress(line)
    rounds = ROUNDS_QUICK if quick else ROUNDS
    seconds = SECONDS_QUICK if quick else SECONDS
    measured: dict[str, list[Measured]] = {}
    with ClientProcess() as sender, ClientProcess() as receiver:
        for turn in range(1, rounds + 1):
            for kind in (penstock(), embedded(), *others):
                progress(f"native latency: {kind.name}, {turn} of {rounds}")
                with excused(kind, others, absences, progress):
                    home = Path(directory) / "native-latency"
                    row = measure_latency_once(kind, home, sender, receiver, seconds)
                    measured.setdefault(kind.name, []).append(row)
    numbers = [medians(rows) for rows in measured.values()]
    for row, rows in zip(numbers, measured.values(), strict=True):
        # The worst of all rounds, as the median of the worst would hide the very thing.
        row["max_ms"] = max(number(one, "max_ms") for one in rows)
        row["missing_messages"] = sum(number(one, "missing_messages") for one in rows)
        row["duplicate_messages"] = sum(number(one, "duplicate_messages") for one in rows)
    return [_finding(numbers, absences, rounds, seconds)]


def measure_latency_once(
    kind: QueueKind, home: Path, sender: ClientProcess, receiver: ClientProcess, seconds: int
) -> Measured:
    """One system, so many seconds after the first."""
    with kind.make(home) as system:
        target = Target(bootstrap=system.bootstrap, topic="latency", partitions=1)
        sender.call(kind.loads.prepare, target.bootstrap, target.topic)
        schedule = Schedule(
            target=target,
            value_bytes=BODY_BYTES,
            per_second=PER_SECOND,
            first_ns=time.monotonic_ns() + int(_HEAD_START_SECONDS * 1e9),
            count=PER_SECOND * (WARM_UP_SECONDS + seconds),
        )
        sent, arrivals = _drive(kind, schedule, sender, receiver)
        system.usage()
    counted = range(PER_SECOND * WARM_UP_SECONDS, schedule.count)
    acknowledged = [(sent.acknowledged_ns[one] - schedule.due_ns(one)) / 1e6 for one in counted]
    received = [
        (arrivals.at_ns[one] - schedule.due_ns(one)) / 1e6 for one in counted if arrivals.at_ns[one]
    ]
    return {
        "system": kind.name,
        "durability": kind.durability,
        "messages": len(received),
        "send_p50_ms": quantile(acknowledged, 0.5),
        "send_p99_ms": quantile(acknowledged, 0.99),
        "p50_ms": quantile(received, 0.5),
        "p99_ms": quantile(received, 0.99),
        "max_ms": max(received),
        "missing_messages": len(counted) - len(received),
        "duplicate_messages": arrivals.duplicates,
        "sender_late_p99_ms": quantile([sent.late_ns[one] / 1e6 for one in counted], 0.99),
    }


def _drive(
    kind: QueueKind, schedule: Schedule, sender: ClientProcess, receiver: ClientProcess
) -> tuple[Sent, Arrivals]:
    if kind.shares_process:
        return sender.call(loads.both_on_schedule, schedule)
    receiving = receiver.begin(kind.loads.receive_on_schedule, schedule)
    sending = sender.begin(kind.loads.send_on_schedule, schedule)
    return sending.result(), receiving.result()


def _finding(numbers: list[Measured], absences: list[str], rounds: int, seconds: int) -> Finding:
    rows = [
        (
            str(row["system"]),
            *(
                f"{number(row, name):.2f}"
                for name in ("send_p50_ms", "send_p99_ms", "p50_ms", "p99_ms")
            ),
            f"{number(row, 'max_ms'):.1f}",
            f"{number(row, 'missing_messages')}",
            f"{number(row, 'sender_late_p99_ms'):.2f}",
        )
        for row in numbers
    ]
    return Finding(
        name="native-latency",
        title=f"Queues, {PER_SECOND} messages/s of {BODY_BYTES} B, one by one: medians of"
        f" {rounds} rounds of {seconds} s",
        columns=(
            "system",
            "send p50 ms",
            "p99 ms",
            "send to receive p50 ms",
            "p99 ms",
            "max ms",
            "missing",
            "sender late p99 ms",
        ),
        rows=rows,
        notes=[
            "every system acknowledges what it has synced to the disk.",
            "counted from when a message was due, by a fixed schedule: no wait is hidden.",
            "PostgreSQL's receiver waits for NOTIFY; the others' wait for messages themselves.",
            "max: the worst of all rounds; sender late: how late the sender itself was.",
            *absences,
        ],
        numbers=numbers,
    )
