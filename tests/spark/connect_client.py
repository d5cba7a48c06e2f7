"""A client of Spark Connect, in a process without Java:  python -m tests.spark.connect_client '{…}'

It reads a topic as a batch, copies it to another as a stream, and prints what it counted as JSON.
"""

import sys
from dataclasses import asdict, dataclass

import msgspec

from penstock.core.decoders import decode_json
from penstock.spark import session

WITHIN_SECONDS = 300


@dataclass(frozen=True)
class Job:
    """What the client is to do."""

    master: str
    kafka: str
    source: str
    target: str
    checkpoint: str


@dataclass(frozen=True)
class Outcome:
    """What it counted, and what became of a topic that is not there."""

    rows: int
    streamed: int
    copied: int
    refused: str


def main() -> int:
    job = decode_json(sys.argv[1], Job)
    spark = session("client", master=job.master)
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", job.kafka)
    rows = reader.option("subscribe", job.source).load().count()
    stream = spark.readStream.format("penstock").option("kafka.bootstrap.servers", job.kafka)
    copied = stream.options(subscribe=job.source, startingOffsets="earliest").load()
    query = (
        copied.select("key", "value")
        .writeStream.format("penstock")
        .option("kafka.bootstrap.servers", job.kafka)
        .options(topic=job.target, checkpointLocation=job.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(WITHIN_SECONDS)
    streamed = sum(progress.numInputRows for progress in query.recentProgress)
    try:
        reader.option("subscribe", "nowhere").load().count()
        refused = ""
    except Exception as error:  # noqa: BLE001 - whatever a client is told
        refused = str(error)
    outcome = Outcome(
        rows=rows,
        streamed=streamed,
        copied=reader.option("subscribe", job.target).load().select("value").distinct().count(),
        refused=refused,
    )
    sys.stdout.write(msgspec.json.encode(asdict(outcome)).decode() + "\n")
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
