"""Batch reads: a table of what a topic holds now, or of what lies between two bounds.

Spark asks for the plan once, in a process of the driver, and sends every task its stretches, which
it reads straight from the leaders of their partitions.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.spark.connections import client_of, run
from penstock.spark.reading.columns import arrow_schema, check_schema
from penstock.spark.reading.fetcher import read_stretches
from penstock.spark.reading.ranges import Stretch, split
from penstock.spark.reading.read_options import ReadOptions
from penstock.spark.reading.start_offsets import plan


class Task(InputPartition):
    """Stretches of partitions that one Spark task reads, one after the other."""

    def __init__(self, stretches: tuple[Stretch, ...]) -> None:
        super().__init__(None)
        self.stretches = stretches

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{one.topic}:{one.partition}:{one.start}-{one.end}" for one in self.stretches
        )
        return f"Task({parts})"


class PenstockReader(DataSourceReader):
    """Plans a batch query over the log, and reads its stretches in the executors."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        check_schema(schema)
        self._schema = arrow_schema(schema)
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return [Task(stretches) for stretches in self._split(self._plan())]

    def _plan(self) -> list[Stretch]:
        return run(plan(client_of(self._options.address).raw_log(), self._options))

    def _split(self, stretches: Sequence[Stretch]) -> list[tuple[Stretch, ...]]:
        options = self._options
        found = split(
            stretches, partitions_min=options.partitions_min, records_max=options.records_max
        )
        return found or [()]  # Spark wants one, even if there is nothing to read.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a task."""
        assert isinstance(partition, Task)
        return read_stretches(partition.stretches, self._schema, self._options)
