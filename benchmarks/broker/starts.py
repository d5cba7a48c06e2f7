"""How long until a broker serves: a fresh one, and one that was killed with data.

Ready is when the broker says so in its ready file, and Apache Kafka, where it is found, when it
answers which brokers there are; beside it stands when a new client had its first message
acknowledged, which is what ready should mean. Files were dropped from the page cache before a
restart. All nodes start at once, on this machine, and share its cores. Penstock's modules are
compiled beforehand, as an installation does it.
"""

import compileall
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import penstock as penstock_package
from benchmarks.broker import clients
from benchmarks.broker.apache import absence_of_kafka, apache_kafka
from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.orders import Production, Target
from benchmarks.broker.systems import Kind, System, penstock
from benchmarks.broker.throughput import PARTITIONS, prepare_topic
from benchmarks.logs import forget_pages
from benchmarks.peers.excuses import excused
from benchmarks.report import KIB, MIB, Finding, Measured, Progress, medians, number, size

ROUNDS = 3
ROUNDS_QUICK = 1
DATA_BYTES = 256 * MIB
DATA_BYTES_QUICK = 32 * MIB
FILL_SECONDS_MAX = 30.0


def measure_starts(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: fresh and after a kill, one node and three."""
    rounds = ROUNDS_QUICK if quick else ROUNDS
    data_bytes = DATA_BYTES_QUICK if quick else DATA_BYTES
    compileall.compile_dir(os.path.dirname(penstock_package.__file__), quiet=1)
    others, absences = apache_kafka(1), absence_of_kafka()
    measured: dict[tuple[str, str], list[Measured]] = {}
    with ClientProcess() as client:
        for turn in progress.turns(rounds):
            for kind in (penstock(1), *others, penstock(3)):
                progress(f"broker start: {kind.name}, {turn} of {rounds}")
                home = Path(directory) / "starts"
                with excused(kind, others, absences, progress):
                    for row in _measure(kind, home, client, data_bytes // kind.nodes):
                        measured.setdefault((kind.name, str(row["start"])), []).append(row)
                shutil.rmtree(home, ignore_errors=True)
    numbers = [medians(rows) for rows in measured.values()]
    _add_ratios(numbers)
    taken = max(len(rows) for rows in measured.values())
    return [_finding(numbers, taken, absences)]


def _add_ratios(numbers: list[Measured]) -> None:
    """Until it serves, by how long Penstock takes on one node."""
    ours = {str(row["start"]): row for row in numbers if row["system"] == penstock(1).name}
    for row in numbers:
        own = ours[str(row["start"])]
        row["penstock_ratio"] = _serving_seconds(own) / _serving_seconds(row)


def _serving_seconds(row: Measured) -> float:
    return number(row, "ready_seconds") + number(row, "first_message_seconds")


def _measure(kind: Kind, home: Path, client: ClientProcess, data_bytes: int) -> list[Measured]:
    with kind.make(home) as system:
        target = prepare_topic(system, client, "starts")
        ready = system.ready_seconds
        fresh = _row(kind, "fresh", system, ready, client.call(clients.send_one, target))
        order = Production(
            target=target,
            value_bytes=KIB,
            seconds=FILL_SECONDS_MAX,
            messages_max=data_bytes // KIB,
        )
        client.call(clients.produce, order)
        system.kill()
        forget_tree(home)
        return [fresh, _restart(kind, system, client, target)]


def _restart(kind: Kind, system: System, client: ClientProcess, target: Target) -> Measured:
    began = time.perf_counter()
    system.start()
    ready = time.perf_counter() - began
    first = client.call(clients.send_one, target)
    return _row(kind, "after kill -9", system, ready, first)


def forget_tree(home: Path) -> None:
    """Make the system drop what it holds of these files in memory."""
    for directory, _, names in os.walk(home):
        if names:
            forget_pages(directory)


def _row(kind: Kind, start: str, system: System, ready: float, first: float) -> Measured:
    usage = system.usage()
    data = sum(path.stat().st_size for path in system.directory.rglob("*") if path.is_file())
    return {
        "system": kind.name,
        "start": start,
        "data_bytes": data,
        "ready_seconds": ready,
        "first_message_seconds": first,
        "memory_bytes": usage.memory_bytes / kind.nodes,
        "cpu_seconds": usage.cpu_seconds / kind.nodes,
    }


def _finding(numbers: list[Measured], rounds: int, absences: Sequence[str]) -> Finding:
    rows = [
        (
            str(row["system"]),
            str(row["start"]),
            size(number(row, "data_bytes")),
            f"{number(row, 'ready_seconds'):.2f}",
            f"{number(row, 'first_message_seconds') * 1e3:.0f}",
            f"{number(row, 'memory_bytes') / MIB:.0f}",
            f"{number(row, 'cpu_seconds'):.2f}",
            f"{number(row, 'penstock_ratio'):.2f}",
        )
        for row in numbers
    ]
    return Finding(
        name="broker-start",
        title=f"Broker start, until it serves: medians of {rounds}",
        columns=(
            "system",
            "start",
            "files",
            "ready s",
            "then first message ms",
            "memory MiB",
            "CPU s",
            "ours ×",
        ),
        rows=rows,
        notes=[
            "ready: from the start of the process, or of all three, to the ready file of the last;",
            "Kafka: until it answers which brokers there are, its storage formatted beforehand.",
            f"first message: a new client connects and sends to each of {PARTITIONS} partitions.",
            "ours ×: until the first message, Penstock's time on one node by this one's.",
            *absences,
            "files: all nodes; space is taken for whole segments. memory and CPU: of one node.",
        ],
        numbers=numbers,
    )
