"""`penstock job …`: jobs on Spark; each is a function in `penstock.spark`.

What needs Spark is imported where it is needed, after it has been started: if it is missing, that
is the first error. A job that follows ends in order on Ctrl-C and SIGTERM, after the step it is at.
"""

import datetime as dt
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import App, CycloptsError, Parameter

from penstock.cli.address_flags import DEFAULT_URL, Url
from penstock.cli.admin import Json, print_json
from penstock.cli.quantities import parse_bytes, parse_seconds, show_count, show_size, show_time
from penstock.cli.table import print_table
from penstock.core.log_place import parse_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.jobs.audit import AuditReport

app = App(name="job", help="Archive, replay and audit topics, with Spark.")
for _name, _place, _help in (
    (
        "dead-letters",
        "penstock.cli.spark.job_reports:dead_letters",
        "Report on dead letters, and redrive some by a SQL predicate.",
    ),
    (
        "rollup",
        "penstock.cli.spark.job_reports:rollup",
        "Roll topics up into tables of rates, lag and forecasts.",
    ),
    ("join", "penstock.cli.spark.job_reports:join", "Join the messages of a topic with a table."),
):
    app.command(_place, name=_name, help=_help)

Topic = Annotated[str, Parameter(help="The name of the topic.")]
Root = Annotated[
    str, Parameter(metavar="ROOT", help="The lake's directory, or its address: hdfs://…, s3a://…")
]
Lake = Annotated[
    str | None,
    Parameter(metavar="ROOT", show_default=False, help="The lake's directory, or its address."),
]
Master = Annotated[
    str,
    Parameter(metavar="URL", help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://…"),
]
Where = Annotated[
    str | None,
    Parameter(
        metavar="SQL",
        show_default=False,
        help="Only messages that match this predicate; its columns are key, value, topic,"
        " partition, offset, timestamp, timestampType and headers.",
    ),
]
Since = Annotated[
    str | None,
    Parameter(
        metavar="TIME",
        allow_leading_hyphen=True,
        show_default=False,
        help="Messages of this time or later: 2026-01-31T09:30:00Z, or -1h.",
    ),
]
Until = Annotated[
    str | None,
    Parameter(
        metavar="TIME",
        allow_leading_hyphen=True,
        show_default=False,
        help="Messages before this time.",
    ),
]
Key = Annotated[
    str | None, Parameter(metavar="KEY", show_default=False, help="Messages with this key.")
]
Rate = Annotated[
    float | None,
    Parameter(metavar="N", show_default=False, help="Maximum rate, messages a second."),
]
Switch = Parameter(negative="", show_default=False)


@app.command
def archive(
    topics: Annotated[tuple[str, ...], Parameter(metavar="TOPIC", help="Topics, one or more.")],
    /,
    *,
    lake: Root,
    follow: Annotated[bool, Switch, Parameter(help="Run until Ctrl-C or SIGTERM.")] = False,
    every: Annotated[
        str, Parameter(metavar="TIME", help="With --follow, the interval between checks.")
    ] = "10s",
    max_offsets: Annotated[
        int, Parameter(metavar="N", help="The number of offsets added to the lake in one step.")
    ] = 4_000_000,
    fail_on_data_loss: Annotated[
        bool,
        Parameter(
            show_default=False,
            help="Fail if messages were removed before they were archived [default]; or continue,"
            " and leave a gap that the catalog shows.",
        ),
    ] = True,
    master: Master = "local[*]",
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Archive topics in a lake of Parquet files, each offset exactly once.

    It continues where the lake's catalog ends; there is no checkpoint. Killed at any time, it loses
    and duplicates nothing: just start it again.

    Examples
    --------
    penstock job archive orders --lake ./lake
    penstock job archive orders payments --lake ./lake --follow --every 1min
    penstock job archive orders --lake s3a://archive/lake --master spark://spark.example:7077
    """
    seconds = parse_seconds("--every", every)
    spark = _session(master)
    from penstock.spark.jobs.archive import ArchiveStep
    from penstock.spark.jobs.archive import archive as run_archive

    def told(step: ArchiveStep) -> None:
        _tell(
            f"entry {step.number}: {step.rows:,} messages in {step.files} files,"
            f" {show_size(step.bytes)}, {show_time(step.seconds)}; {step.behind:,} to go"
        )

    done = run_archive(
        spark,
        lake,
        topics,
        url=url,
        follow=follow,
        max_offsets=max_offsets,
        fail_on_data_loss=fail_on_data_loss,
        interval_seconds=seconds,
        stop=_stop_on_signals() if follow else None,
        told=told,
    )
    if json:
        print_json(done)
        return
    print(f"{done.rows:,} messages archived to {done.root} in {done.steps} steps")
    print_table(
        ("TOPIC", "PARTITION", "NEXT OFFSET"),
        [
            (topic, partition, end)
            for topic, ends in done.ends.items()
            for partition, end in sorted(ends.items())
        ],
    )


@app.command
def compact(
    root: Root,
    /,
    *,
    topic: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--topic", "-t"],
            metavar="NAME",
            negative="",
            show_default=False,
            help="Only files of this topic; may be repeated.",
        ),
    ] = (),
    target: Annotated[str, Parameter(metavar="SIZE", help="The target size of files.")] = "128MiB",
    grace: Annotated[
        str,
        Parameter(
            metavar="TIME",
            help="The time for which replaced files are kept for readers that still use them.",
        ),
    ] = "1h",
    orphans: Annotated[
        str,
        Parameter(
            metavar="TIME",
            help="The age at which files left behind by a killed job are removed.",
        ),
    ] = "1d",
    master: Master = "local[*]",
    json: Json = False,
) -> None:
    """Compact the small files of each day into large ones, and remove unused files.

    Readers and archive jobs may run meanwhile.

    Examples
    --------
    penstock job compact ./lake
    penstock job compact ./lake --topic orders --target 256MiB --grace 6h
    """
    size = parse_bytes("--target", target)
    grace_seconds = parse_seconds("--grace", grace)
    orphan_seconds = parse_seconds("--orphans", orphans)
    spark = _session(master)
    from penstock.spark.lake.compaction import compact as run_compact

    done = run_compact(
        spark,
        root,
        topics=topic,
        target_bytes=size,
        grace_seconds=grace_seconds,
        orphan_seconds=orphan_seconds,
    )
    if json:
        print_json(done)
        return
    print(
        f"{done.files_before} files became {done.files_after}: {done.rewritten} small ones,"
        f" {show_size(done.rewritten_bytes)}, were rewritten"
    )
    print(f"{done.swept} unused files were removed, {show_size(done.swept_bytes)}")


@app.command
def catalog(
    root: Root,
    /,
    *,
    topic: Annotated[
        str | None,
        Parameter(
            name=["--topic", "-t"], metavar="NAME", show_default=False, help="Only this topic."
        ),
    ] = None,
    master: Master = "local[1]",
    json: Json = False,
) -> None:
    """Show the offsets in a lake, and the gaps between them.

    Examples
    --------
    penstock job catalog ./lake
    penstock job catalog ./lake --topic orders --json
    """
    from penstock.spark.lake.lake import Lake as OpenLake
    from penstock.spark.lake.spans import length, written

    if "://" in root and not root.startswith("file:"):
        _session(master)
    lake = OpenLake.open(root)
    if topic is not None:
        lake.require(topic)
    found = lake.catalog
    names = found.topics if topic is None else [topic]
    if json:
        document = {
            name: {
                "messages": found.rows(name),
                "files": len(found.files_of(name)),
                "bytes": sum(one.bytes for one in found.files_of(name)),
                "offsets": found.spans(name),
                "gaps": found.gaps(name),
            }
            for name in names
        }
        print_json({"root": lake.root, "entry": found.number, "topics": document})
        return
    rows = [
        (
            name,
            partition,
            length(spans),
            written(spans),
            written(found.gaps(name).get(partition, ())),
        )
        for name in names
        for partition, spans in sorted(found.spans(name).items())
    ]
    if rows:
        print_table(("TOPIC", "PARTITION", "OFFSETS", "WHICH", "MISSING"), rows)
    else:
        print(f"the lake at {lake.root} is empty", file=sys.stderr)


@app.command
def replay(
    topic: Topic,
    to: Annotated[str, Parameter(help="The topic to send to.")],
    /,
    *,
    name: Annotated[
        str, Parameter(metavar="NAME", help="Name of this replay; a replay of one name runs once.")
    ],
    lake: Lake = None,
    since: Since = None,
    until: Until = None,
    key: Key = None,
    where: Where = None,
    rate: Rate = None,
    keep_partitions: Annotated[
        bool, Switch, Parameter(help="Keep the original partition of each message.")
    ] = False,
    keep_timestamps: Annotated[
        bool, Switch, Parameter(help="Keep the original time of each message.")
    ] = False,
    dry_run: Annotated[bool, Switch, Parameter(help="Only count the messages.")] = False,
    master: Master = "local[*]",
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Send messages of a topic, or of its lake, again to a topic.

    Each says where it came from in the headers replayed-topic, replayed-partition and
    replayed-offset. A replay that was killed goes on when it is started again by its name, and
    doubles nothing.

    Examples
    --------
    penstock job replay orders orders-again --name tuesday --since 2026-01-31 --dry-run
    penstock job replay orders orders-again --name late --lake ./lake --key customer-7
    penstock job replay orders orders-again --name big --rate 500 --where "length(value) > 9000"
    """
    now_ms = int(time.time() * 1_000)
    times = _time("--since", since, now_ms), _time("--until", until, now_ms)
    spark = _session(master)
    from penstock.spark.jobs.replay import ReplayStep
    from penstock.spark.jobs.replay import replay as run_replay

    def told(step: ReplayStep) -> None:
        _tell(f"window {step.window + 1} of {step.windows}: {step.sent:,} messages sent")

    done = run_replay(
        spark,
        topic,
        to,
        name=name,
        url=url,
        lake=lake,
        since=times[0],
        until=times[1],
        key=key,
        where=where,
        rate=rate,
        keep_partitions=keep_partitions,
        keep_timestamps=keep_timestamps,
        dry_run=dry_run,
        stop=_stop_on_signals(),
        told=told,
    )
    if json:
        print_json(done)
    elif dry_run:
        print(f"{done.matched:,} messages of {topic} would be sent to {to}")
    else:
        print(f"{done.sent:,} of {done.matched:,} messages were sent to {to} by this run")


@app.command
def audit(
    topic: Topic,
    /,
    *,
    lake: Lake = None,
    sink: Annotated[
        str | None,
        Parameter(
            metavar="NAME", show_default=False, help="The topic that must contain every message."
        ),
    ] = None,
    by: Annotated[
        str,
        Parameter(
            metavar="ID",
            help="The identity of a message in the sink: key, value, header:NAME, or origin, for"
            " what was replayed.",
        ),
    ] = "key",
    unique: Annotated[
        bool | None,
        Parameter(
            show_default=False,
            help="Each id may occur once; or as often as in the source, which is the default"
            " but for headers.",
        ),
    ] = None,
    where: Where = None,
    complete: Annotated[
        bool, Switch, Parameter(help="The lake must have all that the log has.")
    ] = False,
    limit: Annotated[int, Parameter(metavar="N", help="The number of differences listed.")] = 20,
    master: Master = "local[*]",
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> int:
    """Prove that no message is lost or duplicated between a topic, its lake and a sink.

    The exit code is 1 otherwise.

    Examples
    --------
    penstock job audit orders --lake ./lake
    penstock job audit orders --sink orders-enriched --by header:order-id
    penstock job audit orders --lake ./lake --sink orders-again --by origin --json
    """
    spark = _session(master)
    from penstock.spark.jobs.audit import audit as run_audit

    report = run_audit(
        spark,
        topic,
        url=url,
        lake=lake,
        sink=sink,
        by=by,
        unique=unique,
        where=where,
        complete=complete,
        limit=limit,
    )
    if json:
        print_json({"ok": report.ok, **msgspec.to_builtins(report, str_keys=True)})
    else:
        _print_audit(report)
    return 0 if report.ok else 1


def _print_audit(report: "AuditReport") -> None:
    heads = ["PARTITION", "LOG", "MESSAGES", "HOLES"]
    rows: list[list[object]] = [
        [one.partition, _span(one.log_start, one.log_end), one.log_rows, one.log_holes]
        for one in report.partitions
    ]
    if report.lake is not None:
        heads += ["IN LAKE", "DOUBLED", "MISSING", "DIFFERENT", "BEHIND"]
        for row, one in zip(rows, report.partitions, strict=True):
            row += [
                one.lake_rows,
                one.doubled,
                one.missing + one.vanished + one.lake_holes,
                one.different,
                one.behind,
            ]
    print_table(heads, rows)
    if report.sink is not None:
        found = report.sink
        print(
            f"\n{found.sink}: {found.sink_rows:,} messages, of {found.source_rows:,} in"
            f" {report.topic}; {show_count(found.ids)} ids by {found.by}"
        )
    if report.differences:
        print()
        print_table(
            ("WHAT", "PARTITION", "OFFSET", "ID", "SOURCE", "OTHER"),
            [
                (
                    one.kind,
                    "-" if one.partition is None else one.partition,
                    "-" if one.offset is None else one.offset,
                    "-" if one.id is None else one.id,
                    one.source,
                    one.other,
                )
                for one in report.differences
            ],
        )
    print()
    print("\n".join(report.problems) or "nothing is lost and nothing is doubled")


def _span(first: int, end: int) -> str:
    """Both ends included, as the catalog shows offsets."""
    return f"{first}–{end - 1}" if first < end else "empty"


def _session(master: str) -> "SparkSession":
    """Start Spark, or name the packages to install, before modules are imported that need them."""
    from penstock.spark.sessions import session

    return session("penstock job", master=master)


def _stop_on_signals() -> threading.Event:
    """Ctrl-C and SIGTERM end a job after the step it is at; a second one at once."""
    stop = threading.Event()

    def ask(number: int, _frame: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)
        _tell("ending after this step")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    return stop


def _time(flag: str, text: str | None, now_ms: int) -> dt.datetime | None:
    if text is None:
        return None
    try:
        return parse_place(f"@{text.removeprefix('@')}", now_ms).time
    except ValueError as error:
        raise CycloptsError(
            msg=f'{flag} = "{text}" must be a time such as 2026-01-31T09:30:00Z or -1h.'
        ) from error


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
