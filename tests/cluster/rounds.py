"""A whole run: start a cluster, load it, harm it, heal it, read everything, check.

    python -m tests.cluster.rounds --seed 7 --faults "kill leader" --times 25

Prints what was done and found; history and logs stay in the directory if anything is wrong, or
with --keep.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.cluster import recovery
from tests.cluster.faults import BEYOND_A_MAJORITY, FAULTS, Nemesis, in_some_order
from tests.cluster.history import Recorder
from tests.cluster.processes import Cluster
from tests.cluster.recovery import Recovery
from tests.cluster.verdict import Verdict
from tests.cluster.waiting import pass_time
from tests.cluster.workload import Load, Workload

PROGRESS_ACKS = 20
PROGRESS_WITHIN_SECONDS = 30.0
HOLD_SECONDS = (0.5, 4.0)
CALM_SECONDS = (0.2, 2.0)


@dataclass
class Outcome:
    """What came of a run."""

    seed: int
    directory: Path
    struck: list[str]
    verdict: Verdict = field(default_factory=Verdict)
    recoveries: list[Recovery] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)

    @property
    def held(self) -> bool:
        """Everything promised was kept, and no node ended or complained by itself."""
        return self.verdict.valid and not self.complaints

    def describe(self) -> str:
        lines = [
            f"seed {self.seed}: {len(self.struck)} faults: {', '.join(self.struck)}",
            recovery.describe(self.recoveries),
            self.verdict.describe(),
        ]
        if self.errors:
            lines.append(f"client errors: {dict(self.errors)}")
        return "\n".join([*lines, *self.complaints])


def run_round(
    directory: Path,
    *,
    seed: int,
    faults: Sequence[str],
    nodes: int = 3,
    load: Load | None = None,
    flags: Sequence[str] = (),
    hold_seconds: tuple[float, float] = HOLD_SECONDS,
    restart_at_end: bool = True,
) -> Outcome:
    """One run with these faults in this order. Raises if the cluster does not come back."""
    random = Random(seed)
    outcome = Outcome(seed, directory, [])
    with (
        Recorder(directory / "history.jsonl") as recorder,
        Cluster(directory, nodes=nodes, flags=flags) as cluster,
    ):
        cluster.start()
        workload = Workload(cluster.addresses, recorder, seed=seed, load=load or Load())
        nemesis = Nemesis(
            cluster,
            workload.operator,
            recorder,
            workload.load.topic,
            seed=random.randrange(1 << 30),
        )
        outcome.struck = nemesis.struck
        try:
            workload.start()
            for name in faults:
                with nemesis.strike(name):
                    if name not in BEYOND_A_MAJORITY:
                        workload.wait_acked(PROGRESS_ACKS, seconds=PROGRESS_WITHIN_SECONDS)
                    pass_time(random.uniform(*hold_seconds))
                workload.wait_acked(PROGRESS_ACKS, seconds=PROGRESS_WITHIN_SECONDS)
                pass_time(random.uniform(*CALM_SECONDS))
            cluster.heal()
            workload.stop()
            workload.drain()
            if restart_at_end:
                _restart_at_once(cluster)
                workload.drain()
        except BaseException:
            workload.abandon()
            print(outcome.describe(), "\n".join(cluster.complaints()), sep="\n")
            raise
        outcome.complaints = cluster.complaints()
        outcome.errors = workload.errors
        outcome.verdict = workload.check()
        outcome.recoveries = recovery.recoveries(recorder.history())
    return outcome


def _restart_at_once(cluster: Cluster) -> None:
    """What was read must be on disks, not only in memories."""
    for node in list(cluster.nodes):
        cluster.kill(node)
    cluster.start()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", action="append", choices=sorted(FAULTS))
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--per-second", type=int, default=200)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args(arguments)
    directory = options.directory or Path(tempfile.mkdtemp(prefix="penstock-cluster-"))
    directory.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}; everything is in {directory}", flush=True)
    faults = in_some_order((options.faults or list(FAULTS)) * options.times, options.seed)
    load = Load(per_second=options.per_second)
    outcome = run_round(directory, seed=options.seed, faults=faults, load=load)
    print(outcome.describe())
    if outcome.held and not options.keep:
        shutil.rmtree(directory)
    return 0 if outcome.held else 1


if __name__ == "__main__":
    sys.exit(main())
