"""`core.entries`: numbers that are on disk, and how entries show themselves."""

import msgspec
import pytest

from penstock.core.entries import (
    Entry,
    EntryKind,
    HardState,
    Membership,
    SnapshotMark,
    decode_membership,
    encode_membership,
)
from penstock.core.types import NO_INDEX, NO_NODE, NO_TERM, Index, NodeId, Term


def test_kinds_are_on_disk_and_keep_their_numbers() -> None:
    numbers = {kind.name: kind.value for kind in EntryKind}
    assert numbers == {"NOOP": 1, "MEMBERSHIP": 2, "COMMAND": 3, "APPEND": 4}


def test_an_entry_is_immutable() -> None:
    entry = Entry(Index(7), Term(3), EntryKind.APPEND, bytes(120))
    assert entry.describe() == "7/3 APPEND 120 B"
    with pytest.raises(AttributeError):
        entry.index = Index(8)  # type: ignore[misc]


def test_an_entry_survives_the_wire() -> None:
    entry = Entry(Index(7), Term(3), EntryKind.COMMAND, b"payload")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(entry), type=Entry) == entry


@pytest.mark.parametrize(
    ("voters", "learners", "text"),
    [
        ((), (), "voters none"),
        ((1,), (), "voters 1"),
        ((1, 2, 3), (4, 5), "voters 1 2 3 learners 4 5"),
    ],
)
def test_membership(voters: tuple[int, ...], learners: tuple[int, ...], text: str) -> None:
    membership = Membership(tuple(map(NodeId, voters)), tuple(map(NodeId, learners)))
    assert membership.describe() == text
    assert membership.everyone() == voters + learners
    assert decode_membership(encode_membership(membership)) == membership


def test_a_new_node_has_promised_nothing() -> None:
    assert HardState() == HardState(term=NO_TERM, vote=NO_NODE)
    assert SnapshotMark() == SnapshotMark(NO_INDEX, NO_TERM, Membership())
