"""The suite of hostile cases and fuzzers:  make abuse ARGS="--only kafka --seconds 60 --seed 7"

    --only NAME     a group of cases, a fuzzer, `storm`, or a case by (the beginning of) its name;
                    may be given several times
    --seconds N     for each fuzzer
    --seed N        of the fuzzers; the same seed makes the same inputs
    --from N --inputs N
                    of one fuzzer: inputs N and so many more, to repeat a failure
    --finding F5    cases that stem from a finding of the security review
    --list          name the cases, and end

A line for each case and fuzzer; the exit code is 1 if an oracle is broken. `oracles` says what is
measured. Cases share a broker until one of them breaks it; those that may leave it useless have one
of their own. Each broker is killed and started again at its end, and the known set is read.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from tests.abuse import (
    cases_batches,
    cases_connections,
    cases_frames,
    cases_internal_topics,
    cases_kafka,
    cases_native,
    cases_peer,
    cases_peer_frames,
    cases_process,
    cases_sqs,
    cases_state,
    cases_trio,
    cases_web,
)
from tests.abuse.fuzzers import FUZZERS, FuzzOptions, fuzz
from tests.abuse.oracles import STRICT, Bars, Outcome, judge
from tests.abuse.registry import CASES, GROUPS, Case
from tests.abuse.storm import connection_storm
from tests.abuse.target import Target, open_target

_MODULES = (
    cases_batches,
    cases_connections,
    cases_frames,
    cases_internal_topics,
    cases_kafka,
    cases_native,
    cases_peer,
    cases_peer_frames,
    cases_process,
    cases_sqs,
    cases_state,
    cases_trio,
    cases_web,
)
"""Their cases enter themselves when they are imported."""

TRIES = 2
"""A case that was only slow, on a machine that was busy meanwhile, is tried so often."""
CASES_PER_BROKER = 30
RESTART_SECONDS_MAX = 15.0


async def run_cases(cases: Sequence[Case], bars: Bars = STRICT) -> list[Outcome]:
    """All of them, each with its verdict printed as it is known."""
    outcomes: list[Outcome] = []
    for batch in _batches(cases):
        outcomes += await _run_batch(batch, bars)
    return outcomes


def _batches(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """Cases that may share a broker."""
    shared = [case for case in cases if not case.alone]
    for nodes, several in groupby(sorted(shared, key=_nodes), key=_nodes):
        rows = list(several)
        assert nodes > 0
        for at in range(0, len(rows), CASES_PER_BROKER):
            yield rows[at : at + CASES_PER_BROKER]
    for case in cases:
        if case.alone:
            yield [case]


def _nodes(case: Case) -> int:
    return case.nodes


async def _run_batch(batch: list[Case], bars: Bars) -> list[Outcome]:
    """Cases on one broker; when it is broken, the rest get another one."""
    outcomes: list[Outcome] = []
    waiting = list(batch)
    while waiting:
        with open_target(nodes=waiting[0].nodes, flags=waiting[0].flags) as target:
            await target.prepare()
            done: list[Outcome] = []
            while waiting and target.is_alive():
                case = waiting.pop(0)
                done.append(await _judge_often(case, target, bars))
                print_outcome(done[-1])
                if done[-1].is_ruined:
                    break
            await _restart(target, done[-1])
        outcomes += done
    return outcomes


async def _judge_often(case: Case, target: Target, bars: Bars) -> Outcome:
    best = await judge(case, target, bars)
    for _ in range(TRIES - 1):
        if not best.only_slow or case.alone:
            break
        again = await judge(case, target, bars)
        if again.held or (again.only_slow and again.stall < best.stall):
            best = again
        elif not again.only_slow:
            return again
    return best


async def _restart(target: Target, last: Outcome) -> None:
    """Kill, start, and read the known set; what is missing is put down to the last case."""
    try:
        last.restart = target.kill_and_restart()
        complaints = await target.missing()
    except AssertionError as error:
        complaints = [f"restart: {str(error)[-1_500:]}"]
    if last.restart > RESTART_SECONDS_MAX:
        complaints.append(f"restart: ready after {last.restart:.1f} s")
    if complaints:
        last.complaints += complaints
        print_outcome(last)


def print_outcome(outcome: Outcome) -> None:
    """Its line of the table, and what is wrong."""
    print(outcome.describe(), flush=True)
    for complaint in outcome.complaints:
        print("      " + complaint.replace("\n", "\n      "), flush=True)


def chosen_cases(only: Iterable[str], finding: str) -> list[Case]:
    """The cases that are meant: all, groups, or names."""
    wanted = list(only)
    return [
        case
        for case in CASES.values()
        if (not wanted or any(one == case.group or case.name.startswith(one) for one in wanted))
        and (not finding or case.finding.rstrip("abcdef") == finding or case.finding == finding)
    ]


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    cases = chosen_cases(options.only, options.finding)
    if options.list:
        for case in cases:
            print(f"{case.finding or '-':<5} {case.group:<11} {case.name:<46} {case.what}")
        print(f"{len(cases)} cases; fuzzers: {', '.join(FUZZERS)}; storm")
        return 0
    outcomes: list[Outcome] = []
    began = time.monotonic()
    if not any(one in FUZZERS or one == "storm" for one in options.only) or cases:
        outcomes += asyncio.run(run_cases(cases))
    for name in FUZZERS:
        if name in options.only or (not options.only and not options.finding):
            chosen = FuzzOptions(options.seed, options.seconds, options.first, options.inputs)
            outcomes.append(asyncio.run(fuzz(name, chosen)))
            print_outcome(outcomes[-1])
    if "storm" in options.only or (not options.only and not options.finding):
        outcomes.append(asyncio.run(connection_storm()))
        print_outcome(outcomes[-1])
    broken = [outcome for outcome in outcomes if not outcome.held]
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    table = [{**outcome.__dict__, "held": outcome.held} for outcome in outcomes]
    (output / "outcomes.json").write_text(json.dumps(table, indent=1), "utf-8")
    print(
        f"{len(outcomes) - len(broken)} of {len(outcomes)} hold, {len(broken)} break;"
        f" {time.monotonic() - began:.0f} s; {output / 'outcomes.json'}"
    )
    return 1 if broken or not outcomes else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make abuse", description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", default=[], help=f"{', '.join(GROUPS)}, …")
    parser.add_argument("--finding", default="")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=0)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--output", default="build/abuse")
    return parser.parse_args(arguments)


__all__ = ["CASES", "chosen_cases", "main", "parse", "print_outcome", "run_cases"]


if __name__ == "__main__":
    sys.exit(main())
