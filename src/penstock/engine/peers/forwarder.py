"""Forwards changes: one that reaches the wrong node goes on to the leader of its shard.

Kafka's clients learn from metadata who leads and connect there. All other requests, such as those
for topics, configurations and members, reach any node. Each is a change of some shard; the node
sends it to that shard's leader and returns the reply.

A refusal that says "nothing happened, try again" (`Unavailable`: no leader yet, or another one) is
tried again here until the deadline. `OutcomeUnknown` is not: the caller must decide whether doing
it twice is harmless.

On the wire a request or reply is its class's name and its fields, both of which are checked.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import TypeVar

import msgspec

from penstock.core.decoders import decode_msgpack
from penstock.core.errors import (
    InvalidRequest,
    NotLeader,
    PartitionExists,
    PenstockError,
    Unavailable,
)
from penstock.core.limits import CHANGE_CALL_SECONDS
from penstock.core.retries import LEADER, Retrier
from penstock.core.types import PartitionId, ShardId
from penstock.engine.peers.calls import UNREADABLE, RemoteCall, RemoteCalls
from penstock.engine.peers.leaders import Leader
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.shard import Shard
from penstock.machines.commands import CreatePartition
from penstock.machines.machine import Refused, Reply, Request, refusal_error

S = TypeVar("S", bound=msgspec.Struct)


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """A request to a shard's machine, or its reply, under the name of its class."""

    shard: ShardId
    name: str
    body: msgspec.Raw


class MakePartitions(msgspec.Struct, frozen=True, array_like=True):
    """Make these partitions in a shard."""

    shard: ShardId
    partitions: list[PartitionId]


CHANGE = RemoteCall("change", Envelope, Envelope, CHANGE_CALL_SECONDS)
PARTITIONS = RemoteCall("partitions", MakePartitions, NoneType, CHANGE_CALL_SECONDS)


class Forwarder:
    """Carries out changes on this node or on the leader."""

    def __init__(
        self,
        shards: LocalShards,
        calls: RemoteCalls,
        retrier: Retrier,
        leader_of: Callable[[ShardId], Leader],
    ) -> None:
        self._shards = shards
        self._calls = calls
        self._retrier = retrier
        self._leader_of = leader_of

    async def change(
        self, shard: ShardId, request: Request, *, seconds: float = CHANGE_CALL_SECONDS
    ) -> Reply:
        """Carry out a change wherever its shard is led; a refusal of the machine is raised."""
        retries = self._retrier.within(seconds, LEADER)
        while True:
            try:
                reply = await self._change_once(shard, request, seconds)
            except Unavailable as error:
                if not await retries.pause(error):
                    raise
                continue
            if isinstance(reply, Refused):
                raise refusal_error(reply)
            return reply

    async def _change_once(self, shard: ShardId, request: Request, seconds: float) -> Reply:
        local = self._shards.get(shard)
        if local is not None and local.replica.leads:
            return await local.change(request)
        envelope = wrap(shard, request)
        return unwrap(await self._calls.ask_leader(shard, CHANGE, envelope, seconds=seconds), Reply)

    async def make_partitions(self, shard: ShardId, partitions: list[PartitionId]) -> None:
        """Make partitions in their shard; those that are there stay as they are."""
        await self._calls.ask_leader(shard, PARTITIONS, MakePartitions(shard, partitions))

    async def make_all_partitions(
        self, by_shard: Mapping[ShardId, list[PartitionId]], *, seconds: float
    ) -> None:
        """Make partitions of several shards, as far as it can be done within some seconds."""
        left = dict(by_shard)
        retries = self._retrier.within(seconds, LEADER)
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
            if left and not await retries.pause():
                return

    # On the leader.

    async def change_here(self, envelope: Envelope) -> Envelope:
        """Carry out a change of a shard that this node leads."""
        request = unwrap(envelope, Request)
        return wrap(envelope.shard, await self._led(envelope.shard).change(request))

    async def make_partitions_here(self, asked: MakePartitions) -> None:
        """Make partitions of a shard that this node leads."""
        await make_partitions(self._led(asked.shard), asked.partitions)

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


def wrap(shard: ShardId, value: msgspec.Struct) -> Envelope:
    """A request or reply, ready to travel."""
    return Envelope(shard, type(value).__name__, msgspec.Raw(msgspec.msgpack.encode(value)))


def unwrap(envelope: Envelope, family: type[S]) -> S:
    """An instance of one of the family's classes; nothing else passes."""
    kind = _kinds(family).get(envelope.name)
    if kind is None:
        raise InvalidRequest(f"another node sent a {envelope.name}, which is not known here")
    try:
        return decode_msgpack(envelope.body, kind)
    except UNREADABLE as error:
        raise InvalidRequest(
            f"another node sent a {envelope.name} that cannot be decoded: {error}"
        ) from error


def _kinds(family: type[S]) -> dict[str, type[S]]:
    found: dict[str, type[S]] = {}
    pending = [family]
    while pending:
        kind = pending.pop()
        if heirs := kind.__subclasses__():
            pending += heirs
        else:  # What others inherit from is no request or reply itself.
            found[kind.__name__] = kind
    return found
