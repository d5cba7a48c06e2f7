"""The facts that this node knows about one place of a topic, from its memory and its log.

    of every partition           how far the consumer groups are that it looks after, and when they
                                 went by, as far as its delivery histories say
    of one of which it has a     the message, the entry that brought it, and what the history says
    replica
    of one that it leads         who else holds that entry, and where the message is with each group

Delivery histories are read a page at a time, and others have their turn in between.
"""

import asyncio

import msgspec

from penstock.core.append_payload import decode_append
from penstock.core.decoders import decode_msgpack
from penstock.core.errors import DamagedFile, OffsetOutOfRange, UnknownPartition
from penstock.core.limits import MIB, TRACE_CALL_SECONDS
from penstock.core.message import Message
from penstock.core.types import CATALOG_SHARD, Index, NodeId, Offset, PartitionId, TopicId
from penstock.engine.delivery.leader import STATE_NAMES
from penstock.engine.inspection.traces.timeline import Noted, Passing, notes_of, passings_of
from penstock.engine.peers.calls import RemoteCall
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.message_reader import MessageReader
from penstock.engine.topics.topics import Topics
from penstock.machines.run import State as RunState
from penstock.wire.trace_requests import Reader, State

READERS_MAX = 100
READ_BYTES_KEPT = 1 * MIB
"""Of the messages that were looked at last."""


class AskedPlace(msgspec.Struct, frozen=True, array_like=True):
    """A place of a topic."""

    topic_id: TopicId
    index: int
    offset: Offset


class PlaceFacts(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The facts that one node knows about a place."""

    holds: bool = False
    """True if the node has a replica of the shard; otherwise only the last two fields are set."""
    message: Message | None = None
    index: int = 0
    term: int = 0
    written_ms: int = -1
    nodes: tuple[NodeId, ...] = ()
    states: tuple[State, ...] = ()
    notes: tuple[Noted, ...] = ()
    first_index: int = 0
    since_ms: int = -1
    """The time of the delivery history's first line."""
    passings: tuple[Passing, ...] = ()
    readers: tuple[Reader, ...] = ()


TRACE_PLACE = RemoteCall("trace_place", AskedPlace, PlaceFacts, TRACE_CALL_SECONDS)


class MessageFacts:
    """Collects the facts of one node."""

    def __init__(self, topics: Topics, shards: LocalShards) -> None:
        self._topics = topics
        self._shards = shards
        self._reader = MessageReader(bytes_max=READ_BYTES_KEPT)

    async def known_here(self, asked: AskedPlace) -> PlaceFacts:
        """Return the facts of this node; none for an unknown topic or partition."""
        topic = self._topics.catalog.topic_by_id(asked.topic_id)
        if topic is None or not 0 <= asked.index < len(topic.partitions):
            return PlaceFacts()
        readers, passings = await self._readers_here(asked)
        partition = topic.partitions[asked.index]
        running = self._shards.get(self._topics.shard_of(partition))
        if running is None:
            return PlaceFacts(readers=readers, passings=passings)
        index, term, written_ms = self._entry(running, partition, asked.offset)
        notes: list[Noted] = []
        since_ms = -1
        for lines in running.history.pages():
            if since_ms < 0 and lines:
                since_ms = _stamp_of(lines[0].payload)
            notes += notes_of(lines, partition, asked.offset)
            await asyncio.sleep(0)
        return PlaceFacts(
            holds=True,
            message=self._message(running, partition, asked.offset),
            index=index,
            term=term,
            written_ms=written_ms,
            nodes=self._nodes(running, index),
            states=_states(running, partition, asked.offset),
            notes=tuple(notes),
            first_index=running.history.first_index,
            since_ms=since_ms,
            readers=readers,
            passings=passings,
        )

    async def _readers_here(
        self, asked: AskedPlace
    ) -> tuple[tuple[Reader, ...], tuple[Passing, ...]]:
        """The positions of the consumer groups on this node, and the commits in all delivery
        histories."""
        readers: list[Reader] = []
        passings: dict[str, Passing] = {}
        for shard in list(self._shards):
            running = self._shards.get(shard)
            if running is None or shard == CATALOG_SHARD:
                continue
            groups = running.machine.groups.groups if running.replica.leads else {}
            for name, group in groups.items():
                committed = group.offsets.get(asked.topic_id, {}).get(asked.index)
                if committed is not None and len(readers) < READERS_MAX:
                    readers.append(
                        Reader(group=name, committed=committed.offset, time_ms=committed.commit_ms)
                    )
            for lines in running.history.pages():
                for one in passings_of(lines, asked.topic_id, asked.index, asked.offset):
                    passings.setdefault(one.group, one)
                await asyncio.sleep(0)
        return tuple(readers), tuple(passings.values())

    def _message(self, running: Shard, partition: PartitionId, offset: Offset) -> Message | None:
        try:
            found = self._reader.read(running, partition, [(offset, Offset(offset + 1))])
        except (OffsetOutOfRange, UnknownPartition, DamagedFile):
            return None
        return found[0] if found and found[0].offset == offset else None

    def _entry(
        self, running: Shard, partition: PartitionId, offset: Offset
    ) -> tuple[int, int, int]:
        """Index, term and time of the entry that brought a message; zeros if it is gone."""
        log = running.replica.log
        try:
            if offset >= running.machine.bounds(partition).high_watermark:
                return 0, 0, -1
        except UnknownPartition:
            return 0, 0, -1
        found = log.entry_of(partition, offset)
        if found is None:
            return 0, 0, -1
        index, term = found
        if index < log.first_index:  # It lies apart from the log that is replicated on.
            return index, term, -1
        (entry,) = log.entries(index, Index(index + 1), 1)
        return index, term, decode_append(entry.payload).stamp_ms

    def _nodes(self, running: Shard, index: int) -> tuple[NodeId, ...]:
        """The nodes that are known to hold an entry: this one, and, if it leads, its followers."""
        if not index:
            return ()
        others = [view.node for view in running.replica.raft.progress() if view.match >= index]
        return tuple(sorted({self._topics.node_id, *others}))


class _Head(msgspec.Struct, array_like=True):
    """The first fields of every command."""

    tag: str
    stamp_ms: int


def _stamp_of(payload: bytes) -> int:
    return decode_msgpack(payload, _Head).stamp_ms


def _states(running: Shard, partition: PartitionId, offset: Offset) -> tuple[State, ...]:
    """The states of a message in all work groups, on the leader."""
    if not running.replica.leads:
        return ()
    found: list[State] = []
    for name, work in sorted(running.machine.queues.groups(partition).items()):
        run = work.run_at(offset)
        if run is not None:
            until_ms = run.until_ms if run.until_ms >= 0 else None
            found.append(
                State(
                    group=name,
                    state=STATE_NAMES[run.state],
                    deliveries=run.deliveries,
                    until_ms=until_ms,
                    reason=run.reason,
                )
            )
        elif work.is_waiting(offset):
            found.append(State(group=name, state=STATE_NAMES[RunState.READY], deliveries=0))
        else:
            found.append(State(group=name, state="over"))
    return tuple(found)
