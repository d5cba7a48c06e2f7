"""The streaming sink: `df.writeStream.format("penstock").option("topic", "orders")…start()`.

Exactly once: the tasks of a micro-batch stage, and `commit` publishes the micro-batch under its
number and the query's id, or `appId`. A micro-batch that Spark repeats after a crash is published
already, or is published then; never twice. See `publishing` for what is refused.

Spark tells `write` neither the batch nor the query, but as properties of the task, and makes a
writer anew for every commit, in another process: nothing is kept here from batch to batch.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.core.errors import InvalidRequest
from penstock.spark.sink.plans import plan_of
from penstock.spark.sink.publisher import TaskDone, TaskMessages, publish_tasks
from penstock.spark.sink.stager import stage_rows
from penstock.spark.sink.write_options import Schema
from penstock.spark.sink.writer import QUERY_PROPERTY, prepare_write

BATCH_PROPERTY = "streaming.sql.batchId"


class PenstockStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of one query; made by the data source `penstock`."""

    def __init__(self, options: Mapping[str, str], schema: Schema, *, overwrite: bool) -> None:
        """Everything that can be checked without a row is checked here, on the driver."""
        if overwrite:
            raise InvalidRequest(
                'a topic keeps every version of a row: say outputMode("append") or ("update"), and'
                " not complete"
            )
        self.options = prepare_write(options, schema, overwrite=False)
        if self.options.batch is not None:
            raise InvalidRequest("a stream numbers its batches itself: leave out batchId")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None, "Spark writes in tasks"
        query = context.getLocalProperty(QUERY_PROPERTY)
        assert query, f"this Spark does not say {QUERY_PROPERTY}"
        # Micro-batches of few rows must not all begin with the same partition.
        turn = int(context.getLocalProperty(BATCH_PROPERTY) or 0) + context.partitionId()
        staged = stage_rows(iterator, self.options, turn=turn)
        return TaskDone(staged, self.options.application or query, query)

    def commit(self, messages: TaskMessages, batchId: int) -> None:  # noqa: N803
        """Spark may call it again for the same batch."""
        plan = plan_of(self.options.checkpoint, batchId)
        publish_tasks(self.options.url, messages, batchId, plan=plan, even_nothing=True)

    def abort(self, messages: TaskMessages, batchId: int) -> None:  # noqa: N803
        """Do nothing: staged messages that were not published expire. Spark also calls this after a
        commit that raised, when the batch may well be published."""
