"""Share groups: how long several consumers take to empty one partition, beside Apache Kafka.

Each system has its topic filled, and a group that begins with the first message; then the consumers
come, all at once. Joining the group is part of the time, as it is for a user.
"""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.broker import clients, share_clients
from benchmarks.broker.apache import absence_of_kafka, apache_kafka
from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.orders import Production, Target
from benchmarks.broker.systems import APACHE, PENSTOCK, Kind, System, penstock
from benchmarks.broker.throughput import show_ratio
from benchmarks.peers.excuses import excused
from benchmarks.report import Finding, Measured, Progress, medians, number

MESSAGES = 10_000
MESSAGES_QUICK = 2_000
VALUE_BYTES = 100
CONSUMERS = (1, 8)
ROUNDS = 3
ROUNDS_QUICK = 1
FILL_SECONDS = 30.0
DRAIN_SECONDS = 90.0

Key = tuple[str, int]
"""Family, consumers."""


def measure_share_groups(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: one consumer and eight, on one partition."""
    others, absences = apache_kafka(1), absence_of_kafka()
    messages = MESSAGES_QUICK if quick else MESSAGES
    measured: dict[Key, list[Measured]] = {}
    with ClientProcess() as client:
        for turn in progress.turns(ROUNDS_QUICK if quick else ROUNDS):
            found: dict[Key, Measured] = {}
            for kind in (penstock(1), *others):
                progress(f"share groups: {kind.name}, {turn}")
                home = Path(directory) / "share"
                with excused(kind, others, absences, progress), kind.make(home) as system:
                    for consumers in CONSUMERS:
                        row = _measure(kind, system, client, consumers, messages)
                        found[kind.family, consumers] = row
            for (family, consumers), row in found.items():
                kafka = found.get((APACHE, consumers))
                if family == PENSTOCK and kafka is not None:
                    row["ratio_to_kafka"] = number(row, "messages_per_second") / number(
                        kafka, "messages_per_second"
                    )
            for key, row in found.items():
                measured.setdefault(key, []).append(row)
    rounds = max(len(rows) for rows in measured.values())
    return [_finding([medians(rows) for rows in measured.values()], rounds, messages, absences)]


def _measure(
    kind: Kind, system: System, client: ClientProcess, consumers: int, messages: int
) -> Measured:
    name = f"share-{consumers}"
    target = Target(bootstrap=system.bootstrap, topic=name, partitions=1)
    client.call(clients.create_topics, system.bootstrap, {name: 1})
    client.call(share_clients.read_from_the_beginning, system.bootstrap, name)
    order = Production(
        target=target, value_bytes=VALUE_BYTES, seconds=FILL_SECONDS, messages_max=messages
    )
    filled = client.call(clients.produce, order)
    before = system.usage()
    moved = client.call(
        share_clients.drain, target, name, consumers, filled.messages, DRAIN_SECONDS
    )
    used = system.usage().cpu_seconds - before.cpu_seconds
    return {
        "system": kind.name,
        "durability": kind.durability,
        "consumers": consumers,
        "messages": moved.messages,
        "seconds": moved.seconds,
        "messages_per_second": moved.per_second,
        "broker_cpu_us_per_message": used / moved.messages * 1e6,
    }


def _finding(
    numbers: list[Measured], rounds: int, messages: int, absences: Sequence[str]
) -> Finding:
    kafka = any("ratio_to_kafka" in row for row in numbers)
    rows = [
        (
            str(row["system"]),
            str(row["durability"]),
            f"{number(row, 'consumers'):.0f}",
            f"{number(row, 'seconds'):.2f} s",
            f"{number(row, 'messages_per_second'):,.0f}",
            *([show_ratio(row, "ratio_to_kafka")] if kafka else []),
            f"{number(row, 'broker_cpu_us_per_message'):.0f}",
        )
        for row in numbers
    ]
    return Finding(
        name="broker-share-groups",
        title=f"Share groups, {messages:,} messages of {VALUE_BYTES} B on one partition: "
        f"medians of {rounds} rounds",
        columns=(
            *("system", "durability", "consumers", "time", "messages/s"),
            *(["× Kafka"] if kafka else []),
            "broker CPU µs/message",
        ),
        rows=rows,
        notes=[
            "time: from the making of the consumers until the last one has closed, joining and",
            "accepting every message included.",
            *absences,
        ],
        numbers=numbers,
    )
