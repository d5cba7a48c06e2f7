"""Fuzzers of every port of a running broker.

Two for each port: one changes requests that real clients have sent (`mutations`, `corpus/`), one
makes requests from a grammar (`grammar_*`). Input number i of a seed is always the same, so a
failure is repeated by its seed and its numbers. Inputs are pipelined: several on a connection,
several connections at once.
"""

import asyncio
import contextlib
import random
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from penstock.core.types import NodeId
from penstock.engine.peers import frames
from penstock.engine.peers.frames import FrameKind, encode_frame
from penstock.wire.frames import greet
from tests.abuse.grammar_http import http_input
from tests.abuse.grammar_kafka import kafka_request
from tests.abuse.grammar_structs import Values, native_head, peer_frame
from tests.abuse.hostile_batches import PAST_MS, honest
from tests.abuse.kafka_wire import Address
from tests.abuse.mutations import corpus, mutate
from tests.abuse.oracles import Bars, Outcome, judge
from tests.abuse.registry import Case
from tests.abuse.target import Target, native_frame, open_target

INPUTS_AT_ONCE = 32
CONNECTIONS = 8
CHUNK = 2_048
QUIET_SECONDS = 0.03
BATCH_SECONDS = 1.0
BARS = Bars(stall_seconds=1.0, kept_bytes=192 << 20)
"""The fuzzer keeps a processor busy, and the broker the other: answers wait in line."""
_TOPICS = ("fuzz-a", "fuzz-b", "fuzz-c")
_GONE = (OSError, EOFError)


@dataclass(frozen=True)
class FuzzOptions:
    """How long, or which inputs."""

    seed: int = 1
    seconds: float = 60.0
    first: int = 0
    inputs: int = 0
    """0: as many as there is time for."""


@dataclass
class Port:
    """What a fuzzer needs to know of the broker."""

    address: Address
    topics: tuple[bytes, ...] = ()
    cluster_id: str = ""


Make = Callable[[random.Random, Port], bytes]


@dataclass(frozen=True)
class Fuzzer:
    """How its inputs are made, and what goes before them on a connection."""

    port: str
    make: Make
    opening: Callable[[Port], bytes] = field(default=lambda _port: b"")


def _kafka_mutated(rng: random.Random, port: Port) -> bytes:
    seeds = corpus("kafka")
    whole = mutate(rng, rng.choice(seeds), seeds)
    if rng.random() < 0.02:
        return whole
    # Otherwise nothing behind a wrong length would be looked at.
    return struct.pack(">i", max(len(whole) - 4, 0)) + whole[4:]


def _kafka_grammar(rng: random.Random, port: Port) -> bytes:
    return kafka_request(rng, port.topics)


def _native_mutated(rng: random.Random, port: Port) -> bytes:
    seeds = corpus("native")
    whole = mutate(rng, rng.choice(seeds), seeds)
    head_bytes = len(whole)
    if rng.random() < 0.02:
        return whole
    return native_frame(whole[:head_bytes], rng.randrange(1 << 32))


def _native_grammar(rng: random.Random, port: Port) -> bytes:
    payload = honest([b"x"], PAST_MS) if rng.random() < 0.3 else b""
    return native_frame(native_head(rng, port.topics), rng.randrange(1 << 32), payload)


def _http_mutated(rng: random.Random, port: Port) -> bytes:
    seeds = corpus("http")
    return mutate(rng, rng.choice(seeds), seeds)


def _http_grammar(rng: random.Random, port: Port) -> bytes:
    return http_input(rng)


def _peer_grammar(rng: random.Random, port: Port) -> bytes:
    kind, payload = peer_frame(rng)
    return bytes(encode_frame(kind, msgspec.Raw(payload)))


def _peer_mutated(rng: random.Random, port: Port) -> bytes:
    whole = _peer_grammar(rng, port)
    return mutate(rng, whole, (whole,))


def _hello(port: Port) -> bytes:
    identity = frames.LinkIdentity(port.cluster_id, NodeId(2), "fuzz", "0.2.0")
    hello = frames.Hello(1, 1, identity, NodeId(1), 1 << 60, 1)
    return bytes(encode_frame(FrameKind.HELLO, hello))


def _greeting(port: Port) -> bytes:
    return greet()


FUZZERS: Final[dict[str, Fuzzer]] = {
    "fuzz-kafka-mutated": Fuzzer("kafka", _kafka_mutated),
    "fuzz-kafka-grammar": Fuzzer("kafka", _kafka_grammar),
    "fuzz-native-mutated": Fuzzer("kafka", _native_mutated, _greeting),
    "fuzz-native-grammar": Fuzzer("kafka", _native_grammar, _greeting),
    "fuzz-http-mutated": Fuzzer("http", _http_mutated),
    "fuzz-http-grammar": Fuzzer("http", _http_grammar),
    "fuzz-peer-mutated": Fuzzer("peer", _peer_mutated),
    "fuzz-peer-grammar": Fuzzer("peer", _peer_grammar, _hello),
}


def fuzz_input(name: str, seed: int, number: int, port: Port) -> bytes:
    """Input `number` of a fuzzer and seed."""
    return FUZZERS[name].make(random.Random(f"{name}/{seed}/{number}"), port)


def repeat_command(name: str, seed: int, first: int, inputs: int) -> str:
    """What repeats these inputs."""
    return f'make abuse ARGS="--only {name} --seed {seed} --from {first} --inputs {inputs}"'


async def fuzz(name: str, options: FuzzOptions) -> Outcome:
    """A fuzzer against a broker of its own, with all oracles, and the known set at the end."""
    with open_target() as target:
        await target.prepare()
        outcome = await fuzz_target(name, options, target)
        try:
            target.kill_and_restart()
            outcome.complaints += await target.missing()
        except AssertionError as error:
            outcome.complaints.append(f"restart: {str(error)[-1_500:]}")
    return outcome


async def fuzz_target(
    name: str, options: FuzzOptions, target: Target, bars: Bars = BARS
) -> Outcome:
    """A fuzzer against a broker that runs."""
    fuzzer = FUZZERS[name]
    port = await _port_of(target, fuzzer.port)
    campaign = _Campaign(name, options, target, port)
    case = Case(
        name, fuzzer.port, "", f"{name} with seed {options.seed}", campaign.run, seconds=1e6
    )
    outcome = await judge(case, target, bars)
    outcome.case = f"{name} {campaign.sent:,} inputs, {campaign.rate:,.0f}/s"
    if outcome.complaints:
        first, count = campaign.suspect
        outcome.complaints.append(repeat_command(name, options.seed, first, count))
    return outcome


async def _port_of(target: Target, name: str) -> Port:
    if name == "peer":
        return Port(target.peer)
    topics = [(await target.topic(topic, 2)).topic_id for topic in _TOPICS]
    return Port(target.http if name == "http" else target.kafka, tuple(topics))


class _Campaign:
    """Sends inputs in chunks, and looks at the log between them."""

    def __init__(self, name: str, options: FuzzOptions, target: Target, port: Port) -> None:
        self._name = name
        self._options = options
        self._target = target
        self._port = port
        self.sent = 0
        self.rate = 0.0
        self.suspect = (options.first, options.inputs or CHUNK)
        """The inputs after which something was wrong; all of them if it is not known."""

    async def run(self, target: Target) -> None:
        """Until the time or the inputs are over, or something is broken."""
        began = time.monotonic()
        number = self._options.first
        end = number + self._options.inputs if self._options.inputs else None
        while (end is None and time.monotonic() - began < self._options.seconds) or (
            end is not None and number < end
        ):
            count = CHUNK if end is None else min(CHUNK, end - number)
            positions = target.log_positions()
            await self._send(number, count)
            number += count
            self.sent += count
            self.suspect = (number - count, count)
            if not target.is_alive() or "Traceback (most" in target.log_since(positions):
                break
        else:
            self.suspect = (self._options.first, self.sent)
        self.rate = self.sent / max(time.monotonic() - began, 0.001)

    async def _send(self, first: int, count: int) -> None:
        batches = [
            range(at, min(at + INPUTS_AT_ONCE, first + count))
            for at in range(first, first + count, INPUTS_AT_ONCE)
        ]
        waiting = iter(batches)

        async def work() -> None:
            for numbers in waiting:
                await send_inputs(self._name, self._options.seed, numbers, self._port)

        await asyncio.gather(*(work() for _ in range(CONNECTIONS)))


async def send_inputs(name: str, seed: int, numbers: range, port: Port) -> None:
    """Some inputs on a connection of their own; what is answered is read for a moment."""
    data = FUZZERS[name].opening(port) + b"".join(
        fuzz_input(name, seed, number, port) for number in numbers
    )
    with contextlib.suppress(TimeoutError, *_GONE):
        reader, writer = await asyncio.open_connection(*port.address)
        try:
            async with asyncio.timeout(BATCH_SECONDS):
                writer.write(data)
                await writer.drain()
                while await asyncio.wait_for(reader.read(1 << 18), QUIET_SECONDS):
                    pass
        finally:
            writer.transport.abort()


def without_stall(bars: Bars) -> Bars:
    """For a machine that does something else as well."""
    return replace(bars, stall_seconds=5.0)


def sample_values(seed: int) -> Values:
    """Values of a seed, for tests of the grammar itself."""
    return Values(random.Random(seed))
