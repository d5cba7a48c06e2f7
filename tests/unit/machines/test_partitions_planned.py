"""`machines.partitions`: what a leader can ask about batches that are planned, not yet applied."""

import pytest

from penstock.core.errors import UnknownPartition
from penstock.core.records import check_batch
from penstock.core.types import PartitionId
from penstock.machines import DeletePartition
from tests.unit.machines.shard import Shard, append, produce

ONE, TWO = PartitionId(1), PartitionId(2)


def test_what_is_planned_can_be_asked_for() -> None:
    shard = Shard()
    shard.create(ONE, TWO)
    machine = shard.machine
    first, second = produce(0, count=3), produce(3)
    headers = [check_batch(one.batch) for one in (first, second)]
    assert [machine.repeats(ONE, header) for header in headers] == [False, False]
    shard.plan(first)
    assert (machine.planned_end(ONE), machine.planned_end(TWO)) == (3, 0)
    assert [machine.repeats(ONE, header) for header in headers] == [True, False]
    assert not machine.repeats(TWO, headers[0])
    shard.apply_all()
    assert machine.planned_end(ONE) == 3
    assert machine.repeats(ONE, headers[0])
    assert not machine.repeats(ONE, check_batch(append().batch))


def test_a_partition_that_is_about_to_go_has_no_end() -> None:
    shard = Shard()
    shard.create(ONE)
    shard.plan(DeletePartition(partition=ONE))
    assert shard.machine.holds(ONE)
    with pytest.raises(UnknownPartition):
        shard.machine.planned_end(ONE)
    shard.apply_all()
    assert not shard.machine.holds(ONE)
