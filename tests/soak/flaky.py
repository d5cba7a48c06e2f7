"""Search for flaky tests:  make flaky ARGS="--rounds 20 --hogs 2 --seed 7 --tests tests/unit"

Runs the whole pytest suite again and again, as `make pytest` does, each round in another random
order. No, one, and two hogs run beside it in turn, processes that do nothing but use a processor: a
test that depends on how fast the machine is fails there first. In the end a table says which tests
failed, how often, and under which load. The exit code is 0 if none did.

One seed is drawn, or given, and printed; each round's order is drawn from it. A round that failed
names the command that repeats its order (`--shuffle`, see `tests/conftest.py`), and the output of
every round is kept in `build/flaky`.
"""

import argparse
import contextlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]
SPARK_TESTS = ("tests/docs", "tests/examples", "tests/spark")
_HOG = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
"""Ends with the process that started it, however that ends."""
_NO_TESTS = 5
_SEED_MAX = 1_000_000


@dataclass(frozen=True)
class Round:
    """One run of the suite."""

    number: int
    seed: int
    hogs: int

    @property
    def load(self) -> str:
        if self.hogs == 0:
            return "quiet"
        return "1 hog" if self.hogs == 1 else f"{self.hogs} hogs"


@dataclass
class Tally:
    """Which tests failed under which load."""

    rounds: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    tests: int = 0

    def add(self, load: str, tests: int, failed: Iterable[str]) -> None:
        self.rounds[load] += 1
        self.tests += tests
        self.failures.update((test, load) for test in set(failed))

    @property
    def is_good(self) -> bool:
        return self.tests > 0 and not self.failures

    def table(self) -> list[str]:
        """A line for each test that failed, those that failed most often first."""
        totals: Counter[str] = Counter()
        for (test, _), count in self.failures.items():
            totals[test] += count
        loads = list(self.rounds)
        lines = ["  ".join(f"{load:>12}" for load in loads) + "  failed"]
        for test, _ in sorted(totals.items(), key=lambda one: (-one[1], one[0])):
            cells = [f"{self.failures[test, load]} of {self.rounds[load]}" for load in loads]
            lines.append("  ".join(f"{cell:>12}" for cell in cells) + f"  {test}")
        return lines if totals else []


def plan_rounds(count: int, hogs_max: int, seed: int) -> list[Round]:
    """From none to the most hogs in turn, and each round in another order."""
    random = Random(seed)
    return [
        Round(number, random.randrange(_SEED_MAX), (number - 1) % (hogs_max + 1))
        for number in range(1, count + 1)
    ]


def commands(tests: Sequence[str], seed: int) -> list[list[str]]:
    """The two runs of `make pytest`: tests that need a JVM share one within a file."""
    usual = "not soak and not interop and not long"
    start = [sys.executable, "-m", "pytest", "-q", "--color=no", f"--shuffle={seed}"]
    spark = SPARK_TESTS if list(tests) == ["tests"] else tests
    return [
        [*start, "-n", "3", "--dist", "worksteal", "-m", f"{usual} and not spark", *tests],
        [*start, "-n", "2", "--dist", "loadfile", "-m", f"{usual} and spark", *spark],
    ]


def read_report(text: str) -> tuple[int, list[str]]:
    """How many tests a JUnit report has, and which of them failed."""
    cases = list(ET.fromstring(text).iter("testcase"))
    failed = [
        f"{case.get('file') or case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    return len(cases), failed


@contextlib.contextmanager
def hogs(count: int) -> Iterator[None]:
    """So many processes that leave others little of the processors."""
    running = [subprocess.Popen([sys.executable, "-c", _HOG]) for _ in range(count)]
    try:
        yield
    finally:
        for hog in running:
            hog.kill()
            hog.wait()


def run_suite(tests: Sequence[str], seed: int, output: Path) -> tuple[int, list[str]]:
    """Run it once; how many tests there were, and which failed."""
    total, failed = 0, list[str]()
    report = output.with_suffix(".xml")
    with output.open("w", encoding="utf-8") as file:
        for command in commands(tests, seed):
            report.unlink(missing_ok=True)
            options = [f"--junitxml={report}", "-o", "junit_family=xunit1"]
            code = subprocess.call([*command, *options], cwd=ROOT, stdout=file, stderr=file)
            found, bad = read_report(report.read_text("utf-8")) if report.exists() else (0, [])
            total += found
            failed += bad
            if code not in (0, _NO_TESTS) and not bad:
                failed.append(f"pytest itself: exit code {code}")
    return total, failed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the suite in random orders, under load.")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--tests", nargs="+", default=["tests"])
    parser.add_argument("--hogs", type=int, default=2, help="the most processes beside a round")
    parser.add_argument("--seed", type=int, default=None)
    chosen = parser.parse_args(arguments)
    seed = SystemRandom().randrange(_SEED_MAX) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", flush=True)
    directory = ROOT / "build" / "flaky"
    directory.mkdir(parents=True, exist_ok=True)
    tally = Tally()
    for one in plan_rounds(chosen.rounds, chosen.hogs, seed):
        began = time.monotonic()
        output = directory / f"round-{one.number}.txt"
        with hogs(one.hogs):
            tests, failed = run_suite(chosen.tests, one.seed, output)
        tally.add(one.load, tests, failed)
        took = time.monotonic() - began
        line = f"round {one.number} of {chosen.rounds}, {one.load}: {tests} tests in {took:.0f} s"
        if failed:
            again = f'make pytest ARGS="--shuffle={one.seed}"'
            line += f", {len(failed)} failed; again: {again}"
        print(line, flush=True)
    print("\n".join(tally.table()) or "no test failed" if tally.tests else "there are no tests")
    return 0 if tally.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
