"""From sending to receiving, at a rate far below what the broker can take.

The schedule is fixed beforehand (`benchmarks.broker.schedules`), so that no wait is hidden. The
first second of each round does not count: connections are new then.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.broker.apache import absence_of_kafka, apache_kafka
from benchmarks.broker.client_process import ClientProcess, both_results
from benchmarks.broker.orders import Schedule
from benchmarks.broker.quiet_disk import wait_until_quiet
from benchmarks.broker.schedules import receive_all, send_on_schedule
from benchmarks.broker.systems import Kind, penstock
from benchmarks.broker.throughput import (
    DURABLE_NOTE,
    PARTITIONS,
    SINGLE_REQUESTS,
    prepare_topic,
    warm_up,
)
from benchmarks.peers.excuses import excused
from benchmarks.report import Finding, Measured, Progress, medians, number, quantile

PER_SECOND = 500
VALUE_BYTES = 100
SECONDS = 4
SECONDS_QUICK = 2
WARM_UP_SECONDS = 1
ROUNDS = 3
ROUNDS_QUICK = 1
RATIOS = {"p50_ms": "penstock_p50_ratio", "p99_ms": "penstock_p99_ratio"}
_HEAD_START_SECONDS = 1.0
"""From the order to the first message: time to connect."""


def measure_latency(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: one node and three."""
    others, absences = apache_kafka(1), absence_of_kafka()
    rounds = ROUNDS_QUICK if quick else ROUNDS
    seconds = SECONDS_QUICK if quick else SECONDS
    measured: dict[str, list[Measured]] = {}
    with ClientProcess() as sender, ClientProcess() as receiver:
        for turn in progress.turns(rounds):
            found: dict[str, Measured] = {}
            for kind in (penstock(1), *others, penstock(3)):
                progress(f"broker latency: {kind.name}, {turn} of {rounds}")
                with excused(kind, others, absences, progress):
                    found[kind.name] = _measure(kind, directory, sender, receiver, seconds)
            for row in found.values():
                _add_ratios(row, found[penstock(1).name])
                measured.setdefault(str(row["system"]), []).append(row)
    numbers = [medians(rows) for rows in measured.values()]
    for row, rows in zip(numbers, measured.values(), strict=True):
        # The worst of all rounds, as the median of the worst would hide the very thing.
        row["max_ms"] = max(number(one, "max_ms") for one in rows)
        row["missing_messages"] = sum(number(one, "missing_messages") for one in rows)
        row["duplicate_messages"] = sum(number(one, "duplicate_messages") for one in rows)
    taken = max(len(rows) for rows in measured.values())
    return [_finding(numbers, taken, seconds, absences)]


def _measure(
    kind: Kind, directory: str, sender: ClientProcess, receiver: ClientProcess, seconds: int
) -> Measured:
    with kind.make(Path(directory) / "latency") as system:
        warm_up(kind, system, sender, SINGLE_REQUESTS)
        target = prepare_topic(system, sender, "latency")
        wait_until_quiet(Path(directory))
        schedule = Schedule(
            target=target,
            value_bytes=VALUE_BYTES,
            per_second=PER_SECOND,
            first_ns=time.monotonic_ns() + int(_HEAD_START_SECONDS * 1e9),
            count=PER_SECOND * (WARM_UP_SECONDS + seconds),
        )
        receiving = receiver.begin(receive_all, schedule)
        sending = sender.begin(send_on_schedule, schedule)
        sent, arrivals = both_results(sending, receiving)
        system.usage()
    counted = range(PER_SECOND * WARM_UP_SECONDS, schedule.count)
    acknowledged = [(sent.acknowledged_ns[one] - schedule.due_ns(one)) / 1e6 for one in counted]
    latencies = [
        (arrivals.at_ns[one] - schedule.due_ns(one)) / 1e6 for one in counted if arrivals.at_ns[one]
    ]
    return {
        "system": kind.name,
        "durability": kind.durability,
        "messages": len(latencies),
        "acknowledged_p50_ms": quantile(acknowledged, 0.5),
        "acknowledged_p99_ms": quantile(acknowledged, 0.99),
        "p50_ms": quantile(latencies, 0.5),
        "p99_ms": quantile(latencies, 0.99),
        "p999_ms": quantile(latencies, 0.999),
        "max_ms": max(latencies),
        "sender_late_p99_ms": quantile([sent.late_ns[one] / 1e6 for one in counted], 0.99),
        "missing_messages": schedule.count - sum(1 for one in arrivals.at_ns if one),
        "duplicate_messages": arrivals.duplicates,
    }


def _add_ratios(row: Measured, ours: Measured) -> None:
    """How many times as long Penstock takes on one node, in the same round."""
    for name, ratio in RATIOS.items():
        row[ratio] = number(ours, name) / number(row, name)


def _finding(
    numbers: list[Measured], rounds: int, seconds: int, absences: Sequence[str]
) -> Finding:
    rows = [
        (
            str(row["system"]),
            str(row["durability"]),
            f"{number(row, 'acknowledged_p50_ms'):.2f}",
            f"{number(row, 'acknowledged_p99_ms'):.2f}",
            f"{number(row, 'p50_ms'):.2f}",
            f"{number(row, 'p99_ms'):.2f}",
            f"{number(row, 'p999_ms'):.2f}",
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
        name="broker-latency",
        title=f"Broker, from sending to receiving at {PER_SECOND} messages/s of {VALUE_BYTES} B: "
        f"medians of {rounds} rounds of {seconds} s",
        columns=(
            "system",
            "durable",
            "ack p50",
            "ack p99",
            "p50",
            "p99",
            "p99.9",
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
            f"sender and receiver are processes of their own; {PARTITIONS} partitions; linger 0.",
            "max: the worst of all rounds; late: how late the sender itself was, p99.",
            "×: how many times as long Penstock, 1 node, takes to receive, in the same round.",
            *absences,
            *wrong,
        ],
        numbers=numbers,
    )
