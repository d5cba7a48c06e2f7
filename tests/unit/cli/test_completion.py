"""Completion in a real shell: commands, values, and the names that the broker knows."""

import shlex
import subprocess

import pytest

from tests.unit.cli.commands import PROGRAM, SECONDS_MAX, Commands

TYPED = """
penstock() {{ {program} "$@"; }}
source {script}
COMP_WORDS=({words}) COMP_CWORD={place}
_penstock_known
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("pee",), {"peek"}),
        (("peek", "complete-"), {"complete-me", "complete-me-dlq"}),
        (("queue", "describe", "complete-me-"), {"complete-me-dlq"}),
        (("queue", "create", "complete-me"), set()),
        (("queue", "create", "--order", ""), {"standard", "fifo"}),
        (("produce", "complete-me", "complete"), set()),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_bash(commands: Commands, words: tuple[str, ...], wanted: set[str]) -> None:
    if "complete-me" not in commands.said("generate", "names").split():
        commands.said("queue", "create", "complete-me", "--dead-letter-topic", "complete-me-dlq")
    script = commands.directory / "completion.bash"
    script.write_text(commands.said("generate", "completion", "bash"))
    text = TYPED.format(
        program=PROGRAM,
        script=script,
        words=" ".join(map(shlex.quote, ("penstock", *words))),
        place=len(words),
    )
    done = subprocess.run(
        ["bash", "-c", text], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == wanted


def test_scripts_of_other_shells_ask_as_well(commands: Commands) -> None:
    zsh = commands.said("generate", "completion", "zsh")
    assert zsh.startswith("#compdef penstock\n")
    assert "'1:The name of the queue.:_penstock_names'" in zsh
    assert "]:overflow:(reject drop-oldest)' " in zsh
    fish = commands.said("generate", "completion", "fish")
    asked = "-f -a '(penstock generate names 2>/dev/null)'"
    assert f"'__fish_penstock_using_command queue describe' {asked}" in fish


def test_without_a_broker_there_are_no_names(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_URL", "penstock://127.0.0.1:1")
    assert commands.told(0, "generate", "names") == ("", "")
    assert commands.document("generate", "names") == []
