"""The streaming sink: `df.writeStream.format("penstock").option("topic", "orders")…start()`.

Exactly once: the tasks of a micro-batch stage, and `commit` publishes the micro-batch under its
number and the query's id, or `appId`. A micro-batch that Spark repeats after a crash is published
already, or is published then; never twice. See `publishing` for what is refused.

Spark tells `write` neither the batch nor the query, but as properties of the task, and makes a
writer anew for every commit, in another process: nothing is kept here from batch to batch.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.core.errors import InvalidRequest
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
        """Nothing to take back: what was staged and not published expires. Spark also comes here
        after a commit that raised, when the batch may well be published."""


DIGEST_CHARACTERS = 16


def plan_of(checkpoint: str | None, batch: int) -> str:
    """A short text that differs between batches that were planned apart; empty if unknown.

    Before Spark runs a micro-batch it writes what the batch reads, and when, into the checkpoint:
    the file `offsets/<number>`. A batch that is repeated after a crash is run from that file, so
    the file distinguishes it from another batch of the same number. There is such a one if two
    drivers run one query with copies of its checkpoint, or one that was restored from a backup:
    their batches 7 begin alike and need not end alike, and to take one for the other loses rows or
    doubles them.

    A checkpoint on another kind of file system, which this process cannot read, is not looked into:
    the query's id and the number must do."""
    directory = _directory(checkpoint)
    if directory is None:
        return ""
    try:
        written = (directory / "offsets" / str(batch)).read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(written).hexdigest()[:DIGEST_CHARACTERS]


def _directory(checkpoint: str | None) -> Path | None:
    """Where a checkpoint is, if it is on a disk of this machine."""
    if not checkpoint:
        return None
    if "://" not in checkpoint and not checkpoint.startswith("file:"):
        return Path(checkpoint)
    place = urlsplit(checkpoint)
    if place.scheme != "file" or place.netloc:
        return None
    return Path(unquote(place.path))
