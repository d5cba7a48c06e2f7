"""The shortest micro-batch, with both profiles of `penstock.spark.session`: see `floor`."""

import subprocess
import sys
from pathlib import Path

from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.systems import Penstock
from benchmarks.report import Finding, Measured, Progress, number
from benchmarks.spark.floor import PER_SECOND, Floor
from penstock.core.decoders import decode_json

PROFILES = ("bulk", "lowlatency")
SECONDS = 20
SECONDS_QUICK = 8
WITHIN_SECONDS = 180
_LAST_CHARACTERS = 500


def measure_spark_latency(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: both profiles, without a sink and with ours."""
    home = Path(directory) / "spark-latency"
    home.mkdir()
    floors: list[Floor] = []
    with Penstock(home / "broker", 1) as broker:
        for profile in PROFILES:
            progress(f"spark: micro-batches, {profile}")
            seconds = SECONDS_QUICK if quick else SECONDS
            floors += _run(broker.bootstrap, home, profile, seconds)
    numbers: list[Measured] = [
        {
            "profile": one.profile,
            "target": one.target,
            "batches": one.batches,
            "trigger_p50_ms": one.trigger_p50_ms,
            "trigger_p99_ms": one.trigger_p99_ms,
            "end_to_end_p50_ms": one.end_to_end_p50_ms,
            "end_to_end_p99_ms": one.end_to_end_p99_ms,
        }
        for one in floors
    ]
    return [
        Finding(
            name="spark-latency",
            title=f"Spark micro-batches, {PER_SECOND} messages a second, local[2]",
            columns=("profile", "to", "batches", "p50 ms", "p99 ms", "end to end p50", "p99"),
            rows=[
                (
                    str(row["profile"]),
                    str(row["target"]),
                    f"{number(row, 'batches')}",
                    f"{number(row, 'trigger_p50_ms'):.0f}",
                    f"{number(row, 'trigger_p99_ms'):.0f}",
                    _milliseconds(number(row, "end_to_end_p50_ms")),
                    _milliseconds(number(row, "end_to_end_p99_ms")),
                )
                for row in numbers
            ],
            notes=["end to end: from the message's sending to the time of its copy in a topic."],
            numbers=numbers,
        )
    ]


def _milliseconds(value: float) -> str:
    return f"{value:.0f}" if value else ""


def _run(bootstrap: str, home: Path, profile: str, seconds: int) -> list[Floor]:
    report = home / f"floor-{profile}.json"
    command = [sys.executable, "-m", "benchmarks.spark.floor"]
    command += [bootstrap, str(home), profile, str(seconds), str(report)]
    done = subprocess.run(
        command, check=False, timeout=WITHIN_SECONDS, stderr=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise ClientFailed(f"the Spark application failed: {done.stderr[-_LAST_CHARACTERS:]}")
    return decode_json(report.read_bytes(), list[Floor])
