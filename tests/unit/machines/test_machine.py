"""`machines.machine`: the protocol, and the small things that plans can say of themselves."""

from penstock.core.types import Offset, PartitionId
from penstock.machines import Append, Appended, Applied, Machine, Partitions


def test_partitions_are_a_machine() -> None:
    machine: Machine = Partitions()
    assert (machine.version, machine.time_ms) == (1, 0)


def test_an_append_knows_its_answer() -> None:
    plan = Append(PartitionId(3), Offset(10), 5, 1_000, bytearray(b"batch"), 1_700)
    assert plan.end_offset == 15
    assert plan.reply == Appended(PartitionId(3), Offset(10), Offset(15))


def test_nothing_came_of_it() -> None:
    assert Applied() == Applied(replies=(), effects=())
