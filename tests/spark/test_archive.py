"""Archive and compaction: a log and its lake hold the same, whoever is killed."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.core.errors import (
    DirectoryInUse,
    ForeignDirectory,
    InvalidRequest,
    OffsetOutOfRange,
    UnknownTopic,
)
from penstock.spark import archive, compact
from penstock.spark.connections import client_of, run
from penstock.spark.jobs import archive as archive_job
from penstock.spark.jobs.archive import ArchiveStep, share_out
from penstock.spark.lake.entries import Change, Covered, entry_path
from penstock.spark.lake.lake import Lake
from penstock.spark.lake.tasks import run_tasks
from penstock.testing import PenstockServer
from tests.cluster.waiting import pass_time, wait_until
from tests.spark.lakes import delete_before, lake_rows_of, log_rows_of, make_topic, send

DRIVER_WITHIN_SECONDS = 240.0


def test_a_topic_is_archived_in_steps_and_goes_on_from_the_catalog(
    spark: SparkSession, broker: PenstockServer, tmp_path: Path
) -> None:
    root = str(tmp_path / "lake")
    make_topic(broker.url, "stepwise")
    send(broker.url, "stepwise", range(250))
    steps: list[ArchiveStep] = []
    done = archive(spark, root, "stepwise", url=broker.url, max_offsets=100, told=steps.append)
    assert (done.rows, done.steps) == (250, 3)
    assert [one.behind for one in steps] == [150, 50, 0]
    assert done.ends == {"stepwise": {0: 125, 1: 125}}
    assert lake_rows_of(root, "stepwise") == log_rows_of(broker.url, "stepwise")
    # A day has a directory of its own.
    days = {file.date for file in Lake.open(root).catalog.files_of("stepwise")}
    assert days == {"2026-01-30", "2026-01-31"}
    assert archive(spark, root, "stepwise", url=broker.url).rows == 0
    send(broker.url, "stepwise", range(250, 260))
    assert archive(spark, root, ["stepwise"], url=broker.url).rows == 10
    assert lake_rows_of(root, "stepwise") == log_rows_of(broker.url, "stepwise")


def test_small_files_become_large_ones(
    spark: SparkSession, broker: PenstockServer, tmp_path: Path
) -> None:
    root = str(tmp_path / "lake")
    make_topic(broker.url, "scattered")
    for first in range(0, 400, 100):
        send(broker.url, "scattered", range(first, first + 100))
        archive(spark, root, "scattered", url=broker.url)
    orphan = tmp_path / "lake/topic=scattered/date=2026-01-30/orphan.parquet"
    orphan.write_bytes(b"of somebody who was killed")
    before = Lake.open(root).catalog
    done = compact(spark, root, grace_seconds=3_600)
    assert done.files_before == len(before.files) > done.files_after == 2
    assert done.swept == 0, "somebody may be reading the old files"
    assert lake_rows_of(root, "scattered") == log_rows_of(broker.url, "scattered")
    assert Lake.open(root).catalog.spans("scattered") == before.spans("scattered")
    again = compact(spark, root, grace_seconds=0, orphan_seconds=0)
    assert again.rewritten == 0
    assert again.swept == len(before.files) + 1
    assert not orphan.exists()
    assert lake_rows_of(root, "scattered") == log_rows_of(broker.url, "scattered")
    archive(spark, root, "scattered", url=broker.url)  # And the catalog goes on as before.
    assert Lake.open(root).catalog.rows("scattered") == 400


def test_what_retention_removed_before_is_an_error_or_a_gap(
    spark: SparkSession, broker: PenstockServer, tmp_path: Path
) -> None:
    root = str(tmp_path / "lake")
    make_topic(broker.url, "trimmed", partitions=1)
    send(broker.url, "trimmed", range(50), partitions=1)
    archive(spark, root, "trimmed", url=broker.url, max_offsets=50)
    send(broker.url, "trimmed", range(50, 100), partitions=1)
    delete_before(broker.kafka, "trimmed", {0: 70})
    with pytest.raises(OffsetOutOfRange, match="offsets 50 to 69 of trimmed, partition 0"):
        archive(spark, root, "trimmed", url=broker.url)
    done = archive(spark, root, "trimmed", url=broker.url, fail_on_data_loss=False)
    assert (done.rows, done.lost) == (30, {"trimmed": 20})
    assert Lake.open(root).catalog.gaps("trimmed") == {0: ((50, 70),)}


def test_whoever_comes_second_is_refused_and_leaves_nothing(
    spark: SparkSession,
    broker: PenstockServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rival adds the same offsets while our tasks are at work."""
    root = str(tmp_path / "lake")
    make_topic(broker.url, "contested", partitions=1)
    send(broker.url, "contested", range(20), partitions=1)
    topic_id = run(client_of(broker.url).describe_topic("contested")).id
    taken = Covered(topic="contested", topic_id=topic_id, partition=0, first=5, end=15, rows=0)

    def run_tasks_late(*arguments: Any) -> list[bytes]:
        outcomes = run_tasks(*arguments)
        rival = Change(writer="archive", query="rival", batch=0, covered=(taken,))
        Lake.open(root).commit(rival)
        return outcomes

    monkeypatch.setattr(archive_job, "run_tasks", run_tasks_late)
    with pytest.raises(DirectoryInUse, match="offsets 5–14 of contested, partition 0, are in"):
        archive(spark, root, "contested", url=broker.url)
    assert list(Path(root).rglob("*.parquet")) == []
    assert Lake.open(root).catalog.spans("contested") == {0: ((5, 15),)}


def test_a_topic_that_was_made_anew_is_another_one(
    spark: SparkSession, broker: PenstockServer, tmp_path: Path
) -> None:
    root = str(tmp_path / "lake")
    for _ in range(2):
        make_topic(broker.url, "reborn", partitions=1)
        send(broker.url, "reborn", range(5), partitions=1)
        if Path(root).exists():
            with pytest.raises(ForeignDirectory, match="under another root"):
                archive(spark, root, "reborn", url=broker.url)
        else:
            archive(spark, root, "reborn", url=broker.url)
        run(client_of(broker.url).delete_topic("reborn"))


def test_following_goes_on_until_it_is_stopped(
    spark: SparkSession, broker: PenstockServer, tmp_path: Path
) -> None:
    root = str(tmp_path / "lake")
    make_topic(broker.url, "followed")
    send(broker.url, "followed", range(30))
    stop = threading.Event()
    seen: list[int] = []

    def told(step: ArchiveStep) -> None:
        seen.append(step.rows)
        if len(seen) == 1:
            send(broker.url, "followed", range(30, 50))
        else:
            stop.set()

    done = archive(
        spark, root, "followed", url=broker.url, follow=True, interval_seconds=0.05,
        stop=stop, told=told,
    )  # fmt: skip
    assert done.rows == 50
    assert seen == [30, 20]
    assert lake_rows_of(root, "followed") == log_rows_of(broker.url, "followed")


def test_bad_input_is_told_before_work_starts(
    spark: SparkSession, broker: PenstockServer, tmp_path: Path
) -> None:
    root = str(tmp_path / "lake")
    with pytest.raises(UnknownTopic, match="nowhere"):
        archive(spark, root, "nowhere", url=broker.url)
    with pytest.raises(InvalidRequest, match="name a topic"):
        archive(spark, root, (), url=broker.url)
    assert not Path(root).exists()


def test_partitions_share_a_step_by_what_they_have() -> None:
    waiting = {("t", 0): (0, 900), ("t", 1): (100, 200), ("t", 2): (5, 6)}
    chosen = share_out(waiting, 100)
    assert chosen[("t", 0)] == (0, 89)
    assert chosen[("t", 1)] == (100, 109)
    assert chosen[("t", 2)] == (5, 6), "even the smallest goes on"
    assert share_out(waiting, 10_000) == waiting


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_three_times_it_misses_and_doubles_nothing(
    spark: SparkSession, broker: PenstockServer, tmp_path: Path
) -> None:
    """Each driver is killed with all its processes, a moment after an entry was seen: between two
    steps, while tasks are at work, or before what they wrote is added."""
    root = tmp_path / "lake"
    make_topic(broker.url, "struck")
    send(broker.url, "struck", range(20_000))
    command = [sys.executable, "-m", "penstock.cli.main", "job", "archive", "struck"]
    command += ["--lake", str(root), "--url", broker.url, "--master", "local[1]"]
    command += ["--max-offsets", "400"]
    seen = 0
    for moment in (0.0, 0.1, 0.25):
        with (tmp_path / "driver.txt").open("ab") as log:
            driver = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_for(driver, root / entry_path(seen + 3))
            pass_time(moment)
        finally:
            assert driver.poll() is None, (tmp_path / "driver.txt").read_text()
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait(60)
        seen = Lake.open(str(root)).catalog.number
    assert seen < 50, "there is something left to do"
    archive(spark, str(root), "struck", url=broker.url)
    assert lake_rows_of(str(root), "struck") == log_rows_of(broker.url, "struck")
    assert Lake.open(str(root)).catalog.spans("struck") == {0: ((0, 10_000),), 1: ((0, 10_000),)}


def wait_for(driver: "subprocess.Popen[bytes]", path: Path) -> None:
    wait_until(
        lambda: path.exists() or driver.poll() is not None,
        lambda: f"{path} is there",
        seconds=DRIVER_WITHIN_SECONDS,
    )
