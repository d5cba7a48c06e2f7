"""The programs that `penstock cheat` prints: each runs as it is, in a file and typed in."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.main import run
from penstock.cli.snippets import SNIPPETS
from penstock.testing.server import PenstockServer
from tests.unit.cli.commands import SECONDS_MAX, shell

Captured = pytest.CaptureFixture[str]

SAYS = {"python": "{'order': 7}", "kafka": "b'hello'", "sqs": "hello"}


@pytest.fixture(scope="module")
def server() -> Iterator[PenstockServer]:
    with PenstockServer() as running:
        yield running


@pytest.fixture(autouse=True)
def _reached(server: PenstockServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_URL", server.url)


def printed(capsys: Captured, subject: str) -> str:
    capsys.readouterr()
    assert run(["cheat", subject]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("subject", SAYS)
@pytest.mark.parametrize("typed", [False, True], ids=["file", "typed"])
def test_a_program(capsys: Captured, subject: str, typed: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-q", "-i" if typed else "-"],
        input=printed(capsys, subject),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr
    assert SAYS[subject] in done.stdout


def test_lines_for_the_shell(capsys: Captured) -> None:
    done = shell(printed(capsys, "cli"))
    assert done.returncode == 0, done.stderr
    assert "queue try-cli is made" in done.stdout
    assert "hello" in done.stdout


def test_they_share_no_queue_with_each_other_nor_with_the_first_pages() -> None:
    names = {name: f"try-{name}" for name in SNIPPETS}
    for name, text in SNIPPETS.items():
        found = {other for other, queue in names.items() if queue in text}
        assert found == {name}
        assert "orders" not in text


def test_as_a_document(capsys: Captured, server: PenstockServer) -> None:
    assert run(["cheat", "python", "--json"]) == 0
    assert server.url in capsys.readouterr().out
    assert run(["cheat", "version", "--json"]) == 0
    assert '"penstock version"' in capsys.readouterr().out
