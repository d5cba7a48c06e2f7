"""`machines.machine`: the protocol, and the small things that plans can say of themselves."""

from penstock.core.errors import PenstockError, TopicExists, Unavailable
from penstock.core.types import Offset, PartitionId
from penstock.machines import (
    Append,
    Appended,
    Applied,
    Catalog,
    Machine,
    Partitions,
    Refused,
    refusal,
    refusal_error,
)


def test_partitions_are_a_machine() -> None:
    machine: Machine = Partitions()
    assert (machine.version, machine.time_ms) == (1, 0)


def test_the_catalog_is_a_machine() -> None:
    machine: Machine = Catalog()
    assert (machine.version, machine.time_ms, machine.log_starts()) == (1, 0, {})


def test_an_append_knows_its_answer() -> None:
    plan = Append(PartitionId(3), Offset(10), 5, 1_000, bytearray(b"batch"), 1_700)
    assert plan.end_offset == 15
    assert plan.reply == Appended(PartitionId(3), Offset(10), Offset(15))


def test_nothing_came_of_it() -> None:
    assert Applied() == Applied(replies=(), effects=())


def test_a_refusal_carries_an_error() -> None:
    refused = refusal(TopicExists("topic a exists already"))
    assert refused == Refused("TopicExists", "topic a exists already")
    error = refusal_error(refused)
    assert type(error) is TopicExists
    assert str(error) == "topic a exists already"


def test_a_refusal_to_try_again_says_when() -> None:
    error = refusal_error(refusal(Unavailable("not yet")))
    assert isinstance(error, Unavailable)
    assert error.retry_after_ms > 0


def test_a_refusal_of_a_later_build_is_still_an_error() -> None:
    assert type(refusal_error(Refused("QuotaViolated", "no"))) is PenstockError
