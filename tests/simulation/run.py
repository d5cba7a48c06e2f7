"""Run simulated histories:  python -m tests.simulation.run --help

--seed 7             one seed, one line per event
--seeds 0-299        many seeds, one line each; each runs twice and must leave the same trace
--mutation NAME      with a planted bug; the run succeeds when the bug is caught
--mutations all      every planted bug, as the gate demands
"""

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from tests.simulation import mutations, publishing_mutations, queue_mutations
from tests.simulation.cluster import Cluster, Outcome
from tests.simulation.planting import MUTATIONS, plant

MUST_HAPPEN = (
    "ack", "read", "retry", "unknown", "refused", "trim", "commit", "quarantine", "halt",
    "message lost", "message repeated", "message cut off", "message very late", "answer lost",
    "request lost", "request repeated", "network isolate", "network split", "network one way",
    "network ring", "network clog", "kill", "power cut", "all power cut", "pause", "clock jump",
    "bit flip", "truncated file", "failing sync", "failing write", "full disk", "slow sync",
    "transfer", "membership change", "installed the snapshot", "is repaired", "no longer leads",
    "message sent", "message sent again", "message leased", "message acked", "lease ended",
    "message expired", "message dead", "message revived", "duplicate suppressed", "stale receipt",
    "worker crash", "queue reset", "recall", "range covered", "batch decided", "batch repeated",
    "batch published", "publisher crash", "staging expired", "apply interrupted",
)  # fmt: skip
"""Faults and rare branches; a batch of seeds in which one never happened proves too little."""

PLANTED = (mutations, publishing_mutations, queue_mutations)
"""Where the bugs are that can be planted; reading these files registers them."""
SEEDS_FOR_COVERAGE = 150
MUTATION_SEEDS_MAX = 500
MUTATIONS_PER_TURN = 5


@dataclass(frozen=True)
class Failure:
    """A seed that broke an invariant."""

    seed: int
    options: str
    reason: str
    lines: tuple[str, ...]

    def report(self) -> str:
        tail = "\n".join(self.lines[-40:])
        return (
            f"{tail}\n\nseed {self.seed}: {self.reason}\n  {self.options}\n"
            f"repeat with: make sim SEED={self.seed}"
        )


MISFIT = " argument"
"""Of a call with arguments that a function does not take."""


def simulate(seed: int, *, twice: bool = True, mutation: str | None = None) -> Outcome | Failure:
    """One seed; with `twice`, the second run must leave the same trace."""
    with plant(mutation):
        outcome = _simulate_once(seed)
        if twice and isinstance(outcome, Outcome):
            again = _simulate_once(seed)
            if not isinstance(again, Outcome) or again.fingerprint != outcome.fingerprint:
                reason = "NotDeterministic: two runs of this seed left different traces"
                return Failure(seed, outcome.options, reason, ())
        return outcome


def _simulate_once(seed: int) -> Outcome | Failure:
    cluster = Cluster(seed)
    try:
        return cluster.run()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        if isinstance(error, TypeError) and MISFIT in str(error):
            raise  # A planted bug that does not fit the code any more must not count as caught.
        reason = f"{str(error) or type(error).__name__} ({where.filename}:{where.lineno})"
        return Failure(seed, cluster.options, reason, tuple(cluster.timeline.lines))


def simulate_many(
    seeds: Iterable[int], *, jobs: int, twice: bool = True, mutation: str | None = None
) -> Iterator[Outcome | Failure]:
    """Many seeds on several processes, in the order of the seeds."""
    work = partial(simulate, twice=twice, mutation=mutation)
    if jobs == 1:
        yield from map(work, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        try:
            yield from pool.map(work, seeds)
        finally:
            pool.shutdown(cancel_futures=True)


def catch(mutation: str, *, seeds_max: int, jobs: int) -> Failure | None:
    """The first failure a planted bug causes within `seeds_max` seeds."""
    for outcome in simulate_many(range(seeds_max), jobs=jobs, twice=False, mutation=mutation):
        if isinstance(outcome, Failure):
            return outcome
    return None


def rotating(turn: int) -> list[str]:
    """The five planted bugs whose turn it is."""
    names = sorted(MUTATIONS)
    first = turn * MUTATIONS_PER_TURN
    return [names[(first + number) % len(names)] for number in range(MUTATIONS_PER_TURN)]


def missing(happened: Counter[str]) -> list[str]:
    """What should have happened in a batch and never did."""
    return [what for what in MUST_HAPPEN if not happened[what]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, help="run one seed and print every event")
    parser.add_argument("--seeds", default="0-299", help="a range, default 0-299")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quiet", action="store_true", help="a line for every tenth seed")
    parser.add_argument("--once", action="store_true", help="do not run each seed twice")
    parser.add_argument("--mutation", choices=sorted(MUTATIONS), help="plant this bug")
    parser.add_argument("--mutations", help="all, or the number of a turn of five")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _show_one(options.seed, options.mutation)
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if options.mutations:
        all_of_them = options.mutations == "all"
        names = sorted(MUTATIONS) if all_of_them else rotating(int(options.mutations))
        return _show_mutations(names, options.jobs)
    return _show_many(seeds, options)


def _show_one(seed: int, mutation: str | None) -> int:
    with plant(mutation):
        cluster = Cluster(seed, echo=print)
        try:
            outcome = cluster.run()
        except AssertionError as error:
            print(f"\nseed {seed}: {error}\n  {cluster.options}")
            return 1
    print(f"\nseed {seed} holds: {outcome.events} events, {outcome.acked} acknowledged batches")
    print("  " + ", ".join(f"{what} {count}" for what, count in sorted(outcome.happened.items())))
    return 0


def _show_many(seeds: range, options: argparse.Namespace) -> int:
    happened: Counter[str] = Counter()
    events = failures = 0
    began = time.monotonic()
    twice, jobs = not options.once, options.jobs
    for outcome in simulate_many(seeds, jobs=jobs, twice=twice, mutation=options.mutation):
        if isinstance(outcome, Failure):
            failures += 1
            print(outcome.report() if failures <= 3 else f"seed {outcome.seed}: {outcome.reason}")
            continue
        events += outcome.events * (1 + twice)
        happened.update(outcome.happened)
        if not options.quiet or outcome.seed % 10 == 0:
            print(
                f"seed {outcome.seed:>5} holds  {outcome.events:>6} events"
                f" {outcome.acked:>5} acks {outcome.commit:>5} entries  {outcome.options}"
            )
    took = time.monotonic() - began
    print(
        f"\n{len(seeds)} seeds, {failures} failed; {events} events in {took:.0f} s"
        f" on {jobs} processes, {events / took:,.0f} a second"
    )
    if len(seeds) >= SEEDS_FOR_COVERAGE and (never := missing(happened)):
        print("never happened: " + ", ".join(never))
        return 1
    return 1 if failures else 0


def _show_mutations(names: list[str], jobs: int) -> int:
    missed = 0
    for name in names:
        failure = catch(name, seeds_max=MUTATION_SEEDS_MAX, jobs=jobs)
        if failure is None:
            missed += 1
            print(f"MISSED  {name} within {MUTATION_SEEDS_MAX} seeds")
        else:
            print(f"caught  {name} by seed {failure.seed}: {failure.reason[:120]}")
    print(f"{len(names) - missed} of {len(names)} planted bugs were caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
