"""`penstock log`: what people see of a log that is whole, and of one that is not."""

import io
import json
import sys
from pathlib import Path

import pytest
from msgspec.msgpack import encode

from penstock.cli import main as command_line
from penstock.core.entries import Entry, EntryKind, HardState
from penstock.core.types import Index, NodeId, ShardId, Term
from penstock.storage import Identity, LogSettings, RealDisk, ShardLog, run

ENTRIES = 40


def command(index: int) -> bytes:
    """A command that no machine knows."""
    return encode(["test", f"{index:04d}" * 60])


def open_log(directory: Path) -> ShardLog:
    return ShardLog.open(
        RealDisk(),
        str(directory),
        identity=Identity(cluster_id="test", shard=ShardId(0), node=NodeId(1)),
        settings=LogSettings(segment_bytes=4096, ballast_bytes=0),
        solo=True,
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A closed log of several segments."""
    directory = tmp_path / "shard-0"
    log = open_log(directory)
    log.stage(hard_state=HardState(term=Term(1), vote=NodeId(1)))
    for first in range(1, ENTRIES, 10):
        log.stage(
            entries=[
                Entry(Index(index), Term(1), EntryKind.COMMAND, command(index))
                for index in range(first, first + 10)
            ]
        )
        job = log.take_job()
        assert job is not None
        run(job)
        log.complete(job)
    log.close()
    return directory


@pytest.fixture
def damaged(directory: Path) -> Path:
    """The same with a flipped bit in the middle of its second segment."""
    segment = sorted(directory.glob("*.log"))[1]
    content = bytearray(segment.read_bytes())
    content[1500] ^= 4
    segment.write_bytes(content)
    return directory


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_describe(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files_of(directory)
    assert command_line.run(["log", "describe", str(directory)]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    lines = output.out.splitlines()
    assert lines[0].split() == ["FILE", "KIND", "BYTES"]
    assert any("sealed, entries 1 to " in line for line in lines)
    assert any("term 1, vote 1" in line for line in lines)
    assert all(line == line.rstrip() for line in lines)
    assert files_of(directory) == before


def test_describe_works_while_the_log_is_open(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = open_log(directory)
    assert command_line.run(["log", "describe", str(directory)]) == 0
    assert command_line.run(["log", "verify", str(directory)]) == 1
    assert "is held by another process" in capsys.readouterr().err
    log.close()


def test_describe_for_programs(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(["log", "describe", str(directory), "--json"]) == 0
    files = json.loads(capsys.readouterr().out)
    assert {file["name"] for file in files} == {path.name for path in directory.iterdir()}
    assert set(files[0]) == {"name", "kind", "size_bytes", "facts"}


def test_verify_a_whole_log(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(["log", "verify", str(directory)]) == 0
    assert capsys.readouterr() == (f"{directory} is whole\n", "")
    assert command_line.run(["log", "verify", str(directory), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_verify_a_damaged_log(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files_of(damaged)
    assert command_line.run(["log", "verify", str(damaged)]) == 1
    output = capsys.readouterr()
    assert output.out.startswith(f"damaged: {damaged}/")
    assert ".log at byte " in output.out
    assert f"penstock log repair {damaged}" in output.err
    assert command_line.run(["log", "verify", str(damaged), "--json"]) == 1
    findings = json.loads(capsys.readouterr().out)
    assert set(findings[0]) == {"path", "position", "problem"}
    assert files_of(damaged) == before


def test_repair_leaves_a_whole_log_alone(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_of(directory)
    assert command_line.run(["log", "repair", str(directory)]) == 0
    assert capsys.readouterr().out == "nothing is damaged, nothing was changed\n"
    assert files_of(directory) == before


def test_repair_asks_first(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files_of(damaged)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO())
        assert command_line.run(["log", "repair", str(damaged)]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("damaged: ")
    assert "add --yes if you want that" in output.err
    assert files_of(damaged) == before


class Terminal(io.StringIO):
    """Someone who types."""

    def isatty(self) -> bool:
        return True


def test_repair_wants_the_name_back(
    damaged: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_of(damaged)
    monkeypatch.setattr(sys, "stdin", Terminal("yes\n"))
    assert command_line.run(["log", "repair", str(damaged)]) == 1
    assert "the name does not match" in capsys.readouterr().err
    assert files_of(damaged) == before
    monkeypatch.setattr(sys, "stdin", Terminal(f"{damaged}\n"))
    assert command_line.run(["log", "repair", str(damaged)]) == 0
    assert "the log now ends with entry " in capsys.readouterr().out


def test_repair_makes_the_log_usable(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(["log", "repair", str(damaged), "--yes", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert 1 < report["kept_through"] < ENTRIES
    assert report["lost"][0][0] == report["kept_through"] + 1
    assert all(Path(path).exists() for path in report["set_aside"])
    assert command_line.run(["log", "verify", str(damaged)]) == 0
    log = open_log(damaged)
    assert log.last_index == report["kept_through"]
    assert log.entries(Index(1), Index(2), 1000)[0].payload == command(1)
    log.close()


@pytest.mark.parametrize("verb", ["describe", "verify", "repair"])
def test_a_directory_that_is_no_log(
    tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for place in (tmp_path, tmp_path / "missing", tmp_path / "notes.txt"):
        assert command_line.run(["log", verb, str(place)]) == 1
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.count("\n") == 1
        assert f"{place} holds no Penstock log" in output.err
    assert files_of(tmp_path) == {"notes.txt": b"hello"}


def test_a_directory_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(["log", "verify"]) == 2
    assert "See: penstock log verify --help" in capsys.readouterr().err
