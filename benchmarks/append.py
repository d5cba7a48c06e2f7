"""Append throughput of one shard, one replica and three, against a bare loop of the same writes.

A round measures every load on one replica, then the bare loop with the group sizes that were just
written, then three replicas and the bare loop with theirs: what is compared happens within
seconds. The ratio of each round is taken first and the median of the ratios last.
"""

import asyncio
import os
import shutil
from collections import defaultdict
from collections.abc import Sequence

from benchmarks.bare import lend_memory, replay
from benchmarks.report import (
    KIB,
    Finding,
    Measured,
    Progress,
    medians,
    number,
    quantile,
    size,
)
from benchmarks.shards import Driven, Load, drive, make_batch, running_shard

ROUNDS = 5
ROUNDS_QUICK = 3
IN_FLIGHT = 64
REPLICAS = (1, 3)


def make_loads(*, quick: bool) -> list[Load]:
    """One message, 16 KiB and 256 KiB, and small ones once more with more of them under way."""
    shapes = [
        ("1 message", 1, 24, IN_FLIGHT, 20_000),
        ("1 message × 1,024", 1, 24, 1_024, 60_000),
        ("16 KiB", 16, KIB - 8, IN_FLIGHT, 8_000),
        ("256 KiB", 256, KIB - 8, IN_FLIGHT, 1_000),
    ]
    loads = []
    for name, messages, value_bytes, clients, batches in shapes:
        batch = make_batch(messages, value_bytes)
        loads.append(
            Load(
                name=name,
                batch=batch,
                messages=messages,
                batches=batches // 4 if quick else batches,
                clients=clients,
            )
        )
    return loads


def measure_append(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """Two findings: one replica, three replicas."""
    loads = make_loads(quick=quick)
    rounds = ROUNDS_QUICK if quick else ROUNDS
    measured: dict[tuple[int, str], list[Measured]] = defaultdict(list)
    for turn in range(1, rounds + 1):
        for load in loads:
            for replicas in REPLICAS:
                progress(f"append: round {turn} of {rounds}, {load.name}, {replicas} replica(s)")
                row = _measure_once(directory, load, replicas)
                measured[replicas, load.name].append(row)
    return [
        _finding(replicas, [medians(measured[replicas, load.name]) for load in loads], rounds)
        for replicas in REPLICAS
    ]


def _measure_once(directory: str, load: Load, replicas: int) -> Measured:
    home = os.path.join(directory, "append")

    async def measure() -> Driven:
        async with running_shard(home, replicas=replicas) as shard:
            lend_memory(directory, replicas * load.batches * len(load.batch))
            return await drive(shard, load)

    try:
        driven = asyncio.run(measure())
    finally:
        shutil.rmtree(home, ignore_errors=True)
    written = sum(driven.groups)
    allocated = replay(directory, driven.groups, allocated=True)
    growing = replay(directory, driven.groups, allocated=False)
    return {
        "load": load.name,
        "replicas": replicas,
        "in_flight": load.clients,
        "batch_bytes": len(load.batch),
        "batches_per_second": load.batches / driven.seconds,
        "messages_per_second": load.batches * load.messages / driven.seconds,
        "megabytes_per_second": written / driven.seconds / 1e6,
        "syncs": len(driven.groups),
        "group_bytes": written / len(driven.groups),
        "latency_p50_ms": quantile(driven.latencies, 0.50) * 1e3,
        "latency_p99_ms": quantile(driven.latencies, 0.99) * 1e3,
        "cpu_us_per_batch": driven.cpu_seconds / load.batches * 1e6,
        "bare_allocated_megabytes_per_second": written / allocated / 1e6,
        "bare_growing_megabytes_per_second": written / growing / 1e6,
        "ratio_to_allocated": allocated / driven.seconds,
        "ratio_to_growing": growing / driven.seconds,
    }


def _finding(replicas: int, numbers: Sequence[Measured], rounds: int) -> Finding:
    rows = [
        (
            str(row["load"]),
            f"{number(row, 'messages_per_second'):,.0f}",
            f"{number(row, 'megabytes_per_second'):,.1f}",
            f"{number(row, 'syncs'):,.0f}",
            size(number(row, "group_bytes")),
            f"{number(row, 'latency_p50_ms'):.2f}",
            f"{number(row, 'latency_p99_ms'):.2f}",
            f"{number(row, 'cpu_us_per_batch'):.1f}",
            f"{number(row, 'ratio_to_allocated'):.2f}",
            f"{number(row, 'ratio_to_growing'):.2f}",
        )
        for row in numbers
    ]
    who = "one replica" if replicas == 1 else "three replicas in one process, on one disk"
    notes = [
        "ratio: time of a bare loop of pwrite + fdatasync with the same group sizes, by our time;",
        "alloc: into a file allocated beforehand, as our segments are; grow: into a growing file.",
        "1 message × 1,024: with that many appends in flight.",
    ]
    if replicas == 1:
        notes.append("aim: above 0.6 at 16 KiB and above.")
    else:
        notes.append("the bare loop writes the leader's groups once, the cluster three times.")
    return Finding(
        name="append" if replicas == 1 else "replicas",
        title=f"Append, {who}: medians of {rounds} rounds, {IN_FLIGHT} appends in flight",
        columns=(
            "batch",
            "messages/s",
            "MB/s",
            "syncs",
            "mean group",
            "p50 ms",
            "p99 ms",
            "CPU µs/batch",
            "ratio alloc",
            "ratio grow",
        ),
        rows=rows,
        notes=notes,
        numbers=numbers,
    )
