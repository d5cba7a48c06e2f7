"""Consumer groups dropped from the log of a stopped node: the way out when a group has grown so
large that the node cannot be used.

What a command would do is written as commands, behind everything that is in the log: members leave,
then the group is deleted. The node applies them when it starts. Only for a shard with one replica:
elsewhere the others would not have these entries, and a running cluster deletes groups by itself
(`penstock group delete`).
"""

import math
from collections.abc import Sequence

import msgspec

from penstock.core.entries import Entry, EntryKind, HardState
from penstock.core.errors import DirectoryRefused, UnknownGroup
from penstock.core.types import NO_NODE, Index, Term
from penstock.machines.group import Group
from penstock.machines.group_commands import DeleteGroup, RemoveMembers
from penstock.machines.machine import Propose, Request
from penstock.machines.shard_machine import ShardMachine
from penstock.storage import Disk, LogSettings, ShardLog, run
from penstock.storage.repair import directory_identity

_READ_BYTES = 8 << 20


class DroppedGroup(msgspec.Struct, frozen=True):
    """A group that is deleted when the node starts."""

    group: str
    size_bytes: int
    members: int
    offsets: int


def drop_groups(
    disk: Disk, directory: str, *, names: Sequence[str] = (), larger_than_bytes: int | None = None
) -> list[DroppedGroup]:
    """Drop these groups, and those that are larger; raises if the node runs or one is unknown."""
    log = ShardLog.open(
        disk,
        directory,
        identity=directory_identity(disk, directory),
        settings=LogSettings(ballast_bytes=0),
        solo=True,
    )
    try:
        _check_alone(log)
        machine = _replayed(log)
        chosen = _choose(machine, names, larger_than_bytes)
        dropped = [
            DroppedGroup(
                one.name, one.size_bytes, len(one.members), sum(map(len, one.offsets.values()))
            )
            for one in chosen
        ]
        _write(log, machine, [one.name for one in chosen])
        return dropped
    finally:
        log.close()


def _check_alone(log: ShardLog) -> None:
    found = [log.snapshot.membership, *(membership for _, membership in log.memberships())]
    others = [node for one in found for node in one.everyone() if node != log.identity.node]
    if others:
        raise DirectoryRefused(
            f"{log.directory} is one of several replicas (node {min(others)} has one, too): start"
            " the node, and delete the group with `penstock group delete`"
        )


def _replayed(log: ShardLog) -> ShardMachine:
    machine = ShardMachine()
    mark, state = log.load_snapshot()
    if mark.index:
        machine.restore(state)
    applied = mark.index
    while applied < log.last_index:
        for entry in log.entries(Index(applied + 1), Index(log.last_index + 1), _READ_BYTES):
            machine.apply(entry)
            applied = entry.index
    return machine


def _choose(
    machine: ShardMachine, names: Sequence[str], larger_than_bytes: int | None
) -> list[Group]:
    groups = machine.groups.groups
    unknown = [name for name in names if name not in groups]
    if unknown:
        raise UnknownGroup(f"this shard has no group {', '.join(unknown)}; it may be in another")
    bound = math.inf if larger_than_bytes is None else larger_than_bytes
    return [one for one in groups.values() if one.name in names or one.size_bytes > bound]


def _write(log: ShardLog, machine: ShardMachine, names: list[str]) -> None:
    term = Term(log.hard_state.term + 1)
    entries: list[Entry] = []

    def add(request: Request) -> None:
        plan = machine.plan(request, now_ms=machine.time_ms, term=term)
        assert isinstance(plan, Propose), f"{request} is not written"
        index = Index(log.last_index + len(entries) + 1)
        entry = Entry(index, term, EntryKind.COMMAND, plan.payload)
        machine.apply(entry)
        entries.append(entry)

    for name in names:
        members = tuple((member, None) for member in machine.groups.groups[name].members)
        if members:
            add(RemoveMembers(group=name, members=members))
        add(DeleteGroup(group=name))
        assert machine.groups.get(name) is None, f"group {name} is still there"
    if entries:
        log.stage(hard_state=HardState(term, NO_NODE), entries=entries)
        job = log.take_job()
        assert job is not None, "entries were staged"
        run(job)
        log.complete(job)
