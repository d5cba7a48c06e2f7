"""Hostile inputs at every port of every node, for as long as standard input is open:

    python -m tests.soak.hostile --kafka … --http … --peer … --seed 7

The fuzzers of `tests.abuse` take turns, a handful of inputs at a time with a pause after each, so
that the nodes can do something else as well; behind each turn comes a hostile case; beside them,
connections are opened and left. It has a process of its own, as the good client has.

Only what a stranger to the cluster can send: what a member of the cluster forges may cost a node
what it has stored, and then the soak's own faults would have to spare the others. Cases whose state
stays, or which need a broker of their own, are left to `make abuse`. A case's own verdict needs
a calm cluster, and nodes are killed here, so it is counted and not judged; the soak's rules judge.
"""

import argparse
import asyncio
import contextlib
import random
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from penstock.wire.requests import AskTopic, TopicInfo
from tests.abuse.fuzzers import FUZZERS, Port, send_inputs
from tests.abuse.good_client import address_of
from tests.abuse.kafka_wire import Address, create_topic
from tests.abuse.registry import Case
from tests.abuse.run import CASES
from tests.abuse.target import Target, Watch, native_call
from tests.cluster.processes import Cluster

INPUTS_AT_ONCE = 32
PAUSE_SECONDS = 0.25
LEFT_CONNECTIONS = 100
TOPICS = ("fuzz-a", "fuzz-b", "fuzz-c")
CASE_SECONDS = 10.0
CASE_GROUPS = ("kafka", "native", "sqs", "web", "batches")
_GONE = (OSError, EOFError, TimeoutError)


@dataclass
class _Place:
    """A node as `Target` knows it, without its process."""

    kafka: str
    http: str
    peer: Address


@dataclass
class _Places:
    nodes: dict[int, _Place]


def soak_cases() -> list[Case]:
    """The cases that a cluster under load and faults can bear for an hour."""
    return [
        case
        for case in CASES.values()
        if not (case.alone or case.kept_mib or case.elects)
        # What F17 is about would add members to the cluster.
        and case.finding != "F17"
        and (
            (case.group in CASE_GROUPS and case.nodes == 1)
            or case.name.startswith(("p-frame-", "p-proof-"))
        )
    ]


async def carry_out(case: Case, target: Target) -> str:
    """How it ended, in a word."""
    try:
        async with asyncio.timeout(CASE_SECONDS):
            await case.attack(target)
    except AssertionError:
        return "broken"
    except (*_GONE, ValueError):
        return "cut short"
    return "done"


async def topic_ids(kafka: Address) -> tuple[bytes, ...]:
    """The topics that the fuzzers may use, made if need be."""
    found: list[bytes] = []
    while len(found) < len(TOPICS):
        name = TOPICS[len(found)]
        with contextlib.suppress(*_GONE):
            await create_topic(kafka, name, 2)
            answer, _ = await native_call(kafka, AskTopic(name))
            if isinstance(answer, TopicInfo):
                found.append(answer.topic_id)
                continue
        await asyncio.sleep(PAUSE_SECONDS)
    return tuple(found)


async def attack(ports: dict[str, list[Address]], seed: int, counts: Counter[str]) -> None:
    """Until it is cancelled."""
    rng = random.Random(seed)
    topics = await topic_ids(ports["kafka"][0])
    fuzzers = {name: one for name, one in FUZZERS.items() if not one.is_member}
    numbers = dict.fromkeys(fuzzers, 0)
    left: list[asyncio.StreamWriter] = []
    rows = zip(ports["kafka"], ports["http"], ports["peer"], strict=True)
    nodes = {
        number: _Place(f"{kafka[0]}:{kafka[1]}", f"{http[0]}:{http[1]}", peer)
        for number, (kafka, http, peer) in enumerate(rows, 1)
    }
    target = Target(cast("Cluster", _Places(nodes)), Watch(), Path())
    cases = soak_cases()
    while True:
        target.attacked = rng.choice(list(nodes))
        case = rng.choice(cases)
        ended = await carry_out(case, target)
        counts[ended] += 1
        print(f"{case.name} at node {target.attacked}: {ended}", flush=True)
        for name, fuzzer in fuzzers.items():
            port = Port(rng.choice(ports[fuzzer.port]), topics)
            first = numbers[name]
            numbers[name] += INPUTS_AT_ONCE
            await send_inputs(name, seed, range(first, numbers[name]), port)
            with contextlib.suppress(*_GONE):
                _, writer = await asyncio.open_connection(*port.address)
                left.append(writer)
            if len(left) > LEFT_CONNECTIONS:
                left.pop(0).transport.abort()
            await asyncio.sleep(PAUSE_SECONDS)


async def serve(options: argparse.Namespace) -> None:
    ports = {
        name: [address_of(one) for one in getattr(options, name).split(",")]
        for name in ("kafka", "http", "peer")
    }
    counts: Counter[str] = Counter()
    attacking = asyncio.create_task(attack(ports, options.seed, counts))
    closed = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    ends: list[asyncio.Future[Any]] = [attacking, closed]
    done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if attacking in done:
        attacking.result()
    attacking.cancel()
    print(f"hostile cases: {dict(counts)}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for port in ("kafka", "http", "peer"):
        parser.add_argument(f"--{port}", required=True, help="addresses, with commas between")
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(serve(parser.parse_args()))
