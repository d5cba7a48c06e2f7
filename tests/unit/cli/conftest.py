"""A broker for a module of tests, and the command line that reaches it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.commands import Commands
from tests.web_broker import WebBroker


@pytest.fixture(scope="module")
def native_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    """A broker with a native and an HTTP port."""
    with WebBroker(tmp_path_factory.mktemp("native")) as running:
        yield running


@pytest.fixture
def commands(
    native_broker: WebBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Commands:
    """Commands that go there without being told so."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_URL", f"penstock://{native_broker.address}")
    return Commands(native_broker, tmp_path, capsys, monkeypatch)
