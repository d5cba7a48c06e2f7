"""Event sourcing: the state is derived from stored events.

An *aggregate* is a thing with a life of its own: an account, an order. Its state is not stored; its
events are appended to a topic, all of one aggregate in one partition and in order, and the state is
the fold of them. So nothing is ever overwritten, every question about the past has an answer, and a
new view of the data is a new fold over the old events (`penstock.patterns.projection`).

    accounts = AggregateStore(client, "accounts", event=AccountEvent, initial=Account, fold=fold)
    account = await accounts.load("anna")
    if account.state.balance >= 30:
        await accounts.append("anna", [Withdrawn(amount=30)], expected_version=account.version)

Between `load` and `append` another program may have changed the account; then the append must fail.
A log has no "append if", and needs none: every event carries its number, and the first event of a
number counts. All readers read the same log, so all agree which one was first. A writer
reads up to its own events and knows: they counted, or it gets `VersionConflict` and decides
anew. Events of one append are one record: all of them count or none does. A writer that gets
`OutcomeUnknown` loads again and looks; `append` with the same `command_id` is safe to repeat.

Topics:

    <name>             events, kept for ever (retention.ms = -1), keyed by aggregate id
    <name>-snapshots   compacted: the latest state of each aggregate, and a checkpoint for each
                       partition: every event before its offset is in the snapshots

Snapshots are a cache that spares a new process the reading of all history; losing them loses
nothing. They may be newer than the checkpoint says, since events that are in them already do not
have the next number. The topic of events itself must not be compacted: it would lose history, and
the last event of a number would be left instead of the first.
"""

import asyncio
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Generic, TypeVar

import msgspec

from penstock.client.client import Client
from penstock.client.producer.outgoing_message import Outgoing
from penstock.client.record import Record
from penstock.client.topic import Topic
from penstock.core.decoders import json_decoder
from penstock.core.errors import InvalidRequest, LocalError, Overloaded
from penstock.patterns.followed_log import FollowedLog

E = TypeVar("E")
S = TypeVar("S")

EVENTS_PER_APPEND_MAX = 1_000
AGGREGATES_MAX = 1_000_000
COMMANDS_REMEMBERED_MAX = 100_000
_CHECKPOINT = "checkpoint/"
_STATE = "state/"


class VersionConflict(LocalError):
    """The aggregate has moved on: load it again and decide anew."""

    http_status = 409


class StoredEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it lies in the topic."""

    aggregate: str
    number: int
    """The number of the first event in it, from 1."""
    command: str
    """An id that is the same for all attempts to append the same events."""
    events: tuple[msgspec.Raw, ...]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the snapshot topic: the state of an aggregate, or a checkpoint."""

    version: int = 0
    state: msgspec.Raw = msgspec.Raw(b"null")
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Aggregate(Generic[S]):
    """A thing as its events tell it."""

    id: str
    version: int
    """The number of its events; 0 if it does not exist yet."""
    state: S


class AggregateStore(Generic[E, S]):
    """Loads aggregates and appends events to them. `event` is a type msgspec can read and write: a
    tagged union of structs, say. `initial` makes the state of a thing that has no events yet."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        event: type[E] | UnionType,
        state: type[S],
        initial: Callable[[], S],
        fold: Callable[[S, E], S],
        partitions: int = 4,
    ) -> None:
        self.topic: Topic[StoredEvent] = client.topic(name, codec=StoredEvent)
        self.snapshots: Topic[Snapshot] = client.topic(f"{name}-snapshots", codec=Snapshot)
        self._client = client
        self._decoder: msgspec.json.Decoder[E] = json_decoder(event)
        self._state_decoder: msgspec.json.Decoder[S] = json_decoder(state)
        self._initial = initial
        self._fold = fold
        self._partitions = partitions
        self._opening = asyncio.Lock()
        self._opened = False
        self._aggregates: dict[str, Aggregate[S]] = {}
        self._changed: dict[int, set[str]] = {}
        """Aggregates without a snapshot of their latest state, by partition."""
        self._commands: OrderedDict[str, int] = OrderedDict()
        """The commands whose events were accepted, and the version after them."""
        self._followed = FollowedLog(client, name, codec=StoredEvent, tell=self._learn)

    async def open(self) -> None:
        """Create the topics where there are none, and read the snapshots. Everything calls it."""
        async with self._opening:
            if self._opened:
                return
            topic = await self._client.create_topic(
                self.topic.name,
                partitions=self._partitions,
                exist_ok=True,
                configs={"retention.ms": "-1", "cleanup.policy": "delete"},
            )
            await self._client.create_topic(
                self.snapshots.name,
                partitions=1,
                exist_ok=True,
                configs={"cleanup.policy": "compact"},
            )
            self._partitions = len(topic.partitions)
            await self._read_snapshots()
            self._opened = True

    async def _read_snapshots(self) -> None:
        latest: dict[str, Snapshot] = {}
        async for record in self._client.read(self.snapshots.name, codec=Snapshot):
            if not record.is_tombstone and record.key is not None:
                latest[record.key.decode()] = record.body
        for key, snapshot in latest.items():
            if key.startswith(_CHECKPOINT):
                partition = int(key.removeprefix(_CHECKPOINT))
                self._followed.positions.setdefault(partition, snapshot.offset)
            else:
                name = key.removeprefix(_STATE)
                state = self._state_decoder.decode(snapshot.state)
                self._aggregates[name] = Aggregate(name, snapshot.version, state)

    async def load(self, aggregate_id: str) -> Aggregate[S]:
        """The aggregate with everything that was appended before this call."""
        await self.open()
        await self._followed.catch_up(self._partition(aggregate_id))
        return self._known(aggregate_id)

    async def append(
        self,
        aggregate_id: str,
        events: Sequence[E],
        *,
        expected_version: int,
        command_id: str | None = None,
    ) -> Aggregate[S]:
        """Append events to an aggregate of this version; `VersionConflict` if it has another.

        With a `command_id` the same call may be made again: events that counted are not appended
        twice, and it returns the aggregate. Commands are remembered up to a bound, and not across
        snapshots; one that was forgotten is a `VersionConflict` and no harm."""
        if not events or len(events) > EVENTS_PER_APPEND_MAX:
            raise InvalidRequest(f"append takes 1 to {EVENTS_PER_APPEND_MAX} events")
        command = command_id or uuid.uuid4().hex
        before = await self.load(aggregate_id)
        if command in self._commands:
            return before
        if before.version != expected_version:
            raise _conflict(aggregate_id, before.version, expected_version)
        stored = StoredEvent(
            aggregate=aggregate_id,
            number=expected_version + 1,
            command=command,
            events=tuple(msgspec.Raw(msgspec.json.encode(event)) for event in events),
        )
        partition = self._partition(aggregate_id)
        sent = await self.topic.send(stored, key=aggregate_id, partition=partition)
        await self._followed.catch_up(partition, past=sent.offset)
        after = self._known(aggregate_id)
        if command not in self._commands:
            raise _conflict(aggregate_id, after.version, expected_version)
        return after

    async def events(self, aggregate_id: str) -> list[E]:
        """The whole history of an aggregate, read from the log."""
        await self.open()
        history: list[E] = []
        async for record in self._client.read(
            self.topic.name, partitions=[self._partition(aggregate_id)], codec=StoredEvent
        ):
            stored = record.body
            if stored.aggregate == aggregate_id and stored.number == len(history) + 1:
                history += [self._decoder.decode(raw) for raw in stored.events]
        return history

    async def take_snapshots(self) -> int:
        """Write the states that have changed since the last time; how many there were."""
        await self.open()
        written = 0
        for partition in range(self._partitions):
            await self._followed.catch_up(partition)
            position = self._followed.positions.get(partition, 0)
            changed = self._changed.pop(partition, set())
            if not changed:
                continue
            states = [self._aggregates[aggregate_id] for aggregate_id in sorted(changed)]
            await self.snapshots.send_many([_snapshot(aggregate) for aggregate in states])
            # After the states: a checkpoint promises that they are there.
            await self.snapshots.send(Snapshot(offset=position), key=f"{_CHECKPOINT}{partition}")
            written += len(states)
        return written

    def _learn(self, record: Record[StoredEvent]) -> None:
        stored = record.body
        known = self._known(stored.aggregate)
        if stored.number != known.version + 1:
            return
        if known.version == 0 and len(self._aggregates) >= AGGREGATES_MAX:
            raise Overloaded(f"{self.topic.name} has more than {AGGREGATES_MAX} aggregates")
        state = known.state
        for raw in stored.events:
            state = self._fold(state, self._decoder.decode(raw))
        version = known.version + len(stored.events)
        self._aggregates[stored.aggregate] = Aggregate(stored.aggregate, version, state)
        self._changed.setdefault(record.partition, set()).add(stored.aggregate)
        self._commands[stored.command] = version
        if len(self._commands) > COMMANDS_REMEMBERED_MAX:
            self._commands.popitem(last=False)

    def _known(self, aggregate_id: str) -> Aggregate[S]:
        known = self._aggregates.get(aggregate_id)
        return known or Aggregate(aggregate_id, 0, self._initial())

    def _partition(self, aggregate_id: str) -> int:
        return zlib.crc32(aggregate_id.encode()) % self._partitions


def _snapshot(aggregate: Aggregate[S]) -> Outgoing[Snapshot]:
    state = msgspec.Raw(msgspec.json.encode(aggregate.state))
    return Outgoing(Snapshot(version=aggregate.version, state=state), key=f"{_STATE}{aggregate.id}")


def _conflict(aggregate_id: str, version: int, expected: int) -> VersionConflict:
    return VersionConflict(
        f"{aggregate_id} has version {version} and not {expected}: load it again and decide anew"
    )
