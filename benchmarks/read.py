"""Read throughput: in sequence at a megabyte a fetch, and one batch here, one there.

Two logs: large batches in few partitions, and 1-message batches in a thousand, where what belongs
to one partition lies scattered, a slice here and a slice there. Everything is in the page cache:
this measures Penstock, not the disk. Beside it stands the bare `pread` of a megabyte after the
other.
"""

import asyncio
import os
import random
import shutil
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.logs import LARGE, SMALL, Shape, build_log, settings_for
from benchmarks.report import MIB, Finding, Measured, Progress, medians, number, quantile
from benchmarks.shards import wait_leading
from penstock.core.records import read_header
from penstock.core.types import Offset, PartitionId
from penstock.engine.peers.loopback import LoopbackNetwork
from penstock.engine.replica.shard import Shard

ROUNDS = 5
ROUNDS_QUICK = 3
LOG_BYTES = 192 * MIB
LOG_BYTES_QUICK = 48 * MIB
FETCH_BYTES = 1 * MIB
SECONDS_PER_MEASUREMENT = 0.4
POINT_READS = 4_000


def measure_read(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: sequential and point reads of both logs, and the bare reads."""
    rounds = ROUNDS_QUICK if quick else ROUNDS
    homes = {}
    for shape in (LARGE, SMALL):
        progress(f"read: making a log of {shape.name}")
        homes[shape.name] = os.path.join(directory, f"read-{shape.partitions}")
        build_log(homes[shape.name], shape, LOG_BYTES_QUICK if quick else LOG_BYTES).close()
    try:
        measured = asyncio.run(_measure(homes, rounds, progress))
    finally:
        for home in homes.values():
            shutil.rmtree(home, ignore_errors=True)
    return [_finding([medians(rows) for rows in measured.values()], rounds)]


async def _measure(
    homes: dict[str, str], rounds: int, progress: Progress
) -> dict[str, list[Measured]]:
    network = LoopbackNetwork(asyncio.get_running_loop().call_soon)
    shards = {}
    for shape in (LARGE, SMALL):
        shards[shape.name] = await Shard.open(settings_for(homes[shape.name]), network)
        await wait_leading(shards[shape.name])
    measured: dict[str, list[Measured]] = defaultdict(list)
    for turn in range(1, rounds + 1):
        progress(f"read: round {turn} of {rounds}")
        chance = random.Random(turn)
        for row in (
            _bare(homes[LARGE.name]),
            _sequential(shards[LARGE.name], LARGE),
            _sequential(shards[SMALL.name], SMALL),
            _points(shards[LARGE.name], LARGE, chance),
            _points(shards[SMALL.name], SMALL, chance),
        ):
            measured[str(row["what"])].append(row)
    for shard in shards.values():
        await shard.close()
    return measured


def _bare(home: str) -> Measured:
    """`pread` of a segment from its start to its end, again and again."""
    path = max(Path(home).glob("*.log"), key=lambda one: one.stat().st_blocks)
    descriptor = os.open(path, os.O_RDONLY)
    latencies = []
    position = total = 0
    began = time.perf_counter()
    try:
        while time.perf_counter() - began < SECONDS_PER_MEASUREMENT:
            asked = time.perf_counter()
            found = len(os.pread(descriptor, FETCH_BYTES, position))
            latencies.append(time.perf_counter() - asked)
            position = position + found if found == FETCH_BYTES else 0
            total += found
    finally:
        os.close(descriptor)
    return _row("bare pread of 1 MiB", total, latencies)


def _sequential(shard: Shard, shape: Shape) -> Measured:
    """Partitions from start to end, as a consumer that is far behind would read them."""
    latencies = []
    total = 0
    began = time.perf_counter()
    partition, offset = PartitionId(0), Offset(0)
    while time.perf_counter() - began < SECONDS_PER_MEASUREMENT:
        asked = time.perf_counter()
        found = shard.fetch(partition, offset, FETCH_BYTES)
        latencies.append(time.perf_counter() - asked)
        total += len(found)
        if found:
            offset = _end(found)
        else:
            partition, offset = PartitionId((partition + 1) % shape.partitions), Offset(0)
    return _row(f"fetch 1 MiB in sequence, {shape.name}", total, latencies)


def _end(batches: bytes) -> Offset:
    """The offset after the last batch. Walks the headers, as a consumer has to."""
    position = 0
    header = read_header(batches)
    while position < len(batches):
        header = read_header(batches, position)
        position += header.size
    return Offset(header.last_offset + 1)


def _points(shard: Shard, shape: Shape, chance: random.Random) -> Measured:
    """One batch at a random offset of a random partition."""
    end = shard.replica.machine.bounds(PartitionId(0)).high_watermark
    wanted = [
        (PartitionId(chance.randrange(shape.partitions)), Offset(chance.randrange(end)))
        for _ in range(POINT_READS)
    ]
    latencies = []
    total = 0
    for partition, offset in wanted:
        asked = time.perf_counter()
        found = shard.fetch(partition, offset, 1)
        latencies.append(time.perf_counter() - asked)
        assert found, f"nothing at {partition}@{offset}"
        total += len(found)
    return _row(f"one batch at random, {shape.name}", total, latencies)


def _row(what: str, total: int, latencies: list[float]) -> Measured:
    """Time between reads, a consumer's own, is not counted."""
    seconds = sum(latencies)
    return {
        "what": what,
        "reads_per_second": len(latencies) / seconds,
        "megabytes_per_second": total / seconds / 1e6,
        "latency_p50_us": quantile(latencies, 0.50) * 1e6,
        "latency_p99_us": quantile(latencies, 0.99) * 1e6,
    }


def _finding(numbers: list[Measured], rounds: int) -> Finding:
    rows = [
        (
            str(row["what"]),
            f"{number(row, 'reads_per_second'):,.0f}",
            f"{number(row, 'megabytes_per_second'):,.1f}",
            f"{number(row, 'latency_p50_us'):,.0f}",
            f"{number(row, 'latency_p99_us'):,.0f}",
        )
        for row in numbers
    ]
    return Finding(
        name="read",
        title=f"Read, from the page cache: medians of {rounds} rounds",
        columns=("what", "reads/s", "MB/s", "p50 µs", "p99 µs"),
        rows=rows,
        notes=["every byte that is handed out has been verified against its CRC-32C."],
        numbers=numbers,
    )
