"""`penstock pipeline …`: what needs no Spark, against a real broker."""

from pathlib import Path

import msgspec
import pytest

from penstock.cli.spark.pipeline_screen import Documents, Lines, draw, screen
from penstock.core.pipeline_report import CONFIGS, TOPIC, PipelineReport, StageReport
from tests.unit.cli.commands import Captured, Commands

STAGE = StageReport(
    stage="extract", state="running", source="raw", target="out", rows_in=10, rows_out=8,
    rows_dead=2, rate=50.0, lag=3, batches=1, batch_ms=200,
)  # fmt: skip
REPORT = PipelineReport(
    pipeline="orders", state="running", host="here", started_ms=1, reported_ms=2, stages=(STAGE,)
)


def test_new_show_and_check(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "now `penstock pipeline check shop.toml`" in commands.said("pipeline", "new", "shop")
    assert "shop.toml exists already" in commands.complaint(1, "pipeline", "new", "shop")
    assert "a name has letters" in commands.complaint(1, "pipeline", "new", "no name")
    assert "topic shop.raw" in commands.said("pipeline", "show", "shop.toml")
    document = commands.document("pipeline", "show", "shop.toml")
    assert document["stages"][0]["from"]["topic"] == "shop.raw"
    told = commands.said("pipeline", "check", "shop.toml", "--quick")
    assert "pipeline shop is sound, 3 stages" in told
    Path("shop.toml").write_text("nam = 1")
    told = commands.complaint(1, "pipeline", "check", "shop.toml", "--quick")
    assert "shop.toml: nam is no key of a pipeline; is name meant?" in told


def test_status(commands: Commands) -> None:
    assert "no pipeline has reported yet" in commands.talk("pipeline", "status")
    configs = [part for name, value in CONFIGS.items() for part in ("--set", f"{name}={value}")]
    commands.said("topic", "create", TOPIC, "-p", "1", *configs)
    body = msgspec.json.encode(REPORT)
    commands.said("produce", TOPIC, "-q", "-k", "orders", stdin=body + b"\n")
    commands.said("produce", TOPIC, "-q", "-k", "junk", stdin=b"no report\n")
    (found,) = commands.document("pipeline", "status")
    assert (found["pipeline"], found["state"]) == ("orders", "silent"), "it reported in 1970"
    (found,) = commands.broker.expect(200, "GET", "/v1/pipelines")["pipelines"]
    assert found["stages"][0]["rows_dead"] == 2
    newer = msgspec.structs.replace(REPORT, state="done")
    commands.said("produce", TOPIC, "-q", "-k", "orders", stdin=msgspec.json.encode(newer) + b"\n")
    lines = commands.said("pipeline", "status", "orders").splitlines()
    assert lines[0].startswith("orders: done, on here, reported ")
    assert lines[1].split() == [
        "STAGE",
        "STATE",
        "IN",
        "OUT",
        "DEAD",
        "ROWS/S",
        "LAG",
        "BATCH",
        "MS",
    ]
    assert lines[2].split() == ["extract", "running", "10", "8", "2", "50", "3", "200"]
    assert "those that have: orders" in commands.complaint(1, "pipeline", "status", "other")


def test_lines_are_printed_when_something_is_new(capsys: Captured) -> None:
    lines = Lines()
    lines.show(REPORT)
    lines.show(REPORT)
    more = msgspec.structs.replace(STAGE, rows_in=11)
    lines.show(msgspec.structs.replace(REPORT, stages=(more,)))
    failed = msgspec.structs.replace(STAGE, state="failed", error="no such topic")
    lines.show(msgspec.structs.replace(REPORT, state="failed", stages=(failed,)))
    output = capsys.readouterr()
    assert output.out.splitlines() == [
        "extract: running, 10 in, 8 out, 2 dead, 50 rows/s, 3 behind",
        "extract: failed, 10 in, 8 out, 2 dead, 50 rows/s, 3 behind: no such topic",
    ]
    assert output.err == "pipeline orders: failed\n"


def test_documents_and_the_table(capsys: Captured) -> None:
    documents = Documents()
    documents.show(REPORT)
    documents.show(REPORT)
    (line,) = capsys.readouterr().out.splitlines()
    assert msgspec.json.decode(line, type=PipelineReport) == REPORT
    from rich.console import Console

    console = Console(width=100)
    with console.capture() as shown:
        console.print(draw(REPORT))
    assert shown.get().splitlines()[0] == "pipeline orders: running"
    with screen(json=False) as show:
        show(REPORT)
    assert "extract: running" in capsys.readouterr().out
