"""Every command's help ends with examples, and every example is a command that exists."""

import io
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App, CycloptsError
from rich.console import Console

from penstock.cli.examples import examples_in, examples_of
from penstock.cli.main import run
from penstock.cli.program import app
from tests.house.reference import commands

Captured = pytest.CaptureFixture[str]

ALL = list(commands())
NAMES = [name for name, _ in ALL]
OPERATORS = set("|&;<>()")


@pytest.fixture(autouse=True)
def _no_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def help_text(name: str) -> str:
    output = io.StringIO()
    console = Console(file=output, width=90, no_color=True, force_terminal=False)
    app.help_print(name.split()[1:], console=console)
    return output.getvalue()


def calls(line: str) -> Iterator[list[str]]:
    """The calls of `penstock` in a line for the shell, without their name."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    call: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= OPERATORS:
            while call and "=" in call[0]:
                del call[0]  # A variable for this command alone.
            if call and call[0] == "penstock":
                yield call[1:]
            call = []
        else:
            call.append(word)


def wrong_examples(lines: list[str]) -> Iterator[str]:
    """What cannot be parsed, with the reason."""
    for line in lines:
        found = [] if line.startswith("#") else list(calls(line))
        if not line.startswith("#") and not found:
            yield f"{line}: no penstock in it"
        for call in found:
            try:
                app.parse_args(call, exit_on_error=False, print_error=False)
            except CycloptsError as error:
                yield f"{line}: {error}"


@pytest.mark.parametrize(("name", "command"), ALL, ids=NAMES)
def test_every_help_ends_with_examples(name: str, command: App) -> None:
    lines = examples_of(command)
    assert lines, f"{name} has no examples: add a section to its docstring"
    assert help_text(name).endswith("\nExamples:\n" + "".join(f"  {line}\n" for line in lines))
    if command.default_command is not None:
        assert any(line.find(name) >= 0 for line in lines), f"no example shows {name}"
    assert list(wrong_examples(lines)) == []


def test_the_program_has_examples_too() -> None:
    assert "\nExamples:\n  penstock dev\n" in help_text("penstock")
    assert list(wrong_examples(examples_of(app))) == []


def test_a_wrong_example_is_found() -> None:
    assert list(wrong_examples(["penstock version", "A=b penstock version | head -1"])) == []
    bad = ["penstock fly", "echo x | penstock version --loud", "echo penstock"]
    assert len(list(wrong_examples(bad))) == 3


def test_where_examples_are_found() -> None:
    plain = "Do it.\n\n    Examples\n    --------\n    one\n    # why\n    two\n    "
    assert examples_in(plain) == ["one", "# why", "two"]
    followed = plain + "\n    Parameters\n    ----------\n    x\n        What.\n"
    assert examples_in(followed) == ["one", "# why", "two"]
    assert examples_in("Do it.\n\nExamples:\n    one\n") == ["one"]
    assert examples_in("Do it.\n") == []


def test_cheat(capsys: Captured) -> None:
    assert run(["cheat", "queue"]) == 0
    printed = capsys.readouterr().out
    assert "# Move dead letters back to the queue they died in" in printed
    assert "\npenstock queue redrive jobs-dlq --dry-run\n" in printed
    assert "penstock topic" not in printed
    assert run(["cheat"]) == 0
    whole = capsys.readouterr().out
    assert printed.strip() in whole
    assert "\npenstock topic create" in whole
    assert run(["cheat", "plumbing"]) == 2
    assert 'SUBJECT = "plumbing" must be one of: python, kafka' in capsys.readouterr().err
