"""`penstock work`: what may be typed, and what is shown. Real processes are in tests/crash."""

import sys
from pathlib import Path

import pytest
from rich.console import Console

from penstock.cli import main as command_line
from penstock.cli.work import draw, processes_of
from penstock.workers.statistics import Tally

APPLICATION = """
import penstock.workers
app = penstock.workers.App("memory:")
@app.worker("orders")
async def charge(number: int) -> None: ...
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    # Flags change the application, which lives as long as the module does.
    monkeypatch.delitem(sys.modules, "typed_shop", raising=False)
    monkeypatch.setenv("PENSTOCK_CONTEXTS", str(tmp_path / "contexts.toml"))
    (tmp_path / "typed_shop.py").write_text(APPLICATION)
    return tmp_path


@pytest.mark.parametrize(("written", "numbers"), [("4", (4, 4)), ("1..8", (1, 8)), (" 2 ", (2, 2))])
def test_numbers_of_processes(written: str, numbers: tuple[int, int]) -> None:
    assert processes_of(written) == numbers


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("flags", "code", "problem"),
    [
        (("--processes", "0"), 2, "it is a number such as 4, or a range such as 1..8"),
        (("--processes", "8..1"), 2, "a range"),
        (("--processes", "1.5"), 2, "a range"),
        (("--concurrency", "0"), 2, "at least one worker is needed"),
        (("--grace", "-1"), 2, "--grace"),
        (("--watch", "--json"), 2, "give one of them"),
        (("--processes", "2"), 1, "is an engine inside one process"),
        (("--queue", "letters"), 1, "no worker takes from queue letters"),
        (("--url", "http://127.0.0.1"), 1, "http"),
    ],
)
def test_what_cannot_be(
    capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], code: int, problem: str
) -> None:
    assert command_line.run(["work", "typed_shop:app", *flags]) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert problem in output.err


@pytest.mark.usefixtures("project")
def test_a_module_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(["work", "nowhere_at_all"]) == 1
    assert "there is no module nowhere_at_all" in capsys.readouterr().err


def test_the_table() -> None:
    tally = Tally("orders", "charge", processed=3, failed=1, retried=1)
    tally.took(0.25)
    console = Console(width=160, color_system=None)
    with console.capture() as captured:
        console.print(draw([tally.statistics()]))
    text = captured.get()
    assert text.splitlines()[0].split()[:4] == ["TASK", "QUEUE", "WORKERS", "DONE"]
    assert "250.0 ms" in text
