"""How many messages a second go through a queue, in and out, side by side with other systems.

A round starts each system anew in an empty directory, fills and empties a queue of small messages
and then one of larger ones, and ends the system. One client process sends in batches until the
time is over, each batch waited for, then receives everything in batches, each acknowledged while
the next is on its way. The systems take turns within a round, so that a machine that slows down
meanwhile does so for all.

No two systems ever run side by side. To keep a slow starter, such as RabbitMQ or PostgreSQL, from
round to round would save some ten seconds a round; but even one that is stopped by a signal keeps
its memory and leaves dirty pages to be written, and one that is not has its background work. And
so each start is one more measurement of how long it takes.

Every system is used in the same shape: the same bodies, the same batches, one client process. What
an acknowledgement is worth stands in each row.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.orders import Moved
from benchmarks.broker.systems import System
from benchmarks.native.systems import embedded, penstock
from benchmarks.peers.excuses import excused
from benchmarks.peers.orders import QueueOrder
from benchmarks.peers.systems import (
    DURABLE_NOTE,
    QueueKind,
    import_clients,
    peers,
    versions,
)
from benchmarks.report import KIB, MIB, Finding, Measured, Progress, medians, number

BATCH = 1_000
BODY_BYTES = (100, KIB)
SECONDS = 0.8
SECONDS_QUICK = 0.4
ROUNDS = 3
ROUNDS_QUICK = 1
WARM_UP = 0.5
"""The part of a round's time that is spent beforehand and does not count."""
PATIENCE = 10
"""How many times as long as it was filled a queue may take to be emptied."""
MESSAGES_MAX = 1_000_000
BYTES_MAX = 300 * MIB
"""Of one filling: none takes more memory or disk than this, however fast it is."""
MILLION = 1_000_000
SEND, RECEIVE = "send", "receive, ack"
AIMS = {SEND: 300_000, RECEIVE: 200_000}

Key = tuple[str, str, int]
"""System, way, bytes of a message."""


@dataclass(frozen=True, slots=True)
class _Round:
    """What one system did in one round."""

    rows: dict[Key, Measured]
    start: Measured


def measure_native_throughput(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """Two findings: every system, both ways, both sizes; and how long each took to start."""
    others, absences = peers()
    for line in absences:
        progress(line)
    rounds = ROUNDS_QUICK if quick else ROUNDS
    seconds = SECONDS_QUICK if quick else SECONDS
    measured: dict[Key, list[Measured]] = {}
    starts: dict[str, list[Measured]] = {}
    with ClientProcess() as client:
        client.call(import_clients)
        for turn in progress.turns(rounds):
            found: dict[Key, Measured] = {}
            for kind in (penstock(), embedded(), *others):
                progress(f"native: {kind.name}, {turn} of {rounds}")
                with excused(kind, others, absences, progress):
                    once = measure_once(kind, Path(directory) / "native", client, seconds)
                    found |= once.rows
                    starts.setdefault(kind.name, []).append(once.start)
            for key, row in found.items():
                _add_ratios(row, found)
                measured.setdefault(key, []).append(row)
    numbers = [medians(rows) for rows in measured.values()]
    began = [medians(rows) for rows in starts.values()]
    taken = max(len(rows) for rows in measured.values())
    return [
        _finding(numbers, absences, taken, seconds),
        _starts_finding([row for row in began if row["system"] != embedded().name], taken),
    ]


def measure_once(kind: QueueKind, home: Path, client: ClientProcess, seconds: float) -> _Round:
    """Start it, and fill and empty a queue of each size."""
    with kind.make(home) as system:
        idle = system.usage()
        rows: dict[Key, Measured] = {}
        answered = 0.0
        for body_bytes in BODY_BYTES:
            order = QueueOrder(
                place=system.bootstrap,
                queue=f"benchmark{body_bytes}",
                batch=BATCH,
                messages_max=min(MESSAGES_MAX, BYTES_MAX // body_bytes),
                seconds=seconds,
                body_bytes=body_bytes,
            )
            began = time.perf_counter()
            client.call(kind.loads.prepare, order.place, order.queue)
            if not answered:
                answered = time.perf_counter() - began
                _warm_up(kind, client, order)
            rows |= _both_ways(kind, system, client, order)
    start: Measured = {
        "system": kind.name,
        "ready_seconds": system.ready_seconds,
        "first_answer_seconds": system.ready_seconds + answered,
        "memory_bytes": idle.memory_bytes,
        "cpu_seconds": idle.cpu_seconds,
    }
    return _Round(rows, start)


def _warm_up(kind: QueueKind, client: ClientProcess, order: QueueOrder) -> None:
    """A server that has just started is still finding its pace: this does not count."""
    warming = replace(order, seconds=order.seconds * WARM_UP)
    moved = client.call(kind.loads.send, warming)
    client.call(kind.loads.receive, _emptying(warming, moved.messages))


def _both_ways(
    kind: QueueKind, system: System, client: ClientProcess, order: QueueOrder
) -> dict[Key, Measured]:
    rows: dict[Key, Measured] = {}
    for way, work in ((SEND, kind.loads.send), (RECEIVE, kind.loads.receive)):
        before = system.usage()
        moved = client.call(work, order)
        after = system.usage()
        row = _row(kind, way, order.body_bytes, moved, after.cpu_seconds - before.cpu_seconds)
        row["broker_memory_bytes"] = after.memory_bytes
        rows[kind.name, way, order.body_bytes] = row
        order = _emptying(order, moved.messages)
    return rows


def _emptying(order: QueueOrder, messages: int) -> QueueOrder:
    """As many as there are: a queue that pushes cannot tell that nothing more will come."""
    return replace(order, messages_max=max(1, messages), seconds=order.seconds * PATIENCE)


def _row(kind: QueueKind, way: str, body_bytes: int, moved: Moved, broker_cpu: float) -> Measured:
    millions = max(moved.messages, 1) / MILLION
    return {
        "system": kind.name,
        "durability": kind.durability,
        "way": way,
        "batch_messages": BATCH,
        "message_bytes": body_bytes,
        "messages": moved.messages,
        "messages_per_second": moved.per_second,
        "broker_cpu_seconds_per_million": broker_cpu / millions,
        "client_cpu_seconds_per_million": moved.cpu_seconds / millions,
    }


def _add_ratios(row: Measured, found: dict[Key, Measured]) -> None:
    """How many times as fast as ours is, of the same round."""
    way, body_bytes = str(row["way"]), int(number(row, "message_bytes"))
    ours = found[penstock().name, way, body_bytes]
    other = max(number(row, "messages_per_second"), 1.0)
    row["penstock_ratio"] = number(ours, "messages_per_second") / other


def _finding(
    numbers: Sequence[Measured], absences: Sequence[str], rounds: int, seconds: float
) -> Finding:
    ordered = sorted(numbers, key=lambda row: (str(row["way"]) != SEND, row["message_bytes"]))
    rows = [
        (
            str(row["system"]),
            str(row["durability"]),
            str(row["way"]),
            f"{number(row, 'message_bytes'):,.0f} B",
            f"{number(row, 'messages_per_second'):,.0f}",
            f"{number(row, 'penstock_ratio'):.2f}",
            _cpu(number(row, "broker_cpu_seconds_per_million")),
            f"{number(row, 'client_cpu_seconds_per_million'):.1f}",
            _mebibytes(number(row, "broker_memory_bytes")),
        )
        for row in ordered
    ]
    return Finding(
        name="native-throughput",
        title=f"Queues, one client process, batches of {BATCH:,}: medians of {rounds}"
        f" rounds of {seconds:g} s",
        columns=(
            "system",
            "durable",
            "way",
            "message",
            "messages/s",
            "ours ×",
            "broker",
            "client",
            "MiB",
        ),
        rows=rows,
        notes=[
            (
                "send: one batch at a time, each waited for; receive: the next is asked for while"
                " one is acknowledged."
            ),
            DURABLE_NOTE,
            "embedded: the whole broker runs in the client's process, and so does its time.",
            "RabbitMQ: a batch is unconfirmed or unacknowledged at all times; a stream's reader",
            "stores how far it came after each batch. Redis: XADD in pipelines, XREADGROUP, XACK.",
            "NATS: a work queue, fetched by batches, each message acknowledged.",
            "PostgreSQL: COPY, then DELETE of rows locked with SKIP LOCKED. beanstalkd: pipelines.",
            (
                f"aims: send {AIMS[SEND]:,}, receive and ack {AIMS[RECEIVE]:,} messages/s with"
                f" Penstock, 1 node, and {BODY_BYTES[0]} B."
            ),
            "ours ×: how many times as fast Penstock, 1 node, is in the same round.",
            "broker, client: processor seconds per million messages; MiB: the broker's memory.",
            *versions(),
            *absences,
        ],
        numbers=ordered,
    )


def _starts_finding(numbers: Sequence[Measured], rounds: int) -> Finding:
    rows = [
        (
            str(row["system"]),
            f"{number(row, 'ready_seconds'):.2f}",
            f"{number(row, 'first_answer_seconds'):.2f}",
            f"{number(row, 'cpu_seconds'):.2f}",
            _mebibytes(number(row, "memory_bytes")),
        )
        for row in numbers
    ]
    return Finding(
        name="native-start",
        title=f"Queues, cold start in an empty directory: medians of {rounds}",
        columns=("system", "ready s", "first queue s", "CPU s", "MiB"),
        rows=rows,
        notes=[
            "ready: from its launch until its own client gets an answer; Penstock: the ready file.",
            "first queue: until a client has connected and made a queue.",
            "PostgreSQL: without initdb. CPU and MiB: of the server, when it is ready.",
        ],
        numbers=numbers,
    )


def _cpu(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds else ""


def _mebibytes(size_bytes: float) -> str:
    return f"{size_bytes / MIB:.0f}" if size_bytes else ""
