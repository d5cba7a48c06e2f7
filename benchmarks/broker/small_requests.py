"""How many requests a second: every message is a batch and a request of its own.

This is the load that costs a broker most, as nothing is shared but the sync on disk. With one
request in flight the rate is one by the time an acknowledgement takes; with many, the processor is
the limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.broker import clients
from benchmarks.broker.apache import absence_of_kafka, apache_kafka
from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.orders import Production, Setting
from benchmarks.broker.systems import APACHE, MOCK, PENSTOCK, Kind, System, mock, penstock
from benchmarks.broker.throughput import (
    DURABLE_NOTE,
    MILLION,
    PARTITIONS,
    SINGLE_REQUESTS,
    prepare_topic,
    show_ratio,
    warm_up,
)
from benchmarks.peers.excuses import excused
from benchmarks.report import Finding, Measured, Progress, medians, number

VALUE_BYTES = 100
SECONDS = 1.0
SECONDS_QUICK = 0.4
ROUNDS = 3
ROUNDS_QUICK = 1
MESSAGES_MAX = 1_000_000

Key = tuple[str, int, str]
"""Family, nodes, load."""


@dataclass(frozen=True, slots=True)
class Load:
    """How many requests may wait for an answer on each connection."""

    name: str
    in_flight: int
    partitions: int

    @property
    def settings(self) -> dict[str, Setting]:
        """A short queue, or the end of the measurement would last longer than its beginning."""
        return {
            "linger.ms": 0,
            "batch.num.messages": 1,
            "max.in.flight.requests.per.connection": self.in_flight,
            "queue.buffering.max.messages": max(10, self.in_flight * 2),
        }


LOADS = (Load("100 in flight", 100, PARTITIONS), Load("1 in flight", 1, 1))


def measure_small_requests(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: one node and three, many requests in flight and one."""
    others, absences = apache_kafka(1), absence_of_kafka()
    rounds = ROUNDS_QUICK if quick else ROUNDS
    seconds = SECONDS_QUICK if quick else SECONDS
    measured: dict[Key, list[Measured]] = {}
    with ClientProcess() as client:
        for turn in progress.turns(rounds):
            found: dict[Key, Measured] = {}
            for kind in (penstock(1), *others, mock(1), penstock(3), mock(3)):
                progress(f"broker requests: {kind.name}, {turn} of {rounds}")
                home = Path(directory) / "requests"
                with excused(kind, others, absences, progress), kind.make(home) as system:
                    warm_up(kind, system, client, SINGLE_REQUESTS)
                    for load in LOADS:
                        row = _measure(kind, system, client, load, seconds)
                        found[kind.family, kind.nodes, load.name] = row
            _add_ratios(found)
            for key, row in found.items():
                measured.setdefault(key, []).append(row)
    numbers = [medians(rows) for rows in measured.values()]
    taken = max(len(rows) for rows in measured.values())
    return [_finding(numbers, taken, seconds, absences)]


def _measure(
    kind: Kind, system: System, client: ClientProcess, load: Load, seconds: float
) -> Measured:
    target = prepare_topic(system, client, f"requests-{load.in_flight}")
    if load.partitions < target.partitions:
        target = replace(target, partitions=load.partitions)
    order = Production(
        target=target,
        value_bytes=VALUE_BYTES,
        seconds=seconds,
        messages_max=MESSAGES_MAX,
        settings=load.settings,
    )
    before = system.usage()
    moved = client.call(clients.produce, order)
    used = system.usage().cpu_seconds - before.cpu_seconds
    millions = max(moved.messages, 1) / MILLION
    return {
        "system": kind.name,
        "durability": kind.durability,
        "load": load.name,
        "requests_per_second": moved.per_second,
        "broker_cpu_us_per_request": used / millions,
        "client_cpu_us_per_request": moved.cpu_seconds / millions,
    }


def _add_ratios(found: dict[Key, Measured]) -> None:
    for (family, nodes, load), row in found.items():
        if family == MOCK:
            continue
        own = number(row, "requests_per_second")
        limit = number(found[MOCK, nodes, load], "requests_per_second")
        row["client_limit_per_second"] = limit
        row["ratio_to_client_limit"] = own / max(limit, 1.0)
        kafka = found.get((APACHE, nodes, load))
        if kafka is not None and family == PENSTOCK:
            row["ratio_to_kafka"] = own / max(number(kafka, "requests_per_second"), 1.0)


def _finding(
    numbers: list[Measured], rounds: int, seconds: float, absences: Sequence[str]
) -> Finding:
    kafka = any("ratio_to_kafka" in row for row in numbers)
    rows = [
        (
            str(row["system"]),
            str(row["durability"]),
            str(row["load"]),
            f"{number(row, 'requests_per_second'):,.0f}",
            f"{number(row, 'client_limit_per_second'):,.0f}",
            show_ratio(row, "ratio_to_client_limit"),
            *([show_ratio(row, "ratio_to_kafka")] if kafka else []),
            f"{number(row, 'broker_cpu_us_per_request'):.0f}",
            f"{number(row, 'client_cpu_us_per_request'):.0f}",
        )
        for row in numbers
        if "ratio_to_client_limit" in row
    ]
    return Finding(
        name="broker-requests",
        title=f"Broker, requests with one message of {VALUE_BYTES} B: medians of {rounds} rounds "
        f"of {seconds:g} s, acks=all",
        columns=(
            "system",
            "durable",
            "load",
            "requests/s",
            "client's limit",
            "ratio",
            *(["of Kafka"] if kafka else []),
            "broker CPU µs",
            "client CPU µs",
        ),
        rows=rows,
        notes=[
            DURABLE_NOTE,
            f"in flight: on each connection; 100: to {PARTITIONS} partitions; 1: to one partition.",
            "client's limit: librdkafka's mock cluster, in the same round; ratio: to that.",
            "CPU µs: processor time of a request, all nodes together.",
            *absences,
        ],
        numbers=numbers,
    )
