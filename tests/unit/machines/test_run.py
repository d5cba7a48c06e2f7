"""`machines.run`: neighbours that are alike, and where they are cut."""

import msgspec
import pytest

from penstock.core.types import Offset
from penstock.machines.run import Run, State


def test_a_run_ends_after_its_last_message() -> None:
    assert Run(Offset(5), 3, State.READY).end == 8


def test_a_split_keeps_the_front_and_everything_it_knows() -> None:
    run = Run(
        Offset(5),
        10,
        State.LEASED,
        900,
        2,
        7,
        100,
        level=8,
        message_group=b"g",
        expire_ms=99,
        reason="why",
    )
    rest = run.split_off(Offset(8))
    assert (run.first, run.end) == (5, 8)
    assert (rest.first, rest.end) == (8, 15)
    assert msgspec.structs.replace(rest, first=run.first, length=run.length) == run


@pytest.mark.parametrize("at", [4, 5, 8, 9])
def test_a_split_must_be_inside(at: int) -> None:
    with pytest.raises(AssertionError, match="is not inside"):
        Run(Offset(5), 3, State.READY).split_off(Offset(at))


def test_states_have_the_numbers_that_are_in_snapshots() -> None:
    assert [(state.name, state.value) for state in State] == [
        ("READY", 1),
        ("LEASED", 2),
        ("DELAYED", 3),
        ("DEAD", 4),
    ]


def test_a_run_describes_what_differs_from_a_new_message() -> None:
    assert Run(Offset(5), 1, State.READY).describe() == "5 ready"
    run = Run(
        Offset(5),
        3,
        State.LEASED,
        900,
        2,
        7,
        100,
        level=8,
        message_group=b"g",
        expire_ms=99,
        reason="why",
    )
    assert run.describe() == (
        "5-7 leased until 900 epoch 7 deliveries 2 priority 8 group g expires 99 (why)"
    )
