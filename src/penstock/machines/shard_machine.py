"""The machine of one shard: partitions, queues, groups, moves, publications and the catalog.

Machines that know nothing of each other share one log. An APPEND is for the partitions; a command
is for the machine whose list of commands has its tag. Every shard has all of them: in data shards
the catalog stays empty, in the catalog's shard the others do. That is simpler than kinds of shards,
and costs some hundred bytes.

Only the queues look at another machine, the partitions: how far each reaches, and what is appended,
trimmed or deleted there. They are updated in the same step, so both always show one state.

Each machine keeps a log time of its own, from the entries that are its.
"""

from collections.abc import Generator, Iterator, Mapping
from typing import get_args

import msgspec
from msgspec.structs import replace

from penstock.core.decoders import decode_msgpack
from penstock.core.entries import Entry, EntryKind
from penstock.core.errors import UnsupportedVersion
from penstock.core.limits import SNAPSHOT_SECTION_BYTES_MAX
from penstock.core.types import Offset, PartitionId, Term
from penstock.machines.catalog import Catalog
from penstock.machines.catalog_commands import CatalogCommand
from penstock.machines.commands import Command
from penstock.machines.group_commands import GroupCommand
from penstock.machines.groups import Groups, GroupsSettings
from penstock.machines.machine import Append, Applied, Machine, Plan, Request
from penstock.machines.move_commands import MoveCommand
from penstock.machines.moves import Moves
from penstock.machines.partitions import (
    AppendBatch,
    Bounds,
    PartitionDeleted,
    Partitions,
    PartitionsSettings,
    PartitionTrimmed,
)
from penstock.machines.publication_commands import PublicationCommand
from penstock.machines.publications import Publications
from penstock.machines.queue_commands import QueueCommand
from penstock.machines.queues import Queues
from penstock.machines.state_bytes import DEFAULT_BUDGET, StateBudget, StateKind
from penstock.machines.state_pieces import (
    Buffer,
    Patch,
    Piece,
    Restoring,
    array_header,
    encoded,
    finished,
    joined,
    wide_array_header,
    wide_bin_header,
)

_TAG_BYTES_MAX = 31
_NOTHING = msgspec.msgpack.encode([1, 0, []])
"""What a snapshot of before there were queues, moves or publications stands for."""


class _Snapshot(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    partitions: memoryview
    groups: memoryview
    catalog: memoryview
    queues: memoryview = memoryview(b"")
    moves: memoryview = memoryview(b"")
    publications: memoryview = memoryview(b"")
    more: list[tuple[int, memoryview]] = []
    """The rest of a machine that takes more than `SNAPSHOT_SECTION_BYTES_MAX`: its number here, and
    what follows."""


class ShardMachine:
    """Implements `Machine` by handing on."""

    __slots__ = (
        "_by_request",
        "_by_tag",
        "budget",
        "catalog",
        "groups",
        "moves",
        "partitions",
        "publications",
        "queues",
    )

    def __init__(self, budget: StateBudget = DEFAULT_BUDGET) -> None:
        self.budget = budget
        self.partitions = Partitions(PartitionsSettings(budget=budget))
        self.groups = Groups(GroupsSettings(budget=budget))
        self.catalog = Catalog(budget)
        self.queues = Queues(self.partitions.bounds, budget)
        self.moves = Moves(budget=budget)
        self.publications = Publications(budget)
        owners: list[tuple[Machine, object]] = [
            (self.partitions, Command),
            (self.groups, GroupCommand),
            (self.catalog, CatalogCommand),
            (self.queues, QueueCommand),
            (self.moves, MoveCommand),
            (self.publications, PublicationCommand),
        ]
        self._by_request: dict[type, Machine] = {AppendBatch: self.partitions}
        self._by_tag: dict[str, Machine] = {}
        for machine, commands in owners:
            for command in get_args(commands):
                self._by_request[command] = machine
                tag = command.__struct_config__.tag
                assert tag not in self._by_tag, f"two machines have a command {tag}"
                self._by_tag[tag] = machine

    @property
    def version(self) -> int:
        return self.partitions.version

    @property
    def time_ms(self) -> int:
        return max(machine.time_ms for machine in self._machines())

    def _machines(self) -> tuple[Machine, ...]:
        return (
            self.partitions,
            self.groups,
            self.catalog,
            self.queues,
            self.moves,
            self.publications,
        )

    def bounds(self, partition: PartitionId) -> Bounds:
        """Log start and high watermark."""
        return self.partitions.bounds(partition)

    def log_starts(self) -> Mapping[PartitionId, Offset]:
        return self.partitions.log_starts()

    def plan(self, request: Request, *, now_ms: int, term: Term) -> Plan:
        if type(request) is AppendBatch:
            is_read = self.queues.check_append(request.partition)
            plan = self.partitions.plan(request, now_ms=now_ms, term=term)
            if is_read and isinstance(plan, Append):
                return replace(plan, apply_us=self.queues.apply_us(plan))
            return plan
        return self._by_request[type(request)].plan(request, now_ms=now_ms, term=term)

    def forget_plans(self) -> None:
        for machine in self._machines():
            machine.forget_plans()

    def apply(self, entry: Entry) -> Applied:
        if entry.kind is not EntryKind.COMMAND:
            applied = self.partitions.apply(entry)
            if entry.kind is EntryKind.APPEND:
                self.queues.note_append(entry.payload)
            return applied
        machine = self._by_tag.get(command_tag(entry.payload))
        if machine is None:
            raise UnsupportedVersion(
                f"entry {entry.describe()} holds a command this build does not know; a later"
                " version of Penstock wrote it: start this node with that version or a newer one"
            )
        applied = machine.apply(entry)
        if machine is self.partitions:
            self._tell_queues(applied)
        return applied

    def _tell_queues(self, applied: Applied) -> None:
        for reply in applied.replies:
            if isinstance(reply, PartitionTrimmed):
                self.queues.note_trim(reply.partition, reply.log_start)
            elif isinstance(reply, PartitionDeleted):
                self.queues.forget_partition(reply.partition)

    def state_bytes(self) -> dict[StateKind, int]:
        found: dict[StateKind, int] = {}
        for machine in self._machines():
            found |= machine.state_bytes()
        return found

    def snapshot(self) -> bytes:
        return joined(self.snapshot_pieces())

    def snapshot_pieces(self) -> Iterator[Piece]:
        # All of them fix their moment here, before anything is encoded.
        return self._pieces([machine.snapshot_pieces() for machine in self._machines()])

    def _pieces(self, machines: list[Iterator[Piece]]) -> Iterator[Piece]:
        """An array of what each machine holds, as binary data. Binary data ends at 4 GiB, so the
        rest of a larger machine follows behind all of them, in a field of its own that no release
        before 0.2.0 reads; none could hold as much."""
        yield array_header(len(machines))
        end, unfinished = 1, []
        for number, pieces in enumerate(machines):
            end, is_whole = yield from _section(pieces, end)
            if not is_whole:
                unfinished.append(number)
        if not unfinished:
            return
        yield Patch(0, array_header(len(machines) + 1))
        count, more = 0, end
        yield wide_array_header(count)
        end += len(wide_array_header(count))
        for number in unfinished:
            is_whole = False
            while not is_whole:
                head = array_header(2) + encoded(number)
                yield head
                end, is_whole = yield from _section(machines[number], end + len(head))
                count += 1
        yield Patch(more, wide_array_header(count))

    def restore(self, data: Buffer) -> None:
        finished(self.restoring(data))()

    def restoring(self, data: Buffer) -> Restoring:
        try:
            state = decode_msgpack(data, _Snapshot)
        except msgspec.DecodeError as error:
            raise UnsupportedVersion(
                f"this is no snapshot of a shard that this build can read ({error}); start this"
                " node with the version of Penstock that wrote it or a newer one"
            ) from error
        sections: list[Buffer] = [
            state.partitions,
            state.groups,
            state.catalog,
            state.queues or _NOTHING,
            state.moves or _NOTHING,
            state.publications or _NOTHING,
        ]
        for number, more in state.more:
            sections[number] = b"".join((sections[number], more))
        replaced = []
        for machine, section in zip(self._machines(), sections, strict=True):
            replaced.append((yield from machine.restoring(section)))

        def replace() -> None:
            for one in replaced:
                one()

        return replace


def _section(pieces: Iterator[Piece], start: int) -> Generator[Piece, None, tuple[int, bool]]:
    """Binary data from a position on; where it ends, and whether it is all there is."""
    yield wide_bin_header(0)
    length, is_whole = 0, True
    for piece in pieces:
        assert isinstance(piece, bytes), "a section in a section"
        yield piece
        length += len(piece)
        if length >= SNAPSHOT_SECTION_BYTES_MAX:
            is_whole = False
            break
    yield Patch(start, wide_bin_header(length))
    return start + len(wide_bin_header(length)) + length, is_whole


def command_tag(payload: bytes) -> str:
    """The tag of an encoded command: the short string at the head of a short array."""
    if len(payload) < 2 or payload[0] & 0xF0 != 0x90:
        return ""
    length = payload[1] & 0x1F if payload[1] & 0xE0 == 0xA0 else 0
    assert length <= _TAG_BYTES_MAX, "a short string has at most 31 bytes"
    return payload[2 : 2 + length].decode("ascii", "replace")
