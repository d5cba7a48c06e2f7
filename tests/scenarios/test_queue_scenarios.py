"""Runs `queue/*.txt` and compares what happens with what was recorded.

`pytest tests/scenarios --rewrite` records anew. Only commit what you understand.
"""

import re
from pathlib import Path

import pytest

from tests.scenarios.queue_language import Stage
from tests.scenarios.transcript import check

FILES = sorted((Path(__file__).parent / "queue").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    check(path, Stage(), request)


def test_every_scenario_says_its_goal_and_method() -> None:
    assert len(FILES) >= 25
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("# Goal: "), path.name
        assert "\n# Method: " in text, path.name


def test_an_unknown_command_or_option_fails() -> None:
    stage = Stage()
    stage.run("queue orders")
    with pytest.raises(AssertionError, match="no such command"):
        stage.run("juggle 3")
    with pytest.raises(AssertionError, match="no such option"):
        stage.run("send apple colour=red")


PAGE = Path(__file__).parents[2] / "docs/internals/queue-machine.md"
QUOTE = re.compile(r"\((?:\.\./)+(tests/scenarios/\w+/\w+\.txt)\):\n\n```text\n(.*?)```", re.DOTALL)


def test_the_page_quotes_what_is_recorded() -> None:
    quotes = QUOTE.findall(PAGE.read_text("utf-8"))
    assert len(quotes) == 3
    for path, text in quotes:
        assert text in (PAGE.parents[2] / path).read_text("utf-8"), path
