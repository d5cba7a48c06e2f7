"""A shard with much state: does it go on serving while it writes a snapshot, and how fast does it
start?

    python -m benchmarks.backlog.state --state 5GiB --queues 0.5

Committed offsets with long metadata, and delayed messages of a queue, fill one shard until its
state has the size that was asked for, `--queues` of it in messages; the broker gets a budget in
which that fits. Then plain batches are appended until the shard has written a snapshot of it all.
Meanwhile one client asks `/livez`, whose answer comes from the loop that encodes the snapshot, and
another appends a message at a time to the same shard. In the end the broker is killed and started.
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.backlog.broker import Broker
from benchmarks.backlog.fillings import Filling, fill
from benchmarks.backlog.pulse import Pulse
from benchmarks.report import GIB, MIB, Finding, Measured, Progress, number, quantile, show, size
from penstock.server.notation import parse_size
from tests.abuse.hostile_batches import honest
from tests.abuse.kafka_wire import Address, KafkaConnection, create_topic, produce

STATE_BYTES = GIB
STATE_BYTES_QUICK = 64 * MIB
QUEUE_SHARE = 0.1
SHARE_OF_A_KIND = 1 / 4
"""Of a shard's budget, for groups and for messages (`penstock.machines.state_bytes`)."""
ROOM = 1.25
PARTITIONS = 475
METADATA = "m" * 4_000
MESSAGES_PER_STEP = 20_000
BATCH = honest([b"b" * 100_000])
LOAD_EVERY_SECONDS = 0.02
PROBE_EVERY_SECONDS = 0.01
SNAPSHOT_WITHIN_SECONDS = 1_800.0
LOOK_EVERY_SECONDS = 0.02
STALL_AIM_SECONDS = 0.25
_STATE_METRIC = "penstock_shard_state_bytes"
_OFFSETS, _QUEUE, _PROBE, _LOG = "offsets", "delayed", "probe", "log"


@dataclass
class Figures:
    """What was measured."""

    state_bytes: int = 0
    memory_bytes: int = 0
    snapshot_seconds: float = 0.0
    snapshot_bytes: int = 0
    worst_seconds: float = 0.0
    """The longest answer to `/livez` while a snapshot was written."""
    p99_seconds: float = 0.0
    worst_before_seconds: float = 0.0
    """The same under the same load, before the snapshot began: what the machine costs."""
    p99_before_seconds: float = 0.0
    append_worst_seconds: float = 0.0
    append_p99_seconds: float = 0.0
    restart_seconds: float = 0.0


def measure_state(
    directory: str,
    *,
    quick: bool,
    progress: Progress,
    state_bytes: int = 0,
    queue_share: float = QUEUE_SHARE,
) -> list[Finding]:
    """One finding, of one size."""
    wanted = state_bytes or (STATE_BYTES_QUICK if quick else STATE_BYTES)
    most = max(queue_share, 1 - queue_share) * wanted
    budget = int(ROOM * most / SHARE_OF_A_KIND)
    flags = ("--shards", "1", "--storage.state-size-max", str(budget))
    figures = Figures()
    home = Path(directory) / "state"
    with Broker(home, flags) as broker:
        _fill(broker, wanted, queue_share, progress)
        figures.state_bytes = _state_bytes(broker)
        progress("state: a snapshot is written")
        _measure_snapshot(broker, figures)
        figures.memory_bytes = broker.usage().memory_bytes
        progress("state: killed and started")
        figures.restart_seconds = broker.restart(kill=True)[1]
    return [_finding(figures)]


def _fill(broker: Broker, wanted: int, queue_share: float, progress: Progress) -> None:
    address = _address(broker)
    broker.make_queue(_QUEUE)
    for topic, partitions in ((_OFFSETS, PARTITIONS), (_PROBE, 1), (_LOG, 1)):
        asyncio.run(create_topic(address, topic, partitions))
    messages = int(wanted * queue_share)
    while (found := _state_bytes(broker, "messages")) < messages:
        progress(f"state: {size(found)} of {size(messages)} in delayed messages")
        fill(
            Filling(
                target=broker.target(_QUEUE),
                kind="delayed",
                messages=MESSAGES_PER_STEP,
                value_bytes=1,
            )
        )
    progress(f"state: {size(wanted - messages)} in offsets")
    asyncio.run(_commit(address, broker, wanted - messages))


async def _commit(address: Address, broker: Broker, wanted: int) -> None:
    rows = [
        {"partition_index": index, "committed_offset": 1, "committed_metadata": METADATA}
        for index in range(PARTITIONS)
    ]
    connection = await KafkaConnection.open(address)
    for group in range(wanted // (PARTITIONS * len(METADATA)) + 1):
        body = {
            "group_id": f"group-{group}",
            "member_id": "",
            "topics": [{"name": _OFFSETS, "partitions": rows}],
        }
        answer = await connection.call(8, 6, body)
        (code,) = {one.error_code for one in answer.topics[0].partitions}
        if code:
            raise SystemExit(f"offsets are refused with error {code}: {broker.directory}")
    connection.close()


def _measure_snapshot(broker: Broker, figures: Figures) -> None:
    """Append until a snapshot has been written; what others wait for meanwhile."""
    over = threading.Event()
    appends: list[float] = []
    others = [
        threading.Thread(target=lambda: asyncio.run(_load(_address(broker), over))),
        threading.Thread(target=lambda: asyncio.run(_probe(_address(broker), over, appends))),
    ]
    for thread in others:
        thread.start()
    try:
        # One may still be under way: the next begins only after it.
        before = set(_wait_for(broker, bool))
        # It lasts from when its file appears until the one before is deleted.
        with Pulse(broker.web) as calm:
            _wait_for(broker, lambda found: bool(set(found) - before))
        figures.worst_before_seconds = calm.worst_seconds
        figures.p99_before_seconds = calm.p99_seconds
        began = time.perf_counter()
        appends.clear()
        with Pulse(broker.web) as pulse:
            found = _wait_for(broker, lambda found: not set(found) & before)
            figures.snapshot_seconds = time.perf_counter() - began
        figures.worst_seconds, figures.p99_seconds = pulse.worst_seconds, pulse.p99_seconds
        figures.snapshot_bytes = max(found.values())
    finally:
        over.set()
        for thread in others:
            thread.join()
    figures.append_worst_seconds = max(appends, default=0.0)
    figures.append_p99_seconds = quantile(appends, 0.99) if appends else 0.0


async def _load(address: Address, over: threading.Event) -> None:
    """Plain batches: a snapshot is due after so many bytes of log."""
    async with await KafkaConnection.open(address) as connection:
        while not over.is_set():
            await produce(connection, _LOG, 0, BATCH)
            await asyncio.sleep(LOAD_EVERY_SECONDS)


async def _probe(address: Address, over: threading.Event, waits: list[float]) -> None:
    async with await KafkaConnection.open(address) as connection:
        while not over.is_set():
            began = time.perf_counter()
            await produce(connection, _PROBE, 0, honest([b"probe"]))
            waits.append(time.perf_counter() - began)
            await asyncio.sleep(PROBE_EVERY_SECONDS)


def _snapshots(broker: Broker) -> dict[str, int]:
    """The snapshots of the shard with the state: name and size."""
    found: dict[str, int] = {}
    for path in broker.directory.glob("node-1/data/shard-1/*.snap"):
        with contextlib.suppress(FileNotFoundError):
            found[path.name] = path.stat().st_size
    return found


def _wait_for(broker: Broker, reached: Callable[[dict[str, int]], bool]) -> dict[str, int]:
    deadline = time.monotonic() + SNAPSHOT_WITHIN_SECONDS
    while not reached(found := _snapshots(broker)):
        if time.monotonic() > deadline:
            raise SystemExit(f"no snapshot within {SNAPSHOT_WITHIN_SECONDS:.0f} s: {found}")
        time.sleep(LOOK_EVERY_SECONDS)
    return found


def _state_bytes(broker: Broker, kind: str = "") -> int:
    """What the broker's metrics say of its shards' state, of a kind or all."""
    with urllib.request.urlopen(f"http://{broker.web}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(
        int(float(line.rsplit(" ", 1)[1]))
        for line in lines
        if line.startswith(f"{_STATE_METRIC}{{") and f'kind="{kind}' in line
    )


def _address(broker: Broker) -> Address:
    host, port = broker.bootstrap.rsplit(":", 1)
    return host, int(port)


def _finding(figures: Figures) -> Finding:
    numbers: Measured = {
        "state_bytes": figures.state_bytes,
        "memory_bytes": figures.memory_bytes,
        "snapshot_bytes": figures.snapshot_bytes,
        "snapshot_seconds": figures.snapshot_seconds,
        "worst_seconds": figures.worst_seconds,
        "p99_seconds": figures.p99_seconds,
        "worst_before_seconds": figures.worst_before_seconds,
        "p99_before_seconds": figures.p99_before_seconds,
        "append_worst_seconds": figures.append_worst_seconds,
        "append_p99_seconds": figures.append_p99_seconds,
        "restart_seconds": figures.restart_seconds,
    }
    row = (
        size(figures.state_bytes),
        f"{figures.memory_bytes / MIB:.0f}",
        size(figures.snapshot_bytes),
        f"{figures.snapshot_seconds:.1f}",
        f"{1_000 * figures.worst_seconds:.0f}",
        f"{1_000 * figures.p99_seconds:.1f}",
        f"{1_000 * figures.worst_before_seconds:.0f}",
        f"{1_000 * figures.p99_before_seconds:.1f}",
        f"{1_000 * figures.append_worst_seconds:.0f}",
        f"{1_000 * figures.append_p99_seconds:.1f}",
        f"{figures.restart_seconds:.1f}",
    )
    return Finding(
        name="state",
        title="A shard with much state writes a snapshot of it",
        columns=(
            *("state", "memory MiB", "snapshot", "snapshot s"),
            *("stall ms", "p99", "before", "p99", "append ms", "p99", "restart s"),
        ),
        rows=[row],
        notes=[
            "stall: the longest answer to /livez, from the loop that encodes the snapshot;",
            "before: the same under the same load, until it begins; append: of one small message.",
            f"aim: no stall over {1_000 * STALL_AIM_SECONDS:.0f} ms.",
        ],
        numbers=[numbers],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--state", type=parse_size, default=STATE_BYTES, help="5GiB, 256MiB, …")
    parser.add_argument("--queues", type=float, default=QUEUE_SHARE, help="share in messages")
    parser.add_argument("--directory", default=None, help="where the broker's files go")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-state-", dir=options.directory) as home:
        (finding,) = measure_state(
            home,
            quick=False,
            progress=Progress(lambda line: print(line, file=sys.stderr, flush=True)),
            state_bytes=options.state,
            queue_share=options.queues,
        )
    show(Console(width=120), finding)
    (numbers,) = finding.numbers
    return int(number(numbers, "worst_seconds") > STALL_AIM_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
