"""`machines.group_commands`: what is in the log stays readable, and nothing is half understood."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import UnsupportedVersion
from penstock.machines.group_commands import (
    CompleteJoin,
    DeleteGroup,
    DropOffsets,
    ExpireOffsets,
    ForgetTopics,
    GroupCommand,
    RemoveMembers,
    UseGroupsVersion,
    decode_group_command,
    encode_group_command,
)
from tests.groups import BILLS, ORDERS, RANGE, assign, expire, join, store

ON_DISK: list[tuple[GroupCommand, list[object]]] = [
    (
        join("a", instance="one", new=True),
        [
            "join_member", 9, "g", "a", "one", "client", "/host", 10_000, 60_000, "consumer",
            [list(RANGE[0])], True, 100,
        ],
    ),
    (CompleteJoin(group="g", rebalance=4), ["complete_join", 9, "g", 4]),
    (
        assign("a", 3, {"b": b"x"}),
        ["assign_members", 9, "g", "a", None, 3, None, None, [["b", b"x"]]],
    ),
    (
        RemoveMembers(group="g", members=(("a", None), ("", "one"))),
        ["remove_members", 9, "g", [["a", None], ["", "one"]]],
    ),
    (expire("a", "b", generation=3), ["expire_members", 9, "g", 3, ["a", "b"]]),
    (
        store(70, member="a", generation=3),
        ["store_offsets", 9, "g", "a", None, 3, [[ORDERS, 0, 70, 5, "note"]]],
    ),
    (
        DropOffsets(group="g", offsets=((BILLS, 2, "bills"),)),
        ["drop_offsets", 9, "g", [[BILLS, 2, "bills"]]],
    ),
    (ExpireOffsets(before_ms=5, groups=("g",)), ["expire_offsets", 9, 5, ["g"]]),
    (ForgetTopics(topics=(ORDERS,)), ["forget_topics", 9, [ORDERS]]),
    (DeleteGroup(group="g"), ["delete_group", 9, "g"]),
    (UseGroupsVersion(version=2), ["use_groups_version", 9, 2]),
]  # fmt: skip


@pytest.mark.parametrize(("command", "fields"), ON_DISK, ids=lambda value: type(value).__name__)
def test_the_encoding_never_changes(command: GroupCommand, fields: list[object]) -> None:
    payload = encode_group_command(command, stamp_ms=9)
    assert payload == msgspec.msgpack.encode(fields)
    assert decode_group_command(payload) == msgspec.structs.replace(command, stamp_ms=9)


def test_every_command_is_in_the_table() -> None:
    assert {type(command) for command, _ in ON_DISK} == set(get_args(GroupCommand))


@pytest.mark.parametrize(
    "fields",
    [
        [],
        ["paint_group", 9, "g"],
        ["delete_group", 9],
        ["delete_group", 9, "g", "and a field of the future"],
        ["delete_group", 9, 3],
        {"type": "delete_group"},
    ],
)
def test_a_command_of_a_later_build_stops_the_node(fields: object) -> None:
    with pytest.raises(UnsupportedVersion, match="later version of Penstock wrote it"):
        decode_group_command(msgspec.msgpack.encode(fields))


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_noise_is_refused(noise: bytes) -> None:
    try:
        command = decode_group_command(noise)
    except UnsupportedVersion:
        return
    assert encode_group_command(command, stamp_ms=command.stamp_ms)
