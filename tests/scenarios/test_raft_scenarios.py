"""Runs `raft/*.txt` and compares what happens with what was recorded.

`pytest tests/scenarios --rewrite` records anew. Only commit what you understand.
"""

from pathlib import Path

import pytest

from tests.scenarios.raft_language import Stage

FILES = sorted((Path(__file__).parent / "raft").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    recorded = path.read_text(encoding="utf-8")
    played = play(recorded)
    if request.config.getoption("--rewrite", default=False):
        path.write_text(played, encoding="utf-8")
    else:
        assert played == recorded


def play(text: str) -> str:
    """The same file, with what happened in the place of what was recorded."""
    stage = Stage()
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


def test_every_scenario_opens_with_prose() -> None:
    assert len(FILES) >= 16
    for path in FILES:
        assert path.read_text(encoding="utf-8").startswith("# "), path.name
