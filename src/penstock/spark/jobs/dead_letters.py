"""The dead-letter report: what failed, why, since when, what the dead have in common, what to do.

    report = dead_letter_report("penstock://127.0.0.1:9092", ["orders"], chart="dead.png")
    report.kinds            by queue and kind of reason, the most frequent first
    report.patterns         what the dead have and the living have not
    report.suggestions      deliver anew, wait, or mend something first
    report.redriven         with redrive="kind like 'timeout%' and age_minutes < 60", yes=True

Letters are read once (see `letters`) and kept by Spark while the report is made. The living, whom
the dead are held against, are the latest messages of the queue that they died in, read through
Penstock's own source, without those that are among the dead. Both are samples if there are many.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.client.seconds import Seconds, to_milliseconds
from penstock.core.errors import UnknownTopic
from penstock.spark.address import address_of
from penstock.spark.connections import client_of, run
from penstock.spark.jobs.charts import check_chart_file
from penstock.spark.jobs.dead_letter_rows import (
    LETTERS_MAX,
    DeadLetterSources,
    find_stores,
    read_letters,
)
from penstock.spark.jobs.letter_chart import draw_report
from penstock.spark.jobs.redrives import REDRIVEN_MAX, Redriven, check_predicate, redrive_by
from penstock.spark.jobs.suggestions import FailureKind, Suggestion, suggest
from penstock.spark.jobs.traits import Pattern, compare, traits_of
from penstock.spark.sessions import session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

QUIET_SECONDS: Final = 600.0
SAMPLE_MAX: Final = 50_000
KINDS_MAX: Final = 1_000
KEYS_MAX: Final = 10
TRAITS_MAX: Final = 5_000
TRAITS_KEPT: Final = 200_000
"""The number of different traits that a task counts before it passes its counts on."""
PATTERNS_MAX: Final = 10
BARS_MAX: Final = 60
WIDTHS_SECONDS: Final = (1, 5, 15, 60, 300, 900, 3_600, 21_600, 86_400, 604_800)
AGES: Final = (
    ("under 1 min", 1.0),
    ("1 to 10 min", 10.0),
    ("10 min to 1 h", 60.0),
    ("1 to 6 h", 360.0),
    ("6 h to 1 d", 1_440.0),
    ("1 to 7 d", 10_080.0),
    ("over 7 d", float("inf")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCount:
    """A key that many of the dead have."""

    queue: str
    key: str
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePattern:
    """A trait that the dead letters of a queue share."""

    queue: str
    pattern: Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCount:
    """The number of dead letters with one kind of failure within one bar of the chart."""

    start: datetime
    kind: str
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterReport:
    """Dead letters by kind of failure, by age and by key."""

    made_at: datetime
    messages: int
    left_out: int
    """The number of the oldest offsets that were skipped."""
    kinds: tuple[FailureKind, ...]
    ages: tuple[tuple[str, int], ...]
    keys: tuple[KeyCount, ...]
    patterns: tuple[QueuePattern, ...]
    series: tuple[FailureCount, ...]
    series_seconds: int
    suggestions: tuple[Suggestion, ...]
    redriven: Redriven | None = None
    chart: str | None = None

    def to_json(self) -> str:
        """Return the report as one JSON document."""
        return msgspec.json.encode(self).decode()


def dead_letter_report(
    url: str,
    queues: Iterable[str] = (),
    *,
    spark: "SparkSession | None" = None,
    chart: str | Path | None = None,
    redrive: str | None = None,
    yes: bool = False,
    to: str | None = None,
    rate: int | None = None,
    quiet: Seconds = QUIET_SECONDS,
    letters_max: int = LETTERS_MAX,
    redriven_max: int = REDRIVEN_MAX,
) -> DeadLetterReport:
    """Report on the dead letters of these queues, or of all.

    `redrive` is a SQL predicate over the columns of a letter: exactly those messages are delivered
    anew if `yes`, and only counted otherwise. A kind of which none has died for `quiet` seconds is
    suggested for it."""
    address = address_of({"url": url})
    path = None if chart is None else Path(chart)
    if path is not None:
        check_chart_file(path)
    quiet_for = timedelta(milliseconds=to_milliseconds(quiet, "quiet"))
    found = find_stores(address, queues, letters_max=letters_max)
    running = spark or session("penstock dead letters")
    letters = read_letters(running, address, found)
    if redrive is not None:
        check_predicate(letters, redrive)
    letters = letters.persist()
    try:
        report = _make(letters, address, found, quiet_for)
        redriven = None
        if redrive is not None:
            redriven = redrive_by(
                letters,
                address,
                redrive,
                dry_run=not yes,
                to=to,
                rate=rate,
                messages_max=redriven_max,
            )
    finally:
        letters.unpersist()
    if path is not None:
        counts = [(one.start, one.kind, one.messages) for one in report.series]
        kinds = [(one.kind, one.messages) for one in report.kinds]
        draw_report(path, counts, report.series_seconds, kinds, report.ages)
    return replace(report, redriven=redriven, chart=None if path is None else str(path))


def _make(
    letters: "DataFrame", url: str, found: DeadLetterSources, quiet: timedelta
) -> DeadLetterReport:
    now = datetime.now(UTC)
    kinds, ages = _kinds(letters)
    messages = sum(one.messages for one in kinds)
    by_kind, by_queue = _patterns(letters, url, kinds, messages)
    width = _width(kinds)
    return DeadLetterReport(
        made_at=now,
        messages=messages,
        left_out=found.left_out,
        kinds=tuple(kinds),
        ages=ages,
        keys=_keys(letters),
        patterns=tuple(by_queue),
        series=_series(letters, width),
        series_seconds=width,
        suggestions=tuple(
            suggest(one, by_kind.get((one.queue, one.kind), ()), now=now, quiet=quiet)
            for one in kinds
        ),
    )


def _kinds(letters: "DataFrame") -> tuple[list[FailureKind], tuple[tuple[str, int], ...]]:
    """By queue and kind, and all of them by age."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    age = F.col("age_minutes")
    starts = (float("-inf"), *(end for _, end in AGES[:-1]))
    aged = [
        F.count_if((age >= start) & (age < end)).alias(name)
        for start, (name, end) in zip(starts, AGES, strict=True)
    ]
    rows = (
        letters.groupBy("queue", "kind")
        .agg(
            F.count("*").alias("messages"),
            F.approx_count_distinct("key").alias("keys"),
            F.mean("deliveries").alias("deliveries_mean"),
            F.unix_micros(F.min("died")).alias("first_died"),
            F.unix_micros(F.max("died")).alias("last_died"),
            F.min("reason").alias("example"),
            *aged,
        )
        .orderBy(F.desc("messages"), "queue", "kind")
        .limit(KINDS_MAX)
        .collect()
    )
    kinds = [
        FailureKind(
            queue=row.queue,
            kind=row.kind,
            messages=row.messages,
            keys=row.keys,
            deliveries_mean=row.deliveries_mean or 0.0,
            first_died=_moment(row.first_died),
            last_died=_moment(row.last_died),
            example=row.example,
        )
        for row in rows
    ]
    return kinds, tuple((name, sum(row[name] for row in rows)) for name, _ in AGES)


def _keys(letters: "DataFrame") -> tuple[KeyCount, ...]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    rows = (
        letters.where("key is not null")
        .groupBy("queue", "key")
        .agg(F.count("*").alias("messages"))
        .where("messages > 1")
        .orderBy(F.desc("messages"), "queue", "key")
        .limit(KEYS_MAX)
        .collect()
    )
    return tuple(KeyCount(queue=row.queue, key=row.key, messages=row.messages) for row in rows)


def _width(kinds: Sequence[FailureKind]) -> int:
    """The width of a bar in seconds, so that there are not too many bars."""
    if not kinds:
        return WIDTHS_SECONDS[0]
    span = max(one.last_died for one in kinds) - min(one.first_died for one in kinds)
    wanted = span.total_seconds() / BARS_MAX
    return next((one for one in WIDTHS_SECONDS if one >= wanted), WIDTHS_SECONDS[-1])


def _series(letters: "DataFrame", width: int) -> tuple[FailureCount, ...]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    start = F.floor(F.unix_seconds("died") / width) * width
    rows = (
        letters.groupBy(start.alias("start"), "kind")
        .agg(F.count("*").alias("messages"))
        .orderBy(F.desc("start"), "kind")
        .limit(BARS_MAX * KINDS_MAX)
        .collect()
    )
    return tuple(
        FailureCount(start=_moment(row.start * 1_000_000), kind=row.kind, messages=row.messages)
        for row in reversed(rows)
    )


# What they have in common.


def _patterns(
    letters: "DataFrame", url: str, kinds: Sequence[FailureKind], messages: int
) -> tuple[dict[tuple[str, str], list[Pattern]], list[QueuePattern]]:
    """Of each kind, and of each queue, against the living of that queue."""
    if not kinds:
        return {}, []
    dead = letters
    if messages > SAMPLE_MAX:
        dead = letters.sample(fraction=SAMPLE_MAX / messages, seed=1)
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in _count_traits(dead, ("queue", "kind"), at_least=2):
        counts[row["queue"], row["kind"], row["trait"]] = row["messages"]
    queues = sorted({one.queue for one in kinds})
    living = _living(letters, url, queues)
    among_living: Counter[tuple[str, str]] = Counter()
    if living is not None:
        wanted = sorted({trait for _, _, trait in counts})
        for row in _count_traits(
            living, ("queue",), at_least=1, only=[*wanted, _ALL], share=len(queues)
        ):
            among_living[row["queue"], row["trait"]] = row["messages"]
    by_kind = {
        (one.queue, one.kind): _compared(counts, among_living, one.queue, one.kind) for one in kinds
    }
    whole: Counter[tuple[str, str, str]] = Counter()
    for (queue, _, trait), count in counts.items():
        whole[queue, "", trait] += count
    by_queue = [
        QueuePattern(queue=queue, pattern=pattern)
        for queue in queues
        for pattern in _compared(whole, among_living, queue, "")
    ]
    by_queue.sort(key=lambda one: -one.pattern.surprise)
    return by_kind, by_queue[:PATTERNS_MAX]


_ALL: Final = ""
"""The trait that every message has, so that they are counted in the same go."""


def _compared(
    dead: Counter[tuple[str, str, str]],
    living: Counter[tuple[str, str]],
    queue: str,
    kind: str,
) -> list[Pattern]:
    counts = [
        (trait, count, living[queue, trait])
        for (in_queue, of_kind, trait), count in dead.items()
        if (in_queue, of_kind) == (queue, kind) and trait != _ALL
    ]
    return compare(counts, dead=dead[queue, kind, _ALL], living=living[queue, _ALL])


def _living(letters: "DataFrame", url: str, queues: Sequence[str]) -> "DataFrame | None":
    """The latest messages of these queues that are not among the dead."""
    starts = run(_tails(url, queues))
    if not starts:
        return None
    read = (
        letters.sparkSession.read.format("penstock")
        .schema("topic STRING, partition INT, offset BIGINT, key BINARY, value BINARY")
        .option("url", url)
        .option("subscribe", ",".join(starts))
        .option("startingOffsets", msgspec.json.encode(starts).decode())
        .option("failOnDataLoss", "false")
        .load()
        .selectExpr(
            "topic AS queue", "partition", "offset", "key AS key_bytes", "value AS value_bytes"
        )
    )
    dead = letters.select("queue", "partition", "offset")
    return read.join(dead, ["queue", "partition", "offset"], "left_anti")


async def _tails(url: str, queues: Sequence[str]) -> dict[str, dict[str, int]]:
    """The start offsets, by topic and partition, that limit the number of messages in all."""
    client = client_of(url)
    described = []
    for name in queues:
        try:
            described.append(await client.describe_topic(name))
        except UnknownTopic:  # It was deleted; its dead are still there.
            continue
    parts = sum(len(one.partitions) for one in described)
    return {
        one.name: {
            str(part.index): max(part.start, part.end - SAMPLE_MAX // max(1, parts))
            for part in one.partitions
        }
        for one in described
        if one.messages
    }


def _count_traits(
    messages: "DataFrame",
    names: tuple[str, ...],
    *,
    at_least: int,
    only: Sequence[str] | None = None,
    share: int = 1,
) -> "list[Row]":
    """Return the number of messages with each trait, by these columns; only the most frequent
    traits, whose limit is multiplied by `share`."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    chosen = None if only is None else frozenset(only)

    def count(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        return _counted(batches, names, chosen)

    schema = ", ".join(f"{name} STRING" for name in (*names, "trait")) + ", messages BIGINT"
    return (
        messages.select(*names, "key_bytes", "value_bytes")
        .mapInArrow(count, schema)
        .groupBy(*names, "trait")
        .agg(F.sum("messages").alias("messages"))
        .where(F.col("messages") >= at_least)
        .orderBy(F.desc("messages"))
        .limit(TRAITS_MAX * share)
        .collect()
    )


def _counted(
    batches: "Iterator[pa.RecordBatch]", names: tuple[str, ...], only: frozenset[str] | None
) -> "Iterator[pa.RecordBatch]":
    counts: Counter[tuple[str, ...]] = Counter()
    for batch in batches:
        for row in batch.to_pylist():
            group = tuple(row[name] for name in names)
            for trait in (_ALL, *traits_of(row["key_bytes"], row["value_bytes"])):
                if only is None or trait in only:
                    counts[*group, trait] += 1
        if len(counts) > TRAITS_KEPT:
            yield _as_batch(counts, names)
            counts.clear()
    if counts:
        yield _as_batch(counts, names)


def _as_batch(counts: Counter[tuple[str, ...]], names: tuple[str, ...]) -> "pa.RecordBatch":
    import pyarrow as pa  # noqa: PLC0415

    columns = list(zip(*counts, strict=True))
    arrays = [pa.array(column, pa.string()) for column in columns]
    arrays.append(pa.array(counts.values(), pa.int64()))
    return pa.RecordBatch.from_arrays(arrays, names=[*names, "trait", "messages"])


def _moment(micros: int) -> datetime:
    """Spark's own conversion gives local times without saying so."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
