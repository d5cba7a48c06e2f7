"""The command line as a whole: exit codes, where output goes, and how errors look."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import __version__
from penstock.cli import main as command_line
from penstock.cli.program import app
from penstock.core.errors import DamagedFile, StorageFull


def damaged() -> None:
    """Find damage."""
    raise DamagedFile(
        path="/data/1.log", position=77, problem="its checksum is wrong", way_out="Repair it."
    )


def full() -> int:
    """Find no space."""
    raise StorageFull("the disk of [/data] is full;\nfree some space")


def three() -> int:
    """Return an exit code."""
    return 3


def interrupted() -> None:
    """Be stopped by the user."""
    raise KeyboardInterrupt


@pytest.fixture
def commands() -> Iterator[None]:
    """Commands that end in every possible way."""
    added = [damaged, full, three, interrupted]
    for command in added:
        app.command(command)
    yield
    for command in added:
        del app[command.__name__]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["version"], ["--version"]):
        assert command_line.run(arguments) == 0
        assert capsys.readouterr() == (f"{__version__}\n", "")


def test_help_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--help"], ["-h"]):
        assert command_line.run(arguments) == 0
        output = capsys.readouterr()
        assert "Print the version and exit." in output.out
        assert output.err == ""


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["fly"], '"fly"'),
        (["version", "--loud"], "--loud"),
        (["version", "surplus"], "surplus"),
    ],
)
def test_a_command_typed_wrongly(
    capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    assert command_line.run(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert output.err.startswith("penstock: ")
    assert problem in output.err
    assert "--help" in output.err


@pytest.mark.usefixtures("commands")
class TestOutcomes:
    def test_our_errors_are_one_sentence(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert command_line.run(["damaged"]) == 1
        assert capsys.readouterr() == (
            "",
            "penstock: /data/1.log is damaged at byte 77: its checksum is wrong. Repair it.\n",
        )

    def test_an_error_keeps_its_brackets_and_stays_on_one_line(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert command_line.run(["full"]) == 1
        assert capsys.readouterr() == (
            "",
            "penstock: the disk of [/data] is full; free some space\n",
        )

    def test_a_command_may_choose_its_exit_code(self) -> None:
        assert command_line.run(["three"]) == 3

    def test_an_interrupt_is_no_traceback(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert command_line.run(["interrupted"]) == 130
        assert capsys.readouterr() == ("", "penstock: interrupted\n")

    def test_main_exits(self) -> None:
        with pytest.raises(SystemExit) as exit_of:
            command_line.main(["damaged"])
        assert exit_of.value.code == 1


@pytest.mark.slow
def test_the_installed_program(tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "penstock"
    version = subprocess.run([program, "version"], capture_output=True, text=True, check=True)
    assert (version.stdout, version.stderr) == (f"{__version__}\n", "")
    wrong = subprocess.run([program, "fly"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "\x1b" not in wrong.stderr, "no colour when it does not go to a terminal"
    help_text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    assert "\x1b" not in help_text.stdout


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_traceback() -> None:
    program = Path(sys.executable).parent / "penstock"
    read_end, write_end = os.pipe()
    os.close(read_end)
    outcome = subprocess.run(
        [program, "version"], stdout=write_end, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write_end)
    assert outcome.stderr == ""
    assert outcome.returncode == 1
