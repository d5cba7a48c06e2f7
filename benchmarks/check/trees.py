"""The two trees: which commit is compared with, and its files in a directory of their own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = "requirements/runtime.lock"


class NoBase(Exception):
    """There is nothing to compare with."""


def find_base(asked: str, root: Path = ROOT) -> str:
    """The commit that was asked for, or that of the last tag."""
    if asked:
        found = _git(root, "rev-parse", "--verify", "--quiet", f"{asked}^{{commit}}")
        if found.returncode:
            raise ValueError(f"{asked} is no commit of this repository")
        return asked
    tag = _git(root, "describe", "--tags", "--abbrev=0")
    if tag.returncode:
        raise NoBase("there is no tag yet to compare with; name a commit: make bench-check BASE=…")
    return tag.stdout.strip()


@contextmanager
def checked_out(commit: str, root: Path = ROOT) -> Iterator[Path]:
    """Its files in a worktree, which is gone afterwards whatever happens."""
    home = Path(tempfile.mkdtemp(prefix="penstock-base-"))
    tree = home / "tree"
    try:
        made = _git(root, "worktree", "add", "--detach", "--force", str(tree), commit)
        if made.returncode:
            raise ValueError(f"{commit} could not be checked out: {made.stderr.strip()}")
        yield tree
    finally:
        _git(root, "worktree", "remove", "--force", str(tree))
        shutil.rmtree(home, ignore_errors=True)
        _git(root, "worktree", "prune")


def describe(commit: str, root: Path = ROOT) -> str:
    """`v0.1.0 (31427cd)`."""
    short = _git(root, "rev-parse", "--short", f"{commit}^{{commit}}").stdout.strip()
    return short if commit.startswith(short) else f"{commit} ({short})"


def locks_differ(base: Path, root: Path = ROOT) -> bool:
    """Whether the two want other versions of other packages: both get those of this tree."""
    here, there = root / LOCK, base / LOCK
    return not there.exists() or here.read_bytes() != there.read_bytes()


def environment_of(tree: Path) -> dict[str, str]:
    """In which `penstock` is that of the tree: a path named here comes before what is installed."""
    return {**os.environ, "PYTHONPATH": str(tree / "src")}


def _git(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
    )
