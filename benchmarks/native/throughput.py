"""How many messages a second go through a queue, in and out, side by side with other systems.

A round starts each system anew in an empty directory. One client process sends in batches until
the time is over, each batch waited for, then receives everything in batches, each acknowledged
while the next is on its way. The systems take turns within a round, so that a machine that slows
down meanwhile does so for all.

Every system is used in the same shape: the same bodies, the same batches, one client process, and
an acknowledgement that means it is on the disk.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.orders import Moved
from benchmarks.native.systems import embedded, penstock
from benchmarks.peers.orders import QueueOrder
from benchmarks.peers.systems import QueueKind, excused, peers, versions
from benchmarks.report import MIB, Finding, Measured, Progress, medians, number

BATCHES = (1_000, 10_000)
BODY_BYTES = 100
SECONDS = 1.5
SECONDS_QUICK = 0.5
ROUNDS = 3
ROUNDS_QUICK = 1
WARM_UP = 0.4
"""The part of a round's time that is spent beforehand and does not count."""
PATIENCE = 10
"""How many times as long as it was filled a queue may take to be emptied."""
MESSAGES_MAX = 1_000_000
"""Of one filling: none takes more memory or disk than this, however fast it is."""
MILLION = 1_000_000
SEND, RECEIVE = "send", "receive, ack"
AIMS = {SEND: 300_000, RECEIVE: 200_000}

Key = tuple[str, str, int]
"""System, way, batch."""


def measure_native_throughput(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: every system, both ways, both sizes of batch."""
    others, absences = peers()
    for line in absences:
        progress(line)
    rounds = ROUNDS_QUICK if quick else ROUNDS
    seconds = SECONDS_QUICK if quick else SECONDS
    measured: dict[Key, list[Measured]] = {}
    with ClientProcess() as client:
        for turn in range(1, rounds + 1):
            found: dict[Key, Measured] = {}
            for kind in (penstock(), embedded(), *others):
                progress(f"native: {kind.name}, {turn} of {rounds}")
                with excused(kind, others, absences, progress):
                    home = Path(directory) / "native"
                    for batch in BATCHES:
                        found |= measure_once(kind, home, client, batch=batch, seconds=seconds)
            for key, row in found.items():
                _add_ratios(row, found)
                measured.setdefault(key, []).append(row)
    numbers = [medians(rows) for rows in measured.values()]
    return [_finding(numbers, absences, rounds, seconds)]


def measure_once(
    kind: QueueKind, home: Path, client: ClientProcess, *, batch: int, seconds: float
) -> dict[Key, Measured]:
    """Fill a queue and empty it."""
    with kind.make(home) as system:
        order = QueueOrder(
            place=system.bootstrap,
            queue="benchmark",
            batch=batch,
            messages_max=MESSAGES_MAX,
            seconds=seconds,
            body_bytes=BODY_BYTES,
        )
        client.call(kind.loads.prepare, order.place, order.queue)
        _fill_and_empty(kind, client, replace(order, seconds=seconds * WARM_UP))
        rows: dict[Key, Measured] = {}
        for way, work in ((SEND, kind.loads.send), (RECEIVE, kind.loads.receive)):
            before = system.usage()
            moved = client.call(work, order)
            after = system.usage()
            row = _row(kind, way, batch, moved, after.cpu_seconds - before.cpu_seconds)
            row["broker_memory_bytes"] = after.memory_bytes
            rows[kind.name, way, batch] = row
            order = _emptying(order, moved.messages)
    return rows


def _fill_and_empty(kind: QueueKind, client: ClientProcess, order: QueueOrder) -> None:
    """What does not count: a server that has just started is still finding its pace."""
    moved = client.call(kind.loads.send, order)
    client.call(kind.loads.receive, _emptying(order, moved.messages))


def _emptying(order: QueueOrder, messages: int) -> QueueOrder:
    """As many as there are: a queue that pushes cannot tell that nothing more will come."""
    return replace(order, messages_max=max(1, messages), seconds=order.seconds * PATIENCE)


def _row(kind: QueueKind, way: str, batch: int, moved: Moved, broker_cpu: float) -> Measured:
    millions = max(moved.messages, 1) / MILLION
    return {
        "system": kind.name,
        "durability": kind.durability,
        "way": way,
        "batch_messages": batch,
        "messages": moved.messages,
        "messages_per_second": moved.per_second,
        "broker_cpu_seconds_per_million": broker_cpu / millions,
        "client_cpu_seconds_per_million": moved.cpu_seconds / millions,
    }


def _add_ratios(row: Measured, found: dict[Key, Measured]) -> None:
    """How many times as fast as ours is, of the same round."""
    way, batch = str(row["way"]), int(number(row, "batch_messages"))
    ours = found[penstock().name, way, batch]
    other = max(number(row, "messages_per_second"), 1.0)
    row["penstock_ratio"] = number(ours, "messages_per_second") / other


def _finding(
    numbers: Sequence[Measured], absences: Sequence[str], rounds: int, seconds: float
) -> Finding:
    ordered = sorted(numbers, key=lambda row: (str(row["way"]) != SEND, row["batch_messages"]))
    rows = [
        (
            str(row["system"]),
            str(row["way"]),
            f"{number(row, 'batch_messages'):,}",
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
        title=f"Queues, one client process, messages of {BODY_BYTES} B: medians of {rounds}"
        f" rounds of {seconds:g} s",
        columns=(
            "system",
            "way",
            "batch",
            "messages/s",
            "ours is ×",
            "broker s/M",
            "client s/M",
            "MiB",
        ),
        rows=rows,
        notes=[
            (
                "send: one batch at a time, each waited for; receive: the next is asked for while"
                " one is acknowledged."
            ),
            "RabbitMQ: a batch, 5,000 at most, is unconfirmed or unacknowledged at all times.",
            "every system acknowledges what it has synced to the disk.",
            "embedded: the whole broker runs in the client's process, and so does its time.",
            "Redis: XADD in pipelines, XREADGROUP and XACK.",
            "PostgreSQL: COPY, then DELETE of rows locked with SKIP LOCKED.",
            (
                f"aims: send {AIMS[SEND]:,}, receive and ack {AIMS[RECEIVE]:,} messages/s with"
                " Penstock, 1 node."
            ),
            "ours is ×: how many times as fast Penstock, 1 node, is in the same round.",
            "s/M: processor seconds per million messages; MiB: the broker's memory.",
            *versions(),
            *absences,
        ],
        numbers=ordered,
    )


def _cpu(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds else ""


def _mebibytes(size_bytes: float) -> str:
    return f"{size_bytes / MIB:.0f}" if size_bytes else ""
