"""The machine of one shard: partitions, consumer groups and the catalog, side by side.

Three machines that know nothing of each other share one log. An APPEND is for the partitions; a
command is for the machine whose list of commands has its tag. Every shard has all three: in data
shards the catalog stays empty, in the catalog's shard the other two do. That is simpler than kinds
of shards, and costs some hundred bytes.

Each machine keeps a log time of its own, from the entries that are its.
"""

from collections.abc import Mapping
from typing import get_args

import msgspec

from penstock.core.entries import Entry, EntryKind
from penstock.core.errors import UnsupportedVersion
from penstock.core.types import Offset, PartitionId, Term
from penstock.machines.catalog import Catalog
from penstock.machines.catalog_commands import CatalogCommand
from penstock.machines.commands import Command
from penstock.machines.group_commands import GroupCommand
from penstock.machines.groups import Groups
from penstock.machines.machine import Applied, Machine, Plan, Request
from penstock.machines.partitions import AppendBatch, Bounds, Partitions

_TAG_BYTES_MAX = 31


class _Snapshot(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    partitions: bytes
    groups: bytes
    catalog: bytes


class ShardMachine:
    """Implements `Machine` by handing on."""

    __slots__ = ("_by_request", "_by_tag", "catalog", "groups", "partitions")

    def __init__(self) -> None:
        self.partitions = Partitions()
        self.groups = Groups()
        self.catalog = Catalog()
        owners: list[tuple[Machine, object]] = [
            (self.partitions, Command),
            (self.groups, GroupCommand),
            (self.catalog, CatalogCommand),
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
        return max(self.partitions.time_ms, self.groups.time_ms, self.catalog.time_ms)

    def bounds(self, partition: PartitionId) -> Bounds:
        """Log start and high watermark."""
        return self.partitions.bounds(partition)

    def log_starts(self) -> Mapping[PartitionId, Offset]:
        return self.partitions.log_starts()

    def plan(self, request: Request, *, now_ms: int, term: Term) -> Plan:
        return self._by_request[type(request)].plan(request, now_ms=now_ms, term=term)

    def forget_plans(self) -> None:
        for machine in (self.partitions, self.groups, self.catalog):
            machine.forget_plans()

    def apply(self, entry: Entry) -> Applied:
        if entry.kind is not EntryKind.COMMAND:
            return self.partitions.apply(entry)
        machine = self._by_tag.get(command_tag(entry.payload))
        if machine is None:
            raise UnsupportedVersion(
                f"entry {entry.describe()} holds a command this build does not know; a later"
                " version of Penstock wrote it: start this node with that version or a newer one"
            )
        return machine.apply(entry)

    def snapshot(self) -> bytes:
        parts = (self.partitions.snapshot(), self.groups.snapshot(), self.catalog.snapshot())
        return msgspec.msgpack.encode(_Snapshot(*parts))

    def restore(self, data: bytes) -> None:
        try:
            state = msgspec.msgpack.decode(data, type=_Snapshot)
        except msgspec.DecodeError as error:
            raise UnsupportedVersion(
                f"this is no snapshot of a shard that this build can read ({error}); start this"
                " node with the version of Penstock that wrote it or a newer one"
            ) from error
        self.partitions.restore(state.partitions)
        self.groups.restore(state.groups)
        self.catalog.restore(state.catalog)


def command_tag(payload: bytes) -> str:
    """The tag of an encoded command: the short string at the head of a short array."""
    if len(payload) < 2 or payload[0] & 0xF0 != 0x90:
        return ""
    length = payload[1] & 0x1F if payload[1] & 0xE0 == 0xA0 else 0
    assert length <= _TAG_BYTES_MAX, "a short string has at most 31 bytes"
    return payload[2 : 2 + length].decode("ascii", "replace")
