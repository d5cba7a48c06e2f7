"""Spark with executors in processes of their own, one of them killed in the middle of a read."""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest

from penstock import blocking
from penstock.core.decoders import decode_json
from penstock.testing import PenstockServer
from tests.house.sources import ROOT
from tests.spark.cluster_driver import Job, Outcome

ROWS = 40_000
BODY = bytes(500)
WITHIN_SECONDS = 240


@pytest.mark.long
@pytest.mark.timeout(270)
def test_an_executor_is_killed_in_the_middle_and_every_row_is_copied_once(
    broker: PenstockServer, tmp_path: Path
) -> None:
    with blocking.connect(broker.url) as client:
        client.create_topic("cluster", partitions=4)
        client.create_topic("copied", partitions=4)
        client.topic("cluster").send_many([b"%d " % number + BODY for number in range(ROWS)])
    job = Job(kafka=broker.kafka, source="cluster", target="copied", marks=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.cluster_driver", msgspec.json.encode(asdict(job))],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=WITHIN_SECONDS,
    )
    assert done.returncode == 0, done.stderr.decode()
    outcome = decode_json(done.stdout.splitlines()[-1], Outcome)
    executors = {int(mark.name.removeprefix("read-")) for mark in tmp_path.glob("read-*")}
    assert len(executors) >= 2, "both executors have had tasks"
    assert int((tmp_path / "killed").read_text()) in executors
    assert outcome.driver not in executors
    assert (outcome.copied, outcome.distinct) == (ROWS, ROWS)
