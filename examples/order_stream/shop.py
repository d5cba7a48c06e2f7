"""What runs during the demo: a cluster, a process of workers, a process for the pipeline.

Processes that it starts end with it. Their output is in files, and is shown if one ends early.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from examples.order_stream.orders import (
    LETTERS,
    ORDERS,
    PARCEL_LETTERS,
    PARCELS,
    SHIPPED,
    body_of,
    key_of,
)
from examples.order_stream.workers import CARRIER_VARIABLE
from penstock import Outgoing, PenstockError
from penstock.blocking import connect
from penstock.client.blocking import BlockingClient
from penstock.testing import LocalCluster

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BATCH = 20
LOOK_SECONDS = 0.5
STOP_SECONDS = 30.0
SAMPLES_MAX = 10_000


class Shop:
    """Everything that runs, from `with` to the end of its block."""

    def __init__(self, out: Path, *, nodes: int = 3) -> None:
        self.out = out
        self.cluster = LocalCluster(nodes, data=out / "brokers")
        self.carrier_file = out / "carrier-does-not-answer"
        self.samples: dict[str, list[tuple[datetime, float]]] = {
            "ordered": [],
            "shipped": [],
            "dead letters": [],
        }
        self.marks: list[tuple[datetime, str]] = []
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._client: BlockingClient | None = None
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def __enter__(self) -> "Shop":
        self.out.mkdir(parents=True)
        self.cluster.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        for name in list(self._processes):
            self.end(name)
        if self._watcher.is_alive():
            self._watcher.join(STOP_SECONDS)
        if self._client is not None:
            self._client.close()
        self.cluster.stop()

    @property
    def url(self) -> str:
        return self.cluster.url

    @property
    def client(self) -> BlockingClient:
        """One for the main thread."""
        if self._client is None:
            self._client = connect(self.url)
        return self._client

    # What runs.

    def open(self) -> None:
        """Make the queues, and let workers and pipeline begin."""
        self.carrier_file.touch()
        keep = {"queue.delete.acked": "false"}
        self.client.create_queue(ORDERS, partitions=3, deduplication="id", settings=keep)
        self.client.create_topic(LETTERS, partitions=1, configs={"queue.message.headers": "true"})
        self.client.create_queue(PARCEL_LETTERS, settings={"queue.message.headers": "true"})
        self.client.create_queue(PARCELS, partitions=3, dead_letter=PARCEL_LETTERS, lease=10)
        self.client.create_queue(SHIPPED, partitions=3, deduplication="id", settings=keep)
        self._start("workers", "work", "examples.order_stream.workers:app", "--url", self.url)
        self._start(
            "pipeline", "pipeline", "run", str(HERE / "pipeline.toml"), "--url", self.url,
            "--master", "local[2]", "--state", str(self.out / "checkpoints"),
        )  # fmt: skip
        self._watcher.start()

    def _start(self, name: str, *command: str) -> None:
        with (self.out / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "penstock.cli.main", *command],
                cwd=ROOT,
                env={**os.environ, CARRIER_VARIABLE: str(self.carrier_file)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def end(self, name: str) -> None:
        """Let a process end in good order; if it does not, end it and what it has started."""
        process = self._processes.pop(name)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def check_processes(self) -> None:
        """Raise if one has ended that should not."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                said = (self.out / f"{name}.log").read_text("utf-8", "replace")
                raise RuntimeError(f"{name} ended with {process.returncode}:\n{said[-4000:]}")

    # What happens.

    def place(self, first: int, end: int, *, per_second: float) -> None:
        """Place orders, evenly. What may or may not have arrived is placed again: it has an id."""
        began = time.monotonic()
        for start in range(first, end, BATCH):
            some = range(start, min(end, start + BATCH))
            orders = [Outgoing(body_of(one), key=key_of(one), dedup_id=key_of(one)) for one in some]
            while True:
                try:
                    self.client.queue(ORDERS, codec=bytes).send_many(orders)
                    break
                except PenstockError as error:
                    self.mark(f"placed again: {type(error).__name__}")
            due = began + (some[-1] + 1 - first) / per_second
            self._done.wait(max(0.0, due - time.monotonic()))

    def mark(self, told: str) -> None:
        """Something to be seen in the picture."""
        self.marks.append((datetime.now(UTC), told))

    def kill_leader(self) -> int:
        """kill -9 the node that leads the first partition of the orders."""
        node = self.client.describe_topic(ORDERS).partitions[0].leader
        self.cluster.kill(node)
        self.mark(f"node {node} killed")
        return node

    def bring_back(self, node: int) -> None:
        self.cluster.restart(node)
        self.mark(f"node {node} back")

    # How far it is.

    def counts(self) -> Mapping[str, int]:
        """Orders placed, shipped, and dead."""
        return _counts(self.client)

    def wait(self, *, shipped: int, dead: int, seconds: float) -> Mapping[str, int]:
        """Until so many are shipped and dead; raises what keeps them from it."""
        deadline = time.monotonic() + seconds
        while True:
            self.check_processes()
            seen = self.counts()
            if seen["shipped"] >= shipped and seen["dead letters"] == dead:
                return seen
            if time.monotonic() > deadline:
                raise RuntimeError(f"not done within {seconds:.0f} s: {dict(seen)}")
            self._done.wait(LOOK_SECONDS)

    def _watch(self) -> None:
        """Count every half a second, for the picture."""
        with connect(self.url) as client:
            while not self._done.wait(LOOK_SECONDS):
                try:
                    seen = _counts(client)
                except PenstockError:
                    continue
                at = datetime.now(UTC)
                for name, rows in self.samples.items():
                    if len(rows) < SAMPLES_MAX:
                        rows.append((at, float(seen[name])))


def _counts(client: BlockingClient) -> dict[str, int]:
    dead = [client.queue(name).stats().depth for name in (LETTERS, PARCEL_LETTERS)]
    return {
        "ordered": client.describe_topic(ORDERS).messages,
        "shipped": client.describe_topic(SHIPPED).messages,
        "dead letters": sum(dead),
    }
