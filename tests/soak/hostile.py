"""Hostile inputs at every port of every node, for as long as standard input is open:

    python -m tests.soak.hostile --kafka … --http … --peer … --seed 7

The fuzzers of `tests.abuse` take turns, a handful of inputs at a time with a pause after each, so
that the nodes can do something else as well; beside them, connections are opened and left. It has a
process of its own, as the good client has.
"""

import argparse
import asyncio
import contextlib
import random
import sys
from typing import Any

from penstock.wire.requests import AskTopic, TopicInfo
from tests.abuse.fuzzers import FUZZERS, Port, send_inputs
from tests.abuse.good_client import address_of
from tests.abuse.kafka_wire import Address, create_topic
from tests.abuse.target import native_call

INPUTS_AT_ONCE = 32
PAUSE_SECONDS = 0.25
LEFT_CONNECTIONS = 100
TOPICS = ("fuzz-a", "fuzz-b", "fuzz-c")
_GONE = (OSError, EOFError, TimeoutError)


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


async def attack(ports: dict[str, list[Address]], seed: int) -> None:
    """Until it is cancelled."""
    rng = random.Random(seed)
    topics = await topic_ids(ports["kafka"][0])
    numbers = dict.fromkeys(FUZZERS, 0)
    left: list[asyncio.StreamWriter] = []
    while True:
        for name, fuzzer in FUZZERS.items():
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
    attacking = asyncio.create_task(attack(ports, options.seed))
    closed = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    ends: list[asyncio.Future[Any]] = [attacking, closed]
    done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if attacking in done:
        attacking.result()
    attacking.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for port in ("kafka", "http", "peer"):
        parser.add_argument(f"--{port}", required=True, help="addresses, with commas between")
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(serve(parser.parse_args()))
