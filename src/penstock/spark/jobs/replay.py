"""Replay: messages of a lake or a log, sent once more to a topic.

    offsets of each partition, counted from where the replay begins:
    0 ──── window 0 ──── step ──── window 1 ──── 2·step ──── …
           └ what is chosen of a window is one batch, published once

Which messages: those of a time, of a key, or any that a predicate of SQL picks. Each keeps its key,
value and headers, and says where it came from: `replayed-topic`, `replayed-partition` and
`replayed-offset`. Messages of one partition are sent in their order.

**A replay has a name, and happens once.** When it begins, its plan is written down at the broker
(`replay_plan`): which offsets, which choice, which windows. Window n is published as batch n of the
replay's application, which the broker does once, in all partitions or in none. So a replay that was
killed goes on when it is started again, on any machine, even twice at a time; and one that is
complete adds nothing. Something else under the same name is refused.

**The rate** is kept by publishing windows with pauses. All messages are counted first, which is
also what a dry run does; windows are so narrow that the densest holds about two seconds' worth.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.client.client import Client
from penstock.client.descriptions import TopicDescription
from penstock.client.reader.positions import TopicPartition
from penstock.client.staged_message import Staged
from penstock.core.errors import InvalidRequest, UnknownTopic
from penstock.spark.address import address_of
from penstock.spark.connections import client_of, run
from penstock.spark.jobs.replay_plan import (
    BURST_SECONDS,
    Counts,
    ReplayPlan,
    bucket_of,
    choose_step,
    keep_plan,
    read_plan,
)
from penstock.spark.lake.history import history_rows, milliseconds
from penstock.spark.lake.lake import Lake
from penstock.spark.lake.spans import Span
from penstock.spark.lake.tasks import bad_predicate, parallelism, reason_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.spark.sink.write_options import WriteOptions

NAME_CHARACTERS_MAX: Final = 150
TOPIC_HEADER: Final = "replayed-topic"
PARTITION_HEADER: Final = "replayed-partition"
OFFSET_HEADER: Final = "replayed-offset"
HEADERS: Final = "array<struct<key: string, value: binary>>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStep:
    """A window that was published."""

    window: int
    windows: int
    rows: int
    """The number of messages in this window."""
    sent: int
    """The number of messages that this run has sent so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The result of `replay`, or of its dry run."""

    name: str
    topic: str
    to: str
    matched: int
    """The number of selected messages."""
    sent: int
    """By this run; the others were sent by runs before it."""
    windows: int
    partitions: Mapping[int, tuple[int, int]]
    """The offsets that were looked at."""
    seconds: float
    dry_run: bool


def replay(
    spark: "SparkSession",
    topic: str,
    to: str,
    *,
    name: str,
    url: str,
    lake: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    key: str | None = None,
    where: str | None = None,
    rate: float | None = None,
    keep_partitions: bool = False,
    keep_timestamps: bool = False,
    dry_run: bool = False,
    stop: threading.Event | None = None,
    told: Callable[[ReplayStep], None] | None = None,
) -> Replayed:
    """Send messages of `topic` once more, to the topic `to`.

    name              what the replay is called; start it again by that name to go on
    lake              read old offsets from this lake, and the rest from the log
    since, until      messages of these times
    key               messages with this key
    where             messages that a predicate of SQL picks, over the columns of the source:
                      "get_json_object(CAST(value AS STRING), '$.state') = 'failed'"
    rate              messages per second at most
    keep_partitions   each to the partition it came from; otherwise by its key
    keep_timestamps   each with its own time; otherwise it is sent now
    dry_run           count, and send nothing
    """
    if not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise InvalidRequest(f"the name of a replay has 1 to {NAME_CHARACTERS_MAX} characters")
    if rate is not None and rate <= 0:
        raise InvalidRequest(f"rate = {rate:g}: messages per second are more than none")
    asked = ReplayPlan(
        name=name,
        topic=topic,
        to=to,
        lake=None if lake is None else Lake.open(lake).root,
        since_ms=milliseconds(since),
        until_ms=milliseconds(until),
        key=key,
        where=where,
        keep_partitions=keep_partitions,
        keep_timestamps=keep_timestamps,
    )
    job = _Replay(spark, address_of({"url": url}), stop or threading.Event(), told)
    return job.run(asked, rate, dry_run=dry_run)


class _Replay:
    """One run of the job."""

    def __init__(
        self,
        spark: "SparkSession",
        url: str,
        stop: threading.Event,
        told: Callable[[ReplayStep], None] | None,
    ) -> None:
        self._spark = spark
        self._url = url
        self._stop = stop
        self._told = told
        self._client = client_of(url)

    def run(self, asked: ReplayPlan, rate: float | None, *, dry_run: bool) -> Replayed:
        """Count, then send window by window."""
        started = time.monotonic()
        run(self._client.describe_topic(asked.to))  # It is not made by a slip of the pen.
        plan = None if dry_run else run(read_plan(self._client, asked.name))
        if plan is not None:
            plan.check_same(asked)
            counts = self._count(plan)
        else:
            draft = msgspec.structs.replace(asked, partitions=self._partitions(asked))
            counts = self._count(draft)
            plan = msgspec.structs.replace(draft, step=choose_step(draft, counts, rate))
            if not dry_run:
                kept = run(keep_plan(self._client, plan))
                kept.check_same(asked)
                counts = counts if kept == plan else self._count(kept)
                plan = kept
        sent = 0 if dry_run else self._send(plan, counts, rate)
        return Replayed(
            name=plan.name,
            topic=plan.topic,
            to=plan.to,
            matched=counts.total,
            sent=sent,
            windows=plan.windows,
            partitions=plan.partitions,
            seconds=time.monotonic() - started,
            dry_run=dry_run,
        )

    def _send(self, plan: ReplayPlan, counts: Counts, rate: float | None) -> int:
        """Send the windows; return the number of messages."""
        last = run(self._client.last_published(plan.application))
        sent = 0
        next_at = time.monotonic()
        for number in range(0 if last is None else last + 1, plan.windows):
            if not counts.may_hold(number * plan.step, (number + 1) * plan.step):
                continue
            if self._stop.wait(max(0.0, next_at - time.monotonic())):
                break
            staged = self._stage(plan, number)
            if not staged:
                continue
            rows = sum(one.records for one in staged)
            publication = run(
                self._client.publish(plan.application, number, staged, owner=plan.application)
            )
            if rate is not None:
                # Time that was not used before this window is not made up for.
                next_at = max(next_at, time.monotonic() - BURST_SECONDS) + rows / rate
            if publication.is_new:
                sent += rows
                if self._told is not None:
                    step = ReplayStep(window=number, windows=plan.windows, rows=rows, sent=sent)
                    self._told(step)
        return sent

    def _partitions(self, plan: ReplayPlan) -> dict[int, Span]:
        """All offsets that the lake and the log have, but for those of other times."""
        lake, topic = self._sources(plan)
        found: dict[int, list[int]] = {}
        if lake is not None:
            for file in lake.catalog.files_of(
                plan.topic, since_ms=plan.since_ms, until_ms=plan.until_ms
            ):
                for span in file.spans:
                    found.setdefault(span.partition, []).extend((span.first, span.end))
        if topic is not None:
            starts = {one.index: one.start for one in topic.partitions}
            if plan.since_ms is not None:
                asked = {TopicPartition(plan.topic, one): plan.since_ms for one in starts}
                offsets = run(_find_offsets(self._client, asked))
                starts = {
                    place.partition: max(offset, starts[place.partition])
                    for place, offset in offsets.items()
                }
            for one in topic.partitions:
                stored = {} if lake is None else lake.catalog.ends(plan.topic)
                first = max(starts[one.index], stored.get(one.index, 0))
                if first < one.end:
                    found.setdefault(one.index, []).extend((first, one.end))
        return {one: (min(bounds), max(bounds)) for one, bounds in sorted(found.items())}

    def _sources(self, plan: ReplayPlan) -> tuple[Lake | None, TopicDescription | None]:
        """The lake and the topic; a topic may be gone that a lake still has."""
        lake = None if plan.lake is None else Lake.open(plan.lake)
        if lake is not None:
            lake.require(plan.topic)
        try:
            topic = run(self._client.describe_topic(plan.topic))
        except UnknownTopic:
            if lake is None:
                raise
            return lake, None
        return lake, topic

    def _chosen(self, plan: ReplayPlan, spans: Mapping[int, Span]) -> "DataFrame":
        """The messages of these offsets that are to be sent."""
        from pyspark.errors import PySparkException  # noqa: PLC0415 - only where there is Spark.
        from pyspark.sql import functions as sql  # noqa: PLC0415

        lake, topic = self._sources(plan)
        rows = history_rows(
            self._spark,
            plan.topic,
            lake=lake,
            described=topic,
            url=self._url,
            wanted=spans,
            since=_time(plan.since_ms),
            until=_time(plan.until_ms),
        )
        if plan.key is not None:
            rows = rows.where(sql.col("key") == sql.lit(plan.key).cast("binary"))
        if plan.where is not None:
            try:
                rows = rows.where(plan.where)
            except PySparkException as error:
                raise bad_predicate(plan.where, error) from error
        return rows

    def _count(self, plan: ReplayPlan) -> Counts:
        """Count what is chosen, in buckets."""
        from pyspark.errors import PySparkException  # noqa: PLC0415
        from pyspark.sql import functions as sql  # noqa: PLC0415

        bucket = bucket_of(plan)
        if not plan.partitions:
            return Counts(bucket, {})
        pairs = [
            sql.lit(one) for part, (first, _) in plan.partitions.items() for one in (part, first)
        ]
        place = sql.col("offset") - sql.element_at(sql.create_map(*pairs), sql.col("partition"))
        numbered = self._chosen(plan, plan.partitions).select(
            sql.floor(place / sql.lit(bucket)).alias("bucket")
        )
        try:
            rows = numbered.groupBy("bucket").count().collect()
        except PySparkException as error:
            raise reason_of(error) from error
        return Counts(bucket, {row["bucket"]: row["count"] for row in rows})

    def _stage(self, plan: ReplayPlan, number: int) -> list[Staged]:
        """Bring the messages of a window to the broker, where they are not visible yet."""
        from pyspark.errors import PySparkException  # noqa: PLC0415

        from penstock.spark.sink.write_options import WriteOptions  # noqa: PLC0415

        window = plan.window(number)
        rows = self._chosen(plan, window).withColumn("headers", _headers())
        tasks = min(len(window), parallelism(self._spark))
        columns = ["key", "value", "headers"]
        columns += ["partition"] if plan.keep_partitions else []
        columns += ["timestamp"] if plan.keep_timestamps else []
        ordered = rows.repartition(tasks, "partition").sortWithinPartitions("partition", "offset")
        options = WriteOptions(url=self._url, topic=plan.to, keep_timestamps=plan.keep_timestamps)
        staging = ordered.select(*columns).mapInArrow(
            stage_in_task(options), "task INT, staged STRING"
        )
        try:
            found = staging.collect()
        except PySparkException as error:
            raise reason_of(error) from error
        return [Staged.from_json(row["staged"]) for row in sorted(found)]


def stage_in_task(
    options: "WriteOptions",
) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """For `mapInArrow`: stage all rows of a task, and say what was staged."""

    def stage(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa  # noqa: PLC0415 - in the worker.
        from pyspark import TaskContext  # noqa: PLC0415

        from penstock.spark.sink.stager import stage_rows  # noqa: PLC0415

        context = TaskContext.get()
        assert context is not None, "Spark calls this in tasks"
        task = context.partitionId()
        done = stage_rows(batches, options, turn=task)
        if done is not None:
            yield pa.RecordBatch.from_arrays(
                [pa.array([task], pa.int32()), pa.array([done.staged.to_json()], pa.string())],
                names=["task", "staged"],
            )

    return stage


def _headers() -> "Column":
    """The headers that a message has, and where it came from; if it was replayed before, from
    there."""
    from pyspark.sql import functions as sql  # noqa: PLC0415

    origin = {TOPIC_HEADER: "topic", PARTITION_HEADER: "partition", OFFSET_HEADER: "offset"}
    added = [
        sql.struct(
            sql.lit(name).alias("key"),
            sql.col(column).cast("string").cast("binary").alias("value"),
        )
        for name, column in origin.items()
    ]
    own = sql.filter("headers", lambda one: ~one["key"].isin(*origin))
    return sql.concat(sql.coalesce(own, sql.array().cast(HEADERS)), sql.array(*added).cast(HEADERS))


async def _find_offsets(
    client: Client, asked: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    return await client.raw_log().find_offsets(asked)


def _time(milliseconds_: int | None) -> datetime | None:
    return None if milliseconds_ is None else datetime.fromtimestamp(milliseconds_ / 1_000, UTC)
