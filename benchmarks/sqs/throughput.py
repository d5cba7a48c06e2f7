"""How many messages a second go through the SQS API, in and out, side by side with emulators.

A round starts each system anew. One client process sends messages one by one, then in batches of
ten, then receives and deletes them in batches of ten. The systems take turns, so that a machine
that slows down meanwhile does so for all. Each works for a while beforehand that does not count;
ElasticMQ for longer, as Java compiles what it runs only after some seconds.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.orders import Moved
from benchmarks.peers.excuses import excused
from benchmarks.report import MIB, Finding, Measured, Progress, medians, number
from benchmarks.sqs import load
from benchmarks.sqs.systems import MOTO, PENSTOCK, Kind, emulators, versions

SECONDS = 1.0
SECONDS_QUICK = 0.5
ROUNDS = 3
ROUNDS_QUICK = 1
BODY_BYTES = 100
MILLION = 1_000_000
LOADS = {
    "send": load.send,
    "send by 10": load.send_batches,
    "receive, delete by 10": load.receive_and_delete,
}
AIMS = {"send by 10": 50_000, "receive, delete by 10": 25_000}

Key = tuple[str, str]
"""System and load."""


def measure_sqs(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: every system, every load."""
    rounds = ROUNDS_QUICK if quick else ROUNDS
    seconds = SECONDS_QUICK if quick else SECONDS
    others, absences = emulators()
    for line in absences:
        progress(line)
    measured: dict[Key, list[Measured]] = {}
    with ClientProcess() as client:
        for turn in progress.turns(rounds):
            found: dict[Key, Measured] = {}
            for kind in (PENSTOCK, *others):
                progress(f"SQS: {kind.name}, {turn} of {rounds}")
                with excused(kind, others, absences, progress):
                    found |= _one_round(kind, Path(directory) / "sqs", client, seconds)
            for key, row in found.items():
                _add_ratio(row, found[PENSTOCK.name, key[1]])
                measured.setdefault(key, []).append(row)
    numbers = [medians(rows) for rows in measured.values()]
    taken = max(len(rows) for rows in measured.values())
    return [_finding(numbers, taken, seconds, absences)]


def _one_round(
    kind: Kind, home: Path, client: ClientProcess, seconds: float
) -> dict[Key, Measured]:
    found: dict[Key, Measured] = {}
    with kind.make(home) as system:
        host = system.bootstrap
        order = load.Order(
            host=host,
            queue_url=client.call(load.create_queue, host, "benchmark"),
            connections=kind.connections,
            seconds=seconds,
            body_bytes=BODY_BYTES,
        )
        _warm_up(kind, order, client)
        for name, work in LOADS.items():
            before = system.usage()
            moved = client.call(work, order)
            after = system.usage()
            row = _row(kind, name, moved, after.cpu_seconds - before.cpu_seconds)
            row["server_memory_bytes"] = after.memory_bytes
            row["ready_seconds"] = system.ready_seconds
            found[kind.name, name] = row
    return found


def _warm_up(kind: Kind, order: load.Order, client: ClientProcess) -> None:
    """All loads in turn, on another queue, so that what is left in it is in nobody's way."""
    url = client.call(load.create_queue, order.host, "warm-up")
    warming = replace(order, queue_url=url, seconds=kind.warm_up_seconds / len(LOADS))
    for work in LOADS.values():
        client.call(work, warming)


def _row(kind: Kind, name: str, moved: Moved, server_cpu_seconds: float) -> Measured:
    millions = max(moved.messages, 1) / MILLION
    return {
        "system": kind.name,
        "durability": kind.durability,
        "load": name,
        "messages": moved.messages,
        "messages_per_second": moved.per_second,
        "server_cpu_seconds_per_million": server_cpu_seconds / millions,
        "client_cpu_seconds_per_million": moved.cpu_seconds / millions,
    }


def _add_ratio(row: Measured, ours: Measured) -> None:
    """How many times as fast as ours is, of the same round."""
    other = max(number(row, "messages_per_second"), 1.0)
    row["penstock_ratio"] = number(ours, "messages_per_second") / other


def _finding(
    numbers: list[Measured], rounds: int, seconds: float, absences: Sequence[str]
) -> Finding:
    order = list(LOADS)
    ordered = sorted(numbers, key=lambda row: order.index(str(row["load"])))
    rows = [
        (
            str(row["system"]),
            str(row["durability"]),
            str(row["load"]),
            f"{number(row, 'messages_per_second'):,.0f}",
            f"{number(row, 'penstock_ratio'):.1f}",
            f"{number(row, 'server_cpu_seconds_per_million'):.1f}",
            f"{number(row, 'client_cpu_seconds_per_million'):.1f}",
            f"{number(row, 'server_memory_bytes') / MIB:.0f}",
            f"{number(row, 'ready_seconds'):.2f}",
        )
        for row in ordered
    ]
    return Finding(
        name="sqs",
        title=f"SQS, one client process, messages of {BODY_BYTES} B: medians of {rounds} rounds"
        f" of {seconds:g} s",
        columns=(
            "system",
            "durable",
            "load",
            "messages/s",
            "ours ×",
            "server",
            "client",
            "MiB",
            "start s",
        ),
        rows=rows,
        notes=[
            "client: prepared requests over plain sockets, without signatures.",
            f"connections: {PENSTOCK.connections}; {MOTO.connections} to moto, which likes few.",
            "synced 1/1: acknowledged after fdatasync; memory: lost when the process ends.",
            "ours ×: how many times as fast Penstock is in the same round.",
            f"aims: {'; '.join(f'{name} {aim:,}' for name, aim in AIMS.items())} messages/s.",
            "server, client: processor seconds per million messages; start: until it answers.",
            *versions(),
            *absences,
        ],
        numbers=ordered,
    )
