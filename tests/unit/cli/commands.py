"""Commands against a broker of their own: run in this process, or as a program with real pipes."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.cli.main import run
from tests.web_broker import WebBroker

Captured = pytest.CaptureFixture[str]

PROGRAM = Path(sys.executable).parent / "penstock"
SECONDS_MAX = 60


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        return True


class Commands:
    """A test's command line, with stdin as it says."""

    def __init__(
        self, broker: WebBroker, directory: Path, capsys: Captured, patch: pytest.MonkeyPatch
    ) -> None:
        self.broker = broker
        self.directory = directory
        self._capsys = capsys
        self._patch = patch

    def said(self, *arguments: str, stdin: bytes = b"") -> str:
        """What a command that does what it is told prints."""
        return self.told(0, *arguments, stdin=stdin)[0]

    def document(self, *arguments: str) -> Any:
        """The same, of one that prints JSON."""
        return msgspec.json.decode(self.said(*arguments, "--json"))

    def talk(self, *arguments: str, stdin: bytes = b"") -> str:
        """What it says besides."""
        return self.told(0, *arguments, stdin=stdin)[1]

    def complaint(self, code: int, *arguments: str, stdin: bytes = b"") -> str:
        """The one sentence of a command that does not."""
        printed, talk = self.told(code, *arguments, stdin=stdin)
        assert printed == ""
        assert len(talk.splitlines()) == 1, talk
        return talk

    def told(self, code: int, *arguments: str, stdin: bytes = b"") -> tuple[str, str]:
        """Both, of one that ends with this code."""
        path = self.directory / "stdin"
        path.write_bytes(stdin)
        self._capsys.readouterr()
        with path.open() as file:
            self._patch.setattr("sys.stdin", file)
            ended = run(arguments)
        output = self._capsys.readouterr()
        assert ended == code, output.err
        return output.out, output.err

    def typed(self, text: str, *arguments: str) -> tuple[int, str]:
        """The code of a command that asks somebody back, and what it says."""
        self._capsys.readouterr()
        self._patch.setattr("sys.stdin", Terminal(text))
        ended = run(arguments)
        return ended, self._capsys.readouterr().err


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell; `penstock` is this one."""
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; penstock() {{ {PROGRAM} "$@"; }}\n{line}'],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
