"""Running a pipeline: a query of Structured Streaming for each stage, all in one Spark.

    run_pipeline(read_pipeline(Path("orders.toml")), once=True)

Once: stage after stage, each until it has read all there is. Otherwise all stages run at the same
time, until they are stopped. Stages are tied by topics, and each has a checkpoint of its own, so
that whatever is killed at whatever moment, the next run goes on where each stage was; a batch that
was under way is done again, and published once (see `penstock.spark.sink.stream_writer`).

A stage that fails is started again after a pause that doubles, and its error is shown; a batch that
succeeds ends the count. One that fails too often in a row ends the pipeline.

Nothing is printed here: `show` gets the state, a few times a second.
"""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.core.clock import SystemClock
from penstock.core.errors import InvalidRequest, PenstockError
from penstock.core.pipeline_report import PipelineReport
from penstock.spark.address import address_of
from penstock.spark.connections import client_of, run
from penstock.spark.pipelines.checks import trigger_ms
from penstock.spark.pipelines.declaration import Declaration, Stage
from penstock.spark.pipelines.frames import united
from penstock.spark.pipelines.lake_stage import LakeWriter
from penstock.spark.pipelines.plans import Plans, pipeline_session
from penstock.spark.pipelines.progress import StageProgress, brief
from penstock.spark.pipelines.reporter import Reporter
from penstock.spark.pipelines.state import PipelineState, state_directory
from penstock.spark.pipelines.topics import prepare_topics
from penstock.spark.queues.progress import tell

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOOK_SECONDS = 0.25
PAUSE_SECONDS = 0.02
BACKOFF_SECONDS = 1.0
BACKOFF_SECONDS_MAX = 30.0
QUIET_SECONDS_MAX = 15.0
"""The longest wait for a running batch when the pipeline is to stop."""

Show = Callable[[PipelineReport], None]


@dataclass(slots=True, kw_only=True)
class _Running:
    """A stage and its query."""

    stage: Stage
    progress: StageProgress
    query: Any = None
    failures: int = 0
    begins_at: float = 0.0
    batches: int = field(default=0)


def run_pipeline(
    declaration: Declaration,
    *,
    master: str = "local[*]",
    once: bool = False,
    fresh: bool = False,
    url: str | None = None,
    state: Path | None = None,
    directory: Path | None = None,
    show: Show | None = None,
) -> PipelineReport:
    """Run a pipeline and return how it ended; raises what makes it impossible to begin. `fresh`
    forgets how far the stages were."""
    if master.startswith("sc://"):
        raise InvalidRequest(
            "a pipeline runs in a Spark of its own, which ends with it: give --master the cluster"
            " itself (spark://…, yarn, k8s://…), not a Connect server"
        )
    address = url or declaration.broker
    if address is None:
        raise InvalidRequest('no broker is named: say broker = "penstock://HOST:9092"')
    address = address_of({"url": address})
    place = state or state_directory(declaration, os.environ)
    with PipelineState(place) as held:
        run(prepare_topics(client_of(address), declaration))
        spark = pipeline_session(declaration, master=master, once=once)
        held.hold_with(spark)
        if fresh:
            held.forget()
        try:
            plans = Plans(spark, declaration, directory or Path.cwd())
            plans.check()
            runner = _Runner(declaration, spark, plans, held, url=address, once=once)
            return runner.run(show or (lambda _report: None))
        finally:
            held.release_from_spark()


class _Runner:
    """One run."""

    def __init__(
        self,
        declaration: Declaration,
        spark: "SparkSession",
        plans: Plans,
        state: PipelineState,
        *,
        url: str,
        once: bool,
    ) -> None:
        self._declaration = declaration
        self._spark = spark
        self._plans = plans
        self._state = state
        self._url = url
        self._once = once
        self._clock = SystemClock()
        self._started_ms = self._clock.wall_ms()
        self._reporter = Reporter(url)
        self._stages = [
            _Running(
                stage=stage,
                progress=StageProgress(
                    stage=stage.name,
                    source=declaration.input_of(stage),
                    target=stage.to.topic or stage.to.queue or stage.to.lake or "",
                ),
            )
            for stage in declaration.stages
        ]

    def run(self, show: Show) -> PipelineReport:
        with _stopped_by_signals() as stop:
            try:
                if self._once:
                    state = self._run_in_turn(stop, show)
                else:
                    state = self._run_together(stop, show)
            finally:
                self._stop_queries()
        report = self._report(state)
        self._reporter.tell(report, at_once=True)
        show(report)
        return report

    def _run_in_turn(self, stop: threading.Event, show: Show) -> str:
        for one in self._stages:
            self._start(one)
            while one.progress.report.state not in ("done", "failed"):
                if stop.wait(LOOK_SECONDS):
                    return "stopped"
                self._look(one)
                self._tell(show)
            if one.progress.report.state == "failed":
                return "failed"
        return "done"

    def _run_together(self, stop: threading.Event, show: Show) -> str:
        for one in self._stages:
            self._start(one)
        while not stop.wait(LOOK_SECONDS):
            for one in self._stages:
                self._look(one)
                if one.progress.report.state == "failed":
                    return "failed"
            self._tell(show)
        return "stopped"

    def _tell(self, show: Show) -> None:
        report = self._report("running")
        self._reporter.tell(report)
        show(report)

    def _report(self, state: str) -> PipelineReport:
        return PipelineReport(
            pipeline=self._declaration.name,
            state=state,
            host=socket.gethostname(),
            started_ms=self._started_ms,
            reported_ms=self._clock.wall_ms(),
            stages=tuple(one.progress.report for one in self._stages),
        )

    # One stage.

    def _start(self, one: _Running) -> None:
        try:
            one.query = self._begin(one)
            one.progress.change(state="running")
        except PenstockError:
            raise
        except Exception as error:  # noqa: BLE001 - Spark raises what it likes
            self._note_failure(one, error)

    def _begin(self, one: _Running) -> Any:
        stage, source = one.stage, self._declaration.input_of(one.stage)
        checkpoint = self._state.checkpoint(stage, source)
        frames = self._plans.judge(stage, self._read(stage, source))
        if stage.to.lake is None:
            written = self._plans.messages(stage, frames).writeStream.format("penstock")
            written = written.option("url", self._url).option("badRows", "deadLetter")
            written = written.option("deadLetterTopic", stage.dead_letters)
        else:
            lake = LakeWriter(
                stage,
                url=self._url,
                source=source,
                group=self._declaration.group_of(stage),
                count=lambda out, dead: one.progress.add_written(out=out, dead=dead),
            )
            written = united(frames).writeStream.foreachBatch(lake.write)
        written = written.option("checkpointLocation", checkpoint)
        written = written.queryName(f"{self._declaration.name}/{stage.name}")
        if self._once:
            return written.trigger(availableNow=True).start()
        every = f"{trigger_ms(stage.trigger)} milliseconds"
        return written.trigger(processingTime=every).start()

    def _read(self, stage: Stage, source: str) -> "DataFrame":
        group = self._declaration.group_of(stage)
        reader = self._spark.readStream.format("penstock").option("url", self._url)
        if stage.source.queue is not None:
            reader = reader.option("queue", source).option("workGroup", group)
        else:
            reader = reader.option("subscribe", source).option("kafka.group.id", group)
        reader = reader.option("startingOffsets", stage.source.start)
        reader = reader.option("maxOffsetsPerTrigger", str(stage.max_per_trigger))
        return reader.option("includeHeaders", "true").load()

    def _look(self, one: _Running) -> None:
        """Check the state of a stage, and restart or end it if necessary."""
        if one.query is None:
            if time.monotonic() >= one.begins_at:
                self._start(one)
            return
        active = one.query.isActive
        self._take_progress(one)
        if active:
            return
        error = one.query.exception()
        one.query = None
        if error is not None:
            self._note_failure(one, error)
        elif self._once:
            one.progress.change(state="done", lag=one.progress.report.lag or 0)
        else:
            self._note_failure(one, RuntimeError("its query was stopped from outside"))

    def _take_progress(self, one: _Running) -> None:
        """Count the new rows, and report the progress of the stage to the broker."""
        last = one.query.lastProgress
        if last is None or int(last["batchId"]) < one.batches:
            return
        # Spark hands over each of them by a call of its own: all are asked for only if several
        # batches have ended since the last look.
        several = int(last["batchId"]) > one.batches
        for progress in one.query.recentProgress if several else [last]:
            batch = int(progress["batchId"])
            if batch >= one.batches and one.progress.note(progress):
                one.batches = batch + 1
                one.failures = 0
                for source in progress["sources"]:
                    with contextlib.suppress(PenstockError):  # The next batch says it again.
                        tell(source["latestOffset"], source["endOffset"])

    def _note_failure(self, one: _Running, error: BaseException) -> None:
        one.query = None
        one.failures += 1
        problem = brief(error)
        if one.failures > self._declaration.restarts:
            one.progress.change(state="failed", error=problem)
            return
        pause = min(BACKOFF_SECONDS * 2 ** (one.failures - 1), BACKOFF_SECONDS_MAX)
        one.begins_at = time.monotonic() + pause
        restarts = one.progress.report.restarts + 1
        one.progress.change(state="restarting", error=problem, restarts=restarts)

    def _stop_queries(self) -> None:
        """Let batches that are under way end, then stop; the next run would do them again."""
        deadline = time.monotonic() + QUIET_SECONDS_MAX
        for one in self._stages:
            if one.query is None:
                continue
            try:
                while one.query.isActive and one.query.status["isTriggerActive"]:
                    if time.monotonic() > deadline:
                        break
                    time.sleep(PAUSE_SECONDS)
                one.query.stop()
                self._take_progress(one)
            except Exception as error:  # noqa: BLE001 - the other queries have to be stopped, too
                one.progress.change(error=brief(error))
            one.query = None
            if one.progress.report.state == "running":
                one.progress.change(state="stopped")


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; a second Ctrl-C interrupts as usual."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before: dict[int, Any] = {}

    def ask(number: int, _frame: object) -> None:
        stop.set()
        signal.signal(number, before[number])

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, ask)
    try:
        yield stop
    finally:
        for one, was in before.items():
            signal.signal(one, was)
