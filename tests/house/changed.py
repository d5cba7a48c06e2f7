"""The tests that belong to what has changed, for `make check`: prints their paths, one on a line.

Changed is what differs from the commit where the branch left `main`, uncommitted and untracked
files included; on `main` itself, what is not committed yet.

    src/penstock/raft/log.py           tests/unit/raft/test_log.py
    benchmarks/check/trees.py          tests/unit/benchmarks/test_check.py
    tests/unit/raft/test_log.py        itself
    tests/scenarios/raft/vote.txt      tests/scenarios/test_raft_scenarios.py

`tests/house` is left out, because `make check` runs all of it. So are tests that start processes or
a JVM: `make test` runs them.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.house.sources import ROOT

BRANCHES = ("main", "origin/main")
FAST = ("tests/properties/", "tests/scenarios/", "tests/unit/")
_SOURCE = re.compile(r"src/penstock/(?P<folder>(?:\w+/)*)(?P<module>\w+)\.py")
_BENCHMARK = re.compile(r"benchmarks/(?P<part>\w+)[/.].*")
_TEST = re.compile(r"(?:.*/)?test_\w+\.py")
_SCENARIO = re.compile(r"tests/scenarios/(?P<machine>\w+)/.*")


def place_of_tests(path: str) -> str | None:
    """Where the tests of a file would be; None if there is no rule for it."""
    if path.startswith(FAST) and _TEST.fullmatch(path):
        return path
    if scenario := _SCENARIO.fullmatch(path):
        return f"tests/scenarios/test_{scenario['machine']}_scenarios.py"
    if source := _SOURCE.fullmatch(path):
        return f"tests/unit/{source['folder']}test_{source['module']}.py"
    if benchmark := _BENCHMARK.fullmatch(path):
        return f"tests/unit/benchmarks/test_{benchmark['part']}.py"
    return None


def existing_tests(paths: Iterable[str], root: Path = ROOT) -> list[str]:
    """The tests of files, as far as they exist; each once."""
    found = {place_of_tests(path) for path in paths}
    return sorted(path for path in found if path is not None and (root / path).is_file())


def changed_files(root: Path = ROOT) -> Iterator[str]:
    """The files that have changed, from the root; a file that is gone is one of them."""
    yield from _git(root, "diff", "--name-only", "--no-renames", _base(root))
    yield from _git(root, "ls-files", "--others", "--exclude-standard")


def _base(root: Path) -> str:
    for branch in BRANCHES:
        if found := _git(root, "merge-base", "HEAD", branch):
            return found[0]
    return "HEAD"


def _git(root: Path, *arguments: str) -> list[str]:
    """The lines of an answer; none if git refuses."""
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines() if done.returncode == 0 else []


if __name__ == "__main__":
    sys.stdout.writelines(f"{path}\n" for path in existing_tests(changed_files()))
