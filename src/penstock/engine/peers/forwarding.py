"""Requests that reach the wrong node go on to the right one.

Kafka's clients are told who leads and go there themselves. Everything else a caller asks of any
node: topics, configurations, members. Such a request is a change of some shard; the node it reached
sends it to that shard's leader and hands back the reply.

A refusal that says "nothing happened, try again" (`Unavailable`: no leader yet, or another one) is
tried again here until the deadline. `OutcomeUnknown` is not: the caller must decide whether doing
it twice is harmless.

On the wire a request or reply is its class's name and its fields, both of which are checked.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from penstock.core.clock import Clock
from penstock.core.decoders import decode_msgpack
from penstock.core.errors import (
    InvalidRequest,
    NotLeader,
    PartitionExists,
    PenstockError,
    Unavailable,
)
from penstock.core.types import NO_NODE, PartitionId, ShardId
from penstock.engine.peers.leaders import Leader
from penstock.engine.peers.links import Links
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.shard import Shard
from penstock.machines.commands import CreatePartition
from penstock.machines.machine import Refused, Reply, Request, refusal_error

CHANGE_METHOD = "change"
PARTITIONS_METHOD = "partitions"
CHANGE_SECONDS = 15.0
PAUSE_SECONDS = 0.05

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All that decoding bytes of another node may raise."""

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


class _Envelope(msgspec.Struct, array_like=True):
    shard: ShardId
    name: str
    body: msgspec.Raw


class _Partitions(msgspec.Struct, array_like=True):
    shard: ShardId
    partitions: list[PartitionId]


class Forwarding:
    """Carries out changes here or at the leader's."""

    def __init__(
        self,
        shards: LocalShards,
        links: Links,
        clock: Clock,
        leader_of: Callable[[ShardId], Leader],
    ) -> None:
        self._shards = shards
        self._links = links
        self._clock = clock
        self._leader_of = leader_of

    async def change(
        self, shard: ShardId, request: Request, *, seconds: float = CHANGE_SECONDS
    ) -> Reply:
        """Carry out a change wherever its shard is led; a refusal of the machine is raised."""
        deadline = self._clock.monotonic_ms() + int(seconds * 1_000)
        while True:
            try:
                reply = await self._change_once(shard, request, seconds)
            except Unavailable:
                if self._clock.monotonic_ms() >= deadline:
                    raise
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if isinstance(reply, Refused):
                raise refusal_error(reply)
            return reply

    async def _change_once(self, shard: ShardId, request: Request, seconds: float) -> Reply:
        local = self._shards.get(shard)
        if local is not None and local.replica.leads:
            return await local.change(request)
        leader = self._leader_of(shard).node
        if leader == NO_NODE or leader not in self._links.connected():
            raise NotLeader(f"shard {shard} has no leader that can be reached", leader=leader)
        answer = await self._links.ask(
            leader, CHANGE_METHOD, encode(shard, request), timeout=seconds
        )
        return decode(answer, Reply)[1]

    async def make_partitions(self, shard: ShardId, partitions: list[PartitionId]) -> None:
        """Make partitions in their shard; those that are there stay as they are."""
        local = self._shards.get(shard)
        if local is not None and local.replica.leads:
            await make_partitions(local, partitions)
            return
        leader = self._leader_of(shard).node
        if leader == NO_NODE or leader not in self._links.connected():
            raise NotLeader(f"shard {shard} has no leader that can be reached", leader=leader)
        body = msgspec.msgpack.encode(_Partitions(shard, partitions))
        await self._links.ask(leader, PARTITIONS_METHOD, body, timeout=CHANGE_SECONDS)

    async def make_all_partitions(
        self, by_shard: Mapping[ShardId, list[PartitionId]], *, seconds: float
    ) -> None:
        """Make partitions of several shards, as far as it can be done within some seconds."""
        left = dict(by_shard)
        deadline = self._clock.monotonic_ms() + int(seconds * 1_000)
        while left:
            asked = list(left.items())
            outcomes = await asyncio.gather(
                *(self.make_partitions(shard, numbers) for shard, numbers in asked),
                return_exceptions=True,
            )
            for (shard, _), outcome in zip(asked, outcomes, strict=True):
                if outcome is None:
                    del left[shard]
                elif not isinstance(outcome, PenstockError):
                    raise outcome
            if self._clock.monotonic_ms() >= deadline:
                return
            if left:
                await asyncio.sleep(PAUSE_SECONDS)

    async def answer_change(self, body: bytes) -> bytes:
        """Carry out another node's change, if we lead."""
        shard, request = decode(body, Request)
        return encode(shard, await self._led(shard).change(request))

    async def answer_partitions(self, body: bytes) -> bytes:
        """Make partitions another node asks for, if we lead."""
        asked = decode_body(body, _Partitions)
        await make_partitions(self._led(asked.shard), asked.partitions)
        return b""

    def _led(self, shard: ShardId) -> Shard:
        local = self._shards.get(shard)
        if local is None or not local.replica.leads:
            leader = self._leader_of(shard).node
            raise NotLeader(f"this node does not lead shard {shard}", leader=leader)
        return local


async def make_partitions(shard: Shard, partitions: Iterable[PartitionId]) -> None:
    """Make those partitions that are not there; their commands share one write."""
    there = shard.machine.log_starts()
    commands = [
        CreatePartition(partition=partition) for partition in partitions if partition not in there
    ]
    outcomes = await asyncio.gather(*map(shard.change, commands), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, PartitionExists):
            raise outcome


def decode_body(body: bytes, kind: type[T]) -> T:
    """What another node sent, if it is what it should be."""
    try:
        return decode_msgpack(body, kind)
    except UNREADABLE as error:
        raise InvalidRequest(f"another node sent what cannot be read: {error}") from error


def encode(shard: ShardId, value: msgspec.Struct) -> bytes:
    """A request or reply for another node."""
    body = msgspec.Raw(msgspec.msgpack.encode(value))
    return msgspec.msgpack.encode(_Envelope(shard, type(value).__name__, body))


def decode(body: bytes, family: type[S]) -> tuple[ShardId, S]:
    """What another node sent: an instance of one of the family's classes, and nothing else."""
    try:
        envelope = decode_msgpack(body, _Envelope)
        kind = _kinds(family).get(envelope.name)
        if kind is None:
            raise InvalidRequest(f"another node sent a {envelope.name}, which is not known here")
        return envelope.shard, decode_msgpack(envelope.body, kind)
    except UNREADABLE as error:
        raise InvalidRequest(f"another node sent what cannot be read: {error}") from error


def _kinds(family: type[S]) -> dict[str, type[S]]:
    found: dict[str, type[S]] = {}
    pending = [family]
    while pending:
        kind = pending.pop()
        found[kind.__name__] = kind
        pending += kind.__subclasses__()
    return found
