"""The archive job under kill -9: a topic and its lake hold the same, each offset once.

A cluster of three brokers, rows that are sent all the while, and `penstock job archive --follow`.
Every few entries of the manifest something is killed, and comes back:

    driver      the archive job, Java and workers included, at any moment
    rival       a second archive job is started beside the first; one of them is refused
    compaction  `penstock job compact` is started and killed at any moment
    leader      the broker that leads a partition

When all strikes are done the rest is archived, and the lake is compared with the log: as it is, and
once more after a compaction that is let live.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pyarrow.parquet as pq

from penstock import blocking
from penstock.blocking import BlockingClient
from penstock.spark.lake.lake import Lake
from penstock.testing import LocalCluster
from tests.cluster.waiting import pass_time, wait_until
from tests.cluster.warden import Warden
from tests.soak.strikes import Rows, StrikesOutcome

TOPIC = "soak-archive"
PARTITIONS = 3
ROWS_PER_SECOND = 200
OFFSETS_PER_ENTRY = 500
STRIKES = ("driver", "driver", "compaction", "leader", "driver", "rival")
PROGRESS_WITHIN_SECONDS = 300.0
DONE_WITHIN_SECONDS = 900.0
MOMENT_SECONDS = 3.0
AWAY_SECONDS = 2.0
DIFFERENCES_SHOWN = 20


class StruckArchive:
    """The cluster, the job, and what is done to them."""

    def __init__(self, directory: Path, outcome: StrikesOutcome, stack: ExitStack) -> None:
        self.root = directory / "lake"
        self.outcome = outcome
        self.random = Random(outcome.seed)
        self._directory = directory
        self._stack = stack
        self.cluster = stack.enter_context(LocalCluster(3, data=directory / "cluster"))
        self.client: BlockingClient = stack.enter_context(blocking.connect(self.cluster.url))
        self.client.create_topic(TOPIC, partitions=PARTITIONS)
        self.warden = Warden()
        stack.callback(self.warden.close)
        self.driver = self.start_archive()

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        """A job in a process group of its own, which Java and the workers belong to."""
        self.outcome.counts["processes"] += 1
        log_path = self._directory / f"process-{self.outcome.counts['processes']}.txt"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "penstock.cli.main", "job", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.warden.watch(process.pid)
        self._stack.callback(self.kill, process)
        return process

    def start_archive(self, *, once: bool = False) -> "subprocess.Popen[bytes]":
        """The job that is struck; or the one that does the rest."""
        words = ["--follow", "--every", "200ms", "--max-offsets", str(OFFSETS_PER_ENTRY)]
        return self.start(
            *("archive", TOPIC, "--lake", str(self.root), "--url", self.cluster.url),
            *("--master", "local[2]", *([] if once else words)),
        )

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        """All of it, at once, unless it has ended: its number may be somebody else's by now."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
        self.warden.forget(process.pid)

    def entries(self) -> int:
        return Lake.open(str(self.root)).catalog.number

    def wait_progress(self) -> None:
        """Wait for entries, and then for any moment."""
        wanted = self.entries() + self.random.randrange(1, 4)

        def progressed() -> bool:
            if self.driver.poll() is not None:
                self.outcome.counts["drivers that gave up"] += 1
                self.driver = self.start_archive()
            return self.entries() >= wanted

        wait_until(progressed, lambda: f"entry {wanted}", seconds=PROGRESS_WITHIN_SECONDS)
        pass_time(self.random.uniform(0, MOMENT_SECONDS))

    def strike_driver(self) -> None:
        self.kill(self.driver)
        self.driver = self.start_archive()

    def strike_rival(self) -> None:
        rival = self.start_archive()
        pass_time(self.random.uniform(5, 20))
        self.kill(rival)

    def strike_compaction(self) -> None:
        compaction = self.start("compact", str(self.root), "--grace", "1s", "--master", "local[1]")
        pass_time(self.random.uniform(5, 20))
        self.kill(compaction)

    def strike_leader(self) -> None:
        places = self.client.describe_topic(TOPIC).partitions
        leader = places[self.random.randrange(PARTITIONS)].leader
        if leader not in self.cluster.running:
            leader = self.random.choice(self.cluster.running)
        self.cluster.kill(leader)
        pass_time(self.random.uniform(0, AWAY_SECONDS))
        self.cluster.restart(leader)

    def finish(self) -> None:
        """Archive the rest, compare, compact, and compare again."""
        self.kill(self.driver)
        last = self.start_archive(once=True)
        if last.wait(DONE_WITHIN_SECONDS) != 0:
            self.outcome.complaints.append(f"the last archive ended with {last.returncode}")
        self.compare("archived")
        compaction = self.start("compact", str(self.root), "--grace", "0s", "--master", "local[2]")
        if compaction.wait(DONE_WITHIN_SECONDS) != 0:
            self.outcome.complaints.append(f"compaction ended with {compaction.returncode}")
        self.compare("compacted")

    def compare(self, when: str) -> None:
        """The log by a plain client, the lake by a plain reader of Parquet."""
        topic = self.client.topic(TOPIC, codec=bytes)
        log = Counter((one.partition, one.offset, one.raw) for one in topic.read())
        lake: Counter[tuple[int, int, bytes]] = Counter()
        for file in Lake.open(str(self.root)).catalog.files_of(TOPIC):
            table = pq.read_table(self.root / file.path, partitioning=None)
            lake.update(zip(*(table[name].to_pylist() for name in
                              ("partition", "offset", "value")), strict=True))  # fmt: skip
        self.outcome.counts[f"rows {when}"] = lake.total()
        for what, found in (("missing", log - lake), ("too many", lake - log)):
            shown = sorted(found)[:DIFFERENCES_SHOWN]
            if shown:
                self.outcome.complaints.append(f"{when}: {found.total()} {what}: {shown}")


def strike_archive(directory: Path, *, seed: int, strikes: int) -> StrikesOutcome:
    """Strike so often, then compare."""
    outcome = StrikesOutcome(seed)
    began = time.monotonic()
    with ExitStack() as stack:
        struck = StruckArchive(directory, outcome, stack)
        rows = Rows(struck.cluster.url, TOPIC, ROWS_PER_SECOND)
        rows.start()
        try:
            for number in range(strikes):
                struck.wait_progress()
                kind = STRIKES[(seed + number) % len(STRIKES)]
                strike: Callable[[], None] = getattr(struck, f"strike_{kind}")
                strike()
                outcome.counts[kind] += 1
            struck.wait_progress()
        finally:
            rows.finish()
        struck.finish()
    outcome.seconds = time.monotonic() - began
    return outcome
