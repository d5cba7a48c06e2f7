"""What a stage reports, its checks as SQL, and that a pipeline runs once at a time."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.core.errors import DirectoryInUse, InvalidRequest
from penstock.core.pipeline_report import PipelineReport
from penstock.spark.pipelines.declaration import Column
from penstock.spark.pipelines.pipeline_file import parse
from penstock.spark.pipelines.progress import StageProgress, brief
from penstock.spark.pipelines.reasons import expectation, first_reason, literal, quoted, row_type
from penstock.spark.pipelines.state import PipelineState, state_directory

DECLARATION = parse({"name": "orders", "stages": [{"name": "extract", "from": "raw"}]})
(STAGE,) = DECLARATION.stages


def batch(number: int, start: Any, end: Any, latest: Any, **observed: int) -> dict[str, Any]:
    """What Spark says about a micro-batch."""
    source = {
        "startOffset": None if start is None else msgspec.json.encode(start).decode(),
        "endOffset": msgspec.json.encode(end).decode(),
        "latestOffset": msgspec.json.encode(latest).decode(),
    }
    return {
        "batchId": number,
        "sources": [source],
        "durationMs": {"triggerExecution": 200},
        "observedMetrics": {"penstock": observed} if observed else {},
    }


def test_rows_are_counted_by_offsets() -> None:
    progress = StageProgress(stage="extract", source="raw", target="out")
    first = batch(0, None, {"raw": {"0": 3, "1": 2}}, {"raw": {"0": 9, "1": 2}}, out=4, dead=1)
    assert progress.note(first)
    second = batch(1, {"raw": {"0": 3, "1": 2}}, {"raw": {"0": 9, "1": 2}}, {"raw": {"0": 9}},
                   out=6, dead=0)  # fmt: skip
    assert progress.note(second)
    assert not progress.note(second), "the same batch is counted once"
    report = progress.report
    assert (report.rows_in, report.rows_out, report.rows_dead) == (11, 10, 1)
    assert (report.batches, report.batch_ms, report.rate, report.lag) == (2, 200, 30.0, 0)


def test_a_look_without_rows_tells_the_lag() -> None:
    progress = StageProgress(stage="extract", source="raw", target="out")
    ends = {"raw": {"0": 3}}
    assert not progress.note(batch(4, ends, ends, {"raw": {"0": 8}, ":penstock": {"url": "x"}}))
    assert (progress.report.lag, progress.report.batches) == (5, 0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("…\npenstock.core.errors.UnknownTopic: there is no topic x\n SQLSTATE: 38000",
         "there is no topic x"),
        ("Traceback\n  File x\nValueError: eight\n", "ValueError: eight"),
        ("[INTERNAL] it broke\nat a.b.c", "[INTERNAL] it broke"),
    ],
)  # fmt: skip
def test_errors_are_brief(text: str, told: str) -> None:
    assert brief(text) == told


def test_a_report_that_is_late_is_silent() -> None:
    report = PipelineReport(
        pipeline="orders", state="running", host="a", started_ms=0, reported_ms=0, stages=()
    )
    assert (report.state_at(29_000), report.state_at(31_000)) == ("running", "silent")
    assert msgspec.structs.replace(report, state="done").state_at(99_000) == "done"


def test_checks_become_one_expression() -> None:
    schema = {
        "id": Column(type="string", required=True),
        "n": Column(type="int", min=1, check="n<9"),
    }
    assert row_type(schema) == "`id` string, `n` int, _corrupt_record string"
    said = first_reason(schema)
    order = ["the message is empty", "it is not a JSON object", "id is missing", "n is less than 1",
             "n fails its check"]  # fmt: skip
    places = [said.index(reason) for reason in order]
    assert places == sorted(places)
    assert "WHEN `n` < CAST(1 AS int) THEN 'n is less than 1'" in said
    assert expectation({"it's": "a > 1"}).endswith("THEN 'it\\'s' END")


def test_what_sql_is_told_cannot_break_out() -> None:
    assert literal("a'b\\") == "'a\\'b\\\\'"
    assert quoted("a`b") == "`a``b`"
    assert (literal(True), literal(3), literal(0.5)) == ("true", "3", "0.5D")


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with PipelineState(tmp_path / "state"), pytest.raises(DirectoryInUse, match="runs already"):
        PipelineState(tmp_path / "state").__enter__()
    with PipelineState(tmp_path / "state"):
        pass


def test_a_checkpoint_belongs_to_a_topic(tmp_path: Path) -> None:
    with PipelineState(tmp_path) as state:
        place = state.checkpoint(STAGE, "raw")
        assert state.checkpoint(STAGE, "raw") == place
        with pytest.raises(InvalidRequest, match="has read raw so far, and is to read cooked now"):
            state.checkpoint(STAGE, "cooked")
        state.forget()
        assert state.checkpoint(STAGE, "cooked") == place


def test_where_state_is() -> None:
    assert state_directory(DECLARATION, {"XDG_STATE_HOME": "/s"}) == Path(
        "/s/penstock/pipelines/orders"
    )
    own = msgspec.structs.replace(DECLARATION, state="/elsewhere")
    assert state_directory(own, {}) == Path("/elsewhere")
