"""Spark Connect: a client without Java reads and writes through a server that has Penstock."""

import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from penstock import blocking
from penstock.core.decoders import decode_json
from penstock.testing import PenstockServer
from tests.house.sources import ROOT
from tests.spark.connect_client import Job, Outcome

pytestmark = pytest.mark.long

ROWS = 1_000
WITHIN_SECONDS = 400


@pytest.mark.timeout(600)
def test_a_client_reads_writes_and_streams(
    spark: SparkSession, broker: PenstockServer, tmp_path: Path
) -> None:
    with blocking.connect(broker.url) as client:
        client.create_topic("connect", partitions=2)
        client.create_topic("connected", partitions=2)
        client.topic("connect").send_many([b"%d" % number for number in range(ROWS)])
    port = spark.conf.get("spark.connect.grpc.binding.port")
    job = Job(
        master=f"sc://127.0.0.1:{port}",
        kafka=broker.kafka,
        source="connect",
        target="connected",
        checkpoint=str(tmp_path / "checkpoint"),
    )
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_client", msgspec.json.encode(asdict(job))],
        cwd=ROOT,
        env={**environment, "PATH": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=WITHIN_SECONDS,
    )
    assert done.returncode == 0, done.stderr.decode()
    outcome = decode_json(done.stdout.splitlines()[-1], Outcome)
    assert (outcome.rows, outcome.streamed, outcome.copied) == (ROWS, ROWS, ROWS)
    assert "nowhere" in outcome.refused
    assert "create it" in outcome.refused
