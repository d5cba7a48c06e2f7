"""`machines.move_commands`: what is in the log stays readable, and nothing is half understood."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import InvalidRequest, UnsupportedVersion
from penstock.core.limits import MOVE_COMMAND_BYTES_MAX
from penstock.core.move_filter import MoveFilter
from penstock.core.types import Offset, TopicId
from penstock.machines.move_commands import (
    CancelMove,
    EndMove,
    ForgetMoves,
    MoveCommand,
    ProgressMove,
    StartMove,
    UseMovesVersion,
    decode_move_command,
    encode_move_command,
)

LETTERS = TopicId(b"letters".ljust(16, b"."))
ORDERS = TopicId(b"orders".ljust(16, b"."))
FILTER = MoveFilter(
    "reason", "topic", "group", 1, 2, ("id",), ((3, Offset(4)),), "key", "header", "value", "body"
)
START = StartMove(
    move_id="m",
    source=LETTERS,
    destination=ORDERS,
    rate=500,
    filter=FILTER,
    ends=(Offset(70), Offset(80)),
    to_move=9,
)

ON_DISK: list[tuple[MoveCommand, list[object]]] = [
    (
        START,
        [
            "start_move", 9, "m", LETTERS, ORDERS, 500,
            ["reason", "topic", "group", 1, 2, ["id"], [[3, 4]], "key", "header", "value", "body"],
            [70, 80], 9,
        ],
    ),
    (
        ProgressMove(source=LETTERS, move_id="m", moved=3, failed=1, positions=(Offset(7),)),
        ["progress_move", 9, LETTERS, "m", 3, 1, [7]],
    ),
    (CancelMove(source=LETTERS, move_id="m"), ["cancel_move", 9, LETTERS, "m"]),
    (EndMove(source=LETTERS, move_id="m", failure="no"), ["end_move", 9, LETTERS, "m", "no"]),
    (ForgetMoves(sources=(LETTERS,)), ["forget_moves", 9, [LETTERS]]),
    (UseMovesVersion(version=2), ["use_moves_version", 9, 2]),
]  # fmt: skip


@pytest.mark.parametrize(("command", "fields"), ON_DISK, ids=lambda value: type(value).__name__)
def test_the_encoding_never_changes(command: MoveCommand, fields: list[object]) -> None:
    payload = encode_move_command(command, stamp_ms=9)
    assert payload == msgspec.msgpack.encode(fields)
    assert decode_move_command(payload) == msgspec.structs.replace(command, stamp_ms=9)


def test_every_command_is_in_the_table() -> None:
    assert {type(command) for command, _ in ON_DISK} == set(get_args(MoveCommand))


@pytest.mark.parametrize(
    "fields",
    [
        [],
        ["paint_move", 9, LETTERS],
        ["cancel_move", 9, LETTERS],
        ["cancel_move", 9, LETTERS, "m", "and a field of the future"],
        ["cancel_move", 9, LETTERS, 3],
        {"type": "cancel_move"},
    ],
)
def test_a_command_of_a_later_build_stops_the_node(fields: object) -> None:
    with pytest.raises(UnsupportedVersion, match="later version of Penstock wrote it"):
        decode_move_command(msgspec.msgpack.encode(fields))


def test_what_cannot_be_written_is_refused() -> None:
    huge = msgspec.structs.replace(START, filter=MoveFilter(ids=("x" * MOVE_COMMAND_BYTES_MAX,)))
    with pytest.raises(InvalidRequest, match="ask for less at once"):
        encode_move_command(huge, stamp_ms=9)
    odd = msgspec.structs.replace(START, filter=MoveFilter(body="\ud800"))
    with pytest.raises(InvalidRequest, match="cannot be written"):
        encode_move_command(odd, stamp_ms=9)
    far = msgspec.structs.replace(START, to_move=1 << 70)
    with pytest.raises(InvalidRequest, match="cannot be written"):
        encode_move_command(far, stamp_ms=9)


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_noise_is_refused(noise: bytes) -> None:
    try:
        command = decode_move_command(noise)
    except UnsupportedVersion:
        return
    assert encode_move_command(command, stamp_ms=command.stamp_ms)
