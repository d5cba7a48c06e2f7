"""The skeleton that machines which decide in `apply` share: snapshots of 0.1.0 stay readable."""

import msgspec
import pytest

from penstock.core.errors import UnsupportedVersion
from penstock.core.types import Offset
from penstock.machines.catalog import Catalog
from penstock.machines.command_machine import CommandMachine
from penstock.machines.commands import UseVersion, encode_command
from penstock.machines.group_commands import UseGroupsVersion, encode_group_command
from penstock.machines.groups import Groups
from penstock.machines.moves import Moves
from penstock.machines.publications import Publications
from penstock.machines.queues import Queues

EMPTY_SNAPSHOTS: list[tuple[CommandMachine, list[object]]] = [  # type: ignore[type-arg]
    (Groups(), [1, 0, {}]),
    (Moves(), [1, 0, []]),
    (Publications(), [1, 0, []]),
    (Queues(lambda _: (Offset(0), Offset(0))), [1, 0, [], 0]),
    (Catalog(), [1, 0, 0, 0, 1, [], 0, [], [], [], [], []]),
]


@pytest.mark.parametrize(
    ("machine", "layout"), EMPTY_SNAPSHOTS, ids=[machine.name for machine, _ in EMPTY_SNAPSHOTS]
)
def test_the_layout_of_a_snapshot_is_that_of_the_first_release(
    machine: CommandMachine,  # type: ignore[type-arg]
    layout: list[object],
) -> None:
    assert msgspec.msgpack.decode(machine.snapshot()) == layout
    machine.restore(msgspec.msgpack.encode([1, 17, *layout[2:]]))
    assert (machine.version, machine.time_ms) == (1, 17)
    with pytest.raises(UnsupportedVersion, match=f"version 9 of {machine.name}.*later version"):
        machine.restore(msgspec.msgpack.encode([9, 17, *layout[2:]]))
    assert machine.time_ms == 17
    assert machine.log_starts() == {}


def test_version_commands_are_written_as_in_the_first_release() -> None:
    written = encode_group_command(UseGroupsVersion(version=2), stamp_ms=5)
    assert msgspec.msgpack.decode(written) == ["use_groups_version", 5, 2]
    written = encode_command(UseVersion(version=2), stamp_ms=5)
    assert msgspec.msgpack.decode(written) == ["use_version", 5, 2]
