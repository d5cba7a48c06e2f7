"""Join a topic with a table: each message gets the row of the table that it speaks of.

    enrich(url, "orders", "products.parquet", on="sku", to="orders-with-products", name="product")

    {"id": 7, "sku": "A-1"}   ──▶   {"id": 7, "sku": "A-1", "product": {"sku": "A-1", "price": 5}}

Values are JSON objects; what is joined on is a field of them, or the message's key (`on="key"`).
The row is added as one more field and the rest of the text stays as it was written: numbers keep
their digits and unknown fields their places. Key and headers stay.

    missing="keep"    a message without a row goes on, with null in the new field
            "drop"    it does not go on
            "dead"    it goes to the dead letters of its topic, with the reason

What is no JSON object, or has a field of that name already, is a dead letter in any case.

**Exactly once.** It is a stream with a checkpoint. What goes on and what is dead of a micro-batch
is published to both topics at once; into a lake, a batch that is tried again replaces its own
directory. Without `follow` it works off what is there and ends, and the next run begins where it
ended.

The table is read when the job starts. It has one row for a key: which of two should be taken
is unknown, so that is refused.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from penstock.core import delivery_headers
from penstock.core.errors import InvalidRequest
from penstock.spark.address import address_of
from penstock.spark.connections import client_of, run
from penstock.spark.queues.failures import SUFFIX, bury
from penstock.spark.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Missing = Literal["keep", "drop", "dead"]

FORMATS: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}
KEY: Final = "key"
TRIGGER: Final = "1 second"
CHECKPOINTS: Final = "penstock-checkpoints"
_FIELD: Final = re.compile(r"[A-Za-z_]\w*")
_PATH: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_SQL: Final = re.compile(r"\s*(select|with|table|values|from)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enriched:
    """The result of a run."""

    messages: int
    with_row: int
    without_row: int
    dead: int
    checkpoint: str


def enrich(
    url: str,
    topic: str,
    table: "str | Path | DataFrame",
    *,
    on: str,
    to: str | None = None,
    lake: str | Path | None = None,
    name: str | None = None,
    column: str | None = None,
    columns: Iterable[str] | None = None,
    missing: Missing = "keep",
    checkpoint: str | Path | None = None,
    spark: "SparkSession | None" = None,
) -> Enriched:
    """Work off what the topic has now, and end.

    `table` is a Parquet, CSV or JSON file or directory, a SQL query, or a DataFrame; `column` is
    the one that `on` is held against, if it has another name, and `columns` are those that are
    added. Where they are added is called `name`."""
    query = enrich_stream(
        url, topic, table, on=on, to=to, lake=lake, name=name, column=column, columns=columns,
        missing=missing, checkpoint=checkpoint, trigger=None, spark=spark,
    )  # fmt: skip
    query.awaitTermination()
    counts = {"messages": 0, "with_row": 0, "dead": 0, "passed": 0}
    for progress in query.recentProgress:
        seen: Any = progress.observedMetrics.get(_OBSERVED)
        if seen is not None:
            for word in counts:
                counts[word] += seen[word] or 0
    return Enriched(
        messages=counts["messages"],
        with_row=counts["with_row"],
        without_row=counts["passed"] - counts["with_row"],
        dead=counts["dead"],
        checkpoint=_checkpoint(checkpoint, topic, to, lake),
    )


def enrich_stream(
    url: str,
    topic: str,
    table: "str | Path | DataFrame",
    *,
    on: str,
    to: str | None = None,
    lake: str | Path | None = None,
    name: str | None = None,
    column: str | None = None,
    columns: Iterable[str] | None = None,
    missing: Missing = "keep",
    checkpoint: str | Path | None = None,
    trigger: str | None = TRIGGER,
    spark: "SparkSession | None" = None,
) -> "StreamingQuery":
    """Enrich messages continuously until the query is stopped; without a trigger, until all are
    processed."""
    address = address_of({"url": url})
    if (to is None) == (lake is None):
        raise InvalidRequest("say where enriched messages go: a topic or a lake, one of them")
    if missing not in ("keep", "drop", "dead"):
        raise InvalidRequest(f"missing={missing!r}: a message without a row is keep, drop or dead")
    if not _PATH.fullmatch(on):
        raise InvalidRequest(f"{on!r} is no field: name one, such as sku or item.sku, or key")
    added = name or (Path(table).stem if isinstance(table, str | Path) else "row")
    if not _FIELD.fullmatch(added):
        raise InvalidRequest(f"{added!r} is no name for the field that is added: choose another")
    run(client_of(address).describe_topic(topic))
    running = spark or session("penstock join")
    rows = _rows_of(running, table, column or on.rpartition(".")[2], columns)
    options = {"url": address, "subscribe": topic, "includeHeaders": "true"}
    read = running.readStream.format("penstock").options(**options)
    messages = read.option("startingOffsets", "earliest").load()
    joined = _observed(_joined(messages, rows, on, added, missing))
    writing = (
        _to_topic(joined, address, topic, to)
        if to is not None
        else _to_lake(joined, options, str(lake))
    )
    place = _checkpoint(checkpoint, topic, to, lake)
    writing = writing.option("checkpointLocation", place)
    if trigger is None:
        return writing.trigger(availableNow=True).start()
    return writing.trigger(processingTime=trigger).start()


# The table.


def open_table(spark: "SparkSession", table: "str | Path | DataFrame") -> "DataFrame":
    """By its path or its query; `InvalidRequest` if there is nothing that can be read."""
    from pyspark.errors import PySparkException  # noqa: PLC0415

    if not isinstance(table, str | Path):
        return table
    try:
        if isinstance(table, str) and _SQL.match(table):
            return spark.sql(table)
        path = Path(table)
        if "://" not in str(table) and not path.exists():
            raise InvalidRequest(
                f"there is no table at {path}: name a file, a directory or a query"
            )
        kind = FORMATS.get(path.suffix.lower(), "parquet")
        reader = spark.read.format(kind)
        if kind == "csv":
            reader = reader.option("header", "true").option("inferSchema", "true")
        return reader.load(str(table))
    except PySparkException as error:
        said = str(error).strip().splitlines()[0]
        raise InvalidRequest(f"the table {str(table)!r} cannot be read: {said}") from None


def _rows_of(
    spark: "SparkSession",
    table: "str | Path | DataFrame",
    column: str,
    columns: Iterable[str] | None,
) -> "DataFrame":
    """The table as two columns: what is joined on, and the row as JSON."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    opened = open_table(spark, table)
    chosen = list(opened.columns if columns is None else columns)
    absent = [one for one in (column, *chosen) if one not in opened.columns]
    if absent:
        raise InvalidRequest(
            f"the table has no column {absent[0]}; it has {', '.join(opened.columns)}"
        )
    rows = opened.where(F.col(column).isNotNull()).select(
        F.col(column).cast("string").alias("joined_on"),
        F.to_json(F.struct(*chosen), {"ignoreNullFields": "false"}).alias("joined_row"),
    )
    twice = rows.groupBy("joined_on").count().where("count > 1").first()
    if twice is not None:
        raise InvalidRequest(
            f"the table has {twice['count']} rows with {column} = {twice['joined_on']}: give it"
            " one row for a key, for example by a query with GROUP BY"
        )
    return rows


# The join.


def _joined(
    messages: "DataFrame", rows: "DataFrame", on: str, name: str, missing: Missing
) -> "DataFrame":
    """Messages with their new value, or the reason why there is none (column `reason`)."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    text = messages.withColumn("text", F.col("value").cast("string")).withColumn(
        "parsed", F.try_parse_json("text")
    )
    wanted = (
        F.col("key").cast("string")
        if on == KEY
        else F.try_variant_get("parsed", f"$.{on}", "string")
    )
    both = text.withColumn("wanted", wanted).join(
        rows, F.col("wanted") == F.col("joined_on"), "left"
    )
    is_object = F.coalesce(F.schema_of_variant("parsed").startswith("OBJECT"), F.lit(False))
    reason = F.when(~is_object, F.lit("value is no JSON object")).when(
        F.try_variant_get("parsed", f"$.{name}", "variant").isNotNull(),
        F.lit(f"value has a field {name} already"),
    )
    if missing == "dead":
        shown = F.coalesce(F.concat(F.lit('"'), "wanted", F.lit('"')), F.lit("nothing"))
        reason = reason.when(
            F.col("joined_row").isNull(), F.concat(F.lit(f"no row for {on} = "), shown)
        )
    elif missing == "drop":
        both = both.where(F.col("joined_row").isNotNull() | ~is_object)
    body = F.regexp_replace("text", r"\s*\}\s*$", "")
    comma = F.when(body.rlike(r"^\s*\{$"), F.lit("")).otherwise(F.lit(", "))
    put = F.concat(
        body, comma, F.lit(f'"{name}": '), F.coalesce("joined_row", F.lit("null")), F.lit("}")
    )
    return both.withColumn("reason", reason).withColumn("enriched", put)


_OBSERVED: Final = "enriched"


def _observed(joined: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    well = F.col("reason").isNull()
    return joined.observe(
        _OBSERVED,
        F.count(F.lit(1)).alias("messages"),
        F.count_if(well).alias("passed"),
        F.count_if(well & F.col("joined_row").isNotNull()).alias("with_row"),
        F.count_if(~well).alias("dead"),
    )


def _to_topic(joined: "DataFrame", url: str, topic: str, to: str | None) -> "DataStreamWriter":
    """Write enriched messages and dead letters in one query, so that they are published
    together."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    well = F.col("reason").isNull()
    kept = F.coalesce("headers", F.array().cast(_HEADERS))
    told = F.array(
        *(
            F.struct(F.lit(word).alias("key"), said.cast("string").cast("binary").alias("value"))
            for word, said in _death(topic).items()
        )
    )
    letters = f"{topic}{SUFFIX}"
    out = joined.select(
        F.when(well, F.lit(to)).otherwise(F.lit(letters)).alias("topic"),
        "key",
        F.when(well, F.col("enriched").cast("binary")).otherwise(F.col("value")).alias("value"),
        F.when(well, kept).otherwise(F.concat(kept, told.cast(_HEADERS))).alias("headers"),
    )
    return out.writeStream.format("penstock").option("url", url).option("createTopics", "true")


_HEADERS: Final = "array<struct<key: string, value: binary>>"


def _death(topic: str) -> "dict[str, Column]":
    """The headers of a dead letter (see `core.delivery_headers`)."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    return {
        delivery_headers.DEAD_TOPIC: F.lit(topic),
        delivery_headers.DEAD_PARTITION: F.col("partition"),
        delivery_headers.DEAD_OFFSET: F.col("offset"),
        delivery_headers.DEAD_REASON: F.col("reason"),
        delivery_headers.DEAD_DELIVERIES: F.lit(1),
        delivery_headers.DEAD_MS: F.unix_millis(F.current_timestamp()),
        delivery_headers.SENT_MS: F.unix_millis("timestamp"),
    }


def _to_lake(joined: "DataFrame", options: dict[str, str], lake: str) -> "DataStreamWriter":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    def write(batch: "DataFrame", number: int) -> None:
        held = batch.persist()
        try:
            good = held.where("reason is null").select(
                F.col("key").cast("string").alias("key"),
                F.col("enriched").alias("value"),
                "topic",
                "partition",
                "offset",
                "timestamp",
            )
            good.write.mode("overwrite").parquet(f"{lake}/batch_id={number}")
            bad = held.where("reason is not null")
            if not bad.isEmpty():
                bury(bad, options, number)
        finally:
            held.unpersist()

    return joined.writeStream.foreachBatch(write)


def _checkpoint(
    given: str | Path | None, topic: str, to: str | None, lake: str | Path | None
) -> str:
    if given is not None:
        return str(given)
    if lake is not None:
        return f"{str(lake).rstrip('/')}/_checkpoint"
    return f"{CHECKPOINTS}/join-{topic}-{to}"
