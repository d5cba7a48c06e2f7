"""`penstock config …`, and that the flags come from the one list."""

import tomllib
from pathlib import Path

import msgspec
import pytest

from penstock.cli.main import run
from penstock.server.config import FIELDS


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_show(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("penstock.toml").write_text("[log]\nlevel = 'debug'\n", "utf-8")
    monkeypatch.setenv("PENSTOCK_NODE_ID", "3")
    assert run(["config", "show", "--kafka", "127.0.0.1:1", "--topics.no-auto-create"]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in output.out.splitlines()}
    assert list(rows) == [entry.name for entry in FIELDS]
    assert rows["kafka"] == ["127.0.0.1:1", "flag --kafka"]
    assert rows["node_id"] == ["3", "environment PENSTOCK_NODE_ID"]
    assert rows["log.level"] == ["debug", "file penstock.toml"]
    assert rows["topics.auto_create"] == ["false", "flag --topics.auto-create"]
    assert rows["data"] == ["-", "default"]
    assert rows["shards"] == ["4", "default"]


def test_show_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show", "--json", "--data", "here"]) == 0
    rows = msgspec.json.decode(capsys.readouterr().out)
    assert {"name": "data", "value": "here", "source": "flag --data"} in rows
    assert {"name": "rack", "value": None, "source": "default"} in rows


def test_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check"]) == 0
    assert capsys.readouterr().out == ""
    assert run(["config", "check", "--http", "0.0.0.0:1"]) == 1
    assert capsys.readouterr().err.startswith("penstock: http = 0.0.0.0:1 can be reached")
    Path("other.toml").write_text("shard = 3\n", "utf-8")
    assert run(["config", "check", "--config", "other.toml"]) == 1
    assert "did you mean shards?" in capsys.readouterr().err


def test_reference(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "reference"]) == 0
    tomllib.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--shards", "none"], 'penstock: shards = "none" (flag --shards) is not allowed: it must'),
        (["--shard", "3"], "penstock: Unknown option: --shard. Did you mean --shards?"),
        (["--kafka"], "penstock: "),
    ],
)
def test_a_flag_typed_wrongly(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert run(["config", "show", *arguments]) == 2
    output = capsys.readouterr()
    assert output.err.startswith(sentence)
    assert output.err.count("\n") == 1
    assert "See: penstock config show --help" in output.err


def test_every_setting_is_in_the_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for command in ("serve", "dev"):
        assert run([command, "--help"]) == 0
        words = capsys.readouterr().out.split()
        missing = [entry.flag for entry in FIELDS if entry.flag not in words]
        assert missing == []
