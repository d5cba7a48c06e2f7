"""What a run left out, in one line at its end: `python -m tests.skips FILE`.

Several runs of pytest write to one file (`--skips FILE`), a JSON line for each skipped test. Where
everything is installed, `SKIPS_ALLOWED=0` makes a test that was skipped a failure.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

_REASON_MAX = 120


def note(path: Path, reasons: Iterable[str]) -> None:
    """Add the reasons of one run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(reason) + "\n" for reason in reasons)


def describe(path: Path) -> str:
    """One line for all that was noted."""
    counted = Counter(map(_short, _reasons(path)))
    if not counted:
        return "skipped: nothing"
    told = "; ".join(f"{count} × {reason}" for reason, count in sorted(counted.items()))
    return f"skipped: {sum(counted.values())} tests: {told}"


def too_many(path: Path, allowed: str | None) -> str:
    """What to say if more tests were skipped than the variable allows; not set, it allows all."""
    if not allowed:
        return ""
    if not allowed.isdecimal():
        return f"SKIPS_ALLOWED={allowed} must be a number"
    count = len(_reasons(path))
    return f"SKIPS_ALLOWED={allowed}, and {count} were skipped" if count > int(allowed) else ""


def _reasons(path: Path) -> list[str]:
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def _short(reason: str) -> str:
    line = " ".join(reason.removeprefix("Skipped: ").split())
    return line if len(line) <= _REASON_MAX else line[: _REASON_MAX - 1] + "…"


if __name__ == "__main__":
    print(describe(Path(sys.argv[1])))
    sys.exit(too_many(Path(sys.argv[1]), os.environ.get("SKIPS_ALLOWED")) or 0)
