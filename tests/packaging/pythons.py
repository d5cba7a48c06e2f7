"""The Pythons of this machine that Penstock supports, by their version."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

OLDEST = (3, 11)
NEWEST = (3, 13)
_ASK = "import sys, ensurepip, venv; print(sys.version_info.major, sys.version_info.minor)"
_PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


@cache
def pythons() -> Mapping[str, str]:
    """A program for each version, the first that is found and can make virtual environments."""
    found: dict[str, str] = {}
    for program in _candidates():
        version = _version_of(program)
        if version is not None:
            found.setdefault(version, program)
    return found


def versions() -> list[str]:
    """All supported versions, found or not."""
    return [f"3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]


def _candidates() -> Iterator[str]:
    for version in versions():
        if program := shutil.which(f"python{version}"):
            yield program
        minor = re.escape(version)
        for path in sorted(_PYENV.glob("3.*/bin/python")):
            if re.match(rf"{minor}(\.|$)", path.parts[-3]):
                yield str(path)


def _version_of(program: str) -> str | None:
    done = subprocess.run([program, "-c", _ASK], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    version = ".".join(done.stdout.split())
    return version if version in versions() else None
