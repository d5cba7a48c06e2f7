"""Compare this working tree with an earlier commit:  make bench-check [BASE=v0.1.0]

    --base COMMIT    what to compare with; otherwise the last tag, and without one nothing is done
    --pairs N        of measurements of each load, at least 5
    --json PATH      where the numbers go
    --data DIR       where the brokers' files are made, and removed again

Exit code 1 if a load reaches less than 0.95 of what it did, 2 if that could not be found out, 0
otherwise, also where there is nothing to compare with: a clone without tags has done nothing wrong,
and the sentence on stderr says that nothing was measured.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
from rich.console import Console

from benchmarks.check import trees
from benchmarks.check.loads import LOADS
from benchmarks.check.side import Side, SideFailed
from benchmarks.check.verdict import Pair, Verdict, doubtful, finding, judge
from benchmarks.machine import describe_machine
from benchmarks.report import show

PAIRS = 9
PAIRS_LEAST = 5
DEFAULT_JSON = Path("benchmarks/results/local/check.json")
DEFAULT_DATA = "data"
TABLE_COLUMNS = 120
TERMINATED = 128 + signal.SIGTERM
SLOWER, UNKNOWN = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        base = trees.find_base(options.base)
    except trees.NoBase as error:
        _tell(f"nothing was measured: {error}")
        return 0
    except ValueError as error:
        _tell(str(error))
        return UNKNOWN
    name = trees.describe(base)
    try:
        with ExitStack() as stack:
            tree = stack.enter_context(trees.checked_out(base))
            home = Path(options.data).resolve()
            home.mkdir(parents=True, exist_ok=True)
            directory = Path(tempfile.mkdtemp(prefix="check-", dir=home))
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            machine = describe_machine(str(directory))
            notes = _notes(tree)
            sides = (
                stack.enter_context(Side(name, tree, directory / "base")),
                stack.enter_context(Side("here", trees.ROOT, directory / "here")),
            )
            found = Comparison(*sides)
            found.run(options.pairs)
    except (SideFailed, ValueError) as error:
        _tell(f"could not be compared: {error}")
        return UNKNOWN
    return _conclude(judge(found.pairs), name, [*notes, *found.excuses], options.json, machine)


class Comparison:
    """Both sides in turns, load by load."""

    def __init__(self, base: Side, here: Side) -> None:
        self._base = base
        self._here = here
        self._began = time.monotonic()
        self._turns = 0
        self.pairs: dict[str, list[Pair]] = {load: [] for load in LOADS}
        self.excuses: list[str] = []

    def run(self, pairs: int) -> None:
        """The first turn does not count: both sides are finding their pace. What would fail is
        measured as often again before it does."""
        self._turn(LOADS, counts=False)
        for turn in range(1, pairs + 1):
            self._say(f"pair {turn} of {pairs}")
            self._turn(LOADS)
        again = doubtful(self.pairs)
        if again:
            # What a load takes away, another must have left.
            for turn in range(1, pairs + 1):
                self._say(f"{', '.join(again)} once more, pair {turn} of {pairs}")
                self._turn(LOADS, keep=again)

    def _turn(
        self, loads: Sequence[str], *, counts: bool = True, keep: Sequence[str] = LOADS
    ) -> None:
        self._turns += 1
        for load in loads:
            if load in self.pairs:
                pair = self._pair(load)
                if pair is not None and counts and load in keep:
                    self.pairs[load].append(pair)

    def _pair(self, load: str) -> Pair | None:
        """What the base cannot do is no regression; what this tree cannot do is one."""
        try:
            if self._turns % 2:
                base = self._base.measure(load)
                return base, self._here.measure(load)
            here = self._here.measure(load)
            return self._base.measure(load), here
        except SideFailed as error:
            if str(error).startswith(f"{self._base.name}: "):
                self.excuses.append(f"{load}: not compared, since {error}")
                del self.pairs[load]
                return None
            raise

    def _say(self, line: str) -> None:
        _tell(f"{time.monotonic() - self._began:5.0f} s  {line}")


def _notes(tree: Path) -> list[str]:
    if trees.locks_differ(tree):
        return ["its lock file differs: both sides run with the packages of this environment."]
    return []


def _conclude(
    verdicts: Sequence[Verdict],
    base: str,
    notes: Sequence[str],
    path: Path,
    machine: dict[str, str],
) -> int:
    table = finding(verdicts, base, notes)
    show(Console(width=None if sys.stdout.isatty() else TABLE_COLUMNS), table)
    document = {
        "base": base,
        "machine": machine,
        "check": table.numbers,
        "pairs": {verdict.load: verdict.pairs for verdict in verdicts},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    slower = [verdict.load for verdict in verdicts if not verdict.passes]
    if slower:
        _tell(f"slower than {base}: {', '.join(slower)}")
        return SLOWER
    if not verdicts:
        _tell(f"nothing could be compared with {base}")
        return UNKNOWN
    _tell(f"no load is slower than {base}; the numbers are in {path}")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench-check", description="Compare this tree with an earlier commit."
    )
    parser.add_argument("--base", default="", metavar="COMMIT", help="otherwise the last tag")
    parser.add_argument("--pairs", type=_pairs, default=PAIRS, metavar="N")
    parser.add_argument("--json", type=Path, default=DEFAULT_JSON, metavar="PATH")
    parser.add_argument("--data", default=DEFAULT_DATA, metavar="DIR")
    return parser.parse_args(arguments)


def _pairs(text: str) -> int:
    if int(text) < PAIRS_LEAST:
        raise argparse.ArgumentTypeError(f"at least {PAIRS_LEAST}, or the median says nothing")
    return int(text)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
