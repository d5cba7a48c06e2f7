"""The commit of this code, if it runs from a checkout of the project.

It is read from the files of git, once: no program is started for it, and an installed package,
which has no such files, does not know.
"""

from functools import cache
from pathlib import Path

UNKNOWN_COMMIT = "unknown"
_SHORT = 12


@cache
def commit() -> str:
    """The first digits of it, or `unknown`."""
    return commit_of(Path(__file__).resolve().parents[3])


def commit_of(project: Path) -> str:
    """Of the checkout at a place. A branch that has been packed away stands in one file with all
    others; a second worktree has a file that says where the rest is."""
    try:
        home = project / ".git"
        if home.is_file():
            home = project / home.read_text("utf-8").removeprefix("gitdir:").strip()
        head = (home / "HEAD").read_text("utf-8").strip()
        common = home / "commondir"
        shared = home / common.read_text("utf-8").strip() if common.is_file() else home
        return _resolved(shared, head)[:_SHORT] or UNKNOWN_COMMIT
    except (OSError, UnicodeDecodeError):
        return UNKNOWN_COMMIT


def _resolved(home: Path, head: str) -> str:
    if not head.startswith("ref:"):
        return head
    name = head.removeprefix("ref:").strip()
    loose = home / name
    if loose.is_file():
        return loose.read_text("utf-8").strip()
    for line in (home / "packed-refs").read_text("utf-8").splitlines():
        found, _, packed = line.partition(" ")
        if packed == name:
            return found
    return ""
