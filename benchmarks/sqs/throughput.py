"""How many messages a second go through the SQS API, in and out, side by side with moto.

A round starts each system anew. One client process sends messages one by one, then in batches of
ten, then receives and deletes them in batches of ten. The systems take turns, so that a machine
that slows down meanwhile does so for both.
"""

from pathlib import Path

from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.orders import Moved
from benchmarks.report import Finding, Measured, Progress, medians, number
from benchmarks.sqs import load
from benchmarks.sqs.systems import MOTO, PENSTOCK, Kind, systems

SECONDS = 2.0
SECONDS_QUICK = 0.7
ROUNDS = 3
ROUNDS_QUICK = 1
BODY_BYTES = 100
MILLION = 1_000_000
LOADS = {
    "send": load.send,
    "send, batches of 10": load.send_batches,
    "receive and delete, batches of 10": load.receive_and_delete,
}
AIMS = {"send, batches of 10": 50_000, "receive and delete, batches of 10": 25_000}

Key = tuple[str, str]
"""System and load."""


def measure_sqs(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: every system, every load."""
    rounds = ROUNDS_QUICK if quick else ROUNDS
    seconds = SECONDS_QUICK if quick else SECONDS
    measured: dict[Key, list[Measured]] = {}
    with ClientProcess() as client:
        for turn in range(1, rounds + 1):
            found: dict[Key, Measured] = {}
            for kind in systems():
                progress(f"SQS: {kind.name}, {turn} of {rounds}")
                found |= _one_round(kind, Path(directory) / "sqs", client, seconds)
            for key, row in found.items():
                _add_ratio(row, found.get((MOTO.name, key[1])))
                measured.setdefault(key, []).append(row)
    numbers = [medians(rows) for rows in measured.values()]
    return [_finding(numbers, rounds, seconds)]


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
        for name, work in LOADS.items():
            before = system.usage()
            moved = client.call(work, order)
            used = system.usage().cpu_seconds - before.cpu_seconds
            found[kind.name, name] = _row(kind, name, moved, used)
    return found


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


def _add_ratio(row: Measured, moto: Measured | None) -> None:
    if moto is not None and row["system"] == PENSTOCK.name:
        other = max(number(moto, "messages_per_second"), 1.0)
        row["ratio_to_moto"] = number(row, "messages_per_second") / other


def _finding(numbers: list[Measured], rounds: int, seconds: float) -> Finding:
    rows = [
        (
            str(row["system"]),
            str(row["durability"]),
            str(row["load"]),
            f"{number(row, 'messages_per_second'):,.0f}",
            _aim(row),
            f"{number(row, 'ratio_to_moto'):.0f}" if "ratio_to_moto" in row else "",
            f"{number(row, 'server_cpu_seconds_per_million'):.1f}",
            f"{number(row, 'client_cpu_seconds_per_million'):.1f}",
        )
        for row in numbers
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
            "aim",
            "of moto",
            "server s/M",
            "client s/M",
        ),
        rows=rows,
        notes=[
            "client: prepared requests over plain sockets, without signatures.",
            f"connections: {PENSTOCK.connections}; {MOTO.connections} to moto, which likes few.",
            "synced 1/1: acknowledged after fdatasync; moto keeps all in memory.",
            "of moto: messages/s by moto's in the same round.",
            "s/M: processor seconds per million messages.",
        ],
        numbers=numbers,
    )


def _aim(row: Measured) -> str:
    aim = AIMS.get(str(row["load"]))
    return f"{aim:,}" if aim and row["system"] == PENSTOCK.name else ""
