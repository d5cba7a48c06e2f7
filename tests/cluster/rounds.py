"""A whole run: start a cluster, load it, harm it, heal it, read everything, check.

    python -m tests.cluster.rounds --seed 7 --faults "kill leader" --times 25
    python -m tests.cluster.rounds --seed 7 --load queues

Prints what was done and found; history and logs stay in the directory if anything is wrong, or
with --keep.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

from tests.cluster import recovery
from tests.cluster.clients import Operator
from tests.cluster.faults import BEYOND_A_MAJORITY, FAULTS, Fault, Nemesis, in_some_order
from tests.cluster.history import Recorder
from tests.cluster.processes import PRESENT, Build, Cluster
from tests.cluster.queue_workload import HELD, QueueWorkload
from tests.cluster.recovery import Recovery
from tests.cluster.verdict import Verdict
from tests.cluster.waiting import pass_time
from tests.cluster.workload import Load, Workload

PROGRESS_ACKS = 20
PROGRESS_WITHIN_SECONDS = 30.0
HOLD_SECONDS = (0.5, 4.0)
CALM_SECONDS = (0.2, 2.0)


class AnyWorkload(Protocol):
    """What a run needs its clients to do."""

    operator: Operator

    @property
    def topic(self) -> str:
        """Whose leaders are harmed."""

    @property
    def errors(self) -> Counter[str]:
        """What clients were told."""

    def start(self) -> None:
        """Begin, and wait until messages flow."""

    def brace(self) -> None:
        """A fault is about to strike."""

    def wait_acked(self, more: int, *, seconds: float) -> None:
        """Wait for progress; the fault has struck, or is over."""

    def stop(self) -> None:
        """Send nothing more."""

    def drain(self) -> None:
        """Take out everything that is there."""

    def abandon(self) -> None:
        """Stop in the middle of a failure."""

    def check(self) -> Verdict:
        """Judge the history."""


MakeWorkload = Callable[[Cluster, Recorder, int], AnyWorkload]


def logs(load: Load | None = None) -> MakeWorkload:
    """Producers, readers and groups."""
    return lambda cluster, recorder, seed: Workload(
        cluster.addresses, recorder, seed=seed, load=load or Load()
    )


def queues(held: int = HELD) -> MakeWorkload:
    """Senders and workers, with so many messages leased whenever a fault strikes."""
    return lambda cluster, recorder, seed: QueueWorkload(
        cluster.addresses, cluster.web_addresses, recorder, seed=seed, held=held
    )


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


During = Callable[[Cluster], AbstractContextManager[None]]


@dataclass(frozen=True)
class Beside:
    """What a run has beside its clients and the usual faults."""

    disks: During = lambda _cluster: nullcontext()
    """From before the nodes start until the end; then they are killed."""
    trouble: During = lambda _cluster: nullcontext()
    """From the first fault to the last."""
    faults: Mapping[str, Fault] = field(default_factory=dict)
    """More of them."""
    patience_seconds: float = PROGRESS_WITHIN_SECONDS
    """How long clients may take to get on."""


def run_round(
    directory: Path,
    *,
    seed: int,
    faults: Iterable[str],
    nodes: int = 3,
    make_workload: MakeWorkload | None = None,
    flags: Sequence[str] = (),
    hold_seconds: tuple[float, float] = HOLD_SECONDS,
    restart_at_end: bool = True,
    build: Build = PRESENT,
    beside: Beside | None = None,
) -> Outcome:
    """One run with these faults in this order. Raises if the cluster does not come back. Every
    node runs `build` at first."""
    random = Random(seed)
    outcome = Outcome(seed, directory, [])
    beside = beside or Beside()
    patience = beside.patience_seconds
    with (
        Recorder(directory / "history.jsonl") as recorder,
        Cluster(directory, nodes=nodes, flags=flags, build=build) as cluster,
        beside.disks(cluster),
    ):
        cluster.start()
        workload = (make_workload or logs())(cluster, recorder, seed)
        nemesis = Nemesis(
            cluster,
            workload.operator,
            recorder,
            workload.topic,
            seed=random.randrange(1 << 30),
            more=beside.faults,
        )
        outcome.struck = nemesis.struck
        try:
            workload.start()
            with beside.trouble(cluster):
                for name in faults:
                    workload.brace()
                    with nemesis.strike(name):
                        if name not in BEYOND_A_MAJORITY:
                            workload.wait_acked(PROGRESS_ACKS, seconds=patience)
                        pass_time(random.uniform(*hold_seconds))
                    workload.wait_acked(PROGRESS_ACKS, seconds=patience)
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
    parser.add_argument("--load", choices=["logs", "queues"], default="logs")
    parser.add_argument("--per-second", type=int, default=200, help="of each producer of logs")
    parser.add_argument("--held", type=int, default=HELD, help="messages leased when it strikes")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args(arguments)
    directory = options.directory or Path(tempfile.mkdtemp(prefix="penstock-cluster-"))
    directory.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}; everything is in {directory}", flush=True)
    faults = in_some_order((options.faults or list(FAULTS)) * options.times, options.seed)
    make = logs(Load(per_second=options.per_second))
    if options.load == "queues":
        make = queues(options.held)
    outcome = run_round(directory, seed=options.seed, faults=faults, make_workload=make)
    print(outcome.describe())
    if outcome.held and not options.keep:
        shutil.rmtree(directory)
    return 0 if outcome.held else 1


if __name__ == "__main__":
    sys.exit(main())
