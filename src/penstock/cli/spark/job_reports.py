"""`penstock job dead-letters, rollup, join`: what Spark finds out about topics and queues."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from penstock.cli.address_flags import DEFAULT_URL, Url
from penstock.cli.admin import Json
from penstock.cli.quantities import parse_seconds, show_count, show_size, show_time
from penstock.cli.queue.messages import parse_flag_time_ms
from penstock.cli.table import format_age, print_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.jobs.dead_letters import DeadLetterReport
    from penstock.spark.jobs.rollup import RollupReport

KINDS_SHOWN = 20
DEFAULT_MASTER = "local[*]"

Master = Annotated[
    str,
    Parameter(metavar="URL", help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://…"),
]


def dead_letters(
    *queues: Annotated[
        str,
        Parameter(metavar="QUEUE", help="Source queues of the dead letters; all if none is given."),
    ],
    redrive: Annotated[
        str | None,
        Parameter(metavar="SQL", help="Redrive the dead letters that match this predicate."),
    ] = None,
    yes: Annotated[
        bool, Parameter(negative="", show_default=False, help="Redrive; the default is to count.")
    ] = False,
    to: Annotated[
        str | None, Parameter(metavar="QUEUE", help="The target; by default the original queue.")
    ] = None,
    rate: Annotated[int | None, Parameter(metavar="N", help="Messages per second.")] = None,
    limit: Annotated[
        int, Parameter(metavar="N", help="Refuse a redrive of more messages than this.")
    ] = 100_000,
    quiet: Annotated[
        str,
        Parameter(metavar="TIME", help="A kind of failure is over after this time without one."),
    ] = "10m",
    chart: Annotated[
        Path | None, Parameter(metavar="FILE", help="Draw a chart: a .png, .svg or .pdf file.")
    ] = None,
    master: Master = DEFAULT_MASTER,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Report on dead letters: why, since when, what they have in common, and what to do.

    Failures are grouped by queue and by reason, without numbers, ids and quoted words. Patterns are
    traits that dead messages have more often than others. A predicate is SQL over the columns
    queue, reason, kind, key, value, headers, deliveries, timestamp, died, age_minutes, age_hours
    and more; exactly the messages it selects are redriven.

    Examples
    --------
    penstock job dead-letters
    penstock job dead-letters orders --chart dead.png
    penstock job dead-letters orders --redrive "kind like 'timeout%' and age_minutes < 60"
    penstock job dead-letters --redrive "get_json_object(value, '$.sku') like 'A-%'" --yes
    """
    from penstock.spark import dead_letter_report

    report = dead_letter_report(
        url,
        queues,
        spark=_session(master),
        chart=chart,
        redrive=redrive,
        yes=yes,
        to=to,
        rate=rate,
        quiet=parse_seconds("--quiet", quiet),
        redriven_max=limit,
    )
    if json:
        print(report.to_json())
    else:
        _print_letters(report)


def rollup(
    *topics: Annotated[str, Parameter(metavar="TOPIC", help="Topics and queues.")],
    out: Annotated[Path, Parameter(metavar="DIRECTORY", help="The directory of the tables.")],
    window: Annotated[
        str, Parameter(metavar="TIME", help='Such as "10 seconds" or "1 hour".')
    ] = "1 minute",
    since: Annotated[
        str | None, Parameter(metavar="TIME", help="Only messages from this time on.")
    ] = None,
    latency: Annotated[
        str | None,
        Parameter(metavar="FROM:TO", help="Latency between a key's first messages in two topics."),
    ] = None,
    latency_header: Annotated[
        str | None,
        Parameter(metavar="NAME", help="Latency from this header, milliseconds since 1970."),
    ] = None,
    look: Annotated[
        str, Parameter(metavar="TIME", help="The time for which rates of groups are measured.")
    ] = "2s",
    follow: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Run on; write windows as they close."),
    ] = False,
    master: Master = DEFAULT_MASTER,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Roll topics up into tables: rates, lag, latency, errors, odd windows and forecasts.

    Tables are directories of Parquet files. A forecast says how long a message stays (Little's law)
    and when a queue is empty, if it goes on as it does now.

    Examples
    --------
    penstock job rollup orders --out ./rollup
    penstock job rollup orders shipped --out ./rollup --latency orders:shipped
    penstock job rollup orders --out ./rollup --window "10 seconds" --follow
    """
    from penstock.spark import rollup as run_rollup
    from penstock.spark import rollup_stream

    spark = _session(master)
    if follow:
        query = rollup_stream(url, topics, out, spark=spark, window=window)
        print(
            f"windows are written to {out}/rates_stream as they close; Ctrl-C ends it",
            file=sys.stderr,
        )
        query.awaitTermination()
        return
    since_ms = parse_flag_time_ms("--since", since)
    begin, _, end = (latency or "").partition(":")
    report = run_rollup(
        url,
        topics,
        out,
        spark=spark,
        window=window,
        since=None if since_ms is None else datetime.fromtimestamp(since_ms / 1_000, UTC),
        latency=(begin, end) if latency else None,
        latency_header=latency_header,
        look=parse_seconds("--look", look),
    )
    if json:
        print(report.to_json())
    else:
        _print_rollup(report)


def join(
    topic: Annotated[str, Parameter(metavar="TOPIC", help="A topic of JSON objects.")],
    table: Annotated[
        str, Parameter(metavar="TABLE", help="A Parquet, CSV or JSON file, or a SQL query.")
    ],
    /,
    *,
    on: Annotated[str, Parameter(metavar="FIELD", help="A field of the value, or `key`.")],
    to: Annotated[str | None, Parameter(metavar="TOPIC", help="The topic of the result.")] = None,
    lake: Annotated[
        Path | None, Parameter(metavar="DIRECTORY", help="The result as Parquet files.")
    ] = None,
    name: Annotated[
        str | None,
        Parameter(metavar="FIELD", help="Field that gets the row; by default the table's name."),
    ] = None,
    column: Annotated[
        str | None, Parameter(metavar="NAME", help="The table's column, if its name is not FIELD.")
    ] = None,
    missing: Annotated[
        Literal["keep", "drop", "dead"], Parameter(help="What happens to messages without a row.")
    ] = "keep",
    checkpoint: Annotated[
        Path | None, Parameter(metavar="DIRECTORY", help="The directory of the checkpoint.")
    ] = None,
    follow: Annotated[
        bool, Parameter(negative="", show_default=False, help="Continue with new messages.")
    ] = False,
    master: Master = DEFAULT_MASTER,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Join the messages of a topic with a table, exactly once, into a topic or a lake.

    The row is one more field of the message. Without --follow it processes the existing messages;
    the next run continues where this one ended.

    Examples
    --------
    penstock job join orders products.csv --on sku --to orders-with-products --name product
    penstock job join orders products.parquet --on sku --lake ./orders --missing dead
    """
    import msgspec

    from penstock.spark import enrich, enrich_stream

    spark = _session(master)
    if follow:
        enrich_stream(
            url, topic, table, on=on, to=to, lake=lake, name=name, column=column, missing=missing,
            checkpoint=checkpoint, spark=spark,
        ).awaitTermination()  # fmt: skip
        return
    done = enrich(
        url, topic, table, on=on, to=to, lake=lake, name=name, column=column, missing=missing,
        checkpoint=checkpoint, spark=spark,
    )  # fmt: skip
    if json:
        print(msgspec.json.encode(done).decode())
        return
    print(
        f"{done.messages} messages: {done.with_row} with a row, {done.without_row} without,"
        f" {done.dead} dead; to {to or lake}"
    )


def _session(master: str) -> "SparkSession":
    from penstock.spark import session

    return session("penstock job", master=master)


def _print_letters(report: "DeadLetterReport") -> None:
    if not report.messages:
        print("no dead letters", file=sys.stderr)
    now = report.made_at
    if report.kinds:
        print_table(
            ("MESSAGES", "QUEUE", "LAST", "KEYS", "DELIVERIES", "REASON"),
            [
                (
                    one.messages,
                    one.queue,
                    format_age(int((now - one.last_died).total_seconds() * 1_000)),
                    one.keys,
                    f"{one.deliveries_mean:.1f}",
                    one.kind,
                )
                for one in report.kinds[:KINDS_SHOWN]
            ],
        )
    if len(report.kinds) > KINDS_SHOWN:
        print(f"and {len(report.kinds) - KINDS_SHOWN} more kinds of failure; --json has them all")
    if report.patterns:
        print()
        print_table(
            ("QUEUE", "LIFT", "DEAD", "LIVING", "WHAT THE DEAD HAVE IN COMMON"),
            [
                (
                    one.queue,
                    f"{one.pattern.lift:.1f}",
                    f"{one.pattern.dead_share:.0%}",
                    f"{one.pattern.living_share:.1%}",
                    one.pattern.trait,
                )
                for one in report.patterns
            ],
        )
    print()
    for advice in report.suggestions[:KINDS_SHOWN]:
        print(f"{advice.action}: {advice.messages} of {advice.queue}: {advice.why}")
        if advice.action == "redrive":
            print(f'    penstock job dead-letters --redrive "{advice.predicate}" --yes')
    _print_outcome(report)


def _print_outcome(report: "DeadLetterReport") -> None:
    if report.left_out:
        print(f"{report.left_out} offsets, the oldest, were not looked at")
    done = report.redriven
    if done is not None and done.dry_run:
        print(f"{done.matched} messages would be redriven; add --yes to do it")
    elif done is not None:
        print(f"{done.moved} of {done.matched} messages were redriven")
    if report.chart:
        print(f"chart: {report.chart}")


def _print_rollup(report: "RollupReport") -> None:
    print_table(
        ("TOPIC", "MESSAGES", "SIZE", "PER SECOND", "PEAK", "ODD WINDOWS"),
        [
            (
                one.topic,
                one.messages,
                show_size(one.bytes),
                show_count(one.messages_per_second),
                show_count(one.peak_per_second),
                len(one.odd_windows),
            )
            for one in report.rates
        ],
    )
    if report.forecasts:
        print()
        print_table(
            ("GROUP", "TOPIC", "DEPTH", "IN", "OUT", "STAYS", "DRAINED IN", "IN 1 H"),
            [
                (
                    one.group,
                    one.topic,
                    one.forecast.depth,
                    f"{show_count(one.forecast.arrivals_per_second)}/s",
                    f"{show_count(one.forecast.departures_per_second)}/s",
                    _span(one.forecast.stay_seconds, "-"),
                    _span(one.forecast.drain_seconds, "never"),
                    one.forecast.depth_in_1h,
                )
                for one in report.forecasts
            ],
        )
    print()
    seen = report.latency
    if seen is not None:
        print(
            f"latency, {seen.name}: p50 {show_time(seen.p50 / 1e3)},"
            f" p95 {show_time(seen.p95 / 1e3)}, p99 {show_time(seen.p99 / 1e3)},"
            f" longest {show_time(seen.max / 1e3)}"
        )
    for error in report.errors:
        if error.dead:
            print(f"errors: {error.dead} of {error.messages} in {error.queue} ({error.rate:.2%})")
    for name, place in sorted(report.tables.items()):
        print(f"table {name}: {place}")


def _span(seconds: float | None, otherwise: str) -> str:
    return otherwise if seconds is None else show_time(seconds)
