"""How many messages a second Spark reads from a topic and writes to one, in batches and streams.

One broker, one Spark application on two cores. Beside our source: Spark's own Kafka connector on
the same broker, where its packages can be had; the same rows as local Parquet files, which is as
fast as Spark reads anything; and a consumer loop that fills pandas frames, in a process of its own.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.systems import Penstock
from benchmarks.report import Finding, Measured, Progress, medians, number
from benchmarks.spark.connector import connector_can_be_had, connector_name
from benchmarks.spark.filling import fill_topic
from benchmarks.spark.orders import (
    BATCH,
    KAFKA,
    ONE_ROW,
    PARQUET,
    PENSTOCK,
    PLAIN,
    DriverOrder,
    DriverReport,
    Timing,
)
from benchmarks.spark.plain_loop import read_plainly, window_plainly, write_plainly
from penstock.core.decoders import decode_json

MESSAGES = {100: 1_000_000, 1_024: 500_000}
MESSAGES_QUICK = {100: 300_000, 1_024: 100_000}
ROUNDS = 2
STREAM_BATCHES = 4
MASTER = "local[2]"
DRIVER_WITHIN_SECONDS = 1_200
AIMS = {KAFKA: 0.5, PLAIN: 2.0}
_LAST_LINES = 5


def measure_spark_throughput(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: every source, every work, both sizes."""
    messages = MESSAGES_QUICK if quick else MESSAGES
    rounds = 1 if quick else ROUNDS
    home = Path(directory) / "spark"
    home.mkdir()
    has_connector = connector_can_be_had(progress)
    with Penstock(home / "broker", 1) as broker, ClientProcess() as client:
        topics = {size: f"messages-{size}" for size in messages}
        for size, topic in topics.items():
            progress(f"spark: {messages[size]:,} messages of {size} B are sent")
            client.call(fill_topic, broker.bootstrap, topic, messages[size], size)
        progress("spark: the application runs")
        order = DriverOrder(
            bootstrap=broker.bootstrap,
            topics=topics,
            messages=messages,
            rounds=rounds,
            stream_batches=STREAM_BATCHES,
            master=MASTER,
            directory=str(home),
            connector=has_connector,
        )
        report = run_driver(order, home)
        timings = list(report.timings)
        for turn in range(rounds):
            for size, topic in topics.items():
                progress(f"spark: a plain loop, {size} B, {turn + 1} of {rounds}")
                for work in (read_plainly, window_plainly, write_plainly):
                    timings.append(
                        client.call(work, broker.bootstrap, topic, messages[size], size, str(home))
                    )
    return [_finding(timings, report, rounds, has_connector)]


def run_driver(order: DriverOrder, home: Path) -> DriverReport:
    """Let an application of its own carry out an order."""
    order_path, report_path = home / "order.json", home / "report.json"
    order_path.write_bytes(msgspec.json.encode(order))
    command = [sys.executable, "-m", "benchmarks.spark.driver", str(order_path), str(report_path)]
    done = subprocess.run(
        command, check=False, timeout=DRIVER_WITHIN_SECONDS, stderr=subprocess.PIPE, text=True
    )
    if done.returncode:
        last = "\n".join(done.stderr.splitlines()[-_LAST_LINES:])
        raise ClientFailed(f"the Spark application failed: {last}")
    return decode_json(report_path.read_bytes(), DriverReport)


def _finding(
    timings: Sequence[Timing], report: DriverReport, rounds: int, has_connector: bool
) -> Finding:
    grouped: dict[tuple[str, str, int, str], list[Measured]] = {}
    for one in timings:
        row: Measured = {
            "system": one.system,
            "way": one.way,
            "work": one.work,
            "message_bytes": one.message_bytes,
            "messages": one.messages,
            "messages_per_second": one.messages / one.seconds,
        }
        grouped.setdefault((one.way, one.work, one.message_bytes, one.system), []).append(row)
    numbers = [medians(rows) for _, rows in sorted(grouped.items())]
    for row in numbers:
        row["penstock_ratio"] = _ratio(row, numbers)
    return Finding(
        name="spark-throughput",
        title=f"Spark {report.spark}, {MASTER}: messages a second, medians of {rounds} rounds",
        columns=("way", "work", "bytes", "source or sink", "messages/s", "ours is ×"),
        rows=[
            (
                str(row["way"]),
                str(row["work"]),
                f"{number(row, 'message_bytes')}",
                str(row["system"]),
                f"{number(row, 'messages_per_second'):,.0f}",
                f"{number(row, 'penstock_ratio'):.2f}",
            )
            for row in numbers
        ],
        notes=_notes(report, has_connector),
        numbers=[*numbers, _starts(report)],
    )


def _ratio(row: Measured, numbers: Sequence[Measured]) -> float:
    ours = [
        one
        for one in numbers
        if one["system"] == PENSTOCK
        and all(one[name] == row[name] for name in ("way", "work", "message_bytes"))
    ]
    theirs = number(row, "messages_per_second")
    return number(ours[0], "messages_per_second") / theirs if ours else 0.0


START_NAMES = {PENSTOCK: "penstock", KAFKA: "connector", ONE_ROW: "any_python_source"}


def _starts(report: DriverReport) -> Measured:
    found: Measured = {"session_seconds": report.session_seconds}
    for system, seconds in report.first_load_seconds.items():
        found[f"first_rows_{START_NAMES[system]}_seconds"] = seconds
    return found


def _notes(report: DriverReport, has_connector: bool) -> list[str]:
    first = ", ".join(
        f"{system} {seconds:.1f} s" for system, seconds in report.first_load_seconds.items()
    )
    return [
        "read: every row and column into Spark's noop.",
        f"stream: AvailableNow in {STREAM_BATCHES} micro-batches, start and stop included.",
        f"{PARQUET}: the same rows. {PLAIN}: confluent-kafka in one process, {BATCH} only.",
        f"aims: {AIMS[KAFKA]} × the Kafka connector, {AIMS[PLAIN]} × the plain loop.",
        f"Spark itself is there after {report.session_seconds:.1f} s; then first rows: {first}.",
        f"Java {report.java}.",
        connector_name() if has_connector else "the Kafka connector could not be had.",
    ]
