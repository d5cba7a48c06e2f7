"""The progress of a stage, from Spark's report after each micro-batch.

Rows that came in are counted by offsets, because Spark counts a row twice that a plan reads twice;
rows that went out and dead letters are counted in the plan itself (see `messages`).
"""

import re
from typing import Any

import msgspec

from penstock.core.pipeline_report import ERROR_CHARACTERS_MAX, StageReport
from penstock.spark.pipelines.messages import OBSERVED, ROWS_DEAD, ROWS_OUT

Offsets = dict[str, dict[str, int]]
"""By topic and partition, as the source writes them."""

_OURS = re.compile(r"penstock\.core\.errors\.(\w+): (.+)")
_RAISED = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)


class StageProgress:
    """The progress of one stage of one run."""

    def __init__(self, *, stage: str, source: str, target: str) -> None:
        self.report = StageReport(stage=stage, state="waiting", source=source, target=target)
        self._batch: int | None = None

    def change(self, **fields: Any) -> None:
        """Change the report."""
        self.report = msgspec.structs.replace(self.report, **fields)

    def note(self, progress: Any) -> bool:
        """Take in what Spark says about a micro-batch; whether it is one, and a new one."""
        batch = int(progress["batchId"])
        sources = progress["sources"]
        start, end, latest = (
            _offsets(_said(sources[0], name)) if sources else {}
            for name in ("startOffset", "endOffset", "latestOffset")
        )
        rows = _between(start, end)
        lag = _between(end, latest) if latest else None
        if batch == self._batch or not rows:
            # The same batch again, or nothing to do: only what is waiting may have changed.
            self.change(lag=lag if lag is not None else self.report.lag)
            return False
        self._batch = batch
        took_ms = int(progress["durationMs"].get("triggerExecution", 0))
        out, dead = _observed(progress)
        was = self.report
        self.change(
            rows_in=was.rows_in + rows,
            rows_out=was.rows_out + out,
            rows_dead=was.rows_dead + dead,
            rate=rows * 1_000 / max(took_ms, 1),
            lag=lag,
            batches=was.batches + 1,
            batch_ms=took_ms,
        )
        return True

    def add_written(self, *, out: int, dead: int) -> None:
        """Rows that were counted where they were written."""
        was = self.report
        self.change(rows_out=was.rows_out + out, rows_dead=was.rows_dead + dead)


def brief(error: BaseException | str) -> str:
    """Summarise an error in a line: the last Python exception, if it was one."""
    text = str(error)
    ours = _OURS.findall(text)
    raised = _RAISED.findall(text)
    if ours:
        message = ours[-1][1]
    elif raised:
        message = ": ".join(raised[-1])
    else:
        message = next((line.strip() for line in text.splitlines() if line.strip()), text)
    return message.strip()[:ERROR_CHARACTERS_MAX] or type(error).__name__


def _said(source: Any, name: str) -> Any:
    try:
        return source[name]
    except (KeyError, TypeError):
        return getattr(source, name, None)


def _offsets(said: Any) -> Offsets:
    if not said:
        return {}
    found = msgspec.json.decode(said) if isinstance(said, str) else said
    if not isinstance(found, dict):
        return {}
    # What else a source has to say has a colon in its name, which no topic has.
    return {topic: places for topic, places in found.items() if ":" not in topic}


def _between(start: Offsets, end: Offsets) -> int:
    """The number of offsets between; a partition that is new began at its first."""
    return sum(
        max(0, int(offset) - int(start.get(topic, {}).get(partition, 0)))
        for topic, partitions in end.items()
        for partition, offset in partitions.items()
    )


def _observed(progress: Any) -> tuple[int, int]:
    metrics = progress["observedMetrics"] or {}
    row = metrics.get(OBSERVED)
    if row is None:
        return 0, 0
    return int(row[ROWS_OUT]), int(row[ROWS_DEAD])
