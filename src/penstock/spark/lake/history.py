"""History and tail as one: the lake for old offsets, the broker for the rest, each offset once.

    partition 0   lake [0 ─────────────── 900)
                  log            [400 ─────────────── 1200)
                  read  ├──── Parquet ────┤├── broker ──┤

What the lake has is read from Parquet, by Spark's own reader, files chosen by the manifest; what
it has not is read from the log, whether that is newer, older, or a gap in between. What neither has
any more, between the first offset of the lake and the log's end, is lost: an error, unless one
says `fail_on_data_loss=False`.

What is read is settled when the DataFrame is made: the files of that moment, and the log up to its
end of that moment. Using it twice gives the same rows twice.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from penstock.client.descriptions import TopicDescription
from penstock.core.errors import ForeignDirectory, InvalidRequest, OffsetOutOfRange
from penstock.spark.address import address_of
from penstock.spark.connections import client_of, run
from penstock.spark.lake.day_files import SPARK_SCHEMA
from penstock.spark.lake.entries import FileSpan
from penstock.spark.lake.lake import Lake
from penstock.spark.lake.spans import Span, Spans, difference, overlap, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)
"""The columns of the source, in its order."""


def history(
    spark: "SparkSession",
    root: str,
    topic: str,
    url: str | None = None,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    fail_on_data_loss: bool = True,
) -> "DataFrame":
    """All messages of a topic, from the lake at `root` and from the broker at `url`.

    Without `url`, only those of the lake. `since` and `until` are about the messages' times; they
    leave out files that have none of these, which a filter on the DataFrame cannot. Columns are
    those of the source, with headers.
    """
    lake = Lake.open(root)
    described = None
    if url is None:
        lake.require(topic)
    else:
        url = address_of({"url": url})
        described = run(client_of(url).describe_topic(topic))
    return history_rows(
        spark,
        topic,
        lake=lake,
        described=described,
        url=url or "",
        since=since,
        until=until,
        fail_on_data_loss=fail_on_data_loss,
    )


def register_history(
    spark: "SparkSession",
    name: str,
    root: str,
    topic: str,
    url: str | None = None,
    *,
    fail_on_data_loss: bool = True,
) -> None:
    """Make `history` a view of this session, to be asked by SQL: `SELECT … FROM name`."""
    found = history(spark, root, topic, url, fail_on_data_loss=fail_on_data_loss)
    found.createOrReplaceTempView(name)


def history_rows(
    spark: "SparkSession",
    topic: str,
    *,
    lake: Lake | None,
    described: TopicDescription | None,
    url: str = "",
    wanted: Mapping[int, Span] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    fail_on_data_loss: bool = True,
) -> "DataFrame":
    """Return the rows of the wanted offsets, from a description of the topic that was read
    before."""
    found = [] if lake is None else [lake_rows(spark, lake, topic, wanted, since, until)]
    if described is not None:
        rounds = tail_spans(lake, described, wanted, fail_on_data_loss=fail_on_data_loss)
        found += [
            log_rows(spark, url, topic, spans, fail_on_data_loss=fail_on_data_loss)
            for spans in rounds
        ]
    if not found:
        found = [no_rows(spark, topic)]
    rows = found[0]
    for more in found[1:]:
        rows = rows.unionByName(more)
    return between(rows, since, until)


def lake_rows(
    spark: "SparkSession",
    lake: Lake,
    topic: str,
    wanted: Mapping[int, Span] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> "DataFrame":
    """Return the messages in the lake, with the columns of the source."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - only where there is Spark.

    files = lake.catalog.files_of(topic, since_ms=milliseconds(since), until_ms=milliseconds(until))
    if wanted is not None:
        files = [one for one in files if any(_meets(span, wanted) for span in one.spans)]
    if not files:
        return no_rows(spark, topic)
    paths = [lake.storage.locate(one.path) for one in files]
    rows = spark.read.schema(SPARK_SCHEMA).parquet(*paths)
    if wanted is not None:
        rows = rows.where(
            " OR ".join(
                f"(partition = {one} AND offset >= {first} AND offset < {end})"
                for one, (first, end) in wanted.items()
            )
        )
    return rows.withColumn("topic", sql.lit(topic)).select(*COLUMNS)


def no_rows(spark: "SparkSession", topic: str) -> "DataFrame":
    """Return an empty data frame with the columns of the source."""
    from pyspark.sql import functions as sql  # noqa: PLC0415

    empty = spark.createDataFrame([], SPARK_SCHEMA)
    return empty.withColumn("topic", sql.lit(topic)).select(*COLUMNS)


def _meets(span: FileSpan, wanted: Mapping[int, Span]) -> bool:
    first, end = wanted.get(span.partition, (0, 0))
    return first < span.end and span.first < end


def log_rows(
    spark: "SparkSession",
    url: str,
    topic: str,
    spans: Mapping[int, Span],
    *,
    fail_on_data_loss: bool = True,
) -> "DataFrame":
    """Offsets of some partitions, from the broker."""
    rows = (
        spark.read.format("penstock")
        .option("url", url)
        .option("assign", json.dumps({topic: sorted(spans)}))
        .option("startingOffsets", _offsets(topic, {one: span[0] for one, span in spans.items()}))
        .option("endingOffsets", _offsets(topic, {one: span[1] for one, span in spans.items()}))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", str(fail_on_data_loss).lower())
        .load()
    )
    return rows.select(*COLUMNS)


def tail_spans(
    lake: Lake | None,
    topic: TopicDescription,
    wanted: Mapping[int, Span] | None = None,
    *,
    fail_on_data_loss: bool = True,
) -> list[dict[int, Span]]:
    """Return the offsets to read from the broker: the first span of each partition, then the
    second, …

    There is one of each, unless the lake has gaps, or begins later than the log."""
    if lake is not None:
        _check_same_topic(lake, topic)
    left: dict[int, Spans] = {}
    for one in topic.partitions:
        stored = () if lake is None else lake.catalog.spans(topic.name).get(one.index, ())
        asked = [(0, one.end)] if wanted is None else [wanted.get(one.index, (0, 0))]
        absent = difference(asked, stored)
        left[one.index] = overlap(absent, [(one.start, one.end)])
        # What was there before the lake's first offset, or before anything asked for, is no loss.
        begin = stored[0][0] if stored else one.start
        since = begin if wanted is None else wanted.get(one.index, (0, 0))[0]
        lost = difference(overlap(absent, [(since, one.end)]), left[one.index])
        if lost and fail_on_data_loss:
            where = "" if lake is None else f"neither in the lake at {lake.root} nor "
            raise OffsetOutOfRange(
                f"offsets {written(lost)} of {topic.name}, partition {one.index}, are {where}"
                f"{'' if where else 'not '}in the log any more; to read the rest, turn"
                " failOnDataLoss off"
            )
    rounds = max((len(spans) for spans in left.values()), default=0)
    return [
        {one: spans[turn] for one, spans in left.items() if turn < len(spans)}
        for turn in range(rounds)
    ]


def _check_same_topic(lake: Lake, topic: TopicDescription) -> None:
    known = lake.catalog.topic_id(topic.name)
    if known and known != topic.id:
        raise ForeignDirectory(
            f"the lake at {lake.root} has an earlier topic {topic.name}, which was deleted: its"
            " offsets and those of the new one are not one history; read them apart"
        )


def between(rows: "DataFrame", since: datetime | None, until: datetime | None) -> "DataFrame":
    """Only messages of [since, until)."""
    from pyspark.sql import functions as sql  # noqa: PLC0415

    if since is not None:
        rows = rows.where(sql.col("timestamp") >= sql.lit(since))
    if until is not None:
        rows = rows.where(sql.col("timestamp") < sql.lit(until))
    return rows


def milliseconds(time: datetime | None) -> int | None:
    """A moment as the manifest has it."""
    if time is None:
        return None
    if time.tzinfo is None:
        raise InvalidRequest(f"{time} has no time zone; say datetime(…, tzinfo=UTC)")
    return int(time.timestamp() * 1_000)


def _offsets(topic: str, offsets: Mapping[int, int]) -> str:
    return json.dumps({topic: {str(one): offset for one, offset in sorted(offsets.items())}})
