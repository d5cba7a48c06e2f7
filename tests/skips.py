"""What a run left out, in one line at its end: `python -m tests.skips FILE`.

Several runs of pytest write to one file (`--skips FILE`), a JSON line for each skipped test.
"""

import json
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
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    counted = Counter(_short(json.loads(line)) for line in lines)
    if not counted:
        return "skipped: nothing"
    told = "; ".join(f"{count} × {reason}" for reason, count in sorted(counted.items()))
    return f"skipped: {sum(counted.values())} tests: {told}"


def _short(reason: str) -> str:
    line = " ".join(reason.removeprefix("Skipped: ").split())
    return line if len(line) <= _REASON_MAX else line[: _REASON_MAX - 1] + "…"


if __name__ == "__main__":
    print(describe(Path(sys.argv[1])))
