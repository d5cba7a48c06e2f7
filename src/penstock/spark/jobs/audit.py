"""Audit: prove that nothing is lost and nothing doubled, between a topic, its lake, and a sink.

    topic ⟷ lake    every offset that the catalog claims is in the lake once, with the key, value
                    and headers that the log has, where the log still has it
    topic ⟶ sink    every message, known by an id, is in the sink as often as in the source

Both are one grouping over the rows of both sides: rows that differ come out, and only these. The
id of a message is its key, a header, its value, or, for what was replayed, where it came from.

Logs are compared up to their ends of the moment in which the audit begins. What the lake has not
got yet is counted as behind, and is no fault unless the lake should be complete. A compacted topic
drops messages on purpose, so what is missing in its log is none either.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.client.descriptions import TopicDescription
from penstock.core.errors import InvalidRequest
from penstock.spark.address import address_of
from penstock.spark.connections import client_of, run
from penstock.spark.jobs.replay import OFFSET_HEADER, PARTITION_HEADER, TOPIC_HEADER
from penstock.spark.lake.history import history_rows, lake_rows, log_rows, no_rows
from penstock.spark.lake.lake import Lake
from penstock.spark.lake.spans import Span, Spans, length
from penstock.spark.lake.tasks import bad_predicate, reason_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LIMIT: Final = 20
HEADER: Final = "header:"
WAYS: Final = "key, value, origin, or header:NAME"
BEHIND: Final = "not archived yet"
ID_CHARACTERS_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAudit:
    """The counts of one partition, in the topic's log and in the lake."""

    partition: int
    log_start: int
    log_end: int
    log_rows: int
    log_holes: int
    """Offsets of the log without a message."""
    lake_offsets: int = 0
    """The number of offsets that the catalog of the lake claims."""
    lake_rows: int = 0
    lake_holes: int = 0
    """Offsets that the catalog claims and no file has."""
    doubled: int = 0
    missing: int = 0
    """In the lake, which claims them, although the log has them."""
    vanished: int = 0
    """From the log, although the lake has them and they are not too old."""
    different: int = 0
    """Another key, value or header in the lake than in the log."""
    behind: int = 0
    """In the log and not archived yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkAudit:
    """The messages of the source against those of the sink."""

    sink: str
    by: str
    source_rows: int
    sink_rows: int
    ids: int
    missing: int
    """Messages of the source that the sink lacks."""
    doubled: int
    """Messages that the sink has more often than the source."""
    unknown: int
    """Messages of the sink that the source never had."""
    unnamed: int
    """Messages, of both, that have no such id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A discrepancy."""

    kind: str
    partition: int | None = None
    offset: int | None = None
    id: str | None = None
    source: int = 0
    """The number of copies in the log, or in the source."""
    other: int = 0
    """The number of copies in the lake, or in the sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The result of `audit`."""

    topic: str
    lake: str | None
    partitions: tuple[PartitionAudit, ...]
    sink: SinkAudit | None
    problems: tuple[str, ...]
    """In sentences; none if all is well."""
    differences: tuple[Difference, ...] = field(default=())
    """The first of them, as many as were asked for."""

    @property
    def ok(self) -> bool:
        """True if no message is lost or duplicated."""
        return not self.problems


def audit(
    spark: "SparkSession",
    topic: str,
    *,
    url: str,
    lake: str | None = None,
    sink: str | None = None,
    by: str = "key",
    unique: bool | None = None,
    where: str | None = None,
    complete: bool = False,
    limit: int = LIMIT,
) -> AuditReport:
    """Compare a topic with its lake, and with a topic that its messages went to.

    lake       the root of the lake
    sink       the topic in which every message of the source must be
    by         what a message is known by in the sink: key, value, origin, or header:NAME
    unique     an id may be there once; without it, as often as in the source. So it is for headers
    where      only these messages of the source must be in the sink: a predicate of SQL
    complete   the lake must have all that the log has
    limit      how many differences are listed
    """
    if by not in ("key", "value", "origin") and not (by.startswith(HEADER) and by != HEADER):
        raise InvalidRequest(f'by = "{by}": a message is known by {WAYS}')
    if limit < 0:
        raise InvalidRequest(f"limit = {limit}: a list has no fewer than 0 lines")
    job = _Audit(spark, address_of({"url": url}), topic, lake, limit)
    partitions = job.compare_log()
    problems = [text for one in partitions for text in job.problems_of(one, complete=complete)]
    compared = None
    if sink is not None:
        compared = job.compare_sink(
            sink, by, where, unique=by.startswith(HEADER) if unique is None else unique
        )
        problems += _sink_problems(compared)
    return AuditReport(
        topic=topic,
        lake=None if job.lake is None else job.lake.root,
        partitions=tuple(partitions),
        sink=compared,
        problems=tuple(problems),
        differences=tuple(job.differences[:limit]),
    )


class _Audit:
    """One run of the job."""

    def __init__(
        self, spark: "SparkSession", url: str, topic: str, lake: str | None, limit: int
    ) -> None:
        self._spark = spark
        self._url = url
        self._limit = limit
        self._client = client_of(url)
        self._topic = run(self._client.describe_topic(topic))
        self.lake = None if lake is None else Lake.open(lake)
        if self.lake is not None:
            self.lake.require(topic)
        self._compacted = "compact" in self._topic.configs.get("cleanup.policy", "delete")
        self.differences: list[Difference] = []

    # The topic and its lake.

    def compare_log(self) -> list[PartitionAudit]:
        """Every offset of every partition, on both sides."""
        from pyspark.sql import functions as sql  # noqa: PLC0415 - only where there is Spark.

        name = self._topic.name
        sides = [_marked(self._log(self._topic), 1, 0)]
        if self.lake is not None:
            sides.append(_marked(lake_rows(self._spark, self.lake, name), 0, 1))
        rows = sides[0] if len(sides) == 1 else sides[0].unionByName(sides[1])
        cells = (
            rows.groupBy("partition", "offset")
            .agg(
                sql.sum("log").alias("log"),
                sql.sum("lake").alias("lake"),
                (sql.min("content") != sql.max("content")).alias("differs"),
            )
            .withColumn("kind", sql.expr(self._kinds()))
        )
        cells = cells.persist()
        try:
            found = _collect(
                cells.groupBy("partition", "kind").agg(
                    sql.count("*").alias("cells"),
                    sql.sum("log").alias("log"),
                    sql.sum("lake").alias("lake"),
                    sql.count_if(sql.col("log") > 0).alias("log_cells"),
                    sql.count_if(sql.col("lake") > 0).alias("lake_cells"),
                )
            )
            wrong = cells.where(f"kind <> '' AND kind <> '{BEHIND}'")
            listed = _collect(wrong.orderBy("partition", "offset").limit(self._limit))
        finally:
            cells.unpersist()
        self.differences += [
            Difference(
                kind=row["kind"],
                partition=row["partition"],
                offset=row["offset"],
                source=row["log"],
                other=row["lake"],
            )
            for row in listed
        ]
        return [self._partition(one.index, one.start, one.end, found) for one in
                self._topic.partitions]  # fmt: skip

    def _kinds(self) -> str:
        """The discrepancies of an offset, as a SQL expression; empty if there are none."""
        cases = ["WHEN log > 1 THEN 'doubled in the log'"]
        if self.lake is not None:
            covered = _within(self.lake.catalog.spans(self._topic.name))
            in_log = _within({one.index: ((one.start, one.end),) for one in self._topic.partitions})
            cases += [
                "WHEN lake > 1 THEN 'doubled in the lake'",
                f"WHEN lake > 0 AND NOT ({covered}) THEN 'in the lake and not in its catalog'",
                f"WHEN lake = 0 AND ({covered}) THEN 'missing in the lake'",
                f"WHEN lake = 0 THEN '{BEHIND}'",
                "WHEN differs THEN 'different in the lake'",
            ]
            if not self._compacted:
                cases.append(f"WHEN log = 0 AND ({in_log}) THEN 'missing in the log'")
        return f"CASE {' '.join(cases)} ELSE '' END"

    def _partition(
        self, partition: int, start: int, end: int, found: Sequence[Any]
    ) -> PartitionAudit:
        kinds: dict[str, int] = {}
        sums = dict.fromkeys(("log", "lake", "log_cells", "lake_cells"), 0)
        for row in found:
            if row["partition"] == partition:
                kinds[row["kind"]] = row["cells"]
                for name in sums:
                    sums[name] += row[name]
        spans: Spans = ()
        if self.lake is not None:
            spans = self.lake.catalog.spans(self._topic.name).get(partition, ())
        return PartitionAudit(
            partition=partition,
            log_start=start,
            log_end=end,
            log_rows=sums["log"],
            log_holes=end - start - sums["log_cells"],
            lake_offsets=length(spans),
            lake_rows=sums["lake"],
            lake_holes=max(0, length(spans) - sums["lake_cells"]),
            doubled=kinds.get("doubled in the log", 0) + kinds.get("doubled in the lake", 0),
            missing=kinds.get("missing in the lake", 0),
            vanished=kinds.get("missing in the log", 0),
            different=kinds.get("different in the lake", 0)
            + kinds.get("in the lake and not in its catalog", 0),
            behind=kinds.get(BEHIND, 0),
        )

    def problems_of(self, one: PartitionAudit, *, complete: bool) -> list[str]:
        """Return the problems of a partition, in sentences."""
        counted = [
            (one.doubled, "are there twice"),
            (one.missing, "are missing in the lake"),
            (one.vanished, "are in the lake and gone from the log"),
            (one.different, "are not the same in the lake"),
            (one.behind if complete else 0, "are not archived yet"),
        ]
        if not self._compacted:
            counted.append((one.log_holes, "are missing in the log"))
            counted.append((one.lake_holes - one.missing, "are claimed by the lake and not in it"))
        where = f"{self._topic.name}, partition {one.partition}"
        return [f"{where}: {count:,} offsets {what}" for count, what in counted if count > 0]

    # The source and its sink.

    def compare_sink(self, sink: str, by: str, where: str | None, *, unique: bool) -> SinkAudit:
        """Every id, as often as it is in the source and in the sink."""
        from pyspark.sql import functions as sql  # noqa: PLC0415

        cells = self._ids_of_both(sink, by, where, unique=unique).persist()
        try:
            found = _collect(
                cells.groupBy("kind").agg(
                    sql.count("*").alias("ids"), sql.sum("a").alias("a"), sql.sum("b").alias("b")
                )
            )
            listed = _collect(cells.where("kind <> ''").orderBy("id").limit(self._limit))
        finally:
            cells.unpersist()
        self.differences += [
            Difference(kind=row["kind"], id=_shown(row["id"]), source=row["a"], other=row["b"])
            for row in listed
        ]
        sums = {row["kind"]: (row["ids"], row["a"], row["b"]) for row in found}
        lacking = sums.get("missing in the sink", (0, 0, 0))
        unnamed = sums.get("without an id", (0, 0, 0))
        return SinkAudit(
            sink=sink,
            by=by,
            source_rows=sum(source for _, source, _ in sums.values()),
            sink_rows=sum(other for _, _, other in sums.values()),
            ids=sum(ids for ids, _, _ in sums.values()),
            missing=lacking[1] - lacking[2],
            doubled=sums.get("doubled", (0, 0, 0))[0],
            unknown=sums.get("unknown in the source", (0, 0, 0))[2],
            unnamed=unnamed[1] + unnamed[2],
        )

    def _ids_of_both(self, sink: str, by: str, where: str | None, *, unique: bool) -> "DataFrame":
        """Ids, how often the source (a) and the sink (b) have them, and what is wrong with that."""
        from pyspark.errors import PySparkException  # noqa: PLC0415
        from pyspark.sql import functions as sql  # noqa: PLC0415

        described = run(self._client.describe_topic(sink))
        source = history_rows(
            self._spark, self._topic.name, lake=self.lake, described=self._topic, url=self._url
        )
        if where is not None:
            try:
                source = source.where(where)
            except PySparkException as error:
                raise bad_predicate(where, error) from error
        source_id, sink_id = _ids(by)
        mine = source.select(source_id.alias("id"), sql.lit(1).alias("a"), sql.lit(0).alias("b"))
        theirs = self._log(described).select(
            sink_id.alias("id"), sql.lit(0).alias("a"), sql.lit(1).alias("b")
        )
        cells = mine.unionByName(theirs).groupBy("id")
        most = "1" if unique else "a"
        kind = (
            "CASE WHEN id IS NULL THEN 'without an id' WHEN a = 0 THEN 'unknown in the source'"
            f" WHEN b < a THEN 'missing in the sink' WHEN b > {most} OR ({unique} AND a > 1)"
            " THEN 'doubled' ELSE '' END"
        )
        counted = cells.agg(sql.sum("a").alias("a"), sql.sum("b").alias("b"))
        return counted.withColumn("kind", sql.expr(kind))

    def _log(self, topic: TopicDescription) -> "DataFrame":
        """A whole log, up to its end when it was described."""
        spans: dict[int, Span] = {
            one.index: (one.start, one.end) for one in topic.partitions if one.start < one.end
        }
        if not spans:
            return no_rows(self._spark, topic.name)
        return log_rows(self._spark, self._url, topic.name, spans)


def _marked(rows: "DataFrame", log: int, lake: int) -> "DataFrame":
    from pyspark.sql import functions as sql  # noqa: PLC0415

    content = sql.xxhash64(
        sql.col("key"),
        sql.col("key").isNull(),
        sql.col("value"),
        sql.col("value").isNull(),
        sql.col("headers"),
        sql.col("timestamp"),
    )
    return rows.select(
        "partition",
        "offset",
        content.alias("content"),
        sql.lit(log).alias("log"),
        sql.lit(lake).alias("lake"),
    )


def _within(spans: Mapping[int, Spans]) -> str:
    """A SQL expression that is true for offsets within spans."""
    cases = [
        f"(partition = {partition} AND offset >= {first} AND offset < {end})"
        for partition, several in spans.items()
        for first, end in several
    ]
    return " OR ".join(cases) or "false"


def _ids(by: str) -> "tuple[Column, Column]":
    """The columns that identify a message in the source and in the sink."""
    from pyspark.sql import functions as sql  # noqa: PLC0415

    if by in ("key", "value"):
        column = sql.col("key") if by == "key" else sql.sha2(sql.col("value"), 256).cast("binary")
        return column, column
    if by == "origin":
        own = [sql.col(name).cast("string") for name in ("topic", "partition", "offset")]
        said = [_header(name) for name in (TOPIC_HEADER, PARTITION_HEADER, OFFSET_HEADER)]
        source = sql.concat(own[0], sql.lit("/"), own[1], sql.lit("/"), own[2]).cast("binary")
        texts = [one.cast("string") for one in said]
        return source, sql.concat(texts[0], sql.lit("/"), texts[1], sql.lit("/"), texts[2]).cast(
            "binary"
        )
    return _header(by.removeprefix(HEADER)), _header(by.removeprefix(HEADER))


def _header(name: str) -> "Column":
    from pyspark.sql import functions as sql  # noqa: PLC0415

    found = sql.filter("headers", lambda one: one["key"] == sql.lit(name))
    return sql.get(found, sql.lit(0))["value"]


def _sink_problems(found: SinkAudit) -> list[str]:
    counted = [
        (found.missing, "messages of the source are missing"),
        (found.doubled, f"ids ({found.by}) are there more than once"),
        (found.unknown, "messages were never in the source"),
        (found.unnamed, f"messages cannot be compared: they have no {found.by}"),
    ]
    return [f"{found.sink}: {count:,} {what}" for count, what in counted if count > 0]


def _collect(rows: "DataFrame") -> "Sequence[Any]":
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        return rows.collect()
    except PySparkException as error:
        raise reason_of(error) from error


def _shown(identity: object) -> str | None:
    if identity is None:
        return None
    text = bytes(identity).decode("utf-8", "backslashreplace")  # type: ignore[call-overload]
    return str(text)[:ID_CHARACTERS_MAX]
