"""Runs `raft/*.txt` and compares what happens with what was recorded.

`pytest tests/scenarios --rewrite` records anew. Only commit what you understand.
"""

from pathlib import Path

import pytest

from tests.scenarios.raft_language import Stage
from tests.scenarios.transcript import check

FILES = sorted((Path(__file__).parent / "raft").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    check(path, Stage(), request)


def test_every_scenario_opens_with_prose() -> None:
    assert len(FILES) >= 16
    for path in FILES:
        assert path.read_text(encoding="utf-8").startswith("# "), path.name
