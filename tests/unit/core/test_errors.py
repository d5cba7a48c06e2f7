"""`core.errors`: the tree in its docstring is the one in its code; every leaf has its codes."""

import inspect
import re

import pytest

from penstock.core import errors
from penstock.core.errors import (
    DamagedFile,
    MemberIdRequired,
    NotLeader,
    Overloaded,
    PenstockError,
    StorageError,
    error_named,
)
from penstock.core.types import NO_NODE, NodeId

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, PenstockError)
]


def drawn_tree() -> dict[str, str]:
    """Each class of the docstring's drawing with the class it hangs from."""
    drawing = re.findall(r"^ {4}([│├└─ ]*)([A-Z]\w+)", errors.__doc__ or "", re.MULTILINE)
    parents: dict[str, str] = {}
    path: list[str] = []
    for indent, name in drawing:
        depth = len(indent) // 4
        path[depth:] = [name]
        if depth:
            parents[name] = path[depth - 1]
    return parents


def test_the_drawing_is_the_code() -> None:
    in_code = {one.__name__: one.__mro__[1].__name__ for one in CLASSES if one is not PenstockError}
    assert drawn_tree() == in_code


@pytest.mark.parametrize("one", CLASSES, ids=lambda one: one.__name__)
def test_every_error_has_its_codes(one: type[PenstockError]) -> None:
    assert one.__doc__
    assert -1 <= one.kafka_code <= 200
    assert one.sqs_code
    assert 400 <= one.http_status < 600


def test_unavailable_says_when_to_try_again() -> None:
    assert Overloaded("too much").retry_after_ms > 0
    assert Overloaded("too much", retry_after_ms=7).retry_after_ms == 7


def test_not_leader_names_the_leader_if_known() -> None:
    assert NotLeader("node 2 leads", leader=NodeId(2)).leader == 2
    assert NotLeader("nobody leads").leader == NO_NODE


def test_damage_names_file_position_and_way_out() -> None:
    error = DamagedFile(path="a.log", position=44, problem="bad CRC", way_out="Restore it.")
    assert str(error) == "a.log is damaged at byte 44: bad CRC. Restore it."


def test_a_new_member_is_told_its_id() -> None:
    assert MemberIdRequired("join again", member_id="m-1").member_id == "m-1"


@pytest.mark.parametrize("one", CLASSES, ids=lambda one: one.__name__)
def test_an_error_that_came_by_name_is_made_of_a_message(one: type[PenstockError]) -> None:
    error = error_named(one.__name__)("what happened")
    assert type(error) is (StorageError if one is DamagedFile else one)
    assert str(error) == "what happened"


@pytest.mark.parametrize("name", ["", "Exception", "ErrorOfTheFuture"])
def test_a_name_that_is_not_known_is_an_error_all_the_same(name: str) -> None:
    assert error_named(name) is PenstockError
