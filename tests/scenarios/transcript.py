"""Scenario files: commands, and after `----` the recorded output, up to the next empty line.

`play` runs the commands of a file and returns the file with the output they gave, so that a test
compares two texts and `--rewrite` stores one.
"""

from pathlib import Path
from typing import Protocol

import pytest


class Stage(Protocol):
    """Runs the commands of one file."""

    def run(self, line: str) -> list[str]:
        """Carry out one command; returns its output."""
        ...


def check(path: Path, stage: Stage, request: pytest.FixtureRequest) -> None:
    """Compare a file with what its commands do now; with `--rewrite`, record that instead."""
    recorded = path.read_text(encoding="utf-8")
    played = play(recorded, stage)
    if request.config.getoption("--rewrite", default=False):
        path.write_text(played, encoding="utf-8")
    else:
        assert played == recorded


def play(text: str, stage: Stage) -> str:
    """The same file, with what happened in the place of what was recorded."""
    output: list[str] = []
    happened: list[str] = []
    recorded = False
    for line in text.splitlines():
        if recorded:
            # The old output ends with an empty line.
            recorded = bool(line)
            if not recorded:
                output.append("")
        elif line == "----":
            output += ["----", *happened]
            happened = []
            recorded = True
        else:
            output.append(line)
            if line and not line.startswith("#"):
                happened += stage.run(line)
    assert not happened, f"commands at the end without ----: {happened}"
    return "\n".join(output) + "\n"
