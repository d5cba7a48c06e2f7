"""`--json` of the commands that make a file or change one on this machine."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.cli.main import run
from penstock.core.version import __version__

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("PENSTOCK_URL", "PENSTOCK_CONTEXT"):
        monkeypatch.delenv(name, raising=False)


def document(capsys: Captured, *arguments: str) -> Any:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    printed, talk = capsys.readouterr()
    assert talk == ""
    return msgspec.json.decode(printed)


def test_the_version(capsys: Captured) -> None:
    assert document(capsys, "version") == {"version": __version__}


@pytest.mark.parametrize("kind", ["compose", "kubernetes", "prometheus", "systemd"])
def test_a_generated_file(capsys: Captured, kind: str) -> None:
    (text,) = document(capsys, "generate", kind).values()
    assert "penstock" in text
    assert len(text.splitlines()) > 10


def test_a_generated_script_and_board(capsys: Captured) -> None:
    assert "penstock" in document(capsys, "generate", "completion", "bash")["text"]
    assert document(capsys, "generate", "grafana")["title"]


def test_contexts(capsys: Captured) -> None:
    url = "penstock://a.example:9092"
    made = document(capsys, "context", "add", "shop", "--url", url)
    assert made == {"name": "shop", "url": url, "http": None, "current": True}
    assert document(capsys, "context", "use", "shop") == made
    assert document(capsys, "context", "list") == [made]
    assert document(capsys, "context", "remove", "shop") == {"removed": "shop", "current": None}


def test_a_key(capsys: Captured) -> None:
    made = document(capsys, "cluster", "key", "create", "k")
    assert made["path"] == "k"
    shown = document(capsys, "cluster", "key", "show-fingerprint", "k")
    assert shown["fingerprints"] == made["fingerprints"]
