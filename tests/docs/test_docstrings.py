"""What `help(penstock)` tells one to type works, as it stands there."""

import importlib
import inspect
import itertools
import textwrap
from pathlib import Path

import pytest

from tests.docs.blocks import Block
from tests.docs.pages import run_page


def first_example(docstring: str) -> str:
    """The lines further in that come first."""
    lines = inspect.cleandoc(docstring).splitlines()
    below = itertools.dropwhile(lambda line: not line.startswith("    "), lines)
    return textwrap.dedent(
        "\n".join(itertools.takewhile(lambda line: not line or line.startswith("    "), below))
    )


@pytest.mark.slow
@pytest.mark.parametrize("package", ["penstock", "penstock.blocking"])
def test_the_first_example_runs(package: str, tmp_path: Path) -> None:
    text = first_example(importlib.import_module(package).__doc__ or "")
    assert "connect(" in text
    shown: list[str] = []
    block = Block(page=package, line=0, language="python", text=text)
    run_page([block], tmp_path, lambda one: shown.append(one.output))
    assert ["7" in output for output in shown] == [True], "it prints what it has sent"


def test_the_first_example_is_what_stands_further_in() -> None:
    assert first_example("Title.\n\n    one\n\n    two\n\nText.\n\n    three\n") == "one\n\ntwo\n"
