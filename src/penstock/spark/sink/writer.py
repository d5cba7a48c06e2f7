"""The batch sink: `df.write.format("penstock").option("topic", "orders").save(mode="append")`.

Tasks stage, the driver publishes all of it at once when the last task is done: readers see the
whole write or nothing of it, and a write that fails leaves nothing behind.

A write with `appId` (and `batchId`, 0 if not said) happens once: running the job again adds
nothing. That is also how `foreachBatch` writes exactly once: give its batch id as `batchId`.
"""

import uuid
from collections.abc import Iterator, Mapping
from zlib import crc32

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from penstock.core.errors import InvalidRequest
from penstock.spark.sink.publisher import TaskDone, TaskMessages, publish_tasks
from penstock.spark.sink.stager import Rooms, stage_rows
from penstock.spark.sink.write_options import (
    Schema,
    WriteOptions,
    check_columns,
    read_write_options,
)

QUERY_PROPERTY = "sql.streaming.queryId"


class PenstockWriter(DataSourceArrowWriter):
    """Writes the rows of one job; made by the data source `penstock`."""

    def __init__(self, options: Mapping[str, str], schema: Schema, *, overwrite: bool) -> None:
        """Everything that can be checked without a row is checked here, on the driver."""
        self.options = prepare_write(options, schema, overwrite=overwrite)
        self._application = self.options.application or f"spark-{uuid.uuid4()}"
        self._batch = self.options.batch or 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None, "Spark writes in tasks"
        # In `foreachBatch` there is a query, and its numbers are its own.
        query = context.getLocalProperty(QUERY_PROPERTY) if self.options.application else None
        # Jobs of few rows must not all begin with the same partition.
        turn = crc32(self._application.encode()) + context.partitionId()
        staged = stage_rows(iterator, self.options, turn=turn)
        return TaskDone(staged, self._application, query or "")

    def commit(self, messages: TaskMessages) -> None:
        publish_tasks(self.options.url, messages, self._batch)

    def abort(self, messages: TaskMessages) -> None:
        """Do nothing: staged messages that were not published expire. Spark also calls this after a
        commit that raised, when the batch may well be published."""


def prepare_write(options: Mapping[str, str], schema: Schema, *, overwrite: bool) -> WriteOptions:
    """The options of a sink, once they and the columns are right and its topics are there."""
    if overwrite:
        raise InvalidRequest('a topic is appended to and never overwritten: say mode("append")')
    found = read_write_options(options)
    check_columns(schema, found)
    rooms = Rooms(found.url, create=found.create_topics)
    for topic in (found.topic, found.dead_letter_topic):
        if topic is not None:
            rooms.need(topic)
    return found
