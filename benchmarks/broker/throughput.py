"""How many messages a second one client gets in and out, and how much of that limit is its own.

A round starts each system anew, and one client process sends for a second or two, then reads back
all it has sent, first with small messages, then with larger ones. The mock cluster does the same
work in the same round; the ratio to it is what the broker costs the client. The mock cluster keeps
only a little of each topic, so some more topics are filled and read, again and again.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.broker import clients
from benchmarks.broker.apache import absence_of_kafka, apache_kafka
from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.orders import Consumption, Moved, Production, Setting, Target
from benchmarks.broker.systems import APACHE, MOCK, PENSTOCK, Kind, System, mock, penstock
from benchmarks.peers.excuses import excused
from benchmarks.report import KIB, MIB, Finding, Measured, Progress, medians, number

PARTITIONS = 4
SECONDS = 1.0
SECONDS_QUICK = 0.4
CONSUME_SECONDS_MAX = 20.0
WARM_UP_SECONDS = {APACHE: 3.0}
"""Java compiles what runs often: without some seconds of work that do not count, its interpreter
would be measured. What is compiled beforehand needs none."""
WARM_UP_BYTES_MAX = 48 * MIB
SINGLE_REQUESTS: Mapping[str, Setting] = {"linger.ms": 0, "batch.num.messages": 1}
ROUNDS = 3
ROUNDS_QUICK = 1
BYTES_MAX = 400 * MIB
"""Of one measurement, and three times that on disk for three nodes."""
MOCK_TOPICS_EXTRA = 4
MOCK_TOPIC_BYTES = 16 * MIB
MILLION = 1_000_000
WAYS = ("produce", "consume")
DURABLE_NOTE = (
    "synced 2/3: acknowledged after fdatasync on two of three nodes; cached: without any sync."
)

Key = tuple[str, int, str, int]
"""Family, nodes, way, bytes of a message."""


@dataclass(frozen=True, slots=True)
class Load:
    """Messages of one size."""

    name: str
    value_bytes: int


LOADS = (Load("100 B", 100), Load("1 KiB", KIB))


def measure_throughput(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: every system, both ways, both sizes."""
    # Of three nodes of Kafka, each a Java with a gigabyte, two processors would show only that.
    others, absences = apache_kafka(1), absence_of_kafka()
    rounds = ROUNDS_QUICK if quick else ROUNDS
    seconds = SECONDS_QUICK if quick else SECONDS
    measured: dict[Key, list[Measured]] = {}
    with ClientProcess() as client:
        for turn in progress.turns(rounds):
            found: dict[Key, Measured] = {}
            for kind in (penstock(1), *others, mock(1), penstock(3), mock(3)):
                progress(f"broker throughput: {kind.name}, {turn} of {rounds}")
                home = Path(directory) / "throughput"
                with excused(kind, others, absences, progress), kind.make(home) as system:
                    warm_up(kind, system, client)
                    for load in LOADS:
                        found |= _one_round(kind, system, client, load, seconds)
                shutil.rmtree(home, ignore_errors=True)
            _add_ratios(found)
            for key, row in found.items():
                measured.setdefault(key, []).append(row)
    numbers = [
        medians(rows) for _, rows in sorted(measured.items(), key=lambda one: _order(one[0]))
    ]
    taken = max(len(rows) for rows in measured.values())
    return [_finding(numbers, taken, seconds, absences)]


def prepare_topic(
    system: System, client: ClientProcess, topic: str, partitions: int = PARTITIONS
) -> Target:
    """A topic whose partitions have leaders."""
    target = Target(bootstrap=system.bootstrap, topic=topic, partitions=partitions)
    if system.creates_topics:
        client.call(clients.create_topics, target.bootstrap, {topic: partitions})
    client.call(clients.leaders, target)
    return target


def warm_up(
    kind: Kind, system: System, client: ClientProcess, settings: Mapping[str, Setting] | None = None
) -> None:
    """Work that does not count, for a system that needs it, on a topic of its own: in the batches
    or single requests that are to come, and so little that the disk has forgotten it by then."""
    seconds = WARM_UP_SECONDS.get(kind.family)
    if seconds is None:
        return
    target = prepare_topic(system, client, "warm-up")
    for load in LOADS:
        production = Production(
            target=target,
            value_bytes=load.value_bytes,
            seconds=seconds / len(LOADS),
            messages_max=WARM_UP_BYTES_MAX // load.value_bytes,
            settings=settings or {},
        )
        client.call(clients.produce, production)
    client.call(clients.consume, Consumption(target=target, seconds=seconds / 2))


def _one_round(
    kind: Kind, system: System, client: ClientProcess, load: Load, seconds: float
) -> dict[Key, Measured]:
    target = prepare_topic(system, client, f"messages-of-{load.value_bytes}")
    leaders = client.call(clients.leaders, target)
    production = Production(
        target=target,
        value_bytes=load.value_bytes,
        seconds=seconds,
        messages_max=BYTES_MAX // load.value_bytes,
    )
    found: dict[Key, Measured] = {}
    before = system.usage()
    moved = client.call(clients.produce, production)
    after = system.usage()
    used = after.cpu_seconds - before.cpu_seconds
    surplus = client.call(clients.ends, target) - moved.messages - target.partitions
    found[kind.family, kind.nodes, "produce", load.value_bytes] = {
        **_row(kind, load, "produce", moved, used),
        "leaders": leaders,
        "surplus_messages": surplus,
        "broker_memory_bytes": after.memory_bytes / kind.nodes,
    }
    consumption = Consumption(target=target, seconds=CONSUME_SECONDS_MAX)
    if kind.family == MOCK:
        more = _more_topics(system, client, production)
        consumption = Consumption(target=target, seconds=seconds, again=True, more_topics=more)
    before = system.usage()
    moved = client.call(clients.consume, consumption)
    after = system.usage()
    used = after.cpu_seconds - before.cpu_seconds
    found[kind.family, kind.nodes, "consume", load.value_bytes] = {
        **_row(kind, load, "consume", moved, used),
        "leaders": leaders,
        "surplus_messages": 0,
        "broker_memory_bytes": after.memory_bytes / kind.nodes,
    }
    return found


def _more_topics(system: System, client: ClientProcess, production: Production) -> tuple[str, ...]:
    """The mock cluster keeps too little of a topic to read for long; so there are some more."""
    topics = tuple(f"{production.target.topic}-{extra}" for extra in range(MOCK_TOPICS_EXTRA))
    for topic in topics:
        filling = replace(
            production,
            target=prepare_topic(system, client, topic),
            messages_max=MOCK_TOPIC_BYTES // production.value_bytes,
        )
        client.call(clients.produce, filling)
    return topics


def _row(kind: Kind, load: Load, way: str, moved: Moved, broker_cpu_seconds: float) -> Measured:
    millions = max(moved.messages, 1) / MILLION
    return {
        "system": kind.name,
        "durability": kind.durability,
        "way": way,
        "message": load.name,
        "messages": moved.messages,
        "messages_per_second": moved.per_second,
        "megabytes_per_second": moved.per_second * load.value_bytes / 1e6,
        "broker_cpu_seconds_per_million": broker_cpu_seconds / millions,
        "client_cpu_seconds_per_million": moved.cpu_seconds / millions,
    }


def _add_ratios(found: dict[Key, Measured]) -> None:
    """To the client's limit for all, and to Kafka for ours, where there is one."""
    for (family, nodes, way, size), row in found.items():
        if family == MOCK:
            continue
        own = number(row, "messages_per_second")
        limit = number(found[MOCK, nodes, way, size], "messages_per_second")
        row["client_limit_per_second"] = limit
        row["ratio_to_client_limit"] = own / max(limit, 1.0)
        kafka = found.get((APACHE, nodes, way, size))
        if kafka is not None and family == PENSTOCK:
            row["ratio_to_kafka"] = own / max(number(kafka, "messages_per_second"), 1.0)


def _order(key: Key) -> tuple[int, int, int, int]:
    """What is to be compared stands together."""
    family, nodes, way, size = key
    return nodes, WAYS.index(way), size, (PENSTOCK, APACHE, MOCK).index(family)


def _finding(
    numbers: list[Measured], rounds: int, seconds: float, absences: Sequence[str]
) -> Finding:
    kafka = any("ratio_to_kafka" in row for row in numbers)
    rows = [
        (
            str(row["system"]),
            str(row["durability"]),
            str(row["way"]),
            str(row["message"]),
            f"{number(row, 'messages_per_second'):,.0f}",
            show_ratio(row, "ratio_to_client_limit"),
            *([show_ratio(row, "ratio_to_kafka")] if kafka else []),
            f"{number(row, 'broker_cpu_seconds_per_million'):.2f}",
            f"{number(row, 'client_cpu_seconds_per_million'):.2f}",
            f"{number(row, 'broker_memory_bytes') / MIB:.0f}",
        )
        for row in numbers
        if "ratio_to_client_limit" in row
    ]
    surplus = sum(number(row, "surplus_messages") for row in numbers)
    return Finding(
        name="broker-throughput",
        title=f"Broker, one client process, {PARTITIONS} partitions: medians of {rounds} rounds "
        f"of {seconds:g} s, acks=all",
        columns=(
            "system",
            "durable",
            "way",
            "message",
            "messages/s",
            "of limit",
            *(["of Kafka"] if kafka else []),
            "broker",
            "client",
            "MiB",
        ),
        rows=rows,
        notes=[
            "client: confluent-kafka with its defaults, in a process; reading without a group.",
            DURABLE_NOTE,
            "of limit: messages/s by the client's own limit: what it does with librdkafka's mock",
            "cluster in the same round. broker, client: processor seconds per million messages.",
            "of Kafka: messages/s by those of Apache Kafka in the same round. MiB: of one broker.",
            "Kafka has worked for some seconds beforehand, so that Java had compiled what it runs.",
            "3 nodes: three processes on this machine, sharing its cores and its disk.",
            *absences,
            *([f"{surplus} more messages in the log than were sent"] if surplus else []),
        ],
        numbers=numbers,
    )


def show_ratio(row: Measured, name: str) -> str:
    """A ratio if there is one."""
    return f"{number(row, name):.2f}" if name in row else ""
