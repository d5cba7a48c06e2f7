"""Fuzzers of every port of a running broker.

Two for each port: one changes requests that real clients and nodes have sent (`mutations`,
`corpus/`), one makes requests from a grammar (`grammar_*`). The peer port has both twice: a
stranger's inputs come before the handshake, a member's behind it. Input number i of a seed is
always the same, so a failure is repeated by its seed and its numbers. Inputs are pipelined: several
on a connection, several connections at once.

A member's inputs go to one of three nodes. Raft believes them if they can be true, so nodes elect,
and what the one node stores is for the other two to mend: nothing that was acknowledged is lost.
"""

import asyncio
import contextlib
import random
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from penstock.core.checksum import crc32c
from penstock.engine.peers.frames import (
    FRAME_HEADER_BYTES,
    LinkIdentity,
    encode_frame,
)
from penstock.wire.frames import greet
from tests.abuse.grammar_http import http_input
from tests.abuse.grammar_kafka import kafka_request
from tests.abuse.grammar_structs import Values, handshake_frame, native_head, peer_frame
from tests.abuse.hostile_batches import PAST_MS, honest
from tests.abuse.kafka_wire import Address
from tests.abuse.mutations import corpus, mutate
from tests.abuse.oracles import STRICT, Bars, Outcome, judge
from tests.abuse.peer_wire import PeerConnection, identity_of
from tests.abuse.registry import Broken, Case
from tests.abuse.target import Target, native_frame, open_target

INPUTS_AT_ONCE = 32
MEMBER_INPUTS_AT_ONCE = 8
"""The first frame that cannot be read ends a link, and what follows is not looked at."""
CONNECTIONS = 8
CHUNK = 2_048
QUIET_SECONDS = 0.03
BATCH_SECONDS = 1.0
BARS = STRICT
MEMBER_STALL_SECONDS = 10.0
"""A member's inputs make the others elect again and again while they last."""
MEMBER_LOG_BYTES = 20_000_000
"""A minute: each link of a member that is lost or made is worth a line, at both ends."""
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
    member: LinkIdentity | None = None
    """What a member's inputs are sent as."""


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Make = Callable[[random.Random, Port], bytes]
Connect = Callable[[Port], Awaitable[Streams]]


async def _connect(port: Port) -> Streams:
    return await asyncio.open_connection(*port.address)


async def _connect_native(port: Port) -> Streams:
    reader, writer = await asyncio.open_connection(*port.address)
    writer.write(greet())
    return reader, writer


async def _connect_member(port: Port) -> Streams:
    assert port.member is not None
    connection = await PeerConnection.open(port.address)
    await connection.prove(port.member, TARGET)
    return connection.reader, connection.writer


@dataclass(frozen=True)
class Fuzzer:
    """How its inputs are made, and what goes before them on a connection."""

    port: str
    make: Make
    connect: Connect = _connect
    is_member: bool = False
    """Its inputs come behind the handshake of a member: see the top."""


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
    kind, payload = peer_frame(rng, CLAIMED, TARGET)
    return bytes(encode_frame(kind, msgspec.Raw(payload)))


def _peer_mutated(rng: random.Random, port: Port) -> bytes:
    seeds = corpus("peer")
    return _with_sums(rng, mutate(rng, rng.choice(seeds), seeds))


def _stranger_grammar(rng: random.Random, port: Port) -> bytes:
    kind, payload = handshake_frame(rng)
    return bytes(encode_frame(kind, msgspec.Raw(payload)))


def _stranger_mutated(rng: random.Random, port: Port) -> bytes:
    seeds = corpus("handshake")
    return _with_sums(rng, mutate(rng, rng.choice(seeds), seeds))


def _with_sums(rng: random.Random, data: bytes) -> bytes:
    """A mutated frame with the length and sums it should have; otherwise nothing but the sums of
    the header would be looked at."""
    if len(data) < FRAME_HEADER_BYTES or rng.random() < 0.02:
        return data
    payload = data[FRAME_HEADER_BYTES:]
    head = data[:8] + struct.pack("<II", len(payload), crc32c(payload))
    return head + struct.pack("<I", crc32c(head)) + payload


FUZZERS: Final[dict[str, Fuzzer]] = {
    "fuzz-kafka-mutated": Fuzzer("kafka", _kafka_mutated),
    "fuzz-kafka-grammar": Fuzzer("kafka", _kafka_grammar),
    "fuzz-native-mutated": Fuzzer("kafka", _native_mutated, _connect_native),
    "fuzz-native-grammar": Fuzzer("kafka", _native_grammar, _connect_native),
    "fuzz-http-mutated": Fuzzer("http", _http_mutated),
    "fuzz-http-grammar": Fuzzer("http", _http_grammar),
    "fuzz-peer-mutated": Fuzzer("peer", _peer_mutated, _connect_member, is_member=True),
    "fuzz-peer-grammar": Fuzzer("peer", _peer_grammar, _connect_member, is_member=True),
    "fuzz-stranger-mutated": Fuzzer("peer", _stranger_mutated),
    "fuzz-stranger-grammar": Fuzzer("peer", _stranger_grammar),
}
TARGET, CLAIMED = 1, 2
"""The node that a member's inputs go to, and the one that they say they come from."""


def fuzz_input(name: str, seed: int, number: int, port: Port) -> bytes:
    """Input `number` of a fuzzer and seed."""
    return FUZZERS[name].make(random.Random(f"{name}/{seed}/{number}"), port)


def repeat_command(name: str, seed: int, first: int, inputs: int) -> str:
    """What repeats these inputs."""
    return f'make abuse ARGS="--only {name} --seed {seed} --from {first} --inputs {inputs}"'


async def fuzz(name: str, options: FuzzOptions) -> Outcome:
    """A fuzzer against a broker of its own, with all oracles, and the known set at the end."""
    with open_target(nodes=3 if FUZZERS[name].port == "peer" else 1) as target:
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
    port = await _port_of(target, fuzzer)
    campaign = _Campaign(name, options, target, port)
    case = Case(
        name,
        fuzzer.port,
        "",
        f"{name} with seed {options.seed}",
        campaign.run,
        seconds=1e6,
        elects=fuzzer.is_member,
        stall_seconds=MEMBER_STALL_SECONDS if fuzzer.is_member else 0.0,
    )
    if fuzzer.is_member:
        bars = replace(bars, log_bytes_per_minute=MEMBER_LOG_BYTES)
    outcome = await judge(case, target, bars)
    outcome.case = f"{name} {campaign.sent:,} inputs, {campaign.rate:,.0f}/s"
    if outcome.complaints:
        first, count = campaign.suspect
        outcome.complaints.append(repeat_command(name, options.seed, first, count))
    return outcome


async def _port_of(target: Target, fuzzer: Fuzzer) -> Port:
    if fuzzer.port == "peer":
        member = await identity_of(target.all_peers[CLAIMED], CLAIMED)
        return Port(target.all_peers[TARGET], member=member)
    topics = [(await target.topic(topic, 2)).topic_id for topic in _TOPICS]
    return Port(target.http if fuzzer.port == "http" else target.kafka, tuple(topics))


class _Campaign:
    """Sends inputs in chunks, and looks at the log between them."""

    def __init__(self, name: str, options: FuzzOptions, target: Target, port: Port) -> None:
        self._name = name
        self._options = options
        self._target = target
        self._port = port
        self.sent = self.arrived = 0
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
        if target.is_alive() and self.arrived < self.sent // 2:
            raise Broken(f"{self.arrived} of {self.sent} inputs found a connection")

    async def _send(self, first: int, count: int) -> None:
        is_member = FUZZERS[self._name].is_member
        inputs = MEMBER_INPUTS_AT_ONCE if is_member else INPUTS_AT_ONCE
        batches = [
            range(at, min(at + inputs, first + count)) for at in range(first, first + count, inputs)
        ]
        waiting = iter(batches)

        async def work() -> None:
            for numbers in waiting:
                arrived = await send_inputs(self._name, self._options.seed, numbers, self._port)
                self.arrived += arrived

        # Two members of one id would take each other's place before they have said anything.
        at_once = 1 if is_member else CONNECTIONS
        await asyncio.gather(*(work() for _ in range(at_once)))


async def send_inputs(name: str, seed: int, numbers: range, port: Port) -> int:
    """Some inputs on a connection of their own; what is answered is read for a moment. How many
    found a connection."""
    data = b"".join(fuzz_input(name, seed, number, port) for number in numbers)
    try:
        reader, writer = await FUZZERS[name].connect(port)
    except (TimeoutError, *_GONE):
        return 0
    with contextlib.suppress(TimeoutError, *_GONE):
        try:
            async with asyncio.timeout(BATCH_SECONDS):
                writer.write(data)
                await writer.drain()
                while await asyncio.wait_for(reader.read(1 << 18), QUIET_SECONDS):
                    pass
        finally:
            writer.transport.abort()
    return len(numbers)


def sample_values(seed: int) -> Values:
    """Values of a seed, for tests of the grammar itself."""
    return Values(random.Random(seed))
