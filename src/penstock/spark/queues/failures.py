"""Rows that failed: what was read from a queue dies there, with a reason.

    def handle(rows, batch_id):
        good, bad = split(check(rows), "reason")     a column that is null where all is well
        bury(bad, spark_options, batch_id)
        good.write…

    orders.writeStream.foreachBatch(handle)

A row that was read from a queue knows its partition and offset, so no copy of it is written: the
broker's own message dies, by the ordinary way of all dead letters. It is moved to the dead-letter
queue or kept aside, as the queue is configured, seen by `penstock queue`, counted, redriven.

A topic has no work group in which a message could die. Its bad rows are written to a dead-letter
topic, `orders_dlq` of `orders`, with the headers of any dead letter.

**Once, whatever crashes.** `bury` runs within the micro-batch, before Spark commits it, and only
names offsets: it may run twice. What is dead stays dead when the batch is settled afterwards, and
what was done or moved already stays so. A batch that is repeated after a crash buries what fails
then; what died in the first attempt stays dead, although it might not fail again. The copies for a
topic are published once for each batch of a query, all or none.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from penstock.core import delivery_headers
from penstock.core.errors import InvalidRequest
from penstock.core.limits import CUMULATIVE_ACK_DEAD_MAX, DEAD_REASON_CHARACTERS_MAX
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.spark.address import address_of
from penstock.spark.connections import client_of, run

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

REASON: Final = "reason"
SUFFIX: Final = "_dlq"
UNSAID: Final = "it failed without a reason"


def split(rows: "DataFrame", reason: str = REASON) -> "tuple[DataFrame, DataFrame]":
    """Rows without a reason, which lose that column, and rows with one. Both are made of the same
    rows: `persist` them if reading them twice is dear."""
    _require(rows, (reason,), "split")
    column = rows[reason]
    return rows.where(column.isNull()).drop(reason), rows.where(column.isNotNull())


def bury(
    bad: "DataFrame", options: Mapping[str, str], batch_id: int, *, reason: str = REASON
) -> None:
    """Let these rows die. `options` are those that they were read with: the broker, and the queue
    with its `workGroup`, or what was subscribed to. `batch_id` is that of `foreachBatch`.

    Columns: topic, partition, offset and the reason; of a topic's rows key, value and headers, too,
    as far as they are there."""
    given = {name.lower(): value for name, value in options.items()}
    _require(bad, ("partition", "offset", reason), "bury")
    address = address_of(given)
    if "queue" not in given:
        _copy(bad, given, batch_id, reason)
        return
    queue, group = given["queue"].strip(), given.get("workgroup", DEFAULT_WORK_GROUP).strip()
    chosen = bad.select("partition", "offset", bad[reason].cast("string").alias(REASON))
    chosen.foreachPartition(_Burial(address, queue, group))


class _Burial:
    """The treatment of a task's bad rows."""

    def __init__(self, address: str, queue: str, group: str) -> None:
        self._address = address
        self._queue = queue
        self._group = group

    def __call__(self, rows: "Iterable[Row]") -> None:
        left = iter(rows)
        while some := list(islice(left, CUMULATIVE_ACK_DEAD_MAX)):
            dead: dict[int, dict[int, str]] = {}
            for partition, offset, why in some:
                if partition is None or offset is None:
                    raise InvalidRequest("a row that is to be buried has no partition or no offset")
                text = (why or UNSAID)[:DEAD_REASON_CHARACTERS_MAX]
                dead.setdefault(partition, {})[offset] = text
            for partition, reasons in dead.items():
                queue = client_of(self._address).queue(self._queue, group=self._group)
                run(queue.ack_range(partition, 0, 0, dead=reasons))


# Topics.


def _copy(bad: "DataFrame", given: Mapping[str, str], batch_id: int, reason: str) -> None:
    """Write them to the dead-letter topics of their topics, once for each batch of a query."""
    _require(bad, ("topic", "partition", "offset", "value"), "bury")
    from pyspark.sql import functions as sql  # noqa: PLC0415 - a task that buries needs none of it

    query = bad.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not query:
        raise InvalidRequest(
            "bury copies the rows of a topic once for each batch of a query: call it in"
            " foreachBatch"
        )
    said: dict[str, Column] = {
        delivery_headers.DEAD_TOPIC: sql.col("topic"),
        delivery_headers.DEAD_PARTITION: sql.col("partition"),
        delivery_headers.DEAD_OFFSET: sql.col("offset"),
        delivery_headers.DEAD_REASON: sql.substring(
            sql.coalesce(sql.col(reason).cast("string"), sql.lit(UNSAID)),
            1,
            DEAD_REASON_CHARACTERS_MAX,
        ),
        delivery_headers.DEAD_GROUP: sql.lit(given.get("kafka.group.id", "")),
        delivery_headers.DEAD_MS: sql.unix_millis(sql.current_timestamp()),
    }
    headers = sql.array(
        *(
            sql.struct(
                sql.lit(name).alias("key"), column.cast("string").cast("binary").alias("value")
            )
            for name, column in said.items()
        )
    )
    if "headers" in bad.columns:
        none = sql.array().cast("array<struct<key:string,value:binary>>")
        headers = sql.concat(sql.coalesce(sql.col("headers"), none), headers)
    columns = [
        sql.concat(sql.col("topic"), sql.lit(SUFFIX)).alias("topic"),
        sql.col("value"),
        headers.alias("headers"),
        *([sql.col("key")] if "key" in bad.columns else []),
    ]
    writer = bad.select(*columns).write.format("penstock").mode("append")
    writer = writer.option("url", address_of(given)).option("createTopics", "true")
    writer.option("appId", f"{query}{SUFFIX}").option("batchId", str(batch_id)).save()


def _require(rows: "DataFrame", names: Iterable[str], what: str) -> None:
    missing = [name for name in names if name not in rows.columns]
    if missing:
        raise InvalidRequest(
            f"{what} needs the column {missing[0]}, and the rows have {', '.join(rows.columns)}"
        )
