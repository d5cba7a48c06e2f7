"""One of the two sides, a process of its own:  python -m benchmarks.check.side DIRECTORY

It says where its `penstock` comes from, then does a load for each line that names one and answers
with a line, until there are no more. Lines are JSON; everything else goes to stderr.
"""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.check.trees import ROOT, environment_of

END_WITHIN_SECONDS = 30.0


class SideFailed(Exception):
    """A side could not do a load."""


class Side:
    """The other end: starts the process of a tree, and asks it."""

    def __init__(self, name: str, tree: Path, directory: Path) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.check.side", str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment_of(tree),
            text=True,
        )
        self._tree = tree

    def __enter__(self) -> Self:
        came_from = Path(self._answer()["penstock"])
        if not came_from.is_relative_to(self._tree / "src"):
            raise SideFailed(f"{self.name}: penstock is {came_from}, not that of {self._tree}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def measure(self, load: str) -> float:
        """Messages a second; raises if it could not."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"load": load}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise SideFailed(f"{self.name} has ended") from None
        answer = self._answer()
        if "error" in answer:
            raise SideFailed(f"{self.name}: {answer['error']}")
        return float(answer["per_second"])

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SideFailed(f"{self.name} has ended with {self._process.wait()}")
        return json.loads(line)


def main(directory: Path) -> None:
    """Answer until the line is closed."""
    # Imported here: the path by which they are found is this process's.
    import penstock  # noqa: PLC0415
    from benchmarks.check.loads import Bench  # noqa: PLC0415

    with Bench(directory) as bench:
        _say({"penstock": penstock.__file__})
        for line in sys.stdin:
            try:
                _say({"per_second": bench.measure(json.loads(line)["load"])})
            except Exception as error:  # noqa: BLE001 - told to whoever asked.
                _say({"error": f"{type(error).__name__}: {error}"})


def _say(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
