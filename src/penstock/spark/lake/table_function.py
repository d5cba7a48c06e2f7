"""`penstock_history(root, topic, url)`: history and tail as a table function of SQL.

    register_table_function(spark)
    spark.sql("SELECT * FROM penstock_history('lake', 'orders', 'penstock://127.0.0.1:9092')")

It needs no view and no preparation, so a notebook or a BI tool can ask for any topic. It has its
price: Spark runs a table function in one task, so one process reads it all. For more than some
millions of messages take `penstock.spark.history`, which reads in parallel.

The address may be '' for the lake alone. Lakes are read by the worker itself, so they must be in a
directory that it sees.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.address import address_of
from penstock.spark.connections import client_of, run
from penstock.spark.lake.day_files import SCHEMA, filesystem_of
from penstock.spark.lake.history import COLUMNS, tail_spans
from penstock.spark.lake.lake import Lake
from penstock.spark.lake.log_batches import log_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "penstock_history"
RETURNS: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,"
    " timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
ROWS_AT_ONCE: Final = 20_000
_ROW: Final = pa.schema(
    [pa.field("topic", pa.string()) if name == "topic" else SCHEMA.field(name) for name in COLUMNS]
)


class HistoryRows:
    """The table function that Spark calls in a worker."""

    def eval(self, root: pa.Array, topic: pa.Array, url: pa.Array) -> Iterator[pa.Table]:
        """All messages of a topic, lake first. Arguments come as columns, of one row each."""
        for asked in zip(root.to_pylist(), topic.to_pylist(), url.to_pylist(), strict=True):
            for batch in read_history(*asked):
                yield pa.Table.from_batches([batch])


def register_table_function(spark: "SparkSession", name: str = NAME) -> None:
    """Make it known to this session."""
    from pyspark.sql.functions import arrow_udtf  # noqa: PLC0415 - only where there is Spark.

    function: Any = arrow_udtf(HistoryRows, returnType=RETURNS)
    spark.udtf.register(name, function)


def read_history(root: str, topic: str, url: str) -> Iterator[pa.RecordBatch]:
    """All messages of a topic, a few MiB at a time, without Spark."""
    lake = Lake.open(root)
    described = None
    if url:
        url = address_of({"url": url})
        described = run(client_of(url).describe_topic(topic))
    else:
        lake.require(topic)
    rounds = [] if described is None else tail_spans(lake, described)
    files, base = filesystem_of(lake.root)
    for one in lake.catalog.files_of(topic):
        with files.open_input_file(f"{base}/{one.path}") as stream:
            for batch in pq.ParquetFile(stream).iter_batches(ROWS_AT_ONCE):
                yield _with_topic(batch, topic)
    for spans in rounds:
        for partition, span in spans.items():
            assert described is not None
            yield from log_batches(url, topic, described.id, partition, span, _ROW)


def _with_topic(batch: pa.RecordBatch, topic: str) -> pa.RecordBatch:
    names = pa.repeat(pa.scalar(topic, pa.string()), batch.num_rows)
    columns = [names if name == "topic" else batch.column(name) for name in COLUMNS]
    return pa.RecordBatch.from_arrays(columns, schema=_ROW)
