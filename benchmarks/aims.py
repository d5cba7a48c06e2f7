"""The aims Penstock has set itself, and whether the numbers at hand reach them.

Each is a ratio within one run, durable on both sides, so that it means the same on any machine. It
is a table and no verdict: no aim fails a run, and one whose numbers are not there, as a system was
not found on the machine, is left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.report import Finding, Measured, number

ONE = "Penstock, 1 node"
THREE = "Penstock, 3 nodes"
SYNCED = "synced"

Findings = Mapping[str, Sequence[Measured]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """One of them, with what was measured."""

    what: str
    wanted: float
    measured: float
    at_most: bool = False
    """A latency or a size: less is better."""
    unit: str = "×"

    @property
    def holds(self) -> bool:
        return self.measured <= self.wanted if self.at_most else self.measured >= self.wanted


def aims_of(findings: Findings) -> list[Aim]:
    """All that can be told from these numbers."""
    return [aim for part in PARTS for aim in part(findings)]


def finding(findings: Findings) -> Finding | None:
    """The table, if there is anything in it."""
    aims = aims_of(findings)
    if not aims:
        return None
    rows = [
        (
            aim.what,
            f"{'at most' if aim.at_most else 'at least'} {aim.wanted:g}{_unit(aim)}",
            f"{aim.measured:.3g}{_unit(aim)}",
            "yes" if aim.holds else "no",
        )
        for aim in aims
    ]
    numbers: list[Measured] = [
        {
            "aim": aim.what,
            "wanted": aim.wanted,
            "measured": aim.measured,
            "holds": str(aim.holds).lower(),
        }
        for aim in aims
    ]
    held = sum(aim.holds for aim in aims)
    return Finding(
        name="aims",
        title=f"Aims: {held} of {len(aims)} hold",
        columns=("what", "aim", "measured", "holds"),
        rows=rows,
        notes=[
            "compared is what syncs before it acknowledges, but for Kafka, which never does, and",
            "for emulators of SQS. Of several sizes and ways each is an aim of its own.",
        ],
        numbers=numbers,
    )


def _unit(aim: Aim) -> str:
    return aim.unit if aim.unit == "×" else f" {aim.unit}"


def _log_path(findings: Findings) -> Iterator[Aim]:
    for row in findings.get("broker-throughput", ()):
        if row["system"] == ONE and "ratio_to_kafka" in row:
            what = f"Kafka's protocol, {row['way']} {row['message']}, of Apache Kafka's"
            yield Aim(what=what, wanted=1.0, measured=number(row, "ratio_to_kafka"))
    latency = _by_system(findings.get("broker-latency", ()))
    kafka = _of(latency, "Kafka", durable=False)
    if ONE in latency:
        for row in kafka:
            ratio = number(latency[ONE], "p99_ms") / number(row, "p99_ms")
            what = "Kafka's protocol, p99 at 500 messages/s, of Apache Kafka's"
            yield Aim(what=what, wanted=1.0, measured=ratio, at_most=True)
    if THREE in latency:
        p99 = number(latency[THREE], "p99_ms")
        what = "Kafka's protocol, p99 at 500 messages/s, three nodes on two cores"
        yield Aim(what=what, wanted=10.0, measured=p99, at_most=True, unit="ms")
    yield from _shares(findings, "broker-memory", "memory_bytes", "memory under load", 0.25)
    yield from _shares(findings, "broker-start", "ready_seconds", "start", 0.1)


def _shares(findings: Findings, name: str, value: str, what: str, wanted: float) -> Iterator[Aim]:
    """Of Kafka's, at most."""
    rows = [row for row in findings.get(name, ()) if row.get("start", "fresh") == "fresh"]
    ours = [number(row, value) for row in rows if row.get("system") == ONE]
    theirs = [number(row, value) for row in rows if str(row.get("system")).startswith("Kafka")]
    if ours and theirs:
        share = max(ours) / max(theirs)
        yield Aim(what=f"{what}, of Apache Kafka's", wanted=wanted, measured=share, at_most=True)


_QUEUES = {"RabbitMQ quorum": 3.0, "Redis": 1.5, "NATS": 1.5, "PostgreSQL": 1.5}


def _queue_path(findings: Findings) -> Iterator[Aim]:
    rows = findings.get("native-throughput", ())
    for name, wanted in _QUEUES.items():
        for row in rows:
            system = str(row["system"])
            if system.startswith(name) and _is_durable(row):
                what = f"queues, {row['way']} {row.get('message_bytes', 100)} B, of {system}"
                yield Aim(what=what, wanted=wanted, measured=number(row, "penstock_ratio"))
    latency = _by_system(findings.get("native-latency", ()))
    if ONE in latency:
        for row in _of(latency, "Redis"):
            for share in ("p50", "p99"):
                ratio = number(latency[ONE], f"{share}_ms") / number(row, f"{share}_ms")
                what = f"queues, {share} at 500 messages/s, of {row['system']}"
                yield Aim(what=what, wanted=1.5, measured=ratio, at_most=True)


def _sqs_path(findings: Findings) -> Iterator[Aim]:
    rows = findings.get("sqs", ())
    for load in dict.fromkeys(str(row["load"]) for row in rows):
        rates = {
            str(row["system"]): number(row, "messages_per_second")
            for row in rows
            if row["load"] == load
        }
        ours = rates.get(ONE)
        if ours is None:
            continue
        others = {name: rate for name, rate in rates.items() if not name.startswith("Penstock")}
        moto = [rate for name, rate in others.items() if name.startswith("moto")]
        rest = [rate for name, rate in others.items() if not name.startswith("moto")]
        if moto:
            ratio = ours / max(*moto, 1e-9)
            yield Aim(what=f"SQS, {load}, of moto's server", wanted=150, measured=ratio)
        if rest:
            ratio = ours / max(*rest, 1e-9)
            yield Aim(what=f"SQS, {load}, of the fastest other", wanted=5, measured=ratio)


def _scaling(findings: Findings) -> Iterator[Aim]:
    curves = (
        ("scaling-backlog", "backlog_messages", 10_000_000, 0.8, "10 million waiting"),
        ("scaling-partitions", "partitions", 1_000, 0.7, "1,000 partitions"),
        ("scaling-replicas", "nodes", 3, 0.4, "three replicas"),
    )
    for name, axis, size, wanted, words in curves:
        for row in findings.get(name, ()):
            if row[axis] == size and "keys" not in str(row["way"]):
                what = f"{row['way']} with {words}, of the smallest"
                yield Aim(what=what, wanted=wanted, measured=number(row, "ratio_to_first"))


PARTS: Sequence[Callable[[Findings], Iterable[Aim]]] = (
    _log_path,
    _queue_path,
    _sqs_path,
    _scaling,
)


def _by_system(rows: Iterable[Measured]) -> dict[str, Measured]:
    return {str(row["system"]): row for row in rows}


def _is_durable(row: Measured) -> bool:
    return str(row.get("durability", "")).startswith(SYNCED)


def _of(rows: Mapping[str, Measured], name: str, *, durable: bool = True) -> list[Measured]:
    return [
        row
        for system, row in rows.items()
        if system.startswith(name) and (_is_durable(row) or not durable)
    ]
