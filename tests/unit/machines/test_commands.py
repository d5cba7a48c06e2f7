"""`machines.commands`: what is in the log stays readable, and nothing is half understood."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import UnsupportedVersion
from penstock.core.types import Offset, PartitionId
from penstock.machines.commands import (
    Command,
    CreatePartition,
    DeletePartition,
    ExpireProducers,
    TrimPartition,
    UseVersion,
    decode_command,
    encode_command,
)

ON_DISK: list[tuple[Command, list[object]]] = [
    (CreatePartition(partition=PartitionId(3)), ["create_partition", 9, 3]),
    (DeletePartition(partition=PartitionId(3)), ["delete_partition", 9, 3]),
    (TrimPartition(partition=PartitionId(3), before=Offset(7)), ["trim_partition", 9, 3, 7]),
    (ExpireProducers(before_ms=500), ["expire_producers", 9, 500]),
    (UseVersion(version=2), ["use_version", 9, 2]),
]


@pytest.mark.parametrize(("command", "fields"), ON_DISK)
def test_the_encoding_never_changes(command: Command, fields: list[object]) -> None:
    payload = encode_command(command, stamp_ms=9)
    assert payload == msgspec.msgpack.encode(fields)
    assert decode_command(payload) == msgspec.structs.replace(command, stamp_ms=9)


@pytest.mark.parametrize(
    "fields",
    [
        [],
        ["paint_partition", 9, 3],
        ["create_partition", 9],
        ["create_partition", 9, 3, "and a field of the future"],
        ["create_partition", 9, "three"],
        [1, 9, 3],
        {"type": "create_partition"},
    ],
)
def test_a_command_of_a_later_build_stops_the_node(fields: object) -> None:
    with pytest.raises(UnsupportedVersion, match="later version of Penstock wrote it"):
        decode_command(msgspec.msgpack.encode(fields))


@settings(derandomize=True, deadline=None, max_examples=300, database=None)
@given(st.binary(max_size=60))
def test_noise_is_refused(noise: bytes) -> None:
    try:
        command = decode_command(noise)
    except UnsupportedVersion:
        return
    assert encode_command(command, stamp_ms=command.stamp_ms)
