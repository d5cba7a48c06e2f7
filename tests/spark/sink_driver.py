"""A Spark driver in a process of its own, to be killed:  python -m tests.spark.sink_driver '{…}'

It starts Spark, says `ready`, waits for a line, and copies a topic to another as a stream, until
everything is copied or for ever, as `Job` says. Its standard input is a leash: when whoever holds
the other end is gone, the driver and its Java end.

`Driver` is the other end, for tests.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from penstock.core.decoders import decode_json
from tests.cluster.waiting import wait_until
from tests.house.sources import ROOT
from tests.spark.struck_source import DRIVER_GROUP, STRIKE_AFTER_BATCH, StruckSource

READY_WITHIN_SECONDS = 300.0
ENDED_WITHIN_SECONDS = 60.0


@dataclass(frozen=True)
class Job:
    """What a driver is to do."""

    url: str
    source: str
    sink: str
    checkpoint: str
    rows_per_batch: int
    forever: bool = False
    """Go on, and do not end with what is there now."""
    master: str = "local[2]"
    strike_after_batch: int | None = None
    """Be killed when this batch is published and Spark does not know."""


def main() -> int:
    job = decode_json(sys.argv[1], Job)
    os.environ[DRIVER_GROUP] = str(os.getpid())
    if job.strike_after_batch is not None:
        os.environ[STRIKE_AFTER_BATCH] = str(job.strike_after_batch)
    from penstock.spark import session  # The environment comes first.

    spark = session("sink driver", master=job.master, profile="lowlatency")
    spark.dataSource.register(StruckSource)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if not sys.stdin.readline():
        os.killpg(0, signal.SIGKILL)
    threading.Thread(target=_hold_leash, daemon=True).start()
    rows = (
        spark.readStream.format("penstock")
        .option("url", job.url)
        .option("subscribe", job.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", job.rows_per_batch)
        .load()
        .selectExpr("key", "value")
    )
    writing = (
        rows.writeStream.format("penstock" if job.strike_after_batch is None else "struck")
        .option("url", job.url)
        .option("topic", job.sink)
        .option("checkpointLocation", job.checkpoint)
    )
    if job.forever:
        writing.trigger(processingTime="50 milliseconds").start().awaitTermination()
    else:
        writing.trigger(availableNow=True).start().awaitTermination()
    spark.stop()
    return 0


def _hold_leash() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    os.killpg(0, signal.SIGKILL)


class Driver:
    """A driver that is starting, waiting, running, or dead."""

    def __init__(self, job: Job, log: Path) -> None:
        """Start its process; it is `go` that lets it work."""
        self.job = job
        self.log = log
        self._ready = threading.Event()
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.sink_driver", _text(job)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # One group with its Java, to be killed as one.
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line == b"ready\n":
                self._ready.set()

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def go(self) -> None:
        """Let it work, as soon as Spark is there."""
        wait_until(
            lambda: self._ready.is_set() or not self.running,
            lambda: f"Spark is ready\n{self.said()}",
            seconds=READY_WITHIN_SECONDS,
        )
        assert self.running, self.said()
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def wait(self, seconds: float) -> int:
        """Wait for its end; its exit code, negative if it was killed."""
        wait_until(
            lambda: not self.running,
            lambda: f"the driver has ended\n{self.said()}",
            seconds=seconds,
        )
        return self.process.wait()

    def kill(self) -> None:
        """kill -9 of the driver and its Java, at once; harmless if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(ENDED_WITHIN_SECONDS)
        self._listener.join(ENDED_WITHIN_SECONDS)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text("utf-8", "replace")[-6_000:]


def _text(job: Job) -> str:
    return msgspec.json.encode(asdict(job)).decode()


if __name__ == "__main__":
    sys.exit(main())
