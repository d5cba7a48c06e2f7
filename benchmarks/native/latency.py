"""How long a message takes through a queue at 500 a second: to be acknowledged, to be received.

Sender and receiver are processes of their own, but for the embedded engine, which lives in one.
Both are as simple as can be: the sender waits for each acknowledgement, the receiver waits for
messages and acknowledges what it got. The first moments of a round do not count.
"""

import time
from pathlib import Path

from benchmarks.broker.client_process import ClientProcess, both_results
from benchmarks.broker.orders import Schedule, Target
from benchmarks.broker.quiet_disk import wait_until_quiet
from benchmarks.broker.schedules import Arrivals, Sent
from benchmarks.native import loads
from benchmarks.native.systems import embedded, penstock
from benchmarks.peers.excuses import excused
from benchmarks.peers.systems import (
    DURABLE_NOTE,
    QueueKind,
    import_clients,
    peers,
    versions,
)
from benchmarks.report import Finding, Measured, Progress, medians, number, quantile

PER_SECOND = 500
BODY_BYTES = 100
SECONDS = 3
SECONDS_QUICK = 1
WARM_UP_MESSAGES = 1_000
ROUNDS = 3
ROUNDS_QUICK = 1
RATIOS = {"p50_ms": "penstock_p50_ratio", "p99_ms": "penstock_p99_ratio"}
_HEAD_START_SECONDS = 0.5
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
        sender.call(import_clients)
        receiver.call(import_clients)
        for turn in progress.turns(rounds):
            found: dict[str, Measured] = {}
            for kind in (penstock(), embedded(), *others):
                progress(f"native latency: {kind.name}, {turn} of {rounds}")
                with excused(kind, others, absences, progress):
                    home = Path(directory) / "native-latency"
                    found[kind.name] = measure_latency_once(kind, home, sender, receiver, seconds)
            for name, row in found.items():
                _add_ratios(row, found[penstock().name])
                measured.setdefault(name, []).append(row)
    numbers = [medians(rows) for rows in measured.values()]
    for row, rows in zip(numbers, measured.values(), strict=True):
        # The worst of all rounds, as the median of the worst would hide the very thing.
        row["max_ms"] = max(number(one, "max_ms") for one in rows)
        row["missing_messages"] = sum(number(one, "missing_messages") for one in rows)
        row["duplicate_messages"] = sum(number(one, "duplicate_messages") for one in rows)
    taken = max(len(rows) for rows in measured.values())
    return [_finding(numbers, absences, taken, seconds)]


def measure_latency_once(
    kind: QueueKind, home: Path, sender: ClientProcess, receiver: ClientProcess, seconds: int
) -> Measured:
    """One system, so many seconds after the first."""
    with kind.make(home) as system:
        target = Target(bootstrap=system.bootstrap, topic="latency", partitions=1)
        sender.call(kind.loads.prepare, target.bootstrap, target.topic)
        wait_until_quiet(home.parent)
        schedule = Schedule(
            target=target,
            value_bytes=BODY_BYTES,
            per_second=PER_SECOND,
            first_ns=time.monotonic_ns() + int(_HEAD_START_SECONDS * 1e9),
            count=WARM_UP_MESSAGES + PER_SECOND * seconds,
        )
        sent, arrivals = _drive(kind, schedule, sender, receiver)
        system.usage()
    counted = range(WARM_UP_MESSAGES, schedule.count)
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


def _add_ratios(row: Measured, ours: Measured) -> None:
    """How many times as long ours takes, in the same round."""
    for name, ratio in RATIOS.items():
        row[ratio] = number(ours, name) / number(row, name)


def _drive(
    kind: QueueKind, schedule: Schedule, sender: ClientProcess, receiver: ClientProcess
) -> tuple[Sent, Arrivals]:
    if kind.shares_process:
        return sender.call(loads.both_on_schedule, schedule)
    receiving = receiver.begin(kind.loads.receive_on_schedule, schedule)
    sending = sender.begin(kind.loads.send_on_schedule, schedule)
    return both_results(sending, receiving)


def _finding(numbers: list[Measured], absences: list[str], rounds: int, seconds: int) -> Finding:
    rows = [
        (
            str(row["system"]),
            str(row["durability"]),
            *(
                f"{number(row, name):.2f}"
                for name in ("send_p50_ms", "send_p99_ms", "p50_ms", "p99_ms")
            ),
            f"{number(row, 'max_ms'):.1f}",
            *(f"{number(row, ratio):.2f}" for ratio in RATIOS.values()),
            f"{number(row, 'sender_late_p99_ms'):.2f}",
        )
        for row in numbers
    ]
    wrong = [
        f"{row['system']}: {row[name]} {name.replace('_', ' ')}"
        for row in numbers
        for name in ("missing_messages", "duplicate_messages")
        if row[name]
    ]
    return Finding(
        name="native-latency",
        title=f"Queues, {PER_SECOND} messages/s of {BODY_BYTES} B, one by one: medians of"
        f" {rounds} rounds of {seconds} s",
        columns=(
            "system",
            "durable",
            "ack p50",
            "ack p99",
            "p50",
            "p99",
            "max",
            "× p50",
            "× p99",
            "late",
        ),
        rows=rows,
        notes=[
            DURABLE_NOTE,
            "in ms; ack: until it is acknowledged; the others: until it is received;",
            "counted from when a message was due, by a fixed schedule: no wait is hidden.",
            "PostgreSQL's receiver waits for NOTIFY; the others' wait for messages themselves.",
            "Penstock's receiver acknowledges while it waits for the next; the others' in turn.",
            "the disk had come to rest before each: see quiet_disk.py.",
            "max: the worst of all rounds; late: how late the sender itself was, p99.",
            "×: how many times as long Penstock, 1 node, takes to receive, in the same round.",
            *versions(),
            *wrong,
            *absences,
        ],
        numbers=numbers,
    )
