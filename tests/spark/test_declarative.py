"""A pipeline in Spark's own declarative form, with a broker to read and to write."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import penstock.blocking
from penstock.testing import PenstockServer

PROGRAM = Path(sys.executable).parent / "penstock"
SECONDS_MAX = 280
TRANSFORMATIONS = """
import os

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

URL = os.environ["PENSTOCK_URL"]
spark = SparkSession.active()


@dp.table
def orders():
    reader = spark.readStream.format("penstock").option("url", URL)
    row = F.from_json(F.col("value").cast("string"), "id string, amount double")
    reader = reader.option("subscribe", "sold").option("startingOffsets", "earliest")
    messages = reader.load()
    return messages.select("key", row.alias("row")).select("key", "row.*")


dp.create_sink("big", "penstock", {"url": URL, "topic": "sold.big"})


@dp.append_flow(target="big")
def big_orders():
    rows = spark.readStream.table("orders").where("amount > 50")
    return rows.select("key", F.to_json(F.struct("id", "amount")).alias("value"))
"""


@pytest.mark.soak
@pytest.mark.timeout(2 * SECONDS_MAX)
def test_it_runs_and_writes_once(broker: PenstockServer, tmp_path: Path) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "sold.py").write_text(TRANSFORMATIONS)
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: sold\nstorage: file://{tmp_path}/storage\n"
        "libraries: [{glob: {include: transformations/**}}]\n"
        'configuration: {spark.sql.shuffle.partitions: "2"}\n'
    )
    with penstock.blocking.connect(broker.url) as client:
        client.create_topic("sold", partitions=2)
        client.create_topic("sold.big", partitions=1)
        rows = [{"id": f"o{one}", "amount": float(one)} for one in range(100)]
        client.send_many("sold", [json.dumps(row).encode() for row in rows])
        _run(tmp_path, broker.url)
        found = [json.loads(one.raw)["id"] for one in client.read("sold.big")]
        assert sorted(found) == sorted(f"o{one}" for one in range(51, 100))


def _run(directory: Path, url: str) -> None:
    command = [PROGRAM, "pipeline", "run", directory, "--master", "local[2]", "--url", url]
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
