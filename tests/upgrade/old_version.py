"""Penstock 0.1.0, built from its commit, so that tests can write with it and upgrade from it.

Its files come out of the history of this repository into `build/upgrade`, which is kept: they never
change. It runs with the packages of its own lock file. If that is the same as the present one, the
present environment has them; otherwise it gets an environment of its own beside its files.

A clone without the commit cannot run these tests; they are skipped with `missing`, which says how
to fetch it.
"""

import contextlib
import fcntl
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.cluster.processes import Build
from tests.house.sources import ROOT

COMMIT = "57cf131"
VERSION = "0.1.0"
LOCK = "requirements/runtime.lock"
HOME = ROOT / "build" / "upgrade"
RUN_SECONDS_MAX = 300.0


@cache
def missing() -> str | None:
    """Why the old version cannot be built here; None if it can."""
    if shutil.which("git") is None:
        return f"git is not installed, and {VERSION} is built from the history"
    found = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "-e", f"{COMMIT}^{{commit}}"],
        capture_output=True,
        check=False,
    )
    if found.returncode:
        return (
            f"this clone lacks commit {COMMIT}, from which {VERSION} is built;"
            " fetch it with: git fetch --unshallow"
        )
    return None


class OldVersion:
    """Where its sources are, and how it is run."""

    def __init__(self, source: Path, python: Path) -> None:
        self.source = source
        self.python = python

    @property
    def variables(self) -> dict[str, str]:
        """A path named here comes before what is installed; the tests' own modules come last."""
        return {"PYTHONPATH": os.pathsep.join([str(self.source), str(ROOT)])}

    def build(self) -> Build:
        """For nodes of `tests.cluster`."""
        command = (str(self.python), "-m", "penstock.cli.main")
        return Build(VERSION, command, self.variables)

    def module(self, name: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
        """How a module of the tests is run with the old package: command and environment."""
        return [str(self.python), "-m", name, *arguments], _environment(self.variables)

    def run(self, *arguments: str) -> str:
        """Run its command line; what it printed. Raises if it fails."""
        command = [*self.build().command, *arguments]
        return _run(command, _environment(self.variables))

    def run_code(self, code: str, *arguments: str) -> str:
        """Run a short program with its package; what it printed. Raises if it fails."""
        return _run([str(self.python), "-c", code, *arguments], _environment(self.variables))


def present_module(name: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """As `OldVersion.module`, with the present package."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return [sys.executable, "-m", name, *arguments], _environment({"PYTHONPATH": path})


@cache
def old_version() -> OldVersion:
    """Built at first use, by one process at a time."""
    why = missing()
    assert why is None, why
    tree = HOME / COMMIT
    with _locked():
        _make(tree, lambda: _export(tree))
        python = Path(sys.executable)
        if (tree / LOCK).read_bytes() != (ROOT / LOCK).read_bytes():
            environment = HOME / f"{COMMIT}-python{sys.version_info.major}.{sys.version_info.minor}"
            _make(environment, lambda: make_environment(environment, tree / LOCK))
            python = environment / "bin" / "python"
    return OldVersion(tree / "src", python)


def _export(tree: Path) -> None:
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", COMMIT, "src", LOCK], capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(tree, filter="data")
    _run([sys.executable, "-m", "compileall", "-q", str(tree / "src")], _environment({}))


def make_environment(directory: Path, lock: Path) -> None:
    """A virtual environment with exactly the packages of a lock file."""
    _run([sys.executable, "-m", "venv", str(directory)], _environment({}))
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    _run([*pip, "--require-hashes", "--requirement", str(lock)], _environment({}))


def _make(directory: Path, make: Callable[[], None]) -> None:
    """Make a directory, unless it is there and whole, as a mark beside it says."""
    mark = directory.with_name(f"{directory.name}.whole")
    if not mark.exists():
        shutil.rmtree(directory, ignore_errors=True)
        make()
        mark.touch()


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _environment(variables: dict[str, str]) -> dict[str, str]:
    """A broker or client under test has its defaults, whatever is set for the test itself."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")
    }
    return {**inherited, **variables}


def _run(command: Sequence[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
    return done.stdout
