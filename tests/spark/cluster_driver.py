"""A driver whose tasks run in other processes:  python -m tests.spark.cluster_driver '{…}'

It starts Spark's own cluster on this machine, a master and two workers with an executor each, and
copies a topic. In the middle of the copy, when a task has been given its first rows and not its
last, that task's executor is killed. What it found out is printed as JSON.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock.core.decoders import decode_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MASTER = "local-cluster[2,1,1024]"


BATCH_ROWS = 1_000
"""So that every task is given its rows in several pieces."""


@dataclass(frozen=True)
class Job:
    """What the driver is to do."""

    kafka: str
    source: str
    target: str
    marks: str
    """A directory: tasks leave the number of their executor's process here."""


@dataclass(frozen=True)
class Outcome:
    """What it did."""

    driver: int
    """The process of the driver's Java."""
    copied: int
    distinct: int


def main() -> int:
    job = decode_json(sys.argv[1], Job)
    from penstock.spark import session

    settings = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS)}
    spark = session("cluster", master=MASTER, settings=settings)
    try:
        outcome = copy(spark, job)
    finally:
        spark.stop()
    sys.stdout.write(msgspec.json.encode(asdict(outcome)).decode() + "\n")
    return 0


def copy(spark: "SparkSession", job: Job) -> Outcome:
    """Copy the topic while an executor is killed, and look at what became of it."""
    source = read(spark, job.kafka, job.source).select("key", "value")
    struck = source.mapInArrow(striking(job.marks), "key BINARY, value BINARY")
    writer = struck.write.format("penstock").option("kafka.bootstrap.servers", job.kafka)
    writer.option("topic", job.target).mode("append").save()
    found = read(spark, job.kafka, job.target).selectExpr("count(*)", "count(DISTINCT value)")
    counted = found.first()
    java = spark.sparkContext._jvm
    assert counted is not None
    assert java is not None
    pid = java.java.lang.ProcessHandle.current().pid()
    return Outcome(driver=pid, copied=counted[0], distinct=counted[1])


def read(spark: "SparkSession", kafka: str, topic: str) -> "DataFrame":
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", kafka)
    return reader.option("subscribe", topic).load()


def executor() -> int:
    """The process that runs this task: it started the daemon that started this worker."""
    asked = subprocess.run(["ps", "-o", "ppid=", "-p", str(os.getppid())], capture_output=True)
    return int(asked.stdout)


def striking(
    marks: str,
) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """Hand rows on; the first task of all that gets its third piece is killed by it."""

    def pass_on(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        process = executor()
        Path(marks, f"read-{process}").touch()
        for number, batch in enumerate(batches):
            if number == 2:
                strike(process, Path(marks, "killed"))
            yield batch

    return pass_on


def strike(process: int, mark: Path) -> None:
    """Kill this task's executor, unless one was killed before."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    mark.write_text(str(process))
    os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
