"""Topics rolled up into small tables: rates, lag, latency, errors, and what is to be expected.

    report = rollup("penstock://127.0.0.1:9092", ["orders"], out="./rollup", window="1 minute")

Each table is a directory of Parquet files below `out`:

    rates      messages and bytes by window, topic and partition; a robust score for the topic in
               that window, and whether it is odd (see `anomalies`)
    latency    percentiles by window: see below
    errors     messages and dead letters by window and queue
    lag        groups and how far they are, a row for each run
    forecast   depth, rates, the time a message stays (Little), and when it is drained, a row for
               each run

**What latency is.** A message carries one time: when it was sent, by its sender's clock, or with
`message.timestamp.type=LogAppendTime` when the broker had it. So there is nothing to subtract
within one message, and this job does not pretend there is. It measures between two messages of one
key, `latency=("orders", "shipped")`, from the first in one topic to the first in the other; or from
a time in a header, milliseconds since 1970, to the message's own: `latency_header="placed-at-ms"`.
Both compare clocks of different machines: what is negative is counted as 0.

**What an error is.** A dead letter that still lies there, counted in the window in which it died.
What was redriven is an error no more.

Windows in which nothing came count as 0 when the next ones are judged. With `rollup_stream` rates
are written as their windows close, each once: a window is closed when messages have come that are
later by the watermark, and a batch that is tried again writes the same directory again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.client.seconds import Seconds, to_milliseconds
from penstock.core.errors import InvalidRequest
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.spark.address import address_of
from penstock.spark.connections import client_of, run
from penstock.spark.jobs.anomalies import TRAILING
from penstock.spark.jobs.dead_letter_rows import find_stores, read_letters
from penstock.spark.jobs.rates import count_windows, judge, window_seconds
from penstock.spark.jobs.standings import GroupForecast, Lag, look_twice
from penstock.spark.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WINDOW: Final = "1 minute"
LOOK_SECONDS: Final = 2.0
PERCENTILES: Final = (0.5, 0.9, 0.95, 0.99)
TRIGGER: Final = "10 seconds"
KEPT_WINDOWS: Final = 2 * TRAILING
"""The number of past windows with which a stream judges a window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRates:
    """The totals of a topic over all windows."""

    topic: str
    messages: int
    bytes: int
    windows: int
    """From the first to the last, empty ones too."""
    messages_per_second: float
    peak_per_second: float
    odd_windows: tuple[datetime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Over all windows, in milliseconds."""

    name: str
    messages: int
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRate:
    """Dead letters of a queue to its messages, over all windows."""

    queue: str
    messages: int
    """All it ever had, also those that are deleted since."""
    dead: int

    @property
    def rate(self) -> float:
        """The share of messages that died."""
        return self.dead / self.messages if self.messages else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupReport:
    """The result of `rollup`, and the paths of the tables."""

    tables: dict[str, str]
    rates: tuple[TopicRates, ...]
    latency: Latency | None
    errors: tuple[ErrorRate, ...]
    lag: tuple[Lag, ...]
    forecasts: tuple[GroupForecast, ...]

    def to_json(self) -> str:
        """Return the report as one JSON document."""
        return msgspec.json.encode(self).decode()


def rollup(
    url: str,
    topics: Iterable[str],
    out: str | Path,
    *,
    spark: "SparkSession | None" = None,
    window: str = WINDOW,
    since: datetime | None = None,
    latency: tuple[str, str] | None = None,
    latency_header: str | None = None,
    look: Seconds = LOOK_SECONDS,
) -> RollupReport:
    """Read the topics from `since`, or all that is there, and write the tables. Lag and rates of
    groups are measured over `look` seconds."""
    address = address_of({"url": url})
    names = _checked(address, topics)
    width = window_seconds(window)
    seconds = to_milliseconds(look, "look") / 1_000
    if latency is not None and latency_header is not None:
        raise InvalidRequest("latency is measured between topics or from a header, not both")
    if latency is not None:
        _checked(address, latency)
    running = spark or session("penstock rollup")
    tables = {name: _below(out, name) for name in ("rates", "errors", "lag", "forecast")}
    messages = read_topics(running, address, names, since=since)
    judged = judge(count_windows(messages, width), width)
    judged.write.mode("overwrite").parquet(tables["rates"])
    rates = running.read.parquet(tables["rates"])
    seen = None
    if latency is not None or latency_header is not None:
        tables["latency"] = _below(out, "latency")
        name, delays = _delays(running, address, messages, latency, latency_header, since)
        seen = _write_latency(delays, name, width, tables["latency"])
    lags, expected = look_twice(address, names, seconds=seconds)
    arrived = {one.topic: one.arrived for one in lags if one.group == DEFAULT_WORK_GROUP}
    errors = [
        replace(one, messages=max(one.messages, arrived.get(one.queue, 0)))
        for one in _write_errors(running, address, names, rates, width, tables["errors"])
    ]
    _append(running, lags, tables["lag"])
    _append(running, [_flat(one) for one in expected], tables["forecast"])
    return RollupReport(
        tables=tables,
        rates=tuple(_summaries(rates, width)),
        latency=seen,
        errors=tuple(errors),
        lag=tuple(lags),
        forecasts=tuple(expected),
    )


def rollup_stream(
    url: str,
    topics: Iterable[str],
    out: str | Path,
    *,
    spark: "SparkSession | None" = None,
    window: str = WINDOW,
    watermark: str = WINDOW,
    trigger: str | None = TRIGGER,
) -> "StreamingQuery":
    """Write `rates` as windows close, until the query is stopped. Without a trigger, it does what
    there is to do and ends."""
    address = address_of({"url": url})
    names = _checked(address, topics)
    width = window_seconds(window)
    window_seconds(watermark)
    running = spark or session("penstock rollup")
    messages = read_topics(running, address, names, stream=True).withWatermark(
        "timestamp", watermark
    )
    table = _below(out, "rates_stream")

    def write(batch: "DataFrame", number: int) -> None:
        counted = batch.persist()
        try:
            if counted.isEmpty():
                return
            before = _before(counted.sparkSession, table, number, width)
            known = counted if before is None else before.unionByName(counted)
            fresh = judge(known, width).join(
                counted.select("window_start", "topic", "partition"),
                ["window_start", "topic", "partition"],
                "left_semi",
            )
            fresh.coalesce(1).write.mode("overwrite").parquet(f"{table}/batch_id={number}")
        finally:
            counted.unpersist()

    writing = (
        count_windows(messages, width)
        .writeStream.outputMode("append")
        .foreachBatch(write)
        .option("checkpointLocation", _below(out, "_checkpoint"))
        .queryName("penstock rollup")
    )
    if trigger is None:
        return writing.trigger(availableNow=True).start()
    return writing.trigger(processingTime=trigger).start()


# Reading.


def read_topics(
    spark: "SparkSession",
    url: str,
    topics: Sequence[str],
    *,
    since: datetime | None = None,
    stream: bool = False,
) -> "DataFrame":
    """Their messages, with headers."""
    reader = spark.readStream if stream else spark.read
    chosen = (
        reader.format("penstock")
        .option("url", url)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "false")
    )
    if since is not None:
        chosen = chosen.option("startingTimestamp", str(int(since.timestamp() * 1_000))).option(
            "startingOffsetsByTimestampStrategy", "latest"
        )
    return chosen.load()


def _checked(url: str, topics: Iterable[str]) -> list[str]:
    names = list(dict.fromkeys(topics))
    if not names:
        raise InvalidRequest("no topic is named: say which are to be rolled up")
    client = client_of(url)
    for name in names:
        run(client.describe_topic(name))
    return names


def _before(spark: "SparkSession", table: str, number: int, width: int) -> "DataFrame | None":
    """The windows that earlier batches have written: enough of them to judge the next by."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    try:
        written = spark.read.parquet(table).where(F.col("batch_id") < number)
    except AnalysisException:  # This batch is the first.
        return None
    latest = written.agg(F.max("window_start").alias("latest"))
    seconds = KEPT_WINDOWS * width
    return (
        written.crossJoin(latest)
        .where(F.unix_seconds("window_start") > F.unix_seconds("latest") - seconds)
        .select("window_start", "topic", "partition", "messages", "bytes")
    )


def _below(out: str | Path, name: str) -> str:
    """A place below the given one, which may be a directory or an address."""
    return f"{str(out).rstrip('/')}/{name}"


# Latency.


def _delays(
    spark: "SparkSession",
    url: str,
    messages: "DataFrame",
    between: tuple[str, str] | None,
    header: str | None,
    since: datetime | None,
) -> "tuple[str, DataFrame]":
    """Milliseconds by the time at which each was over: columns `timestamp` and `delay_ms`."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    if between is None:
        assert header is not None
        chosen = F.filter("headers", lambda one: one["key"] == header)
        sent_ms = F.expr("try_cast(cast(value as string) as bigint)")
        told = messages.select("timestamp", F.get(chosen, 0)["value"].alias("value"))
        delays = told.select("timestamp", (F.unix_millis("timestamp") - sent_ms).alias("delay_ms"))
        return f"header {header}", delays.where("delay_ms is not null")
    first, last = (
        read_topics(spark, url, [topic], since=since)
        .where("key is not null")
        .groupBy("key")
        .agg(F.min("timestamp").alias(name))
        for topic, name in zip(between, ("begun", "timestamp"), strict=True)
    )
    delay = F.unix_millis("timestamp") - F.unix_millis("begun")
    return " to ".join(between), first.join(last, "key").select(
        "timestamp", delay.alias("delay_ms")
    )


def _write_latency(delays: "DataFrame", name: str, width: int, table: str) -> Latency | None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    held = delays.withColumn("delay_ms", F.greatest("delay_ms", F.lit(0))).persist()
    try:
        spread = [
            F.percentile_approx("delay_ms", share, 10_000).alias(f"p{round(share * 100)}")
            for share in PERCENTILES
        ]
        counted = [F.count("*").alias("messages"), *spread, F.max("delay_ms").alias("max")]
        (
            held.groupBy(F.window("timestamp", f"{width} seconds"))
            .agg(*counted)
            .select(F.col("window.start").alias("window_start"), F.lit(name).alias("name"), "*")
            .drop("window")
            .coalesce(1)
            .write.mode("overwrite")
            .parquet(table)
        )
        row = held.agg(*counted).first()
    finally:
        held.unpersist()
    if row is None or not row.messages:
        return None
    return Latency(name=name, **row.asDict())


# Errors.


def _write_errors(
    spark: "SparkSession",
    url: str,
    topics: Sequence[str],
    rates: "DataFrame",
    width: int,
    table: str,
) -> list[ErrorRate]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    letters = read_letters(spark, url, find_stores(url, topics))
    dead = (
        letters.where(F.col("queue").isin(*topics))
        .groupBy(F.window("died", f"{width} seconds"), "queue")
        .agg(F.count("*").alias("dead"))
        .select(F.col("window.start").alias("window_start"), "queue", "dead")
    )
    sent = rates.groupBy("window_start", F.col("topic").alias("queue")).agg(
        F.sum("messages").alias("messages")
    )
    both = (
        sent.join(dead, ["window_start", "queue"], "full")
        .fillna(0, ["messages", "dead"])
        .withColumn("error_rate", F.expr("try_divide(dead, messages)"))
    )
    both.coalesce(1).write.mode("overwrite").parquet(table)
    rows = (
        spark.read.parquet(table)
        .groupBy("queue")
        .agg(F.sum("messages").alias("messages"), F.sum("dead").alias("dead"))
        .orderBy("queue")
        .collect()
    )
    return [ErrorRate(queue=row.queue, messages=row.messages, dead=row.dead) for row in rows]


# Tables and sums.


def _append(
    spark: "SparkSession", rows: "Sequence[Lag] | Sequence[dict[str, object]]", table: str
) -> None:
    """A few rows more in a table that every run adds to."""
    import pandas as pd  # noqa: PLC0415

    if not rows:
        return
    given = [row if isinstance(row, dict) else asdict(row) for row in rows]
    frame: pd.DataFrame = pd.DataFrame(given)
    spark.createDataFrame(frame).coalesce(1).write.mode("append").parquet(table)


def _flat(one: GroupForecast) -> dict[str, object]:
    row = asdict(one)
    row.update(row.pop("forecast"))
    return {name: float("nan") if value is None else value for name, value in row.items()}


def _summaries(rates: "DataFrame", width: int) -> list[TopicRates]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    rows = (
        rates.groupBy("topic", F.unix_seconds("window_start").alias("start"))
        .agg(
            F.sum("messages").alias("messages"),
            F.sum("bytes").alias("bytes"),
            F.max("is_odd").alias("is_odd"),
        )
        .groupBy("topic")
        .agg(
            F.sum("messages").alias("messages"),
            F.sum("bytes").alias("bytes"),
            F.max("messages").alias("peak"),
            F.min("start").alias("first"),
            F.max("start").alias("last"),
            F.array_sort(F.collect_list(F.when(F.col("is_odd"), F.col("start")))).alias("odd"),
        )
        .orderBy("topic")
        .collect()
    )
    found = []
    for row in rows:
        windows = (row["last"] - row["first"]) // width + 1
        found.append(
            TopicRates(
                topic=row.topic,
                messages=row.messages,
                bytes=row.bytes,
                windows=windows,
                messages_per_second=row.messages / (windows * width),
                peak_per_second=row.peak / width,
                odd_windows=tuple(
                    datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at) for at in row.odd
                ),
            )
        )
    return found
