"""A Spark application that measures itself:  python -m benchmarks.spark.driver ORDER REPORT

All sources take turns in one application, so that a machine that slows down meanwhile does so for
all of them. Everything that is read ends in Spark's "noop" format, which takes every row and every
column and keeps nothing; or in windows; or in Parquet.
"""

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from pyspark import __version__
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.spark.connector import connector_settings
from benchmarks.spark.orders import (
    BATCH,
    KAFKA,
    ONE_ROW,
    PARQUET,
    PENSTOCK,
    PUBLISH,
    READ,
    SINK,
    STREAM,
    WINDOW,
    WRITE,
    DriverOrder,
    DriverReport,
    Timing,
)
from penstock.core.decoders import decode_json
from penstock.spark import session
from penstock.spark.java import find_java

FORMATS = {PENSTOCK: "penstock", KAFKA: "kafka"}
ROWS = [(1,)]
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


class OneRow(DataSource):
    """The least that a source in Python can be: what Spark itself takes for one."""

    @classmethod
    def name(cls) -> str:
        return "one-row"

    def schema(self) -> str:
        return "value long"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return _OneRowReader()


class _OneRowReader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:  # noqa: ARG002
        return iter(ROWS)


class Driver:
    """Runs one order."""

    def __init__(self, order: DriverOrder) -> None:
        self._order = order
        settings = {"spark.driver.memory": "3g"}
        if order.connector:
            settings |= connector_settings()
        began = time.perf_counter()
        self._spark: SparkSession = session("benchmark", master=order.master, settings=settings)
        self._spark.range(10).write.format("noop").mode("append").save()
        self._session_seconds = time.perf_counter() - began
        self._home = Path(order.directory)
        self._systems = [PENSTOCK, *([KAFKA] if order.connector else [])]
        self._schema: StructType | None = None
        self._timings: list[Timing] = []
        self._names = iter(range(1_000_000))

    def run(self) -> DriverReport:
        """Everything, in turns."""
        first: dict[str, float] = {}
        small = min(self._order.topics)
        self._spark.dataSource.register(OneRow)
        began = time.perf_counter()
        self._spark.read.format("one-row").load().limit(1).collect()
        first[ONE_ROW] = time.perf_counter() - began
        for system in self._systems:
            began = time.perf_counter()
            self._batch(system, small).limit(1).collect()
            first[system] = time.perf_counter() - began
        for size in self._order.topics:
            self._store_parquet(size)
        for turn in range(-1, self._order.rounds):  # The first one warms up and does not count.
            for size in self._order.topics:
                self._turn(turn, size)
        return DriverReport(
            timings=[one for one in self._timings if one.turn >= 0],
            session_seconds=self._session_seconds,
            first_load_seconds=first,
            spark=__version__,
            java=str(find_java().version),
        )

    def _turn(self, turn: int, size: int) -> None:
        for work in (READ, WINDOW, WRITE):
            for system in (*self._systems, PARQUET):
                self._time(turn, size, system, BATCH, work, self._batch_job(system, size, work))
        for work in (READ, WRITE):
            for system in (*self._systems, PARQUET):
                self._time(turn, size, system, STREAM, work, self._stream_job(system, size, work))
        for system in self._systems:
            self._time(turn, size, system, SINK, PUBLISH, self._sink_job(system, size))

    def _time(
        self, turn: int, size: int, system: str, way: str, work: str, job: Callable[[], None]
    ) -> None:
        began = time.perf_counter()
        job()
        timing = Timing(
            system=system,
            way=way,
            work=work,
            message_bytes=size,
            turn=turn,
            messages=self._order.messages[size],
            seconds=time.perf_counter() - began,
        )
        self._timings.append(timing)
        rate = timing.messages / timing.seconds
        sys.stderr.write(f"{system}, {way}, {work}, {size} B: {rate:,.0f} messages/s\n")
        sys.stderr.flush()

    # Sources.

    def _batch(self, system: str, size: int) -> DataFrame:
        if system == PARQUET:
            return self._spark.read.parquet(str(self._parquet(size)))
        return (
            self._spark.read.format(FORMATS[system])
            .option("kafka.bootstrap.servers", self._order.bootstrap)
            .option("subscribe", self._order.topics[size])
            .load()
        )

    def _stream(self, system: str, size: int) -> DataFrame:
        batches = self._order.stream_batches
        if system == PARQUET:
            assert self._schema is not None, "Parquet is written first"
            files = len(list(self._parquet(size).glob("*.parquet")))
            return (
                self._spark.readStream.schema(self._schema)
                .option("maxFilesPerTrigger", max(1, files // batches))
                .parquet(str(self._parquet(size)))
            )
        return (
            self._spark.readStream.format(FORMATS[system])
            .option("kafka.bootstrap.servers", self._order.bootstrap)
            .option("subscribe", self._order.topics[size])
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", self._order.messages[size] // batches)
            .load()
        )

    def _parquet(self, size: int) -> Path:
        return self._home / f"messages-{size}"

    def _store_parquet(self, size: int) -> None:
        frame = self._batch(PENSTOCK, size)
        frame.repartition(4 * self._order.stream_batches).write.parquet(str(self._parquet(size)))
        self._schema = frame.schema

    # Jobs.

    def _batch_job(self, system: str, size: int, work: str) -> Callable[[], None]:
        def run() -> None:
            frame = self._batch(system, size)
            if work == READ:
                frame.write.format("noop").mode("append").save()
            elif work == WINDOW:
                counted = sum(row["count"] for row in _windows(frame).collect())
                assert counted == self._order.messages[size], f"{system} counted {counted}"
            else:
                with self._target() as target:
                    frame.write.parquet(target)

        return run

    def _stream_job(self, system: str, size: int, work: str) -> Callable[[], None]:
        def run() -> None:
            with self._target() as checkpoint, self._target() as target:
                writer = self._stream(system, size).writeStream.option(
                    "checkpointLocation", checkpoint
                )
                if work == READ:
                    writer = writer.format("noop")
                else:
                    writer = writer.format("parquet").option("path", target)
                writer.trigger(availableNow=True).start().awaitTermination()

        return run

    def _sink_job(self, system: str, size: int) -> Callable[[], None]:
        def run() -> None:
            (
                self._batch(PARQUET, size)
                .select("key", "value")
                .write.format(FORMATS[system])
                .option("kafka.bootstrap.servers", self._order.bootstrap)
                .option("topic", f"{self._order.topics[size]}-copy")
                .mode("append")
                .save()
            )

        return run

    def _target(self) -> "_Directory":
        return _Directory(self._home / f"out-{next(self._names)}")


class _Directory:
    """A path that nothing is at, before and after."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> str:
        return str(self._path)

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def _windows(frame: DataFrame) -> DataFrame:
    minutes = functions.window("timestamp", "1 minute")
    return frame.groupBy(minutes).agg(
        functions.count("*").alias("count"), functions.sum(functions.length("value")).alias("bytes")
    )


def main(arguments: list[str]) -> None:
    """Carry out an order."""
    order, report = map(Path, arguments)
    found = Driver(decode_json(order.read_bytes(), DriverOrder)).run()
    report.write_bytes(msgspec.json.encode(found))


if __name__ == "__main__":
    main(sys.argv[1:])
