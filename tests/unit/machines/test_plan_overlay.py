"""`machines.planned`: counts go up with plans and down with applies."""

import pytest

from penstock.core.types import Offset, ProducerId
from penstock.machines.plan_overlay import PlannedPartition
from penstock.machines.producers import Producer, RememberedBatch

ONE = Producer(0, 1, (RememberedBatch(0, 0, Offset(0)),))
TWO = Producer(0, 2, (RememberedBatch(1, 1, Offset(1)),))
WHO = ProducerId(7)


def planned() -> PlannedPartition:
    return PlannedPartition(True, Offset(0), Offset(10))


def test_a_producer_stays_while_one_of_its_batches_is_under_way() -> None:
    partition = planned()
    partition.remember(WHO, ONE)
    partition.remember(WHO, TWO)
    partition.settle_batch(WHO)
    assert partition.producers[WHO].producer == TWO
    partition.settle_batch(WHO)
    assert partition.producers == {}


def test_a_batch_that_nobody_planned_is_a_broken_promise() -> None:
    with pytest.raises(KeyError):
        planned().settle_batch(WHO)


def test_a_new_life_knows_nothing_of_the_one_before() -> None:
    partition = planned()
    partition.remember(WHO, ONE)
    partition.start_life(exists=False)
    partition.start_life(exists=True)
    assert (partition.next_offset, partition.producers, partition.lives) == (0, {}, 2)
    partition.remember(WHO, TWO)
    partition.settle_batch(WHO)
    assert partition.producers[WHO].producer == TWO, "the settled batch was of the life before"


def test_tables_are_not_shared() -> None:
    first, second = planned(), planned()
    first.remember(WHO, ONE)
    assert second.producers == {}
