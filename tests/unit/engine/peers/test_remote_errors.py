"""Errors that cross from one node to another."""

import msgspec

from penstock.core import errors
from penstock.core.errors import NotLeader, PenstockError, Unavailable
from penstock.core.types import NodeId
from penstock.engine.peers.frames import Failure
from penstock.engine.peers.remote_errors import describe_error, remake_error

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, PenstockError)
]


def travel(failure: Failure) -> PenstockError:
    return remake_error(msgspec.msgpack.decode(msgspec.msgpack.encode(failure), type=Failure))


def test_every_error_arrives_as_what_it_was() -> None:
    for kind in KINDS:
        error = kind.__new__(kind, "a sentence")
        vars(error).update(number=7, text="t", flag=True)
        made = travel(describe_error(3, error))
        assert type(made) is kind
        assert str(made) == "a sentence"
        assert {"number": 7, "text": "t", "flag": True}.items() <= vars(made).items()


def test_an_error_of_a_later_version_arrives_as_the_nearest_known() -> None:
    failure = Failure(1, ("NotLeaderAnyMore", "NotLeader", "Unavailable"), "gone", {"leader": 3})
    made = travel(failure)
    assert type(made) is NotLeader
    assert made.leader == NodeId(3)
    assert type(travel(Failure(1, ("Strange",), "odd"))) is PenstockError
    assert type(travel(Failure(1, (), "odd"))) is PenstockError


def test_names_that_are_no_errors_and_attributes_that_are_none_mean_nothing() -> None:
    made = travel(Failure(1, ("NodeId", "NO_NODE", "Unavailable"), "x", {"__class__": 1, "a b": 2}))
    assert type(made) is Unavailable
    assert vars(made) == {"retry_after_ms": 100}


def test_a_long_sentence_is_cut() -> None:
    assert len(str(travel(describe_error(1, PenstockError("x" * 100_000))))) == 4096
