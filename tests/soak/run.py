"""The long tests:  make soak ARGS="--hours 8 --seed 7 --cuts 100"

One round after the other until the time is up, each of another kind in turn:

    simulate    simulated clusters, each seed twice
    power       real power cuts on a mounted image; the first round makes as many as `--cuts`
    memory      a power cut and an error at every disk operation of the script
    killed      SIGKILL at every system call of the script
    damage      bit flips, truncations and worse on one of three replicas
    repair      a power cut at every disk operation of a repair
    cluster     real brokers and clients: 25 times kill -9 of a leader, then every other fault
    queues      the same with senders and workers, and a thousand messages leased at every strike
    orders      the shop of `examples.orders`: two minutes of kill -9 of brokers and workers, with
                one node and with three; every order is charged exactly once
    everything  three nodes under load of every kind of client for `--minutes`, with kills, freezes,
                partitions, power cuts, bit flips and hostile inputs at once; memory, file handles
                and latency by the minute, none of which may grow
    abuse       all hostile cases, five minutes of each fuzzer, and the storm of connections
    upgrade     three nodes of 0.1.0 become the present version one by one, in three orders, with
                kill -9 in between, under every kind of client
    spark       a stream from topic to topic: twenty times kill -9 of its driver, its executors and
                the leader of three brokers; every row arrives exactly once
    lake        the archive job, killed as often, beside compactions and a rival

Every round has a seed of its own, drawn from `--seed`, and says one line. Everything goes to a
directory: `history.jsonl` has a line for each round, `verdict.json` the sum. The exit code is 0 if
nothing failed and every kind of round that can be done here was done; what cannot be done here is
said, and is in the verdict. `--hours 0` does each kind once, and `--rounds 10` does so many rounds
of each kind even if the time is up before.
"""

import argparse
import asyncio
import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

from penstock.core.errors import DiskFailed, DiskFull, NotInstalled
from penstock.spark.java import find_java
from penstock.spark.sessions import check_packages
from tests.abuse.fuzzers import FUZZERS, FuzzOptions, fuzz
from tests.abuse.registry import CASES
from tests.abuse.run import run_cases
from tests.abuse.storm import connection_storm
from tests.cluster import recovery
from tests.cluster.faults import FAULTS, in_some_order
from tests.cluster.rounds import MakeWorkload, logs, queues, run_round
from tests.crash.damages import WOUNDS, cut_power_in_repair, damage_rounds
from tests.crash.images import mounting_missing
from tests.crash.power import FORGED_LATER, cut_power
from tests.crash.processes import strace_missing
from tests.crash.sweeps import CALLS, Sweep, sweep_errors, sweep_killed, sweep_memory
from tests.simulation.run import Failure, simulate_many
from tests.soak.everything import run_everything
from tests.soak.orders import strike_shop
from tests.soak.strikes import StrikesOutcome
from tests.upgrade.old_version import missing as old_version_missing
from tests.upgrade.old_version import old_version
from tests.upgrade.workload import everything

CUTS_PER_ROUND = 25
SEEDS_PER_ROUND = 200
DAMAGES_PER_ROUND = 500
KILLS_PER_ROUND = 25
SHOP_SECONDS = 120.0
FUZZ_SECONDS = 300.0
SPARK_STRIKES_PER_ROUND = 20
UPGRADE_HELD = 300
UPGRADE_HOLD_SECONDS = (2.0, 8.0)
UPGRADE_PLANS = {
    "as the guide says": [
        *("upgrade next", "kill leader", "kill any"),
        *("upgrade next", "kill leader", "kill two"),
        *("upgrade next", "kill leader"),
    ],
    "leader first": [
        *("upgrade leader", "kill any", "kill leader"),
        *("upgrade leader", "freeze leader", "kill all"),
        *("upgrade leader", "kill leader"),
    ],
    "by kill -9": [
        *("upgrade killed", "kill leader", "restart each"),
        *("upgrade killed", "kill leader"),
        *("upgrade killed", "kill leader"),
    ],
}
"""What happens to a cluster on its way from the old version to the present one."""


@dataclass
class Round:
    """One piece of work and what came of it."""

    kind: str
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Figures worth a line."""
    seconds: float = 0.0

    def describe(self) -> str:
        counted = ", ".join(f"{count:,} {what}" for what, count in sorted(self.counts.items()))
        verdict = f"{len(self.complaints)} FAILED" if self.complaints else "holds"
        return f"{self.kind:<8} seed {self.seed:<10} {verdict:<9} {self.seconds:6.0f} s  {counted}"


Work = Callable[[Round, argparse.Namespace], None]


class StrikeSpark(Protocol):
    """Strikes so often, then compares."""

    def __call__(self, directory: Path, *, seed: int, strikes: int) -> StrikesOutcome: ...


def simulate(this: Round, options: argparse.Namespace) -> None:
    first = this.seed * 1_000
    seeds = range(first, first + SEEDS_PER_ROUND)
    for outcome in simulate_many(seeds, jobs=options.jobs):
        if isinstance(outcome, Failure):
            this.complaints.append(outcome.report())
        else:
            this.counts.update(histories=1, events=2 * outcome.events, acks=outcome.acked)


def power(this: Round, options: argparse.Namespace) -> None:
    cuts, options.cuts = options.cuts, CUTS_PER_ROUND
    verdict = cut_power(this.seed, cuts)
    this.counts.update(cuts=verdict.cuts, acks=verdict.acked)
    this.complaints += verdict.complaints
    if strace_missing() is None:
        forged = cut_power(this.seed, 1, forged=FORGED_LATER)
        this.counts["forged cuts noticed"] += bool(forged.complaints)
        if not forged.complaints:
            this.complaints.append("syncs were forged and nobody noticed")


def memory(this: Round, options: argparse.Namespace) -> None:
    _count(this, sweep_memory(seeds=16, shift=this.seed))
    _count(this, sweep_errors(DiskFailed))
    _count(this, sweep_errors(DiskFull))


def killed(this: Round, options: argparse.Namespace) -> None:
    for call in CALLS:
        _count(this, sweep_killed(call))


def damage(this: Round, options: argparse.Namespace) -> None:
    for wild in (False, True):
        tally = damage_rounds(this.seed, range(DAMAGES_PER_ROUND), wild=wild)
        this.complaints += tally.complaints + tally.refusals
        for (_, outcome), count in tally.rounds.items():
            this.counts[outcome] += count


def repair(this: Round, options: argparse.Namespace) -> None:
    for wound in WOUNDS:
        operation = 1
        while cut_power_in_repair(wound, operation, shift=this.seed):
            operation += 1
        this.counts["cuts"] += operation - 1


def _count(this: Round, sweep: Sweep) -> None:
    this.counts.update({"crash points": sweep.points, "recoveries": sweep.recoveries})
    this.complaints += sweep.complaints


def cluster(this: Round, options: argparse.Namespace) -> None:
    _strike(this, options, logs())


def queue_cluster(this: Round, options: argparse.Namespace) -> None:
    _strike(this, options, queues())


def _strike(this: Round, options: argparse.Namespace, make: MakeWorkload) -> None:
    plans = {
        "kills": ["kill leader"] * KILLS_PER_ROUND,
        "faults": in_some_order(FAULTS, this.seed),
    }
    for what, faults in plans.items():
        directory = Path(options.output) / f"{this.kind}-{this.seed}-{what}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        outcome = run_round(directory, seed=this.seed, faults=faults, make_workload=make)
        counts = outcome.verdict.counts
        this.counts.update(faults=len(outcome.struck), acks=counts["send ok"])
        this.counts["unknown outcomes"] += sum(
            counts[f"{what} info"] for what in ("send", "receive", "settle")
        )
        this.notes.append(f"{what}: {recovery.describe(outcome.recoveries)}")
        if outcome.held:
            shutil.rmtree(directory)
        else:
            this.complaints.append(f"{outcome.describe()}\nhistory and logs: {directory}")


def orders(this: Round, options: argparse.Namespace) -> None:
    for nodes in (1, 3):
        directory = Path(options.output) / f"{this.kind}-{this.seed}-{nodes}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        outcome = strike_shop(directory, seed=this.seed, seconds=SHOP_SECONDS, nodes=nodes)
        this.counts.update(outcome.counts)
        this.notes.append(f"{nodes} node(s): {outcome.describe()}")
        if outcome.complaints:
            this.complaints.append(f"books and logs: {directory}\n{outcome.describe()}")
        else:
            shutil.rmtree(directory)


def everything_at_once(this: Round, options: argparse.Namespace) -> None:
    directory = Path(options.output) / f"{this.kind}-{this.seed}"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    outcome = run_everything(directory, seed=this.seed, minutes=options.minutes)
    if (missing := mounting_missing()) is not None:
        this.notes.append(f"without power cuts: {missing}")
    this.notes += [outcome.table, recovery.describe(outcome.round.recoveries)]
    this.counts.update(outcome.round.struck)
    if outcome.complaints:
        complaints = "\n".join(outcome.complaints)
        this.complaints.append(f"{complaints}\nhistories and logs: {directory}")
    else:
        shutil.rmtree(directory)


def abuse(this: Round, options: argparse.Namespace) -> None:
    outcomes = asyncio.run(run_cases(list(CASES.values())))
    this.counts["hostile cases"] += len(outcomes)
    for name in FUZZERS:
        outcomes.append(asyncio.run(fuzz(name, FuzzOptions(this.seed, FUZZ_SECONDS))))
        this.notes.append(outcomes[-1].describe())
    outcomes.append(asyncio.run(connection_storm()))
    for outcome in outcomes:
        this.complaints += [f"{outcome.case}: {one}" for one in outcome.complaints]


def upgrade(this: Round, options: argparse.Namespace) -> None:
    for what, faults in UPGRADE_PLANS.items():
        directory = Path(options.output) / f"{this.kind}-{this.seed}-{what.replace(' ', '-')}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        outcome = run_round(
            directory,
            seed=this.seed,
            faults=faults,
            make_workload=everything(held=UPGRADE_HELD),
            hold_seconds=UPGRADE_HOLD_SECONDS,
            build=old_version().build(),
        )
        counts = outcome.verdict.counts
        sent = sum(count for kind, count in counts.items() if kind.endswith("send ok"))
        this.counts.update(faults=len(outcome.struck), acks=sent)
        this.notes.append(f"{what}: {recovery.describe(outcome.recoveries)}")
        if outcome.held:
            shutil.rmtree(directory)
        else:
            this.complaints.append(f"{outcome.describe()}\nhistories and logs: {directory}")


def spark(this: Round, options: argparse.Namespace) -> None:
    from tests.soak.spark_sink import strike_sink  # Where there is no Spark it cannot be imported.

    _strike_spark(this, options, strike_sink)


def lake(this: Round, options: argparse.Namespace) -> None:
    from tests.soak.spark_archive import strike_archive

    _strike_spark(this, options, strike_archive)


def _strike_spark(this: Round, options: argparse.Namespace, strike: StrikeSpark) -> None:
    directory = Path(options.output) / f"{this.kind}-{this.seed}"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    outcome = strike(directory.resolve(), seed=this.seed, strikes=SPARK_STRIKES_PER_ROUND)
    this.counts.update(outcome.counts)
    if outcome.complaints:
        this.complaints.append(f"logs: {directory}\n{outcome.describe()}")
    else:
        shutil.rmtree(directory)


def spark_missing() -> str | None:
    """Why Spark cannot be run here."""
    try:
        check_packages()
        find_java()
    except NotInstalled as error:
        return str(error)
    return None


WORKS: dict[str, Work] = {
    "simulate": simulate,
    "power": power,
    "memory": memory,
    "killed": killed,
    "damage": damage,
    "repair": repair,
    "cluster": cluster,
    "queues": queue_cluster,
    "orders": orders,
    "everything": everything_at_once,
    "abuse": abuse,
    "upgrade": upgrade,
    "spark": spark,
    "lake": lake,
}


def impossible() -> dict[str, str]:
    """Kinds of rounds that cannot be done on this machine, and why."""
    reasons = {
        "power": mounting_missing(),
        "killed": strace_missing(),
        "upgrade": old_version_missing(),
        "spark": spark_missing(),
        "lake": spark_missing(),
    }
    return {kind: reason for kind, reason in reasons.items() if reason is not None}


def rounds(options: argparse.Namespace) -> Iterator[Round]:
    """Round after round, until the time is up and each kind has had its turn."""
    end = time.monotonic() + options.hours * 3_600
    random = Random(options.seed)
    kinds = [kind for kind in options.only or WORKS if kind not in impossible()]
    turn = 0
    while kinds and (turn < len(kinds) * options.rounds or time.monotonic() < end):
        this = Round(kinds[turn % len(kinds)], random.randrange(1 << 20))
        began = time.monotonic()
        try:
            WORKS[this.kind](this, options)
        except Exception as error:  # noqa: BLE001 - a soak goes on, and tells in the end
            this.complaints.append(repr(error))
        this.seconds = time.monotonic() - began
        yield this
        turn += 1


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.split("\n")[0])
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=1, help="of each kind, at least")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--cuts", type=int, default=100, help="power cuts in the first round")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=10.0, help="of a round of everything")
    parser.add_argument("--only", choices=sorted(WORKS), action="append", help="this kind alone")
    parser.add_argument("--output", default="build/soak", help="where history and verdict go")
    options = parser.parse_args(arguments)
    os.makedirs(options.output, exist_ok=True)
    print(f"seed {options.seed}; history and verdict in {options.output}", flush=True)
    skipped = {kind: why for kind, why in impossible().items() if kind in (options.only or WORKS)}
    for kind, why in skipped.items():
        print(f"{kind:<8} NOT DONE: {why}", flush=True)
    total: Counter[str] = Counter()
    failures: list[str] = []
    done: Counter[str] = Counter()
    with open(os.path.join(options.output, "history.jsonl"), "w", encoding="utf-8") as history:
        for this in rounds(options):
            done[this.kind] += 1
            total.update({f"{this.kind}: {what}": count for what, count in this.counts.items()})
            failures += [f"{this.kind} seed {this.seed}: {c}" for c in this.complaints]
            history.write(json.dumps(this.__dict__) + "\n")
            history.flush()
            print("\n".join([*this.complaints, *this.notes, this.describe()]), flush=True)
    verdict = {
        "held": not failures and bool(done),
        "seed": options.seed,
        "rounds": dict(done),
        "total": dict(total),
        "failures": failures,
        "not done": skipped,
    }
    with open(os.path.join(options.output, "verdict.json"), "w", encoding="utf-8") as file:
        json.dump(verdict, file, indent=2)
    print("everything held" if verdict["held"] else f"{len(failures)} FAILURES")
    return 0 if verdict["held"] else 1


if __name__ == "__main__":
    sys.exit(main())
