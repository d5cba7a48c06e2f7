"""How long the shortest micro-batch takes: a trickle of messages, a query that never waits.

    python -m benchmarks.spark.floor BOOTSTRAP DIRECTORY PROFILE SECONDS REPORT

The time is Spark's own, from planning a batch to its commit; end to end is from a message's time to
the time of its copy in the topic that the query writes.
"""

import sys
import threading
import time
from pathlib import Path

import msgspec

import penstock.blocking
from benchmarks.report import quantile
from penstock.spark import session

PER_SECOND = 50
WARM_UP_BATCHES = 5
SOURCE, COPY = "floor", "floor-copy"


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """Of one profile, with one target."""

    profile: str
    target: str
    batches: int
    trigger_p50_ms: float
    trigger_p99_ms: float
    end_to_end_p50_ms: float = 0.0
    end_to_end_p99_ms: float = 0.0


def main(arguments: list[str]) -> None:
    """Measure one profile, without a sink and with ours."""
    bootstrap, directory, profile, seconds, report = arguments
    spark = session("floor", master="local[2]", profile=profile)  # type: ignore[arg-type]
    floors = []
    with penstock.blocking.connect(f"penstock://{bootstrap}") as client:
        for target in ("noop", "penstock"):
            for name in (SOURCE, COPY):
                client.create_topic(f"{name}-{target}", partitions=1, exist_ok=True)
            stop = threading.Event()
            thread = threading.Thread(target=_trickle, args=(client, f"{SOURCE}-{target}", stop))
            thread.start()
            try:
                floors.append(
                    _floor(spark, client, bootstrap, Path(directory), profile, target, seconds)
                )
            finally:
                stop.set()
                thread.join()
    Path(report).write_bytes(msgspec.json.encode(floors))


def _trickle(client: object, topic: str, stop: threading.Event) -> None:
    while not stop.wait(1 / PER_SECOND):
        client.send(topic, b"%d" % time.time_ns())  # type: ignore[attr-defined]


def _floor(
    spark: object,
    client: object,
    bootstrap: str,
    directory: Path,
    profile: str,
    target: str,
    seconds: str,
) -> Floor:
    frame = (
        spark.readStream.format("penstock")  # type: ignore[attr-defined]
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", f"{SOURCE}-{target}")
        .load()
    )
    writer = (
        frame.select("value")
        .writeStream.format(target)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", f"{COPY}-{target}")
        .option("checkpointLocation", str(directory / f"checkpoint-{profile}-{target}"))
    )
    query = writer.start()
    took: dict[int, float] = {}
    until = time.monotonic() + float(seconds)
    while time.monotonic() < until:
        time.sleep(0.1)
        for one in query.recentProgress:
            if one.numInputRows:
                took[one.batchId] = one.durationMs["triggerExecution"]
    query.stop()
    every = [took[one] for one in sorted(took)]
    times = every[WARM_UP_BATCHES:] or every
    if not times:
        raise SystemExit(f"no micro-batch of {target} ended within {seconds} s")
    floor = Floor(
        profile=profile,
        target=target,
        batches=len(times),
        trigger_p50_ms=quantile(times, 0.5),
        trigger_p99_ms=quantile(times, 0.99),
    )
    if target == "noop":
        return floor
    delays = [
        record.timestamp_ms - int(record.body) / 1e6
        for record in client.read(f"{COPY}-{target}", codec=bytes)  # type: ignore[attr-defined]
    ]
    counted = delays[PER_SECOND * 2 :] or delays
    return msgspec.structs.replace(
        floor,
        end_to_end_p50_ms=quantile(counted, 0.5),
        end_to_end_p99_ms=quantile(counted, 0.99),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
