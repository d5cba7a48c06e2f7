"""The display of a running pipeline: a table on a terminal, lines in a pipe, or JSON documents.

In a pipe a stage has a line when its state changes, and one every few seconds while it reads.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.core.pipeline_report import PipelineReport, StageReport

Show = Callable[[PipelineReport], None]

LINES_EVERY_MS = 5_000
STYLES = {"failed": "bold red", "restarting": "yellow", "done": "green", "waiting": "dim"}


@contextmanager
def screen(*, json: bool) -> Iterator[Show]:
    """Return the function that shows reports while the pipeline runs."""
    console = Console(highlight=False, markup=False, emoji=False)
    if json:
        yield Documents().show
    elif not console.is_terminal:
        yield Lines().show
    else:
        with Live(Text("Spark is starting …"), console=console, auto_refresh=False) as live:
            yield lambda report: live.update(draw(report), refresh=True)


class Documents:
    """A line of JSON whenever something is new."""

    def __init__(self) -> None:
        self._before: tuple[object, ...] = ()

    def show(self, report: PipelineReport) -> None:
        """Print it, if it says something new."""
        said = (report.state, report.stages)
        if said != self._before:
            self._before = said
            print(msgspec.json.encode(report).decode(), flush=True)


class Lines:
    """A line of text for each stage that has something to say."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[StageReport, int]] = {}
        self._state = "running"

    def show(self, report: PipelineReport) -> None:
        """Print the stages that changed."""
        for stage in report.stages:
            before = self._before.get(stage.stage)
            if before is not None:
                was, at_ms = before
                if stage == was or not (
                    stage.state != was.state
                    or stage.restarts != was.restarts
                    or report.reported_ms - at_ms >= LINES_EVERY_MS
                    or report.state != "running"
                ):
                    continue
            elif stage.state == "waiting":
                continue
            self._before[stage.stage] = (stage, report.reported_ms)
            print(line(stage), flush=True)
        if report.state != self._state:
            self._state = report.state
            print(f"pipeline {report.pipeline}: {report.state}", file=sys.stderr, flush=True)


def line(stage: StageReport) -> str:
    """Format the state of a stage as a line of text."""
    lag = "" if stage.lag is None else f", {stage.lag} behind"
    error = f": {stage.error}" if stage.error and stage.state in ("failed", "restarting") else ""
    return (
        f"{stage.stage}: {stage.state}, {stage.rows_in} in, {stage.rows_out} out,"
        f" {stage.rows_dead} dead, {stage.rate:.0f} rows/s{lag}{error}"
    )


def draw(report: PipelineReport) -> RenderableType:
    """Format the state of the pipeline as a table."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for head in ("STAGE", "STATE"):
        table.add_column(head, no_wrap=True)
    for head in ("IN", "OUT", "DEAD", "ROWS/S", "LAG", "BATCH MS"):
        table.add_column(head, justify="right", no_wrap=True)
    for one in report.stages:
        table.add_row(
            Text(one.stage),
            Text(one.state, style=STYLES.get(one.state, "")),
            f"{one.rows_in:,}",
            f"{one.rows_out:,}",
            Text(f"{one.rows_dead:,}", style="red" if one.rows_dead else ""),
            f"{one.rate:,.0f}",
            "-" if one.lag is None else f"{one.lag:,}",
            f"{one.batch_ms:,}",
        )
    errors = [Text(f"{one.stage}: {one.error}", style="red") for one in report.stages if one.error]
    title = Text(f"pipeline {report.pipeline}: {report.state}", style="bold")
    return Group(title, table, *errors)
