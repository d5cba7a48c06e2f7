"""The Spark sink under kill -9: every row of one topic is in the other exactly once.

A cluster of three brokers, a Spark of a driver and two executors in processes of their own, and a
stream that copies a topic to another while rows are still sent to the first. Every few batches
something is killed, and comes back:

    driver      the driver and its Java, at any moment
    commit      the driver, when the broker has published a batch and Spark has not noted it
    executor    one executor, with the tasks it runs: Spark repeats them
    leader      the broker that leads a partition of the sink's topic
    zombie      the driver goes on while a second one works with a copy of its checkpoint

When all strikes are done the stream ends by itself, and both topics are compared.
"""

import os
import random as random_module
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from penstock import blocking
from penstock.blocking import BlockingClient
from penstock.testing import LocalCluster
from tests.cluster.waiting import pass_time, wait_until
from tests.soak.strikes import Rows, StrikesOutcome
from tests.spark.sink_driver import Driver, Job

SOURCE, SINK = "soak-in", "soak-out"
PARTITIONS = 3
ROWS_PER_SECOND = 100
ROWS_PER_BATCH = 200
MASTER = "local-cluster[2,1,1024]"
STRIKES = ("driver", "leader", "executor", "commit", "leader", "executor", "zombie")
PROGRESS_WITHIN_SECONDS = 600.0
DONE_WITHIN_SECONDS = 900.0
MOMENT_SECONDS = 3.0
AWAY_SECONDS = 2.0
DIFFERENCES_SHOWN = 20


class StruckSink:
    """The cluster, the driver that works now, and what is done to them."""

    def __init__(self, directory: Path, outcome: StrikesOutcome, stack: ExitStack) -> None:
        self.directory, self.outcome = directory, outcome
        self.random = random_module.Random(outcome.seed)
        self.cluster = stack.enter_context(LocalCluster(3, data=directory / "cluster"))
        self.client: BlockingClient = stack.enter_context(blocking.connect(self.cluster.url))
        for topic in (SOURCE, SINK):
            self.client.create_topic(topic, partitions=PARTITIONS)
        self.job = Job(
            self.cluster.url,
            SOURCE,
            SINK,
            str(directory / "checkpoint"),
            ROWS_PER_BATCH,
            forever=True,
            master=MASTER,
        )
        self._stack = stack
        self.driver = self._start(self.job)

    def _start(self, job: Job) -> Driver:
        self.outcome.counts["drivers"] += 1
        log = self.directory / f"driver-{self.outcome.counts['drivers']}.txt"
        driver = Driver(job, log)
        self._stack.callback(driver.kill)
        driver.go()
        return driver

    def copied(self) -> int:
        """How many rows are in the sink's topic."""
        return self.client.describe_topic(SINK).messages

    def wait_progress(self) -> None:
        """Wait until some batches more are written; a driver that gave up is started again."""
        wanted = self.copied() + self.random.randrange(1, 3) * ROWS_PER_BATCH

        def progressed() -> bool:
            if not self.driver.running:
                self.outcome.counts["drivers that gave up"] += 1
                self.driver = self._start(self.job)
            return self.copied() >= wanted

        wait_until(
            progressed, lambda: f"{wanted} rows\n{self.driver.said()}",
            seconds=PROGRESS_WITHIN_SECONDS,
        )  # fmt: skip
        pass_time(self.random.uniform(0, MOMENT_SECONDS))

    # Strikes.

    def strike_driver(self) -> None:
        self.driver.kill()
        self.driver = self._start(self.job)

    def strike_commit(self) -> None:
        self.driver.kill()
        self.driver = self._start(replace(self.job, strike_after_batch=0))
        code = self.driver.wait(PROGRESS_WITHIN_SECONDS)
        if code != -signal.SIGKILL:
            self.outcome.counts["drivers that gave up"] += 1
        self.driver = self._start(self.job)

    def strike_executor(self) -> None:
        found = wait_until(
            lambda: _executors(self.driver.process.pid) or not self.driver.running,
            lambda: f"there are executors\n{self.driver.said()}",
            seconds=PROGRESS_WITHIN_SECONDS,
        )
        if isinstance(found, list):
            os.kill(self.random.choice(found), signal.SIGKILL)

    def strike_leader(self) -> None:
        places = self.client.describe_topic(SINK).partitions
        leader = places[self.random.randrange(PARTITIONS)].leader
        if leader not in self.cluster.running:
            leader = self.random.choice(self.cluster.running)
        self.cluster.kill(leader)
        pass_time(self.random.uniform(0, AWAY_SECONDS))
        self.cluster.restart(leader)

    def strike_zombie(self) -> None:
        """Two drivers with the same query at the same time. The one that is behind ends."""
        copy = self.directory / f"checkpoint-{self.outcome.counts['zombie']}"
        shutil.copytree(self.job.checkpoint, copy, ignore_dangling_symlinks=True)
        zombie = self._start(replace(self.job, checkpoint=str(copy), master="local[1]"))
        pass_time(self.random.uniform(0, 2 * MOMENT_SECONDS))
        zombie.kill()


def strike_sink(directory: Path, *, seed: int, strikes: int) -> StrikesOutcome:
    """Strike so often, then compare."""
    outcome = StrikesOutcome(seed)
    began = time.monotonic()
    with ExitStack() as stack:
        sink = StruckSink(directory, outcome, stack)
        rows = Rows(sink.cluster.url, SOURCE, ROWS_PER_SECOND)
        rows.start()
        try:
            for number in range(strikes):
                sink.wait_progress()
                kind = STRIKES[(seed + number) % len(STRIKES)]
                strike: Callable[[], None] = getattr(sink, f"strike_{kind}")
                strike()
                outcome.counts[kind] += 1
            sink.wait_progress()
        finally:
            rows.finish()
        sink.driver.kill()
        last = Driver(replace(sink.job, forever=False), directory / "driver-last.txt")
        stack.callback(last.kill)
        last.go()
        if last.wait(DONE_WITHIN_SECONDS):
            outcome.complaints.append(f"the last driver failed:\n{last.said()}")
        outcome.complaints += _compare(sink.client, outcome)
    outcome.seconds = time.monotonic() - began
    return outcome


def _compare(client: BlockingClient, outcome: StrikesOutcome) -> list[str]:
    sent = Counter(record.raw for record in client.read(SOURCE))
    found = Counter(record.raw for record in client.read(SINK))
    outcome.counts.update(rows=sum(sent.values()), copies=sum(found.values()))
    missing, more = sent - found, found - sent
    return [
        f"{sum(rows.values())} rows are {what}: {sorted(rows)[:DIFFERENCES_SHOWN]}"
        for what, rows in (("missing", missing), ("there too often", more))
        if rows
    ]


def _executors(driver: int) -> list[int]:
    """The processes of a driver's executors: they are of its group."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            group = os.getpgid(int(entry.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if group == driver and b"CoarseGrainedExecutorBackend" in command:
            # The shell that starts Java has the same words; it is replaced by Java soon.
            found.append(int(entry.name))
    return found
